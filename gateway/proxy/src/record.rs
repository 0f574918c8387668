//! The record of one request: opened with its first byte, filled while it is handled, and closed on every way
//! out.
//!
//! Each step writes its results into the [`RequestRecord`] of the request state. [`close`] turns them into
//! statistics and a line of the access log, and ends the policies' contexts. Invariant: an open record is
//! always closed, even after a panic ([`close_abandoned`]).

use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http::grpc::GrpcStatus;
use tollgate_http::{Name, RequestHead, Version};
use tollgate_observe::{Details, EndpointAttempt, Protocol, Reason, Record, Slot, Tally};
use tollgate_policy::{Consumer, Context, ExchangeOutcome};
use tollgate_upstream::{Pool, Upstream};

use crate::active::ActivePlan;
use crate::announced::Announced;
use crate::client_tls::ClientTls;
use crate::request_state::RequestState;
use crate::worker::Worker;

/// How long log lines may wait in a worker before they go to the log's writer.
const LOG_FLUSH: Duration = Duration::from_millis(100);

/// The facts known about a request so far.
#[derive(Debug, Default)]
pub(crate) struct RequestRecord {
    open: Option<OpenRecord>,
    /// When the request started, if its head arrived in one piece.
    whole_head_started: Option<Instant>,
    pub reason: Reason,
    pub status: u16,
    pub grpc_status: Option<GrpcStatus>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub attempts: u8,
    pub reused: bool,
    pub connect: Option<Duration>,
    /// When the response's head had arrived.
    pub head_received: Option<Instant>,
    /// When the request ended, if the clock was just read.
    pub ended: Option<Instant>,
    /// The plan that the request started with, and its route.
    pub route: Option<(Rc<ActivePlan>, u32)>,
    pub upstream: Option<Rc<Upstream>>,
    pub endpoint: Option<Rc<Pool>>,
    /// Empty if there is none.
    pub request_id: Vec<u8>,
    /// The TLS state of its connection.
    tls: Option<Rc<ClientTls>>,
    /// The head of the client's response, if a log contains fields of it.
    pub response: Vec<u8>,
    /// The client as trusted proxies announce it.
    pub announced: Announced,
    /// What few requests have. Boxed: the others pay for a null pointer.
    remarks: Option<Box<Remarks>>,
}

/// The parts of a record that a plain request does not have.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    pub detail: Option<Cow<'static, str>>,
    /// The bytes for which a message was refused, escaped.
    rejected: Option<Box<str>>,
    /// Earlier attempts, for the log.
    pub earlier: Vec<EarlierAttempt>,
    /// The start of the current attempt, if it is not the first.
    pub attempt_began: Option<Instant>,
    /// The findings of policies.
    pub found: Option<PolicyFindings>,
}

/// The findings of policies about a request, for the log.
#[derive(Debug)]
pub(crate) struct PolicyFindings {
    pub consumer: Option<Arc<Consumer>>,
    /// Its trace, and its span in that.
    pub span: Option<(u128, u64)>,
}

impl PolicyFindings {
    /// Returns the findings about a request that has passed its policies.
    pub fn of(context: &Context) -> Option<Self> {
        let (consumer, span) = (&context.consumer, context.span);
        (consumer.is_some() || span.is_some()).then(|| Self { consumer: consumer.clone(), span })
    }
}

/// An attempt before the current one.
#[derive(Debug)]
pub(crate) struct EarlierAttempt {
    pub pool: Rc<Pool>,
    /// The status of its response; 0 if there was none.
    pub status: u16,
    /// The reason for its failure.
    pub reason: Reason,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    started: Instant,
    peer: SocketAddr,
}

impl RequestRecord {
    /// Opens the record of a request.
    #[inline]
    pub fn open(&mut self, worker: &Worker, started: Instant, peer: SocketAddr, tls: Option<&Rc<ClientTls>>) {
        worker.stats.request_started();
        // `close` has released the references of the previous request. Fields are reset one by one: a new
        // value would be built separately and copied over, and every old field would be checked for a drop.
        debug_assert!(self.route.is_none() && self.upstream.is_none() && self.endpoint.is_none());
        self.open = Some(OpenRecord { started, peer });
        self.whole_head_started = Some(started);
        self.reason = Reason::default();
        self.status = 0;
        self.grpc_status = None;
        (self.bytes_in, self.bytes_out) = (0, 0);
        (self.attempts, self.reused) = (0, false);
        (self.connect, self.head_received, self.ended) = (None, None, None);
        self.request_id.clear();
        self.announced.clear();
        self.response.clear();
        self.tls = tls.cloned();
    }

