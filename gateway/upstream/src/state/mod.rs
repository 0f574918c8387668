//! State of upstreams and endpoints that all workers share.
//!
//! Each worker owns its pools, balancers and connections. The state that all workers must respect, whichever
//! learns it (health, ejections, permits in use, breakers), is here, in atomics that a plain request only
//! reads. It is found by upstream name and endpoint address, so it survives a change of plan.
//!
//! | File | Contents |
//! |---|---|
//! | `mod.rs` | [`UpstreamStates`], the process's registry, and [`UpstreamState`] |
//! | `endpoint.rs`, `clock.rs` | [`EndpointState`], and the form of times in atomics |
//! | `limits.rs`, `permits.rs` | the limits and their use, and the guards that hold a part |
//! | `message.rs`, `mailboxes.rs`, `worker_ring.rs` | messages between workers, their delivery, and the order of workers |
//! | `wait_times.rs` | since when requests of each worker wait |
//!
//! An entry lives as long as something holds it: a worker whose plan has the upstream, an exchange that began
//! under an older plan, or a probe. The tables hold only weak references. An entry that no plan names is
//! therefore freed when its last user drops it, whatever the order in which the workers adopt a plan.

mod clock;
mod endpoint;
mod limits;
mod mailboxes;
pub(crate) mod message;
mod permits;
mod wait_times;
mod worker_ring;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tollgate_net::{Address, TlsFault, component};
use tollgate_plan::Endpoint;
use tracing::debug;

use crate::Lookups;
use crate::adaptive::Adaptive;
use crate::balance::MaglevTables;
use crate::breaker::{Breaker, BreakerState};
use crate::health::ProbeCounts;
use crate::notices::{EndpointEvent, EndpointNotice, NoticeChannel};
use crate::outlier::{EjectionCause, Ejections};
use crate::retry_budget::RetryBudget;
use crate::tls_failures::TlsFailureCounts;
use crate::weak_map::WeakMap;

pub(crate) use clock::StampClock;
pub use endpoint::{EndpointState, ProbeHealth};
pub(crate) use limits::UpstreamLimits;
use mailboxes::Mailboxes;
pub use mailboxes::SendToWorker;
pub use message::Message;
pub use permits::{InFlightGuard, Permit};

/// The shared state of every upstream, one for the process.
#[derive(Debug)]
pub struct UpstreamStates {
    clock: StampClock,
    /// Notices and the wake-up signal for the control thread.
    pub(crate) notices: Arc<NoticeChannel>,
    mailboxes: Arc<Mailboxes>,
    upstreams: Mutex<WeakMap<String, UpstreamState>>,
}

impl UpstreamStates {
    /// Creates an empty registry, whose stamps count from now.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let now = tollgate_net::now();
        let (clock, mailboxes) = (StampClock::new(now), Arc::new(Mailboxes::new(now)));
        Arc::new(Self { clock, notices: Arc::default(), mailboxes, upstreams: Mutex::default() })
    }

    /// Stores the mailboxes of all workers, in the order of worker numbers. Workers send each other
    /// connections and permits through them. Only the first call has an effect.
    pub fn connect_workers(&self, senders: impl FnOnce() -> Vec<SendToWorker>) {
        self.mailboxes.connect(senders);
    }

    /// Returns the state of an upstream, and creates it if nothing holds it. The caller must keep the `Arc`:
    /// the table holds only a weak reference.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamState> {
        let make = || UpstreamState::new(name, self.clock, self.notices.clone(), self.mailboxes.clone());
        lock(&self.upstreams).get_or_insert_with(name, make)
    }

    /// Returns the state of every upstream that is in use, sorted by name.
    pub fn upstreams(&self) -> Vec<Arc<UpstreamState>> {
        let mut all = lock(&self.upstreams).all();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The number of entries of the table, stale ones included.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        lock(&self.upstreams).len()
    }

    /// Converts a time to a stamp: milliseconds since the start plus 1. Never returns 0, which means never.
    pub fn stamp(&self, at: Instant) -> u64 {
        self.clock.stamp(at)
    }

    /// Converts a stamp back to a time.
    pub fn instant(&self, stamp: u64) -> Instant {
        self.clock.instant(stamp)
    }
}

