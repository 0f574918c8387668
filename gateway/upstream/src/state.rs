//! What all workers know of upstreams and their endpoints.
//!
//! Pools, balances and connections are a worker's own. What one worker learns and all must heed (health, ejection,
//! caps, breakers) is here, in atomics that a plain request only reads. It is keyed by name and address, so that it
//! survives a change of plan.
//!
//! What is here lives for as long as somebody works with it: a worker that has the upstream in its plan, an exchange
//! that began on an older one, a probe. The tables only find it, so that what no plan names any longer is gone when
//! the last of them has let go, in whatever order they take over a plan.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_net::{Address, TlsFault};
use tollgate_plan::Endpoint;

use crate::Lookups;
use crate::adaptive::Adaptive;
use crate::balance::Tables;
use crate::breaker::{Breaker, BreakerState};
use crate::budget::Budget;
use crate::cap::{EndpointUsage, Usage};
use crate::health::{Counts, Record};
use crate::known::Known;
use crate::news::{Event, News, Notice};
use crate::outlier::{Cause, Ejections, EndpointOutlier};
use crate::peers::{Peers, Post};
use crate::tls_record::{TlsCounts, TlsRecord};

/// Times as the atomics have them: milliseconds since a start, and 0 for never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps(Instant);

impl Stamps {
    pub(crate) fn new(start: Instant) -> Self {
        Self(start)
    }

    pub(crate) fn stamp(self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1)
    }

    pub(crate) fn instant(self, stamp: u64) -> Instant {
        self.0 + Duration::from_millis(stamp.saturating_sub(1))
    }
}

/// The shared state of every upstream, one for the process.
#[derive(Debug)]
pub struct Shared {
    stamps: Stamps,
    /// What the control thread is told.
    pub(crate) news: Arc<News>,
    peers: Arc<Peers>,
    upstreams: Mutex<Known<String, UpstreamState>>,
}

impl Shared {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let now = tollgate_net::now();
        let (stamps, peers) = (Stamps::new(now), Arc::new(Peers::new(now)));
        Arc::new(Self { stamps, news: Arc::default(), peers, upstreams: Mutex::default() })
    }

    /// Takes the mailboxes of all workers, by number, through which they hand connections over. The first call counts.
    pub fn connect_workers(&self, posts: impl FnOnce() -> Vec<Post>) {
        self.peers.connect(posts);
    }

    /// The state of an upstream, made when nobody has it. Who asks keeps it: nobody else does.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamState> {
        let make = || UpstreamState::new(name, self.stamps, self.news.clone(), Usage::new(&self.peers));
        lock(&self.upstreams).get_or_make(name, make)
    }

    /// Every upstream that somebody works with, in order of its name.
    pub fn upstreams(&self) -> Vec<Arc<UpstreamState>> {
        let mut all = lock(&self.upstreams).all();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Entries of its table.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        lock(&self.upstreams).len()
    }

    /// Milliseconds from the start to `at`, as the atomics have times; never 0, which means never.
    pub fn stamp(&self, at: Instant) -> u64 {
        self.stamps.stamp(at)
    }

    /// The time that a stamp stands for.
    pub fn instant(&self, stamp: u64) -> Instant {
        self.stamps.instant(stamp)
    }
}

/// What all workers know of one upstream.
#[derive(Debug)]
pub struct UpstreamState {
    /// Its name.
    pub name: String,
    stamps: Stamps,
    /// Counts changes of what a balancer must know (health, ejection, members): who has another number looks again.
    epoch: Line<AtomicU64>,
    endpoints: Mutex<Known<Address, EndpointState>>,
    /// Whether it has had endpoints: one that comes now is new, and slow start begins with it.
    settled: AtomicBool,
    /// Endpoints that were looked up, beside those of the plan; `None`: none was looked up yet.
    discovered: Mutex<Option<Arc<[Endpoint]>>>,
    /// How looking them up goes.
    pub lookups: Lookups,
    pub(crate) usage: Usage,
    /// Tables for balancing by hash, which workers share.
    pub(crate) tables: Tables,
    /// Which endpoints are ejected.
    ejections: Mutex<Ejections>,
    /// What its probes came to.
    probes: Mutex<Counts>,
    /// Its endpoints, those of the plan and those that were looked up, as the control thread has them.
    members: Mutex<Arc<[Endpoint]>>,
    /// The TLS failures of its endpoints.
    pub(crate) tls: TlsCounts,
    news: Arc<News>,
    pub(crate) budget: Budget,
    pub(crate) breaker: Breaker,
    pub(crate) adaptive: Adaptive,
}

