//! The record of one request: opened with its first byte, filled while it is handled, and closed on every way
//! out.
//!
//! Each step writes its results into the [`RequestRecord`] of the request state. [`close`](crate::state::close_record)
//! turns them into statistics and a line of the access log. Invariant: an open record is always closed, even
//! after a panic.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http::grpc::GrpcStatus;
use tollgate_observe::{Reason, WorkerStats};
use tollgate_policy::{Consumer, Context};
use tollgate_upstream::{Pool, Upstream};

use crate::state::active::ActivePlan;
use crate::state::active_policy::ActivePolicy;
use crate::state::announced::Announced;
use crate::state::client_tls::ClientTls;

/// The facts known about a request so far.
#[derive(Debug, Default)]
pub(crate) struct RequestRecord {
    pub open: Option<OpenRecord>,
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
    pub tls: Option<Rc<ClientTls>>,
    /// The head of the client's response, if a log contains fields of it.
    pub response: Vec<u8>,
    /// The client as trusted proxies announce it.
    pub announced: Announced,
    /// Facts that few requests have. Boxed: the others pay for a null pointer.
    pub remarks: Option<Box<Remarks>>,
}

/// The parts of a record that a plain request does not have.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    pub detail: Option<Cow<'static, str>>,
    /// The bytes for which a message was refused, escaped.
    pub rejected: Option<Box<str>>,
    /// Earlier attempts, for the log.
    pub earlier: Vec<EarlierAttempt>,
    /// The start of the current attempt, if it is not the first.
    pub attempt_began: Option<Instant>,
    /// The findings of policies.
    pub found: Option<PolicyFindings>,
    /// The policies that were evaluated, if requests are followed.
    pub policies: Vec<EvaluatedPolicy>,
    /// When they had been evaluated.
    pub policies_ended: Option<Instant>,
}

/// A policy and its verdict, for the trace of a request.
#[derive(Debug)]
pub(crate) struct EvaluatedPolicy {
    pub policy: Arc<ActivePolicy>,
    pub verdict: Cow<'static, str>,
    /// The cause of the wait.
    pub waited_for: Vec<&'static str>,
    pub waited: Option<Duration>,
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
    pub began: Instant,
    pub took: Duration,
    /// The upstream of its endpoint; a fallback's attempts go to another one.
    pub upstream: Option<Rc<Upstream>>,
    /// Time to open its connection.
    pub connect: Option<Duration>,
}

/// The part of a record that exists while it is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRecord {
    pub started: Instant,
    pub peer: SocketAddr,
}

impl RequestRecord {
    /// Opens the record of a request.
    #[inline]
    pub fn open(
        &mut self,
        stats: &WorkerStats,
        started: Instant,
        peer: SocketAddr,
        tls: Option<&Rc<ClientTls>>,
    ) {
        stats.request_started();
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
    pub fn discard(&mut self, stats: &WorkerStats) {
        if self.open.take().is_some() {
            stats.request_withdrawn();
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
        status: u16,
        reason: Reason,
        began: Instant,
        now: Instant,
    ) {
        let started = self.started().unwrap_or(began);
        let (upstream, connect) = (self.upstream.clone(), self.connect);
        let remarks = self.remarks();
        let began = if remarks.earlier.is_empty() { started } else { began };
        let took = now.saturating_duration_since(began);
        let pool = pool.clone();
        remarks.earlier.push(EarlierAttempt { pool, status, reason, began, took, upstream, connect });
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
