//! Follows the records of purges in etcd.
//!
//! After an interruption, the task continues with the first record that it has not seen. If records may have expired in
//! that time, it removes everything.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_fleet::{FleetHandle, PurgeList};
use tollgate_net::component;
use tollgate_proxy::Rollout;
use tollgate_sources::{EtcdEvent, EtcdHandle};
use tracing::warn;

use super::{FleetPurges, GAP_MAX, TICK_INTERVAL, Work};

/// The longest time until the loss of etcd is noticed, and, after etcd answers again, until a watch that continues has
/// reported the records of the outage.
const LOSS_DELAY: Duration = Duration::from_secs(10);

/// How far the task has followed the records.
#[derive(Debug, Default)]
struct Progress {
    /// The version up to which all records are carried out. It starts with the version of the first listing.
    done: u64,
    /// When etcd was lost; `None`: a member answers.
    lost_at: Option<Instant>,
    /// When a member answered again, if no event has arrived since: a watch that continues may have nothing to report.
    answers_since: Option<Instant>,
    /// Whether a listing has arrived.
    is_listed: bool,
}

/// The records of an event.
#[derive(Debug, PartialEq, Eq)]
struct Records {
    /// Whether records may have been missed, so that everything must be removed.
    removes_all: bool,
    /// Versions and texts of records, in order.
    records: Vec<(u64, Vec<u8>)>,
    /// The version up to which all records are known.
    version: u64,
}

impl FleetPurges {
    /// Follows the records until etcd is no longer a source. `fleet`: the gateways to which a controller relays them.
    pub async fn follow_etcd(
        self: Arc<Self>,
        etcd: EtcdHandle,
        plan: watch::Receiver<Arc<Rollout>>,
        fleet: Option<FleetHandle>,
    ) {
        let Ok(mut events) = etcd.follow(etcd.settings().purges_prefix()).await else { return };
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Counts as an outage: responses that are stored before the first listing may miss purges.
        let mut progress = Progress { lost_at: Some(Instant::now()), ..Progress::default() };
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = tick.tick() => {
                    if progress.is_current(Instant::now()) {
                        self.confirm(SystemTime::now() - LOSS_DELAY, &plan).await;
                    }
                    continue;
                }
            };
            let Some(event) = event else { return };
            let Some(Records { removes_all, records, version }) = progress.take(event, Instant::now()) else {
                continue;
            };
            let work = Work { removes_all, purges: parsed(records) };
            match &fleet {
                Some(fleet) => self.relay(work, fleet),
                None => drop(self.carry_out(work, &plan).await),
            }
            self.done.send_replace(version);
            if progress.is_current(Instant::now()) {
                self.confirm(SystemTime::now() - LOSS_DELAY, &plan).await;
            }
        }
    }

    /// Adds purges to the list for the gateways of this controller.
    fn relay(&self, work: Work, fleet: &FleetHandle) {
        let now = SystemTime::now();
        fleet.change_purges(|list| {
            if !list.is_known() {
                // Each run has a list of its own. A gateway that followed another one gets all purges that etcd keeps.
                *list = PurgeList::new(format!("etcd {:032x}", fastrand::u128(..)));
            }
            if work.removes_all {
                warn!(target: component::CONTROLLER, "purges may have been missed: gateways purge everything");
                list.push_all(now);
            }
            for (version, request) in work.purges {
                self.note_result(version, list.push(request, now));
            }
        });
    }
}

/// Parses the records.
fn parsed(records: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Arc<Value>)> {
    let parse = |(version, text): (u64, Vec<u8>)| match serde_json::from_slice(&text) {
        Ok(value) => Some((version, Arc::new(value))),
        Err(error) => {
            warn!(target: component::ETCD, "the purge of the cache at revision {version} is invalid: {error}");
            None
        }
    };
    records.into_iter().filter_map(parse).collect()
}

impl Progress {
    /// Returns whether every record older than a few seconds is carried out.
    fn is_current(&mut self, now: Instant) -> bool {
        if self.answers_since.is_some_and(|since| now - since >= LOSS_DELAY) {
            self.lost_at = None;
        }
        self.is_listed && self.lost_at.is_none()
    }

    /// Handles an event. `None`: there is nothing to do.
    fn take(&mut self, event: EtcdEvent, now: Instant) -> Option<Records> {
        let (entries, revision, is_listing) = match event {
            EtcdEvent::Connected { .. } => {
                self.answers_since = Some(now);
                return None;
            }
            EtcdEvent::Disconnected { .. } => {
                self.answers_since = None;
                self.lost_at.get_or_insert(now);
                return None;
            }
            EtcdEvent::Snapshot { revision, entries } => (entries, revision, true),
            EtcdEvent::Changes { revision, entries } => (entries, revision, false),
        };
        let was_lost_for = self.lost_at.take().map_or(Duration::ZERO, |lost_at| now - lost_at);
        // A watch that continues also reports records that have expired; a listing does not. If the revision goes back,
        // it is another cluster, or one restored from a backup.
        let removes_all = is_listing && (was_lost_for >= GAP_MAX || revision < self.done);
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
        Some(Records { removes_all, records, version: self.done })
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

    /// Returns the versions of the event's records, and whether everything is removed.
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
        // After a compaction, etcd lists everything again.
        assert_eq!(taken(&mut progress, listing(15, &[7, 10, 11, 14]), now), Some((vec![14], false)));
    }

    #[test]
    fn a_first_listing_that_comes_late_counts_as_all() {
        let start = Instant::now();
        let begun = || Progress { lost_at: Some(start), ..Progress::default() };
        assert_eq!(taken(&mut begun(), listing(9, &[7]), start), Some((vec![7], false)));
        assert_eq!(taken(&mut begun(), listing(9, &[7]), start + GAP_MAX), Some((vec![7], true)));
    }

    #[test]
    fn a_watch_that_continues_without_news_ends_the_interruption() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        assert!(!progress.is_current(start), "nothing is listed");
        taken(&mut progress, listing(5, &[]), start);
        assert!(progress.is_current(start));
        taken(&mut progress, lost(), start);
        taken(&mut progress, EtcdEvent::Connected { endpoint: String::new() }, start);
        assert!(!progress.is_current(start + LOSS_DELAY / 2) && progress.is_current(start + LOSS_DELAY));
        taken(&mut progress, lost(), start + GAP_MAX);
        let again = start + GAP_MAX + Duration::from_secs(1);
        assert_eq!(taken(&mut progress, listing(8, &[7]), again), Some((vec![7], false)));
    }

    #[test]
    fn records_that_may_have_expired_unseen_count_as_all() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        assert_eq!(taken(&mut progress, listing(5, &[]), start), Some((vec![], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, lost(), start + GAP_MAX / 2), None);
        // The watch continues without a listing.
        assert_eq!(taken(&mut progress, changes(&[6]), start + GAP_MAX), Some((vec![6], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, listing(8, &[7]), start + GAP_MAX / 2), Some((vec![7], false)));
        assert_eq!(taken(&mut progress, lost(), start), None);
        assert_eq!(taken(&mut progress, listing(20, &[19]), start + GAP_MAX), Some((vec![19], true)));
        // Another cluster.
        assert_eq!(taken(&mut progress, listing(3, &[2]), start), Some((vec![2], true)));
    }
}
