//! The clients of the admin API that follow requests and streams (`tollgate trace`), as a worker sees them.
//!
//! The control thread sends them in a [`WorkerCommand::Follow`](crate::WorkerCommand::Follow).
//! [`close`](crate::state::close_record::close) calls [`Followers::gather`] for each request that ends while
//! there is one, and the record of a stream calls [`Followers::gather_stream`] at its end. Invariant: a follower never delays a worker. Its traces wait in a channel with a bound, and
//! a trace that does not fit is dropped and counted.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tollgate_http::RequestHead;
use tollgate_observe::trace::{RequestTrace, TraceCounts};
use tollgate_observe::{Reason, Record};
use tollgate_plan::Cidr;
use tollgate_route::Router;
use tollgate_tls::HostTable;

use crate::state::request_path::{Routed, normal_path};
use crate::state::request_state::RequestState;
use crate::state::rollout::Rollout;
use crate::state::stream_facts::StreamFacts;
use crate::state::trusted_proxies::contains;

/// How many traces may wait for one follower, over all workers. A trace takes some KiB.
const PENDING_MAX: usize = 256;

/// The traces that a follower wants.
#[derive(Debug, Default)]
pub enum TraceSubject {
    /// Requests, and streams of layer 4.
    #[default]
    All,
    /// Only requests.
    Requests,
    /// Only streams: all, or the stream with this name.
    Streams(Option<String>),
}

/// The requests and streams that a follower asks for. Each condition that is set must hold.
#[derive(Debug, Default)]
pub struct TraceFilter {
    /// Whether it asks for requests, for streams or for both.
    pub subject: TraceSubject,
    /// The server names of the streams; `None`: any, also none.
    pub server_names: Option<HostTable<()>>,
    /// Host and path, as the conditions of a route.
    pub matches: Option<Router>,
    /// The client's address.
    pub client: Option<Cidr>,
    /// The status that the client got; 0 is none. Empty: any.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Why the gateway answered, or ended, the exchange.
    pub reason: Option<Reason>,
}

/// A client that follows requests.
#[derive(Debug)]
pub struct TraceFollower {
    filter: TraceFilter,
    sender: Sender<Arc<GatheredTrace>>,
    /// Traces that did not fit since the last call of [`take_lost`](Self::take_lost).
    lost: AtomicU64,
    counts: Arc<TraceCounts>,
}

/// A trace, and the question why its route was chosen, which is not answered on a worker.
#[derive(Debug)]
pub struct GatheredTrace {
    pub(crate) trace: RequestTrace,
    pub(crate) question: Option<RouteQuestion>,
}

/// The question why a route was chosen. With many routes the answer takes milliseconds.
#[derive(Debug)]
pub(crate) struct RouteQuestion {
    pub plan: Arc<Rollout>,
    /// The route that was chosen.
    pub route: Option<u32>,
    pub request: RequestHead,
    /// The number of the router that was asked.
    pub router: u32,
    /// The path that was matched.
    pub path: Vec<u8>,
    /// The number of steps before it.
    pub step: usize,
}

impl TraceFollower {
    /// Creates a follower, and the channel for its traces. The channel closes when no worker has the
    /// follower any more.
    #[must_use]
    pub fn new(filter: TraceFilter, counts: Arc<TraceCounts>) -> (Arc<Self>, Receiver<Arc<GatheredTrace>>) {
        let (sender, receiver) = channel(PENDING_MAX);
        (Arc::new(Self { filter, sender, lost: AtomicU64::new(0), counts }), receiver)
    }

    /// Returns how many traces it lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn send(&self, trace: Arc<GatheredTrace>) {
        // A follower that has left is removed by a command soon.
        if self.sender.try_send(trace).is_err() && !self.sender.is_closed() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.counts.count_lost();
        }
    }
}

impl TraceFilter {
    /// Returns whether a follower wants the trace of a finished request.
    fn takes(&self, state: &RequestState, record: &Record<'_>) -> bool {
        if matches!(self.subject, TraceSubject::Streams(_)) {
            return false;
        }
        let is_known = !state.request.head.bytes().is_empty();
        let routed = || Routed { request: &state.request, path: normal_path(&state.request, &state.path) };
        (self.statuses.is_empty() || self.statuses.iter().any(|range| range.contains(&record.status)))
            && self.reason.is_none_or(|reason| reason == record.reason)
            && self.client.is_none_or(|block| contains(&block, record.client.ip()))
            && self.matches.as_ref().is_none_or(|router| is_known && router.find(&routed()).is_some())
    }

    /// Returns whether a follower wants the trace of a finished stream.
    fn takes_stream(&self, record: &Record<'_>) -> bool {
        let is_asked = match &self.subject {
            TraceSubject::All => true,
            TraceSubject::Requests => false,
            TraceSubject::Streams(name) => name.as_ref().is_none_or(|name| name == record.route),
        };
        let server_name = || record.sni.or(record.tls.as_ref().and_then(|tls| tls.server_name));
        is_asked
            && self.reason.is_none_or(|reason| reason == record.reason)
            && self.client.is_none_or(|block| contains(&block, record.client.ip()))
            && self
                .server_names
                .as_ref()
                .is_none_or(|names| server_name().is_some_and(|name| names.find(name.as_bytes()).is_some()))
    }
}

/// The functions that build a trace on the worker with this number. They belong to a layer above, which knows all
/// parts of a request and of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceBuilders {
    /// Builds the trace of a finished request. A request without a route uses the worker's plan.
    pub request: fn(usize, &Arc<Rollout>, &RequestState, &Record<'_>) -> GatheredTrace,
    /// Builds the trace of a finished stream.
    pub stream: fn(usize, &StreamFacts<'_>, &Record<'_>) -> GatheredTrace,
}

/// The followers of a worker's requests and streams.
#[derive(Debug, Default)]
pub(crate) struct Followers(Option<(Arc<[Arc<TraceFollower>]>, TraceBuilders)>);

impl Followers {
    pub fn new(followers: Arc<[Arc<TraceFollower>]>, builders: TraceBuilders) -> Self {
        Self((!followers.is_empty()).then_some((followers, builders)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Builds the trace of a request for the followers that ask for it.
    #[cold]
    pub fn gather(&self, worker: usize, plan: &Arc<Rollout>, state: &RequestState, record: &Record<'_>) {
        self.send(
            |filter| filter.takes(state, record),
            |builders| (builders.request)(worker, plan, state, record),
        );
    }

    /// Builds the trace of a stream for the followers that ask for it.
    #[cold]
    pub fn gather_stream(&self, worker: usize, stream: &StreamFacts<'_>, record: &Record<'_>) {
        self.send(|filter| filter.takes_stream(record), |builders| (builders.stream)(worker, stream, record));
    }

    fn send(
        &self,
        is_wanted: impl Fn(&TraceFilter) -> bool,
        build: impl Fn(&TraceBuilders) -> GatheredTrace,
    ) {
        let Some((followers, builders)) = &self.0 else { return };
        let mut built: Option<Arc<GatheredTrace>> = None;
        for follower in followers.iter().filter(|follower| is_wanted(&follower.filter)) {
            let trace = built.get_or_insert_with(|| {
                follower.counts.count_gathered();
                Arc::new(build(builders))
            });
            follower.send(trace.clone());
        }
    }
}
