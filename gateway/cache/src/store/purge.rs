//! Removes stored responses, or marks them as stale, on request.
//!
//! A purge of one key visits its bucket only. The others visit the whole index, stripe by stripe, so no worker may run
//! them: a million objects take a fraction of a second. An index of tags would be faster, but would cost memory for
//! each object with tags. If a purge matches a response that is being fetched, the response is not stored, because it
//! may be older than the change that the purge announces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Store;
use super::index::Stripe;
use super::stored::Stored;
use crate::{Purge, PurgeMode};

impl Store {
    /// Purges, and returns how many responses in memory matched. After it returns, no matching response on disk is
    /// found.
    pub fn purge(&self, what: Purge<'_>, mode: PurgeMode) -> u64 {
        // Disk first: a response that is promoted to memory at the same time is then either rejected, or found below.
        if let Some(disk) = self.disk.load_full()
            && !matches!(what, Purge::Key(_))
        {
            drop(disk.purge(what, mode));
        }
        self.purge_memory(what, mode)
    }

    /// Purges, and waits at most this long until the disk tier has written the purge. Returns how many responses in
    /// memory matched, and whether the purge also survives the end of the process. Not for a worker.
    pub fn purge_durably(&self, what: Purge<'_>, mode: PurgeMode, most: Duration) -> (u64, bool) {
        let end = Instant::now() + most;
        let written = self.disk.load_full().map(|disk| disk.purge(what, mode));
        let count = self.purge_memory(what, mode);
        let is_durable = written.is_none_or(|written| {
            written.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap_or(false)
        });
        (count, is_durable)
    }

    /// Removes the responses in memory whose keys fulfil a condition, on disk too. What is on disk alone stays. Visits the
    /// whole index: not for a worker.
    pub fn remove_keys(&self, is_removed: impl Fn(&[u8]) -> bool) {
        let stop_fills =
            |stripe: &Stripe| stripe.fills.iter().for_each(|fill| fill.purge(|key, _| is_removed(key)));
        let mut found = Vec::new();
        self.index.remove_where(stop_fills, &mut |stored| {
            if is_removed(stored.key()) {
                found.push(stored.clone());
            }
            false
        });
        for stored in found {
            self.purge(Purge::Key(stored.key()), PurgeMode::Remove);
        }
    }

    fn purge_memory(&self, what: Purge<'_>, mode: PurgeMode) -> u64 {
        let concerns = |stored: &Stored| match what {
            Purge::Key(key) => stored.key() == key,
            Purge::Prefix(prefix) => stored.key().starts_with(prefix),
            Purge::Tags(tags) => stored.head().tags().any(|tag| tags.contains(&tag)),
            Purge::All => true,
        };
        let stop_fills = |stripe: &Stripe| {
            for fill in &stripe.fills {
                fill.purge(|key, head| match what {
                    Purge::Key(wanted) => key == wanted,
                    Purge::Prefix(prefix) => key.starts_with(prefix),
                    Purge::Tags(tags) => head.is_none_or(|head| head.tags().any(|tag| tags.contains(&tag))),
                    Purge::All => true,
                });
            }
        };
        let mut concerned = Vec::new();
        let mut choose = |stored: &Arc<Stored>| {
            let is_chosen = concerns(stored);
            if is_chosen {
                concerned.push(stored.clone());
            }
            is_chosen && mode == PurgeMode::Remove
        };
        match what {
            Purge::Key(key) => {
                let hash = self.hash(key);
                let disk = self.disk.load_full();
                let stop_all = |stripe: &Stripe| {
                    stop_fills(stripe);
                    if let Some(disk) = &disk {
                        disk.purge_key(hash, key, mode);
                    }
                };
                self.index.remove_in_bucket(hash, stop_all, &mut choose);
            }
            _ => self.index.remove_where(stop_fills, &mut choose),
        }
        match mode {
            PurgeMode::MarkStale => concerned.iter().for_each(|stored| stored.mark_stale()),
            PurgeMode::Remove => {
                {
                    let mut queues = self.queues();
                    concerned.iter().for_each(|stored| queues.forget(stored));
                }
                concerned.iter().for_each(|stored| self.lent.add(stored));
            }
        }
        concerned.iter().filter(|stored| !stored.is_uncacheable()).count() as u64
    }
}
