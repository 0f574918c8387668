//! Carries out the purges of caches that gateways share, and relays them to the gateways of a controller.
//!
//! The control thread starts one task: [`follow_etcd`](FleetPurges::follow_etcd) if etcd is a source, or
//! [`follow_controller`](FleetPurges::follow_controller) if a controller is. The task carries out each purge in order, also
//! those of this gateway, so that every gateway does the same exactly once. If purges may have been missed, it removes
//! everything. In a controller there is no store: there the task of etcd puts the purges in the list for its gateways.
//! The admin API [waits](FleetPurges::wait) for its own purge.
//!
//! A disk tier may hold responses from before the start, so with such a source it answers no request until the task
//! [confirms](tollgate_cache::Store::confirm_disk) that everything it may have missed is carried out. The task confirms
//! again from time to time, and the tier notes when. A tier that was last confirmed [too long ago](GAP_MAX) removes its
//! contents at its start.
//!
//! Invariant: the version that is published as done covers all purges up to it.

mod controller;
mod etcd;
mod recent;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tokio::sync::watch;
use tollgate_cache::{PURGE_GAP_MAX, Purge, PurgeMode, Store};
use tollgate_fleet::PURGE_KEPT_TIME;
use tollgate_net::component;
use tollgate_proxy::Rollout;
use tracing::{info, warn};

use self::recent::RecentPurges;
use crate::purge_request::{DISK_WAIT, PurgeRequest};

/// How long the admin API waits until this gateway has carried out its own purge.
const OWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of results that are kept for the admin API.
const RESULTS_MAX: usize = 256;
/// From this time without contact on, purges may have gone from the source unseen. At most half of the time for which they
/// are kept, because clocks drift.
const GAP_MAX: Duration = PURGE_GAP_MAX;
const _: () = assert!(GAP_MAX.as_secs() <= PURGE_KEPT_TIME.as_secs() / 2);
/// How often the task looks whether there is something to confirm to the disk tier.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the disk tier notes that its contents are confirmed.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(60);

/// The purges that this process has carried out, or relayed, for its fleet.
#[derive(Debug)]
pub struct FleetPurges {
    /// The version up to which all purges are carried out.
    done: watch::Sender<u64>,
    /// The result of each of the last purges, by version: how many responses it concerned here; in a controller, its number
    /// in the list for gateways.
    results: Mutex<VecDeque<(u64, u64)>>,
    /// For a disk tier that starts after some of the purges were carried out.
    recent: Mutex<RecentPurges>,
    confirmed: Mutex<Option<Instant>>,
}

impl Default for FleetPurges {
    fn default() -> Self {
        Self {
            done: watch::Sender::new(0),
            results: Mutex::default(),
            recent: Mutex::default(),
            confirmed: Mutex::default(),
        }
    }
}

/// Purges to carry out.
#[derive(Debug)]
struct Work {
    /// Whether purges may have been missed, so that everything must go.
    removes_all: bool,
    /// Version and request of each purge, in order.
    purges: Vec<(u64, Arc<Value>)>,
}

impl FleetPurges {
    /// Waits until a purge is carried out here. Returns its result; `None`: this took too long.
    pub async fn wait(&self, version: u64) -> Option<u64> {
        let mut done = self.done.subscribe();
        let reached = tokio::time::timeout(OWN_TIMEOUT, done.wait_for(|done| *done >= version)).await;
        reached.ok()?.ok()?;
        let results = lock(&self.results);
        results.iter().find(|(of, _)| *of == version).map(|(_, result)| *result)
    }

    /// Carries purges out on a thread, since they visit all objects. Returns how many responses each concerned, by version.
    async fn carry_out(
        self: &Arc<Self>,
        work: Work,
        plan: &watch::Receiver<Arc<Rollout>>,
    ) -> Vec<(u64, u64)> {
        let (purges, store) = (self.clone(), known_store(plan));
        let carried_out =
            tokio::task::spawn_blocking(move || purges.carry_out_blocking(work, store.as_deref())).await;
        carried_out.unwrap_or_else(|error| {
            warn!(target: component::GATEWAY, "a purge of the cache was not carried out: {error}");
            Vec::new()
        })
    }

    fn carry_out_blocking(&self, work: Work, store: Option<&Store>) -> Vec<(u64, u64)> {
        let end = Instant::now() + DISK_WAIT;
        if work.removes_all {
            let (removed, _) = store
                .map_or((0, true), |store| store.purge_durably(Purge::All, PurgeMode::Remove, DISK_WAIT));
            warn!(
                target: component::GATEWAY,
                "purges of the cache may have been missed while their source did not answer: {removed} stored responses \
                 removed"
            );
        }
        let mut counts = Vec::new();
        for (version, value) in work.purges {
            let request = match PurgeRequest::parse(&value) {
                Ok(request) => Arc::new(request),
                Err(why) => {
                    warn!(target: component::GATEWAY, "the purge {version} of the cache is invalid: {why}");
                    continue;
                }
            };
            // Before it is carried out, so that a disk tier that starts meanwhile does not miss it.
            lock(&self.recent).add(request.clone(), Instant::now());
            let (purged, is_durable) = store.map_or((0, true), |store| {
                request.carry_out(store, end.saturating_duration_since(Instant::now()))
            });
            info!(target: component::GATEWAY, "purge {version} of the cache: {purged} stored responses");
            if !is_durable {
                warn!(target: component::GATEWAY, "the purge {version} of the cache could not be written to the disk");
            }
            self.note_result(version, purged);
            counts.push((version, purged));
        }
        counts
    }

    fn note_result(&self, version: u64, result: u64) {
        let mut results = lock(&self.results);
        if results.len() == RESULTS_MAX {
            results.pop_front();
        }
        results.push_back((version, result));
    }

    /// Confirms to the disk tier that its contents are purged up to a time, if that is due.
    async fn confirm(self: &Arc<Self>, known_at: SystemTime, plan: &watch::Receiver<Arc<Rollout>>) {
        let Some(store) = known_store(plan) else { return };
        let is_held = store.is_disk_held();
        let is_due = lock(&self.confirmed).is_none_or(|at| at.elapsed() >= CONFIRM_INTERVAL);
        if !is_held && !is_due {
            return;
        }
        let purges = self.clone();
        // It may visit all objects. If the thread fails, the tier stays as it is.
        let confirmed = tokio::task::spawn_blocking(move || {
            if is_held {
                // Its contents are from before the start, or from before it was set.
                let recent = lock(&purges.recent).within(Instant::now());
                for request in recent {
                    // The confirmation follows them to the disk.
                    request.carry_out(&store, Duration::ZERO);
                }
            }
            store.confirm_disk(known_at);
        });
        if confirmed.await.is_ok() {
            *lock(&self.confirmed) = Some(Instant::now());
        }
    }
}

/// Returns the store of responses, if a policy caches.
fn known_store(plan: &watch::Receiver<Arc<Rollout>>) -> Option<Arc<Store>> {
    plan.borrow().policies().known_cache().cloned()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
