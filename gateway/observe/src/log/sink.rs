//! A worker's end of the access log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::clock::WallClock;
use super::format::Format;
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

/// One worker's buffer of log lines.
///
/// [`record`](Self::record) formats into the buffer. [`flush`](Self::flush) hands it to the writer thread, which wakes
/// that thread: call it from a timer (every 100 ms, say) and before a worker ends, not after each request. A
/// buffer that has filled up is handed over by `record` itself.
#[derive(Debug)]
pub struct LogSink {
    /// For the file; without it, for who is told.
    lines: Option<Lines>,
    /// For who is told beside the file.
    told: Option<Lines>,
}

#[derive(Debug)]
pub(super) struct Lines {
    format: Arc<Format>,
    clock: WallClock,
    bytes: Vec<u8>,
    count: u64,
    queue: SyncSender<Message>,
    counts: Arc<LogCounts>,
    home: SyncSender<Vec<u8>>,
    emptied: Receiver<Vec<u8>>,
    under_way: Arc<AtomicUsize>,
}

impl LogSink {
    /// Of both; without either it takes no lines.
    pub(super) fn new(lines: Option<Lines>, told: Option<Lines>) -> LogSink {
        match (lines, told) {
            (None, told) => LogSink { lines: told, told: None },
            (lines, told) => LogSink { lines, told },
        }
    }

    /// Adds the record's line. No lock, no system call, and no allocation for a line of up to 16 KiB; each
    /// 64 KiB of lines cost one [`flush`](Self::flush).
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        let Some(lines) = &mut self.lines else { return };
        lines.add(record);
        if let Some(told) = &mut self.told {
            told.add(record);
        }
    }

    /// Whether it takes lines at all; if not, there is no need to make a record.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Whether there is nothing to flush.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.as_ref().is_none_or(|lines| lines.count == 0)
            && self.told.as_ref().is_none_or(|lines| lines.count == 0)
    }

    /// Hands the lines to the writer thread. Never waits: while the writer is behind, they stay here and more
    /// are added; once the buffer is full too, its lines are dropped and counted.
    pub fn flush(&mut self) {
        self.lines.iter_mut().chain(&mut self.told).for_each(Lines::hand_over);
    }
}

/// A worker that ends leaves no line behind.
impl Drop for LogSink {
    fn drop(&mut self) {
        for lines in self.lines.iter_mut().chain(&mut self.told) {
            lines.hand_over();
            lines.counts.drop_lines(lines.count);
        }
    }
}

impl Lines {
    pub(super) fn new(format: Arc<Format>, queue: SyncSender<Message>, counts: Arc<LogCounts>) -> Self {
        let (home, emptied) = sync_channel(KEPT);
        Self {
            format,
            clock: WallClock::new(),
            bytes: Vec::with_capacity(CAPACITY),
            count: 0,
            queue,
            counts,
            home,
            emptied,
            under_way: Arc::default(),
        }
    }

    #[inline]
    fn add(&mut self, record: &Record<'_>) {
        self.format.write(&mut self.bytes, record, &mut self.clock);
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
