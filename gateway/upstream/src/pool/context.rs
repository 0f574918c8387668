//! The settings and counters that all pools of an upstream share on a worker.
//!
//! [`PoolSet`](super::PoolSet) creates the [`PoolContext`] and adopts plans. Pools and connections read it.
//! It knows neither, so a request that finds an idle connection needs only its pool and this.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http2::MemoryTotals;
use tollgate_net::{BulkQueue, ProxyVersion, Timers};
use tollgate_observe::{Slot, WorkerStats};
use tollgate_plan::{Pool as PoolSettings, Tls, Upstream as Planned};

use crate::UpstreamState;

/// How long other requests pass an endpoint over after it refused a connection. A process that ends or starts again
/// refuses connections until its orchestrator or a probe reports it. A second is longer than that report takes, and
/// short for an endpoint that is back.
const PASSED_OVER: Duration = Duration::from_secs(1);

/// The settings and counters that all pools of an upstream share on a worker.
#[derive(Debug)]
pub(crate) struct PoolContext {
    /// The number of this worker.
    pub worker: usize,
    pub slot: Slot,
    pub timers: Timers,
    /// The queue of the worker.
    pub bulk_queue: BulkQueue,
    pub stats: Arc<WorkerStats>,
    pub shared: Arc<UpstreamState>,
    pub settings: RefCell<PoolSettings>,
    pub tls: RefCell<Option<Tls>>,
    /// Whether the endpoints speak HTTP/2.
    pub http2: Cell<bool>,
    /// The version of the PROXY protocol header that connections begin with, if any.
    pub proxy_protocol: Cell<Option<ProxyVersion>>,
    /// Upper bound, in bytes, of the field sections that endpoints send over HTTP/2; each field counts 32
    /// more.
    pub header_list_max_bytes: Cell<u32>,
    /// The read buffer that all HTTP/2 connections share.
    pub read_buffer: Rc<RefCell<Vec<u8>>>,
    /// Bytes that wait for the sockets of all HTTP/2 connections.
    pub http2_totals: MemoryTotals,
    /// When TLS, HTTP version, PROXY protocol or source address last changed. Connections opened earlier are
    /// not reused.
    kind_changed_at: Cell<Option<Instant>>,
    /// Whether endpoints that refuse a connection are passed over for a moment. Off with `outlier: off`.
    passes_over: Cell<bool>,
    /// When the last endpoint that refused a connection gets requests again; `None` if none is passed over.
    /// A plain request reads only this.
    refusing_until: Cell<Option<Instant>>,
    /// Idle connections to all endpoints. Upstreams past the metrics' bound share one counter.
    pub idle: Rc<Cell<usize>>,
    /// A connection that becomes free is not simply kept: a request waits on this or another worker, or there
    /// are too many connections. A plain request reads only this flag; the pool set maintains it.
    must_offer: Cell<bool>,
}

/// The effect of a plan on existing connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanEffect {
    /// The settings of pools differ.
    pub settings: bool,
    /// Connections of another kind are needed, so idle ones are useless.
    pub kind: bool,
}

impl PoolContext {
    pub fn new(
        worker: usize,
        planned: &Planned,
        (slot, idle): (Slot, Rc<Cell<usize>>),
        (timers, bulk_queue): (Timers, BulkQueue),
        stats: Arc<WorkerStats>,
        shared: Arc<UpstreamState>,
    ) -> Rc<Self> {
        Rc::new(Self {
            worker,
            slot,
            timers,
            bulk_queue,
            stats,
            shared,
            settings: RefCell::new(planned.pool.clone()),
            tls: RefCell::new(planned.tls.clone()),
            http2: Cell::new(planned.http2.is_some()),
            proxy_protocol: Cell::new(planned.proxy_protocol),
            header_list_max_bytes: Cell::new(header_list(planned)),
            read_buffer: Rc::default(),
            http2_totals: MemoryTotals::default(),
            kind_changed_at: Cell::new(None),
            passes_over: Cell::new(planned.rules.outlier.enabled),
            refusing_until: Cell::new(None),
            idle,
            must_offer: Cell::new(false),
        })
    }

    /// Adopts the settings of a plan. The caller makes the pools follow.
    pub(super) fn apply_plan(&self, planned: &Planned) -> PlanEffect {
        let moved = self.settings.borrow().source != planned.pool.source;
        let settings = *self.settings.borrow() != planned.pool;
        if settings {
            *self.settings.borrow_mut() = planned.pool.clone();
        }
        self.header_list_max_bytes.set(header_list(planned));
        self.passes_over.set(planned.rules.outlier.enabled);
        let (http2, proxy_protocol) = (planned.http2.is_some(), planned.proxy_protocol);
        let spoken = (self.http2.replace(http2), self.proxy_protocol.replace(proxy_protocol));
        let kind = moved || *self.tls.borrow() != planned.tls || spoken != (http2, proxy_protocol);
        if kind {
            *self.tls.borrow_mut() = planned.tls.clone();
            self.kind_changed_at.set(Some(tollgate_net::now()));
        }
        PlanEffect { settings, kind }
    }

    /// Whether the current plan would open the same kind of connection as at that time.
    pub fn is_current(&self, opened: Instant) -> bool {
        self.kind_changed_at.get().is_none_or(|since| opened > since)
    }

    /// Notes that an endpoint refused a connection. Returns until when requests pass it over.
    pub(super) fn refused(&self) -> Option<Instant> {
        let until = self.passes_over.get().then(|| tollgate_net::now() + PASSED_OVER);
        if until.is_some() {
            self.refusing_until.set(until);
        }
        until
    }

    /// Whether endpoints may be passed over, because they refused a connection.
    #[inline]
    pub fn has_refusing(&self) -> bool {
        self.refusing_until.get().is_some()
    }

    /// Returns the current time if endpoints are passed over now.
    pub fn refusing_now(&self) -> Option<Instant> {
        let until = self.refusing_until.get()?;
        let now = tollgate_net::now();
        if now >= until {
            self.refusing_until.set(None);
            return None;
        }
        Some(now)
    }

    /// Whether a connection that becomes free must be [offered](super::PoolSet::offer) instead of kept.
    #[inline]
    pub fn must_offer_freed(&self) -> bool {
        self.must_offer.get()
    }

    /// Sets whether a connection that becomes free must be offered.
    pub(super) fn set_must_offer(&self, must_offer: bool) {
        self.must_offer.set(must_offer);
    }

    /// Adds `change` to the number of idle connections.
    pub fn count_idle(&self, change: isize) {
        let total = self.idle.get().saturating_add_signed(change);
        self.idle.set(total);
        self.stats.upstream_idle(self.slot, total);
    }
}

fn header_list(planned: &Planned) -> u32 {
    planned.http2.as_ref().map_or(0, |http2| http2.header_list)
}