/// State of one upstream that all workers share.
#[derive(Debug)]
pub struct UpstreamState {
    /// The name of the upstream in the configuration. Unique among the upstreams of a plan.
    pub name: String,
    clock: StampClock,
    /// Number of changes that a balancer must see (health, ejection, members). A worker that has seen another
    /// number rebuilds its balance.
    epoch: CacheLine<AtomicU64>,
    endpoints: Mutex<WeakMap<Address, EndpointState>>,
    /// Whether the upstream has had endpoints before. An endpoint that joins later is new and starts with
    /// slow start.
    settled: AtomicBool,
    /// Endpoints that discovery found, in addition to the plan's. `None` before the first lookup.
    discovered: Mutex<Option<Arc<[Endpoint]>>>,
    /// The state of the upstream's lookups.
    pub lookups: Lookups,
    /// The limits of the plan, and the use of each.
    pub(crate) limits: UpstreamLimits,
    /// The mailboxes of all workers.
    pub(crate) mailboxes: Arc<Mailboxes>,
    /// Maglev tables for balancing by hash, which workers share.
    pub(crate) tables: MaglevTables,
    /// The endpoints that are ejected now.
    ejections: Mutex<Ejections>,
    /// Counts of the upstream's health probes by result.
    probes: Mutex<ProbeCounts>,
    /// The endpoints of the plan and of discovery, as the control thread last merged them.
    members: Mutex<Arc<[Endpoint]>>,
    /// Counts of TLS failures of the upstream's endpoints.
    pub(crate) tls: TlsFailureCounts,
    notices: Arc<NoticeChannel>,
    pub(crate) budget: RetryBudget,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) adaptive: Arc<Adaptive>,
}

/// A value on its own cache line. Every request reads it; counters next to it must not cause a cache miss.
#[derive(Debug)]
#[repr(align(128))]
struct CacheLine<T>(T);

impl UpstreamState {
    fn new(name: &str, clock: StampClock, notices: Arc<NoticeChannel>, mailboxes: Arc<Mailboxes>) -> Self {
        Self {
            ejections: Mutex::new(Ejections::new(clock)),
            probes: Mutex::default(),
            members: Mutex::default(),
            tls: TlsFailureCounts::default(),
            notices,
            name: name.to_owned(),
            clock,
            epoch: CacheLine(AtomicU64::new(1)),
            endpoints: Mutex::default(),
            settled: AtomicBool::new(false),
            discovered: Mutex::default(),
            lookups: Lookups::default(),
            limits: UpstreamLimits::default(),
            mailboxes,
            tables: MaglevTables::default(),
            budget: RetryBudget::new(clock.instant(1)),
            breaker: Arc::new(Breaker::new(clock.instant(1))),
            adaptive: Arc::new(Adaptive::new(clock.instant(1))),
        }
    }

    /// Returns the state of the upstream's breaker.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Returns the number of changes so far; never 0.
    pub fn epoch(&self) -> u64 {
        self.epoch.0.load(Ordering::Acquire)
    }

    /// Records a change that balancers must see: each worker rebuilds its balance at its next request.
    pub fn mark_changed(&self) {
        self.epoch.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Converts a time to a stamp, as [`UpstreamStates::stamp`] does.
    pub(crate) fn stamp(&self, at: Instant) -> u64 {
        self.clock.stamp(at)
    }

    /// Returns the state of an endpoint, and creates it if nothing holds it. The caller must keep the `Arc`:
    /// the table holds only a weak reference. An endpoint created after the first members were set starts
    /// with slow start.
    pub fn endpoint(&self, address: &Address) -> Arc<EndpointState> {
        lock(&self.endpoints).get_or_insert_with(address, || {
            let state = EndpointState::new(address.clone());
            if self.settled.load(Ordering::Relaxed) {
                state.set_ready_since(self.stamp(tollgate_net::now()));
            }
            state
        })
    }

    /// The number of entries of the table of endpoints, stale ones included.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        lock(&self.endpoints).len()
    }

