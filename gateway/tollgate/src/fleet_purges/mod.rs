//! Carries out the purges of caches that gateways share, and relays them to the gateways of a controller.
//!
//! The control thread starts one task: [`follow_etcd`](FleetPurges::follow_etcd) if etcd is a source, or
//! [`follow_controller`](FleetPurges::follow_controller) if a controller is. The task carries out every purge in the
//! order of the source, those of this gateway's admin API too, so all gateways do the same exactly once. The admin API
//! [waits](FleetPurges::wait) for its purge. If the task may have missed purges, it removes everything. A controller
//! has no store: there the task adds the purges of etcd to the [list](PurgeList) for its gateways.
//!
//! A disk tier may hold responses from before the start. So it answers no request until the task
//! [confirms](tollgate_cache::Store::confirm_disk) that every purge since then is carried out. The task confirms again
//! every minute, and the tier stores the time. A tier whose last confirmation is [too old](GAP_MAX) at the start
//! removes its contents.
//!
//! Invariant: every purge up to the version published as done is carried out.

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

/// How long a request to the admin API waits until this gateway has carried out its purge.
const OWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of results that are kept for the admin API.
const RESULTS_MAX: usize = 256;
/// After this time without contact, purges may have expired in the source unseen. At most half of the time for which
/// the source keeps them, because clocks drift.
const GAP_MAX: Duration = PURGE_GAP_MAX;
const _: () = assert!(GAP_MAX.as_secs() <= PURGE_KEPT_TIME.as_secs() / 2);
/// How often the task checks whether a confirmation to the disk tier is due.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the task confirms the contents of the disk tier.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(60);

/// The shared purges that this process has carried out, or has relayed to its gateways.
#[derive(Debug)]
pub struct FleetPurges {
    /// The version up to which all purges are carried out.
    done: watch::Sender<u64>,
    /// The results of recent purges, by version: how many responses a purge matched here; in a controller, the purge's
    /// number in the list for gateways.
    results: Mutex<VecDeque<(u64, u64)>>,
    /// Recent purges, for a disk tier that starts after they were carried out.
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
    /// Whether purges may have been missed, so that everything must be removed.
    removes_all: bool,
    /// Version and request of each purge, in order.
    purges: Vec<(u64, Arc<Value>)>,
}

impl FleetPurges {
    /// Waits until a purge is carried out here. Returns its result; `None`: it timed out.
    pub async fn wait(&self, version: u64) -> Option<u64> {
        let mut done = self.done.subscribe();
        let reached = tokio::time::timeout(OWN_TIMEOUT, done.wait_for(|done| *done >= version)).await;
        reached.ok()?.ok()?;
        let results = lock(&self.results);
        results.iter().find(|(of, _)| *of == version).map(|(_, result)| *result)
    }

    /// Carries out purges on a thread, because each may visit all objects. Returns how many responses each matched, by
    /// version.
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
            // First, so that a disk tier that starts now does not miss it.
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

    /// Confirms to the disk tier, if due, that every purge up to `known_at` is carried out.
    async fn confirm(self: &Arc<Self>, known_at: SystemTime, plan: &watch::Receiver<Arc<Rollout>>) {
        let Some(store) = known_store(plan) else { return };
        let is_held = store.is_disk_held();
        let is_due = lock(&self.confirmed).is_none_or(|at| at.elapsed() >= CONFIRM_INTERVAL);
        if !is_held && !is_due {
            return;
        }
        let purges = self.clone();
        // On a thread, because purges may visit all objects. If the thread panics, the tier stays unconfirmed.
        let confirmed = tokio::task::spawn_blocking(move || {
            if is_held {
                // The tier's contents may be older than the start of this process or of the tier.
                let recent = lock(&purges.recent).within(Instant::now());
                for request in recent {
                    // No wait: the confirmation is written to disk after the purges.
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