    /// Discards the record: it was no request after all.
    pub fn discard(&mut self, worker: &Worker) {
        if self.open.take().is_some() {
            worker.stats.request_withdrawn();
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Called when the head arrives in several pieces.
    pub fn mark_partial(&mut self) {
        self.whole_head_started = None;
    }

    /// Returns the remarks, to add one.
    #[cold]
    pub fn remarks(&mut self) -> &mut Remarks {
        self.remarks.get_or_insert_default()
    }

    /// Records the bytes for which a message is refused, for the log.
    #[cold]
    pub fn set_rejected_bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.remarks().rejected = Some(bytes.escape_ascii().to_string().into());
        }
    }

    /// Returns when the request started, if its head arrived in one piece.
    pub fn whole_head_started(&self) -> Option<Instant> {
        self.whole_head_started
    }

    /// Records the end of the attempt that started at `began`, and the start of another.
    #[cold]
    pub fn begin_again(
        &mut self,
        pool: &Rc<Pool>,
        (status, reason): (u16, Reason),
        began: Instant,
        now: Instant,
    ) {
        let started = self.started().unwrap_or(began);
        let remarks = self.remarks();
        let began = if remarks.earlier.is_empty() { started } else { began };
        let took = now.saturating_duration_since(began);
        remarks.earlier.push(EarlierAttempt { pool: pool.clone(), status, reason, took });
        remarks.attempt_began = Some(now);
    }

    /// Whether the current attempt is not the first.
    pub fn has_earlier(&self) -> bool {
        self.remarks.as_ref().is_some_and(|remarks| !remarks.earlier.is_empty())
    }

    /// Keeps the head of the client's response.
    #[cold]
    pub fn keep_response(&mut self, head: &[u8]) {
        self.response.clear();
        self.response.extend_from_slice(head);
    }

    /// Returns when the request started.
    pub fn started(&self) -> Option<Instant> {
        self.open.map(|open| open.started)
    }
}

/// Closes the record: adds it to the statistics and to the log.
pub(crate) fn close(worker: &Worker, state: &mut RequestState, now: Instant) {
    let RequestState { request, record, policy_context, .. } = state;
    if !record.is_open() {
        return;
    }
    // The record stays open here, so that it is still closed if a policy panics.
    if let Some(context) = policy_context.take() {
        let RequestRecord { status, reason, bytes_out, .. } = *record;
        end(worker, context, &ExchangeOutcome { status, reason, bytes_out, now });
    }
    let Some(open) = record.open.take() else { return };
    let total = now.saturating_duration_since(open.started);
    // A short response ends with the read that brings its head.
    let header = record
        .head_received
        .map(|at| if at == now { total } else { at.saturating_duration_since(open.started) });
    worker.stats.record(&Tally {
        reason: record.reason,
        status: record.status,
        protocol: protocol(request),
        route_slot: record.route.as_ref().map_or(Slot::NONE, |(active, index)| active.slot(*index)),
        upstream_slot: record.upstream.as_ref().map_or(Slot::NONE, |upstream| upstream.slot),
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        header,
        total,
    });
    let mut log = worker.log.borrow_mut();
    let logs = record.route.as_ref().and_then(|(active, index)| active.route(*index).logs.as_deref());
    if log.takes(logs) {
        let was_empty = log.is_empty();
        let details = LogDetails { request, record };
        log.record_in(&log_record(&details, open, header, total), logs);
        if was_empty && !log.is_empty() {
            worker.log_due.set(now, Some(LOG_FLUSH));
        }
    }
    drop(log);
    record.route = None;
    record.upstream = None;
    record.endpoint = None;
    record.tls = None;
    record.remarks = None;
}

