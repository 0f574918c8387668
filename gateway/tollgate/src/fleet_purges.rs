//! Carries out the purges of caches that gateways with a common etcd share.
//!
//! The control thread [starts](FleetPurges::follow) one task if etcd is a source. The task follows the records of purges and
//! carries each out in the order of their versions, also those of this gateway, so that every gateway does the same exactly
//! once. After an interruption it continues with the first record that it has not seen. If records may have expired
//! meanwhile, it removes everything. The admin API [waits](FleetPurges::wait) for its own record.
//!
//! Invariant: the version that is published as done covers all records up to it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tollgate_cache::{Purge, PurgeMode, Store};
use tollgate_net::component;
use tollgate_proxy::Rollout;
use tollgate_sources::{EtcdEvent, EtcdHandle, PURGE_RECORD_LIFETIME};
use tracing::{info, warn};

use crate::purge_request::{DISK_WAIT, PurgeRequest};

/// How long the admin API waits until this gateway has carried out its own record.
const OWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of results that are kept for the admin API.
const RESULTS_MAX: usize = 256;
/// From this time without contact on, records may have expired unseen. Half of their lifetime, because clocks drift.
const TRUST_MAX: Duration = Duration::from_secs(PURGE_RECORD_LIFETIME.as_secs() / 2);

/// The purges that this gateway has carried out for its fleet.
#[derive(Debug)]
pub struct FleetPurges {
    /// The version up to which all records are carried out.
    done: watch::Sender<u64>,
    /// How many responses each of the last records concerned here, by version.
    results: Mutex<VecDeque<(u64, u64)>>,
}

/// What a task that follows records knows.
#[derive(Debug, Default)]
struct Progress {
    /// The version of the last record that was carried out, or that precedes the first listing.
    done: u64,
    /// Since when no member of etcd answers.
    lost_at: Option<Instant>,
    /// Whether a listing has arrived.
    is_listed: bool,
}

/// What an event means for the store.
#[derive(Debug, PartialEq, Eq)]
struct Work {
    /// Whether records may have been missed, so that everything must go.
    removes_all: bool,
    /// Versions and texts of records, in order.
    records: Vec<(u64, Vec<u8>)>,
    /// The version up to which all records are known.
    version: u64,
}

impl Default for FleetPurges {
    fn default() -> Self {
        Self { done: watch::Sender::new(0), results: Mutex::default() }
    }
}

impl FleetPurges {
    /// Follows the records until etcd is no source any more.
    pub async fn follow(self: Arc<Self>, etcd: EtcdHandle, plan: watch::Receiver<Arc<Rollout>>) {
        let Ok(mut events) = etcd.follow(etcd.settings().purges_prefix()).await else { return };
        let mut progress = Progress::default();
        while let Some(event) = events.recv().await {
            let Some(work) = progress.take(event, Instant::now()) else { continue };
            let store = plan.borrow().policies().known_cache().cloned();
            let purges = self.clone();
            // It visits all objects.
            let carried_out = tokio::task::spawn_blocking(move || purges.carry_out(work, store.as_deref()));
            if let Err(error) = carried_out.await {
                warn!(target: component::ETCD, "a purge of the cache was not carried out: {error}");
            }
        }
    }

    /// Waits until a record is carried out here. Returns how many responses it concerned; `None`: this took too long.
    pub async fn wait(&self, version: u64) -> Option<u64> {
        let mut done = self.done.subscribe();
        let reached = tokio::time::timeout(OWN_TIMEOUT, done.wait_for(|done| *done >= version)).await;
        reached.ok()?.ok()?;
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().find(|(of, _)| *of == version).map(|(_, purged)| *purged)
    }

    fn carry_out(&self, work: Work, store: Option<&Store>) {
        if work.removes_all {
            let (removed, _) = store
                .map_or((0, true), |store| store.purge_durably(Purge::All, PurgeMode::Remove, DISK_WAIT));
            warn!(
                target: component::ETCD,
                "etcd did not answer for so long that purges may have been missed: {removed} stored responses removed"
            );
        }
        for (version, text) in work.records {
            let parsed = serde_json::from_slice::<Value>(&text).map_err(|error| error.to_string());
            let (purged, is_durable) = match parsed.and_then(|value| PurgeRequest::parse(&value)) {
                Ok(request) => store.map_or((0, true), |store| request.carry_out(store)),
                Err(why) => {
                    warn!(target: component::ETCD, "the purge of the cache at revision {version} is invalid: {why}");
                    continue;
                }
            };
            info!(target: component::ETCD, "purge of the cache at revision {version}: {purged} stored responses");
            if !is_durable {
                warn!(target: component::ETCD, "the purge at revision {version} could not be written to the disk");
            }
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            if results.len() == RESULTS_MAX {
                results.pop_front();
            }
            results.push_back((version, purged));
        }
        self.done.send_replace(work.version);
    }
}

