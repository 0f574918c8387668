//! A worker's part of the access log: it formats lines into buffers, and hands full ones to the writer
//! threads.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::access_log::LogRules;
use super::clock::WallClock;
use super::writer::{Batch, LogCounts, WriterMessage};
use crate::Record;

/// Size at which a buffer is handed over, in bytes.
const FLUSH_AT_BYTES: usize = 64 * 1024;

/// Capacity of a buffer: one line of up to 16 KiB fits after a nearly full one without an allocation.
pub(super) const BUFFER_BYTES: usize = FLUSH_AT_BYTES + 16 * 1024;

/// Bound of buffers that one sink may have in the queue: 4 MiB, or half a second of 200-byte lines at 40,000
/// per second.
const QUEUED_MAX: usize = 64;

/// Empty buffers kept for a sink. A burst allocates more and frees them again.
const SPARE_BUFFERS_MAX: usize = 4;

/// One worker's buffers of log lines, one for each log.
///
/// [`record`](Self::record) formats lines into the buffers. [`flush`](Self::flush) hands the buffers to the
/// writer threads and wakes them. Call it from a timer (every 100 ms, for example) and before a worker ends,
/// not after each request. `record` itself hands over a buffer that is full.
#[derive(Debug)]
pub struct LogSink {
    lines: Vec<LogBuffer>,
    /// Whether any log takes the lines of routes that name no log.
    is_default: bool,
    /// Whether any log reads the response head.
    of_responses: bool,
    /// Whether requests are followed, so that callers make a record of each.
    is_followed: bool,
    /// Whether records of routes that name no log are wanted: by a default log or a follower.
    takes_unnamed: bool,
    /// Whether the findings of policies are wanted: by a log or a follower.
    wants_findings: bool,
}

#[derive(Debug)]
pub(super) struct LogBuffer {
    rules: Arc<LogRules>,
    clock: WallClock,
    bytes: Vec<u8>,
    count: u64,
    queue: SyncSender<WriterMessage>,
    counts: Arc<LogCounts>,
    return_to: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    /// The state of a random number generator (xorshift, G. Marsaglia, 2003); never 0.
    random: u32,
}

impl LogSink {
    /// Creates a sink for these logs. Without any it takes no lines.
    pub(super) fn new(lines: Vec<LogBuffer>) -> LogSink {
        let is_default = lines.iter().any(|lines| lines.rules.is_default);
        let of_responses = lines.iter().any(|lines| lines.rules.format.reads_response_head());
        let wants_findings = !lines.is_empty();
        LogSink {
            lines,
            is_default,
            of_responses,
            is_followed: false,
            takes_unnamed: is_default,
            wants_findings,
        }
    }

    /// Sets whether requests are followed (`tollgate trace`). Then it takes the record of every request,
    /// whether or not a log writes it, so that a request that no client follows pays for no further test.
    pub fn set_followed(&mut self, is_followed: bool) {
        self.is_followed = is_followed;
        self.takes_unnamed = self.is_default || is_followed;
        self.wants_findings = is_followed || !self.lines.is_empty();
    }

