//! Closes the record of a request: turns it into statistics and a line of the access log, and ends the
//! policies' contexts.
//!
//! [`close`] is the usual end. [`close_abandoned`] is the end of a request whose task panicked, or whose
//! worker stops; the guard of the request state calls it.

use std::time::{Duration, Instant};

use tollgate_http::grpc::GrpcStatus;
use tollgate_http::{Method, Name, RequestHead, Version};
use tollgate_observe::{Details, EndpointAttempt, Protocol, Reason, Record, RequestMethod, Slot, Tally};
use tollgate_policy::{CacheOutcome, Context, ExchangeOutcome};
use tollgate_upstream::Upstream;

use crate::state::record::{EarlierAttempt, OpenRecord, Remarks, RequestRecord};
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How long log lines may wait in a worker before they go to the log's writer.
pub(crate) const LOG_FLUSH: Duration = Duration::from_millis(100);

/// Closes the record: adds it to the statistics and to the log.
pub(crate) fn close(worker: &Worker, state: &mut RequestState, now: Instant) {
    if !state.record.is_open() {
        return;
    }
    // The record stays open here, so that it is still closed if a policy panics.
    let mut cache = None;
    if let Some(context) = state.policy_context.take() {
        cache = context.cache.as_ref().and_then(|cache| cache.outcome);
        let RequestRecord { status, reason, bytes_out, .. } = state.record;
        end(worker, context, &ExchangeOutcome { status, reason, bytes_out, now });
    }
    let Some(open) = state.record.open.take() else { return };
    let RequestState { request, record, .. } = &*state;
    let total = now.saturating_duration_since(open.started);
    // A short response ends with the read that brings its head.
    let header = record
        .head_received
        .map(|at| if at == now { total } else { at.saturating_duration_since(open.started) });
    let route = record.route.as_ref();
    let tally = Tally {
        reason: record.reason,
        status: record.status,
        protocol: protocol(request),
        method: method(request),
        route_slot: route.map_or(Slot::NONE, |(active, index)| active.slot(*index)),
        upstream_slot: record.upstream.as_ref().map_or(Slot::NONE, |upstream| upstream.slot),
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        header,
        total,
    };
    worker.stats.record(&tally, || route.map_or(Slot::NONE, |(active, index)| active.claim_slot(*index)));
    let mut log = worker.log.borrow_mut();
    let logs = record.route.as_ref().and_then(|(active, index)| active.route(*index).logs.as_deref());
    if log.takes(logs) {
        let was_empty = log.is_empty();
        let details = LogDetails { request, record, cache };
        let closed = log_record(&details, open, header, total);
        log.record_in(&closed, logs);
        if was_empty && !log.is_empty() {
            worker.log_due.set(now, Some(LOG_FLUSH));
        }
        // `takes` is true for every request that is followed, so the others pay nothing for this test unless
        // a log takes them.
        if log.is_followed() {
            let plan = &worker.active.borrow().plan;
            worker.followers.borrow().gather(worker.id, plan, state, &closed);
        }
    }
    drop(log);
    let record = &mut state.record;
    record.route = None;
    let upstream = record.upstream.take();
    record.endpoint = None;
    record.tls = None;
    if let Some(remarks) = record.remarks.take() {
        count_retried(worker, upstream.as_deref(), &remarks, record);
    }
}

/// Counts a request that took more than one attempt, with its outcome.
#[cold]
fn count_retried(worker: &Worker, upstream: Option<&Upstream>, remarks: &Remarks, record: &RequestRecord) {
    if let (Some(upstream), false) = (upstream, remarks.earlier.is_empty()) {
        let succeeded = record.reason == Reason::None && (1..500).contains(&record.status);
        worker.stats.upstream_retry_ended(upstream.slot, succeeded);
    }
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

fn method(request: &RequestHead) -> RequestMethod {
    if request.head.bytes().is_empty() {
        return RequestMethod::Unknown;
    }
    match request.method {
        Method::Get => RequestMethod::Get,
        Method::Head => RequestMethod::Head,
        Method::Post => RequestMethod::Post,
        Method::Put => RequestMethod::Put,
        Method::Delete => RequestMethod::Delete,
        Method::Options => RequestMethod::Options,
        Method::Patch => RequestMethod::Patch,
        Method::Trace => RequestMethod::Trace,
        Method::Connect => RequestMethod::Connect,
        Method::Other => RequestMethod::Other,
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
    cache: Option<CacheOutcome>,
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
        let EarlierAttempt { pool, status, reason, took, .. } =
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
    let LogDetails { request, record, cache } = *details;
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
        is_stream: false,
        secure: record.announced.is_secure(record.tls.is_some()),
        method: slice(request.method_text),
        target: slice(request.target),
        version: if known { request.version.as_str().as_bytes() } else { b"" },
        tls: record.tls.as_ref().map(|tls| tls.record()),
        sni: None,
        alpn: None,
        ja4: None,
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
        cache: cache.map(CacheOutcome::as_str),
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