impl Progress {
    /// Takes an event. `None`: there is nothing to do.
    fn take(&mut self, event: EtcdEvent, now: Instant) -> Option<Work> {
        let (entries, revision, is_listing) = match event {
            EtcdEvent::Connected { .. } => return None,
            EtcdEvent::Disconnected { .. } => {
                self.lost_at.get_or_insert(now);
                return None;
            }
            EtcdEvent::Snapshot { revision, entries } => (entries, revision, true),
            EtcdEvent::Changes { revision, entries } => (entries, revision, false),
        };
        let was_lost_for = self.lost_at.take().map_or(Duration::ZERO, |lost_at| now - lost_at);
        // A watch that continues reports records that have expired too; a listing does not. A revision that goes back is
        // another cluster's, or a restored one's.
        let removes_all = is_listing && self.is_listed && (was_lost_for >= TRUST_MAX || revision < self.done);
        if removes_all {
            self.done = 0;
        }
        self.is_listed |= is_listing;
        let is_new = |entry: &tollgate_sources::EtcdEntry| entry.revision > self.done;
        let mut records: Vec<(u64, Vec<u8>)> = entries
            .into_iter()
            .filter(is_new)
            .filter_map(|entry| Some((entry.revision, entry.value?)))
            .collect();
        records.sort_by_key(|(version, _)| *version);
        self.done = revision.max(self.done);
        Some(Work { removes_all, records, version: self.done })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_sources::EtcdEntry;

    use super::*;

    fn record(revision: u64) -> EtcdEntry {
        EtcdEntry { key: format!("gateway-{revision}"), value: Some(vec![revision as u8]), revision }
    }

    fn listing(revision: u64, records: &[u64]) -> EtcdEvent {
        EtcdEvent::Snapshot { revision, entries: records.iter().map(|of| record(*of)).collect() }
    }

    fn changes(records: &[u64]) -> EtcdEvent {
        let revision = records.iter().copied().max().unwrap_or(0);
        EtcdEvent::Changes { revision, entries: records.iter().map(|of| record(*of)).collect() }
    }

    fn lost() -> EtcdEvent {
        EtcdEvent::Disconnected { why: String::new() }
    }

    /// The versions of records, and whether everything goes.
    fn taken(progress: &mut Progress, event: EtcdEvent, now: Instant) -> Option<(Vec<u64>, bool)> {
        let work = progress.take(event, now)?;
        Some((work.records.iter().map(|(version, _)| *version).collect(), work.removes_all))
    }

    #[test]
    fn each_record_is_carried_out_once() {
        let (mut progress, now) = (Progress::default(), Instant::now());
        assert_eq!(taken(&mut progress, listing(9, &[7, 4]), now), Some((vec![4, 7], false)));
        assert_eq!(taken(&mut progress, changes(&[10, 11]), now), Some((vec![10, 11], false)));
        let expired = EtcdEntry { value: None, ..record(12) };
        let expires = EtcdEvent::Changes { revision: 12, entries: vec![expired] };
        assert_eq!(taken(&mut progress, expires, now), Some((vec![], false)));
        // A compaction: everything is listed again.
        assert_eq!(taken(&mut progress, listing(15, &[7, 10, 11, 14]), now), Some((vec![14], false)));
    }

    #[test]
    fn records_that_may_have_expired_unseen_count_as_all() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        assert_eq!(taken(&mut progress, listing(5, &[]), start), Some((vec![], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, lost(), start + TRUST_MAX / 2), None);
        // The watch continues where it ended.
        assert_eq!(taken(&mut progress, changes(&[6]), start + TRUST_MAX), Some((vec![6], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, listing(8, &[7]), start + TRUST_MAX / 2), Some((vec![7], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, listing(20, &[19]), start + TRUST_MAX), Some((vec![19], true)));
        // Another cluster.
        assert_eq!(taken(&mut progress, listing(3, &[2]), start), Some((vec![2], true)));
    }
}