    /// Returns whether requests are followed.
    #[must_use]
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Adds the record's line to the default logs, for a route that names no log.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        self.record_in(record, None);
    }

    /// Adds the record's line to the logs with these keys, or to the default logs. Takes no lock, makes no
    /// system call, and does not allocate for a line of up to 16 KiB; each 64 KiB of lines cost one
    /// [`flush`](Self::flush).
    #[inline]
    pub fn record_in(&mut self, record: &Record<'_>, only: Option<&[u64]>) {
        let only = self.known(only);
        for lines in self.lines.iter_mut().filter(|lines| lines.rules.is_for(only)) {
            lines.add(record);
        }
    }

    /// Returns whether a log or a follower takes the findings of policies; if not, callers need not keep
    /// them.
    #[must_use]
    #[inline]
    pub fn wants_findings(&self) -> bool {
        self.wants_findings
    }

    /// Returns whether a log with one of these keys, a default log or a follower takes records; if not,
    /// callers need not make one.
    #[must_use]
    #[inline]
    pub fn takes(&self, only: Option<&[u64]>) -> bool {
        match self.known(only) {
            None => self.takes_unnamed,
            Some(keys) => !keys.is_empty() || self.is_followed,
        }
    }

    /// Returns whether a log or a follower takes fields of responses.
    #[must_use]
    pub fn reads_response_heads(&self) -> bool {
        self.of_responses || self.is_followed
    }

    /// Returns the keys, unless no log has any of them. Then the configuration changed after the request
    /// began, and the default logs take its line.
    #[inline]
    fn known<'k>(&self, only: Option<&'k [u64]>) -> Option<&'k [u64]> {
        only.filter(|keys| keys.is_empty() || self.lines.iter().any(|lines| keys.contains(&lines.rules.key)))
    }

    /// Returns whether there is nothing to flush.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|lines| lines.count == 0)
    }

    /// Hands the lines to the writer threads. Never waits: if a writer is behind, lines stay here and more
    /// are added. When the buffer is also full, its lines are dropped and counted.
    pub fn flush(&mut self) {
        self.lines.iter_mut().for_each(LogBuffer::hand_over);
    }
}

/// Hands over the remaining lines when the worker ends; lines that do not fit into the queue count as
/// dropped.
impl Drop for LogSink {
    fn drop(&mut self) {
        for lines in &mut self.lines {
            lines.hand_over();
            lines.counts.drop_lines(lines.count);
        }
    }
}

impl LogBuffer {
    pub(super) fn new(
        rules: Arc<LogRules>,
        queue: SyncSender<WriterMessage>,
        counts: Arc<LogCounts>,
    ) -> Self {
        let (return_to, returned) = sync_channel(SPARE_BUFFERS_MAX);
        // Few routes have a log of their own: such a log allocates its buffer with its first line.
        let room = if rules.is_default { BUFFER_BYTES } else { 0 };
        let seed = RandomState::new().hash_one(rules.key) as u32 | 1;
        Self {
            rules,
            clock: WallClock::new(),
            bytes: Vec::with_capacity(room),
            count: 0,
            queue,
            counts,
            return_to,
            returned,
            queued: Arc::default(),
            random: seed,
        }
    }

    #[inline]
    fn add(&mut self, record: &Record<'_>) {
        let Self { rules, random, .. } = self;
        if !rules.keeps(record, random) {
            return;
        }
        rules.format.write(&mut self.bytes, record, &mut self.clock);
        self.count += 1;
        if self.bytes.len() >= FLUSH_AT_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.count == 0 {
            return;
        }
        if self.queued.load(Ordering::Relaxed) >= QUEUED_MAX {
            return self.keep_or_drop();
        }
        let empty = self.returned.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER_BYTES));
        let batch = Batch {
            bytes: std::mem::replace(&mut self.bytes, empty),
            lines: self.count,
            counts: self.counts.clone(),
            return_to: self.return_to.clone(),
            queued: self.queued.clone(),
        };
        // Before the send, because the writer decrements the count.
        self.queued.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(WriterMessage::Lines(batch)) {
            Ok(()) => self.count = 0,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                if let WriterMessage::Lines(mut batch) = message {
                    let empty = std::mem::replace(&mut self.bytes, std::mem::take(&mut batch.bytes));
                    let _ = self.return_to.try_send(empty);
                    // These lines belong to the sink again, so the batch must not count them as dropped.
                    batch.lines = 0;
                }
                self.keep_or_drop();
            }
        }
    }

    #[cold]
    fn keep_or_drop(&mut self) {
        if self.bytes.len() >= FLUSH_AT_BYTES {
            self.counts.drop_lines(self.count);
            self.count = 0;
            self.bytes.clear();
            self.bytes.shrink_to(BUFFER_BYTES);
        }
    }
}