    /// Marks the upstream as having its first endpoints. Endpoints that join from now on are new.
    pub(crate) fn mark_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Returns every endpoint that is in use, sorted by its address as text.
    pub fn endpoints(&self) -> Vec<Arc<EndpointState>> {
        let mut all = lock(&self.endpoints).all();
        all.sort_by_cached_key(|endpoint| endpoint.address.to_string());
        all
    }

    /// Returns the endpoints of the last successful lookup.
    pub fn discovered(&self) -> Option<Arc<[Endpoint]>> {
        lock(&self.discovered).clone()
    }

    /// Stores the endpoints that a lookup returned, and signals the workers and the control thread.
    pub fn set_discovered(&self, endpoints: Arc<[Endpoint]>) {
        *lock(&self.discovered) = Some(endpoints);
        self.mark_changed();
        self.notices.signal();
    }

    /// Ejects an endpoint for a while, unless too many endpoints are already ejected.
    #[cold]
    pub(crate) fn eject(&self, endpoint: &EndpointState, cause: EjectionCause) {
        let ejected = self.ejections().eject(&endpoint.address, cause, tollgate_net::now());
        if let Some((ejected, gave_way)) = ejected {
            self.notify(endpoint, ejected.into());
            if let Some(gave_way) = gave_way {
                self.notify(&gave_way, EndpointEvent::GaveWay);
            }
            self.mark_changed();
        }
    }

    /// Locks the list of ejected endpoints. A caller that changes it must call [`Self::mark_changed`].
    pub(crate) fn ejections(&self) -> MutexGuard<'_, Ejections> {
        lock(&self.ejections)
    }

    /// Locks the counts of the upstream's health probes.
    pub(crate) fn probes(&self) -> MutexGuard<'_, ProbeCounts> {
        lock(&self.probes)
    }

    /// Returns the upstream's endpoints, each once: first the plan's, then those found by discovery.
    pub(crate) fn members(&self) -> Arc<[Endpoint]> {
        lock(&self.members).clone()
    }

    pub(crate) fn set_members(&self, members: Arc<[Endpoint]>) {
        *lock(&self.members) = members;
    }

    /// Queues a notice about an endpoint, which the control thread writes.
    pub(crate) fn notify(&self, endpoint: &EndpointState, event: EndpointEvent) {
        self.notices.push(EndpointNotice {
            upstream: self.name.clone(),
            endpoint: endpoint.address.clone(),
            event,
        });
    }

    /// Records a TLS failure of an endpoint. Sends a notice if the failure is news.
    #[cold]
    pub(crate) fn tls_failed(&self, endpoint: &EndpointState, fault: &TlsFault) {
        self.tls.count(fault.kind);
        let (upstream, kind) = (self.name.as_str(), fault.kind.as_str());
        debug!(
            target: component::TLS,
            upstream,
            endpoint = %endpoint.address,
            kind,
            "TLS to the endpoint failed: {fault}"
        );
        if endpoint.tls.failed(fault, tollgate_net::now()) {
            self.notify(endpoint, EndpointEvent::TlsFailed(fault.clone()));
        }
    }

    /// Records that an endpoint answered a probe over TLS. Sends a notice if that ends a failure.
    pub(crate) fn tls_answered(&self, endpoint: &EndpointState) {
        if endpoint.tls.answered() {
            self.notify(endpoint, EndpointEvent::TlsWorks);
        }
    }

    /// Records a successful TLS handshake with an endpoint. Sends a notice if that ends a failure.
    #[inline]
    pub(crate) fn tls_worked(&self, endpoint: &EndpointState) {
        if endpoint.tls.succeeded(tollgate_net::now) {
            self.notify(endpoint, EndpointEvent::TlsWorks);
        }
    }

    /// Drops the endpoints that discovery found, because the upstream has no discovery now, or a different
    /// source.
    pub fn forget_discovered(&self) {
        if lock(&self.discovered).take().is_some() {
            self.mark_changed();
            self.notices.signal();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks cannot leave the value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
