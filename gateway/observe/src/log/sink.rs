//! A worker's end of the access log.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::access_log::Rules;
use super::clock::WallClock;
use super::writer::{Batch, LogCounts, Message};
use crate::Record;

/// A buffer is handed over when it holds this much.
const FULL: usize = 64 * 1024;

/// A buffer's room: one line of up to 16 KiB fits behind a nearly full one without an allocation.
pub(super) const CAPACITY: usize = FULL + 16 * 1024;

/// Buffers that one sink may have under way: 4 MiB, or half a second of 200-byte lines at 40,000 a second.
const UNDER_WAY: usize = 64;

/// Empty buffers kept for a sink; more come and go with a burst.
const KEPT: usize = 4;

/// One worker's buffers of log lines, one for each log.
///
/// [`record`](Self::record) formats into the buffers. [`flush`](Self::flush) hands them to the writer threads, which wakes
/// those: call it from a timer (every 100 ms, say) and before a worker ends, not after each request. A
/// buffer that has filled up is handed over by `record` itself.
#[derive(Debug)]
pub struct LogSink {
    lines: Vec<Lines>,
    /// Whether any log takes the lines of routes that name none.
    usual: bool,
    /// Whether any log wants to know the head of the response.
    of_responses: bool,
}

#[derive(Debug)]
pub(super) struct Lines {
    rules: Arc<Rules>,
    clock: WallClock,
    bytes: Vec<u8>,
    count: u64,
    queue: SyncSender<Message>,
    counts: Arc<LogCounts>,
    home: SyncSender<Vec<u8>>,
    emptied: Receiver<Vec<u8>>,
    under_way: Arc<AtomicUsize>,
    /// The state of a generator of random numbers (xorshift, G. Marsaglia, 2003); never 0.
    random: u32,
}

impl LogSink {
    /// Of these logs; without any it takes no lines.
    pub(super) fn new(lines: Vec<Lines>) -> LogSink {
        let usual = lines.iter().any(|lines| lines.rules.usual);
        let of_responses = lines.iter().any(|lines| lines.rules.format.is_of_response());
        LogSink { lines, usual, of_responses }
    }

    /// Adds the record's line to the logs of routes that name none.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        self.record_in(record, None);
    }

    /// Adds the record's line to the logs with these keys, or to the usual ones. No lock, no system call, and no allocation
    /// for a line of up to 16 KiB; each 64 KiB of lines cost one [`flush`](Self::flush).
    #[inline]
    pub fn record_in(&mut self, record: &Record<'_>, only: Option<&[u64]>) {
        let only = self.known(only);
        for lines in self.lines.iter_mut().filter(|lines| lines.rules.is_for(only)) {
            lines.add(record);
        }
    }

    /// Whether there is any log; if not, there is no need to keep anything for one.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether a log with one of these keys, or a usual one, takes lines; if not, there is no need to make a record.
    #[must_use]
    #[inline]
    pub fn takes(&self, only: Option<&[u64]>) -> bool {
        match self.known(only) {
            None => self.usual,
            Some(keys) => !keys.is_empty(),
        }
    }

    /// Whether a log shows fields of responses.
    #[must_use]
    pub fn is_of_responses(&self) -> bool {
        self.of_responses
    }

    /// The keys, unless no log has any of them: the configuration has changed since the request began, and the usual logs take
    /// its line.
    #[inline]
    fn known<'k>(&self, only: Option<&'k [u64]>) -> Option<&'k [u64]> {
        only.filter(|keys| keys.is_empty() || self.lines.iter().any(|lines| keys.contains(&lines.rules.key)))
    }

    /// Whether there is nothing to flush.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|lines| lines.count == 0)
    }

    /// Hands the lines to the writer threads. Never waits: while a writer is behind, they stay here and more
    /// are added; once a buffer is full too, its lines are dropped and counted.
    pub fn flush(&mut self) {
        self.lines.iter_mut().for_each(Lines::hand_over);
    }
}

/// A worker that ends leaves no line behind.
impl Drop for LogSink {
    fn drop(&mut self) {
        for lines in &mut self.lines {
            lines.hand_over();
            lines.counts.drop_lines(lines.count);
        }
    }
}

impl Lines {
    pub(super) fn new(rules: Arc<Rules>, queue: SyncSender<Message>, counts: Arc<LogCounts>) -> Self {
        let (home, emptied) = sync_channel(KEPT);
        // Few routes have a log of their own: it gets its buffer with its first line.
        let room = if rules.usual { CAPACITY } else { 0 };
        let seed = RandomState::new().hash_one(rules.key) as u32 | 1;
        Self {
            rules,
            clock: WallClock::new(),
            bytes: Vec::with_capacity(room),
            count: 0,
            queue,
            counts,
            home,
            emptied,
            under_way: Arc::default(),
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
        if self.bytes.len() >= FULL {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.count == 0 {
            return;
        }
        if self.under_way.load(Ordering::Relaxed) >= UNDER_WAY {
            return self.keep_or_drop();
        }
        let empty = self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(CAPACITY));
        let batch = Batch {
            bytes: std::mem::replace(&mut self.bytes, empty),
            lines: self.count,
            counts: self.counts.clone(),
            home: self.home.clone(),
            under_way: self.under_way.clone(),
        };
        // Before the writer can count it down.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(Message::Lines(batch)) {
            Ok(()) => self.count = 0,
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                if let Message::Lines(mut batch) = message {
                    let empty = std::mem::replace(&mut self.bytes, std::mem::take(&mut batch.bytes));
                    let _ = self.home.try_send(empty);
                    // They are this sink's again.
                    batch.lines = 0;
                }
                self.keep_or_drop();
            }
        }
    }

    #[cold]
    fn keep_or_drop(&mut self) {
        if self.bytes.len() >= FULL {
            self.counts.drop_lines(self.count);
            self.count = 0;
            self.bytes.clear();
            self.bytes.shrink_to(CAPACITY);
        }
    }
}