/// Tells policies that the request is over, and releases their state.
#[inline(never)]
fn end(worker: &Worker, mut context: Box<Context>, ended: &ExchangeOutcome) {
    context.end(ended);
    context.clear();
    if worker.contexts.put(context) {
        worker.shrink_later();
    }
}

fn protocol(request: &RequestHead) -> Protocol {
    match request.version {
        _ if request.head.bytes().is_empty() => Protocol::Unknown,
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
        Version::Http2 => Protocol::Http2,
    }
}

/// Closes the record of a request that cannot end normally: its task panicked, or its worker stops.
pub(crate) fn close_abandoned(worker: &Worker, state: &mut RequestState) {
    if state.record.is_open() {
        // Policies release their state, but do not see this as an end.
        state.policy_context = None;
        let panicked = std::thread::panicking();
        state.record.reason = if panicked { Reason::ProxyInternalError } else { Reason::ShuttingDown };
        close(worker, state, tollgate_net::now());
    }
}

/// The parts of a record that few logs use.
#[derive(Debug)]
struct LogDetails<'a> {
    request: &'a RequestHead,
    record: &'a RequestRecord,
}

impl Details for LogDetails<'_> {
    fn header(&self, name: &str, each: &mut dyn FnMut(&[u8])) {
        self.request.head.all_by_text(name.as_bytes()).for_each(each);
    }

    fn response_header(&self, name: &str, each: &mut dyn FnMut(&[u8])) {
        let lines = self.record.response.split(|byte| *byte == b'\n').skip(1);
        for line in lines {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            if line[..colon].eq_ignore_ascii_case(name.as_bytes()) {
                each(line[colon + 1..].trim_ascii());
            }
        }
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.request.head.cookie(name.as_bytes())
    }

    fn earlier(&self, index: usize) -> Option<EndpointAttempt<'_>> {
        let EarlierAttempt { pool, status, reason, took } =
            self.record.remarks.as_ref()?.earlier.get(index)?;
        Some(EndpointAttempt { endpoint: pool.name(), status: *status, reason: *reason, took: *took })
    }
}

fn log_record<'a>(
    details: &'a LogDetails<'a>,
    open: OpenRecord,
    header: Option<Duration>,
    total: Duration,
) -> Record<'a> {
    let LogDetails { request, record } = *details;
    let remarks = record.remarks.as_deref();
    let began = remarks.and_then(|remarks| remarks.attempt_began).unwrap_or(open.started);
    let known = !request.head.bytes().is_empty();
    let found = remarks.and_then(|remarks| remarks.found.as_ref());
    let slice = |range| if known { request.slice(range) } else { &[] };
    Record {
        reason: record.reason,
        status: record.status,
        grpc_status: record.grpc_status.map(GrpcStatus::number),
        detail: remarks.and_then(|remarks| remarks.detail.as_deref().or(remarks.rejected.as_deref())),
        client: record.announced.client(open.peer),
        peer: open.peer,
        secure: record.announced.is_secure(record.tls.is_some()),
        method: slice(request.method_text),
        target: slice(request.target),
        version: if known { request.version.as_str().as_bytes() } else { b"" },
        tls: record.tls.as_ref().map(|tls| tls.record()),
        host: Some(if known { record.announced.authority(request) } else { b"" })
            .filter(|host| !host.is_empty()),
        referer: request.head.get(Name::Referer),
        user_agent: request.head.get(Name::UserAgent),
        request_id: Some(record.request_id.as_slice()).filter(|id| !id.is_empty()),
        consumer: found.and_then(|found| Some(found.consumer.as_ref()?.name.as_str())),
        span: found.and_then(|found| found.span),
        route: record.route.as_ref().map_or("", |(active, index)| active.route(*index).name.as_str()),
        upstream: record.upstream.as_ref().map_or("", |upstream| upstream.name.as_str()),
        endpoint: record.endpoint.as_ref().map_or("", |pool| pool.name()),
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        attempts: record.attempts,
        reused: record.reused,
        started: open.started,
        connect: record.connect,
        header,
        total,
        earlier: remarks.map_or(0, |remarks| remarks.earlier.len()),
        attempt: (open.started + total).saturating_duration_since(began),
        details,
    }
}
