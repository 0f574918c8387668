//! Counts what the disk tier does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The counters of the disk tier. They are shared with the metrics, and survive a change of its settings.
#[derive(Clone, Debug, Default)]
pub struct DiskCounters {
    /// Objects that were found on disk.
    pub hits: Arc<AtomicU64>,
    /// Bytes of bodies that were read.
    pub read_bytes: Arc<AtomicU64>,
    /// Objects that were written.
    pub writes: Arc<AtomicU64>,
    /// Bytes that were written, with keys, heads and checksums.
    pub written_bytes: Arc<AtomicU64>,
    /// Objects that were not written, because the queue was full or they are too long.
    pub drops: Arc<AtomicU64>,
    /// Objects that were removed to make room.
    pub evictions: Arc<AtomicU64>,
    /// Calls of the file system that failed, and records that were damaged.
    pub errors: Arc<AtomicU64>,
    /// Time of the last of them, in milliseconds since 1970; 0: there was none.
    pub last_error_at: Arc<AtomicU64>,
}

impl DiskCounters {
    pub(crate) fn count_hit(&self) {
        add(&self.hits, 1);
    }

    pub(crate) fn count_read(&self, bytes: u64) {
        add(&self.read_bytes, bytes);
    }

    pub(crate) fn count_write(&self, bytes: u64) {
        add(&self.writes, 1);
        add(&self.written_bytes, bytes);
    }

    pub(crate) fn count_drop(&self) {
        add(&self.drops, 1);
    }

    pub(crate) fn count_evictions(&self, count: u64) {
        add(&self.evictions, count);
    }

    pub(crate) fn count_error(&self) {
        add(&self.errors, 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_error_at.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns the time of the last error.
    pub(crate) fn last_error(&self) -> Option<SystemTime> {
        let at = self.last_error_at.load(Ordering::Relaxed);
        (at > 0).then(|| UNIX_EPOCH + Duration::from_millis(at))
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