/// On a cache line of its own: every request reads it, and what is counted beside it must not cost that a miss.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

impl UpstreamState {
    fn new(name: &str, stamps: Stamps, news: Arc<News>, usage: Usage) -> Self {
        Self {
            ejections: Mutex::new(Ejections::new(stamps)),
            probes: Mutex::default(),
            members: Mutex::default(),
            tls: TlsCounts::default(),
            news,
            name: name.to_owned(),
            stamps,
            epoch: Line(AtomicU64::new(1)),
            endpoints: Mutex::default(),
            settled: AtomicBool::new(false),
            discovered: Mutex::default(),
            lookups: Lookups::default(),
            usage,
            tables: Tables::default(),
            budget: Budget::new(stamps.instant(1)),
            breaker: Breaker::new(stamps.instant(1)),
            adaptive: Adaptive::new(stamps.instant(1)),
        }
    }

    /// Whether its breaker lets requests through.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// The number of changes so far; never 0.
    pub fn epoch(&self) -> u64 {
        self.epoch.0.load(Ordering::Acquire)
    }

    /// Something changed that a balancer must know.
    pub fn changed(&self) {
        self.epoch.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Milliseconds from the start to `at`, as [`Shared::stamp`] has them.
    pub(crate) fn stamp(&self, at: Instant) -> u64 {
        self.stamps.stamp(at)
    }

    /// The state of an endpoint, made when nobody has it. Who asks keeps it: nobody else does.
    pub fn endpoint(&self, address: &Address) -> Arc<EndpointState> {
        lock(&self.endpoints).get_or_make(address, || {
            let state = EndpointState::new(address.clone());
            if self.settled.load(Ordering::Relaxed) {
                state.set_ready_since(self.stamp(tollgate_net::now()));
            }
            state
        })
    }

    /// Entries of its table of endpoints.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        lock(&self.endpoints).len()
    }

    /// It has its first endpoints: those that come from now on are new.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Every endpoint that somebody works with, in order of its address as text.
    pub fn endpoints(&self) -> Vec<Arc<EndpointState>> {
        let mut all = lock(&self.endpoints).all();
        all.sort_by_cached_key(|endpoint| endpoint.address.to_string());
        all
    }

    /// What was looked up last.
    pub fn discovered(&self) -> Option<Arc<[Endpoint]>> {
        lock(&self.discovered).clone()
    }

    /// Takes over what was looked up.
    pub fn discover(&self, endpoints: Arc<[Endpoint]>) {
        *lock(&self.discovered) = Some(endpoints);
        self.changed();
        self.news.ring();
    }

    /// Takes an endpoint out for a while, unless too many are out already.
    #[cold]
    pub(crate) fn eject(&self, endpoint: &EndpointState, cause: Cause) {
        let ejected = self.ejections().eject(&endpoint.address, cause, tollgate_net::now());
        if let Some((ejected, gave_way)) = ejected {
            self.tell(endpoint, ejected.into());
            if let Some(gave_way) = gave_way {
                self.tell(&gave_way, Event::GaveWay);
            }
            self.changed();
        }
    }

    /// Which endpoints are ejected. Whoever changes that says so ([`Self::changed`]).
    pub(crate) fn ejections(&self) -> MutexGuard<'_, Ejections> {
        lock(&self.ejections)
    }

    /// What its probes came to.
    pub(crate) fn probes(&self) -> MutexGuard<'_, Counts> {
        lock(&self.probes)
    }

    /// Its endpoints: those of the plan first, then those that were looked up, each once.
    pub(crate) fn members(&self) -> Arc<[Endpoint]> {
        lock(&self.members).clone()
    }

    pub(crate) fn set_members(&self, members: Arc<[Endpoint]>) {
        *lock(&self.members) = members;
    }

    /// Has the control thread write a line about an endpoint.
    pub(crate) fn tell(&self, endpoint: &EndpointState, event: Event) {
        self.news.tell(Notice { upstream: self.name.clone(), endpoint: endpoint.address.clone(), event });
    }

    /// Notes a failure of an endpoint's TLS. A notice is written if it is of another kind than the last one.
    #[cold]
    pub(crate) fn tls_failed(&self, endpoint: &EndpointState, fault: &TlsFault) {
        self.tls.count(fault.kind);
        if endpoint.tls.failed(fault, tollgate_net::now()) {
            self.tell(endpoint, Event::TlsFailed(fault.clone()));
        }
    }

    /// Notes that an endpoint has answered a probe over TLS.
    pub(crate) fn tls_is_over(&self, endpoint: &EndpointState) {
        if endpoint.tls.is_over() {
            self.tell(endpoint, Event::TlsWorks);
        }
    }

    /// Notes that a handshake with an endpoint has succeeded.
    #[inline]
    pub(crate) fn tls_worked(&self, endpoint: &EndpointState) {
        if endpoint.tls.worked(tollgate_net::now) {
            self.tell(endpoint, Event::TlsWorks);
        }
    }

    /// Nothing is looked up for it any more, or something else.
    pub fn forget_discovered(&self) {
        if lock(&self.discovered).take().is_some() {
            self.changed();
            self.news.ring();
        }
    }
}

