//! The store in memory with the disk tier behind it.
//!
//! A response that enters memory is handed to the disk tier under the lock of its key's stripe. A request that misses
//! in memory takes a [turn](Store::poll_disk_turn), loads the [candidates](Store::disk_candidates) of its key in order
//! on a thread, and hands the first one that its `Vary` selects to [`Store::promote`]. Under the stripe's lock, that
//! function decides again whether the response is valid, and inserts it into memory, or leaves a long one on disk.

use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_http::Head;

use super::{Lookup, Store};
use crate::Moment;
use crate::disk::{
    AnnouncedRemoval, Disk, DiskCandidate, DiskCounters, DiskSettings, DiskStatus, Loaded, LookupTurn,
    Verdict,
};

impl Store {
    /// Sets the disk tier, or ends it. Does nothing if the settings are unchanged. A tier with other settings starts in
    /// the background, once the folder is free.
    pub fn set_disk(&self, settings: Option<DiskSettings>, counters: &DiskCounters) {
        let current = self.disk.load_full();
        if current.as_ref().map(|disk| disk.settings()) == settings.as_ref() {
            return;
        }
        let next = settings.map(|settings| {
            Disk::start(settings, self.settings.capacity_bytes, self.hasher.clone(), counters.clone())
        });
        self.disk.store(next);
        if let Some(current) = current {
            current.close();
        }
    }

    /// Sets a disk tier that a test makes with the store's hash function.
    #[cfg(test)]
    pub(crate) fn attach_disk(
        &self,
        make: impl FnOnce(foldhash::quality::RandomState) -> std::sync::Arc<Disk>,
    ) -> std::sync::Arc<Disk> {
        let disk = make(self.hasher.clone());
        self.disk.store(Some(disk.clone()));
        disk
    }

    /// Ends the disk tier, and waits at most this long until its folder is released to another process. Memory stays in
    /// use. Returns whether the folder is free.
    pub fn release_disk(&self, most: Duration) -> bool {
        self.disk.swap(None).is_none_or(|disk| disk.close_and_wait(most))
    }

    /// Returns the state and the contents of the disk tier; `None`: there is none.
    #[must_use]
    pub fn disk_status(&self) -> Option<DiskStatus> {
        self.disk.load().as_ref().map(|disk| disk.status())
    }

    /// Whether the disk tier answers no request until its contents are [confirmed](Self::confirm_disk).
    #[must_use]
    pub fn is_disk_held(&self) -> bool {
        self.disk.load().as_ref().is_some_and(|disk| disk.is_held())
    }

    /// Confirms that all purges up to a time were carried out with [`purge`](Self::purge) or
    /// [`purge_durably`](Self::purge_durably) since the disk tier was set. Then its contents answer requests. The time
    /// is stored on disk for the next start.
    pub fn confirm_disk(&self, until: SystemTime) {
        if let Some(disk) = self.disk.load_full() {
            disk.confirm(until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
        }
    }

    /// Whether the disk tier may have something for a key that is not in memory. Reads no disk.
    #[must_use]
    pub fn may_be_on_disk(&self, key: &[u8]) -> bool {
        self.disk.load().as_ref().is_some_and(|disk| disk.may_have(self.hash(key)))
    }

    /// Waits until no other request looks up a key on disk. `None`: the disk tier was removed.
    pub fn poll_disk_turn(&self, key: &[u8], cx: &mut Context<'_>) -> Poll<Option<LookupTurn>> {
        match self.disk.load_full() {
            Some(disk) => disk.poll_turn(self.hash(key), cx).map(Some),
            None => Poll::Ready(None),
        }
    }

    /// Looks in memory once more, for a request that waited for its turn. Counts no hit or miss, because the first
    /// look-up did.
    #[must_use]
    pub fn look_again(&self, key: &[u8], request: &Head, now: Moment) -> Lookup {
        match self.index.find(self.hash(key), key, request).filter(|stored| !stored.is_expired_mark(now)) {
            Some(mark) if mark.is_uncacheable() => Lookup::Uncacheable,
            Some(stored) => Lookup::Hit(stored),
            None => Lookup::Miss,
        }
    }

    /// Returns the candidates of the disk tier for a key, the newest first.
    #[must_use]
    pub fn disk_candidates(&self, key: &[u8]) -> Vec<DiskCandidate> {
        self.disk.load_full().map(|disk| disk.candidates(self.hash(key), key)).unwrap_or_default()
    }

    /// Announces that a request with an unsafe method may remove a key, so that a response on disk does not return
    /// after the end of the process. `None`: there is no disk tier that is ready.
    #[must_use]
    pub fn announce_removal(&self, key: &[u8]) -> Option<AnnouncedRemoval> {
        let (disk, hash) = (self.disk.load_full()?, self.hash(key));
        // Under the lock, so that a response that enters memory is either known to the tier or not written.
        let _stripe = self.index.lock(hash);
        disk.announce_removal(hash, key)
    }

    /// Notes that a call of the disk tier did not return in time.
    pub fn note_slow_disk(&self) {
        if let Some(disk) = self.disk.load_full() {
            disk.note_slow();
        }
    }

    /// Inserts a response from the disk tier that a request selected. [`Lookup::Miss`]: a purge or a newer response
    /// removed it first.
    #[must_use]
    pub fn promote(&self, loaded: Loaded, request: &Head, now: Moment) -> Lookup {
        let Some(disk) = self.disk.load_full() else { return Lookup::Miss };
        let stored = loaded.stored().clone();
        let removed = {
            let mut stripe = self.index.lock(stored.hash());
            // Under the lock, so that a purge that has already visited the disk tier finds this response in memory.
            match disk.recheck(&loaded) {
                Verdict::Removed => return Lookup::Miss,
                Verdict::Stale => stored.mark_stale(),
                Verdict::Valid => {}
            }
            match self.look_again(stored.key(), request, now) {
                Lookup::Miss => {}
                found => return found,
            }
            disk.counters().count_hit();
            if stored.disk_body().is_some() || !self.fits(&stored) {
                return Lookup::Hit(stored);
            }
            self.index.insert(&mut stripe, stored.clone(), self.settings.variants_max)
        };
        stored.note_read();
        self.queue(&stored, &removed);
        Lookup::Hit(stored)
    }
}

impl Drop for Store {
    /// Ends the thread of the disk tier.
    fn drop(&mut self) {
        if let Some(disk) = self.disk.swap(None) {
            disk.close();
        }
    }
}
