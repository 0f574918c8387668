//! Makes the removal of a key by an unsafe method durable before the client learns that the request succeeded.
//!
//! The worker [announces](Disk::announce_removal) the removal before it forwards the request, and waits until the log
//! has the record, which removes the key at the next start. Only if the request succeeds, the worker also removes the
//! key in the running process. Until the request ends, nothing is written under its key, so every record of the key
//! precedes the announcement. Invariant: whenever the process is killed, its next start does not serve a response that
//! a successful request removed. If the request fails, only the copy on disk is lost, at the next start.
//!
//! The record goes to the front of the queue, and is only made for a key that is on disk, so the worker waits only for
//! the write in progress. The record is not synced: a loss of power may lose it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::format::Purged;
use super::{Disk, DiskState, Operation, WAITING_PURGES_MAX, WaitingPurge, lock};
use crate::PurgeMode;

/// The hashes of keys that requests may be about to remove, with the number of these requests.
#[derive(Debug, Default)]
pub(super) struct Announced(Mutex<HashMap<u64, usize>>);

impl Announced {
    /// Returns whether a request may be about to remove a key with this hash.
    pub fn has(&self, hash: u64) -> bool {
        lock(&self.0).contains_key(&hash)
    }

    fn add(&self, hash: u64) {
        *lock(&self.0).entry(hash).or_default() += 1;
    }

    fn remove(&self, hash: u64) {
        if let Entry::Occupied(mut count) = lock(&self.0).entry(hash) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// A removal of a key that a request may cause. Until it is dropped, nothing is written to disk under the key.
#[derive(Debug)]
pub struct AnnouncedRemoval {
    disk: Arc<Disk>,
    hash: u64,
    written: Option<Receiver<bool>>,
}

impl AnnouncedRemoval {
    /// Returns the record, to wait until it is in the log. `None`: none is written, because the key is not on disk, or
    /// the disk does not answer.
    pub fn take_record(&mut self) -> Option<AnnouncedRecord> {
        self.written.take().map(AnnouncedRecord)
    }
}

impl Drop for AnnouncedRemoval {
    fn drop(&mut self) {
        self.disk.announced.remove(self.hash);
    }
}

/// The record of a removal that is about to be written to the log.
#[derive(Debug)]
pub struct AnnouncedRecord(Receiver<bool>);

impl AnnouncedRecord {
    /// Waits at most this long until it is in the log. Returns whether it is. Blocks the thread.
    #[must_use]
    pub fn wait(self, most: Duration) -> bool {
        self.0.recv_timeout(most).unwrap_or(false)
    }
}

impl Disk {
    /// Announces that a request may remove a key. The caller holds the lock of its stripe. `None`: the tier is not
    /// ready.
    pub(crate) fn announce_removal(self: &Arc<Self>, hash: u64, key: &[u8]) -> Option<AnnouncedRemoval> {
        if self.state() != DiskState::Ready {
            return None;
        }
        // First, so that responses that enter memory from now on are not written.
        self.announced.add(hash);
        let mut removal = AnnouncedRemoval { disk: self.clone(), hash, written: None };
        // A disk that does not answer delays no further request.
        if !self.index.has(hash) || self.is_suspended() {
            return Some(removal);
        }
        let (done, written) = sync_channel(1);
        let mut queue = lock(&self.queue);
        if queue.is_closing || queue.purges >= WAITING_PURGES_MAX {
            return Some(removal);
        }
        // They are still in memory, and would follow the record in the log.
        self.index.drop_waiting(hash);
        let (purged, mode) = (Purged::Key(key.into()), PurgeMode::Remove);
        let purge = WaitingPurge { purged, mode, number: 0, done: Some(done), is_announced: true };
        queue.purges += 1;
        queue.operations.push_front(Operation::Purge(purge));
        drop(queue);
        self.wake.notify_all();
        removal.written = Some(written);
        Some(removal)
    }
}