/// Whether an endpoint is well, as far as probes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Wellness {
    /// Not probed: it is taken to be well.
    Unknown = 0,
    /// Well.
    Healthy = 1,
    /// Not well.
    Unhealthy = 2,
}

/// What all workers know of one endpoint.
#[derive(Debug)]
pub struct EndpointState {
    /// Where it is.
    pub address: Address,
    wellness: AtomicU8,
    /// The stamp until which it is ejected; 0: it is not.
    ejected_until: AtomicU64,
    /// The stamp from which on it takes requests, for slow start; 0: from the beginning.
    ready_since: AtomicU64,
    /// Whether it is this process itself.
    own: AtomicBool,
    pub(crate) usage: EndpointUsage,
    /// What became of its requests.
    pub(crate) outlier: EndpointOutlier,
    /// What its probes told.
    probed: Mutex<Record>,
    /// The last failure of its TLS.
    pub(crate) tls: TlsRecord,
}

impl EndpointState {
    fn new(address: Address) -> Self {
        Self {
            address,
            wellness: AtomicU8::new(Wellness::Unknown as u8),
            ejected_until: AtomicU64::new(0),
            ready_since: AtomicU64::new(0),
            own: AtomicBool::new(false),
            usage: EndpointUsage::default(),
            outlier: EndpointOutlier::default(),
            probed: Mutex::default(),
            tls: TlsRecord::default(),
        }
    }

    /// Whether it is known to be this process itself.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.own.load(Ordering::Relaxed)
    }

    /// Notes that a connection to it has led to this process.
    pub(crate) fn note_own(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// What probes tell.
    pub fn wellness(&self) -> Wellness {
        match self.wellness.load(Ordering::Relaxed) {
            1 => Wellness::Healthy,
            2 => Wellness::Unhealthy,
            _ => Wellness::Unknown,
        }
    }

    /// Sets what probes tell. [`UpstreamState::changed`] tells the workers.
    pub fn set_wellness(&self, wellness: Wellness) {
        self.wellness.store(wellness as u8, Ordering::Relaxed);
    }

    /// What its probes told.
    pub(crate) fn probed(&self) -> MutexGuard<'_, Record> {
        lock(&self.probed)
    }

    /// The last failure of its TLS, for people.
    pub fn tls_failure(&self) -> Option<String> {
        self.tls.last().map(|(_, fault)| fault.text().to_owned())
    }

    /// The stamp until which it is ejected; 0: it is not.
    pub fn ejected_until(&self) -> u64 {
        self.ejected_until.load(Ordering::Relaxed)
    }

    /// Ejects it until a stamp, or takes it back (0). [`UpstreamState::changed`] tells the workers.
    pub fn set_ejected_until(&self, stamp: u64) {
        self.ejected_until.store(stamp, Ordering::Relaxed);
    }

    /// The stamp from which on it takes requests; 0: from the beginning.
    pub fn ready_since(&self) -> u64 {
        self.ready_since.load(Ordering::Relaxed)
    }

    /// Sets from when on it takes requests.
    pub fn set_ready_since(&self, stamp: u64) {
        self.ready_since.store(stamp, Ordering::Relaxed);
    }

    /// Whether it may take requests: neither unhealthy nor ejected.
    pub fn is_available(&self) -> bool {
        self.wellness() != Wellness::Unhealthy && self.ejected_until() == 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can leave them half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
