//! The record of one connection or session of layer 4, for statistics and log.
//!
//! The front opens a [`StreamRecord`] when a connection arrives, and the stream fills it. Dropping it closes the record
//! on every way out: after a panic, and when the worker stops.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_listen::StreamSlot;
use tollgate_observe::{Reason, Record, StreamCounts};
use tollgate_upstream::{Pool, Upstream};

use crate::state::client_tls::ClientTls;
use crate::state::close_record::LOG_FLUSH;
use crate::state::stream_facts::{FailedConnect, StreamFacts, StreamRemarks};
use crate::state::stream_states::StreamState;
use crate::state::worker::Worker;

/// The name under which connections are counted that no stream takes.
const NO_STREAM: &str = "-";

/// The record of one connection or session.
#[derive(Debug)]
pub(crate) struct StreamRecord {
    worker: Rc<Worker>,
    counts: Option<Arc<StreamCounts>>,
    state: Option<Rc<StreamState>>,
    /// Its place within the bounds of the stream.
    slot: Option<StreamSlot>,
    protocol: &'static str,
    client: SocketAddr,
    started: Instant,
    pub upstream: Option<Rc<Upstream>>,
    pub endpoint: Option<Rc<Pool>>,
    /// The TLS connection, if the gateway terminated it.
    pub tls: Option<Rc<ClientTls>>,
    /// The server name and ALPN of a client whose TLS is passed through.
    pub passed: Option<Box<PassedTls>>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub connect: Option<Duration>,
    pub attempts: u8,
    /// Why it ended; `None` while it lasts.
    reason: Option<Reason>,
    /// Facts for a trace only. Present if a client followed traces when the record was opened.
    remarks: Option<Box<StreamRemarks>>,
}

/// The parts of a ClientHello that the log shows.
#[derive(Debug, Default)]
pub(crate) struct PassedTls {
    pub server_name: Option<Box<str>>,
    pub alpn: Box<[u8]>,
    /// The JA4 fingerprint, if a log takes it.
    pub ja4: Option<Box<str>>,
}

impl StreamRecord {
    /// Opens the record of a connection or session that arrived at `started`.
    pub fn new(worker: &Rc<Worker>, protocol: &'static str, client: SocketAddr, started: Instant) -> Self {
        Self {
            worker: worker.clone(),
            counts: None,
            state: None,
            slot: None,
            protocol,
            client,
            started,
            upstream: None,
            endpoint: None,
            tls: None,
            passed: None,
            bytes_in: 0,
            bytes_out: 0,
            connect: None,
            attempts: 0,
            reason: None,
            remarks: (!worker.followers.borrow().is_empty()).then(Box::default),
        }
    }

    /// Records that an attempt to connect to an endpoint begins.
    pub fn attempt_began(&mut self, endpoint: &Rc<Pool>, now: Instant) {
        self.endpoint = Some(endpoint.clone());
        self.attempts = self.attempts.saturating_add(1);
        if let Some(remarks) = &mut self.remarks {
            remarks.began = Some(now);
        }
    }

    /// Records that the attempt has a connection, whose opening took this long.
    pub fn attempt_connected(&mut self, took: Option<Duration>) {
        self.connect = took;
        if let Some(remarks) = &mut self.remarks {
            remarks.connected = Some(tollgate_net::now());
        }
    }

    /// Records that the attempt failed for this reason, and that another one follows.
    pub fn attempt_failed(&mut self, endpoint: &Rc<Pool>, reason: Reason) {
        if let Some(remarks) = &mut self.remarks {
            let (began, ended) = (remarks.began, tollgate_net::now());
            remarks.earlier.push(FailedConnect { endpoint: endpoint.clone(), reason, began, ended });
        }
    }

    /// Records the stream that takes the connection, and the connection's place.
    pub fn taken(&mut self, state: &Rc<StreamState>, slot: Option<StreamSlot>) {
        if let Some(remarks) = &mut self.remarks {
            remarks.chosen = Some(tollgate_net::now());
        }
        state.counts.begun();
        self.counts = Some(state.counts.clone());
        self.state = Some(state.clone());
        self.slot = slot;
    }

    /// Returns the stream that takes the connection.
    pub fn state(&self) -> Option<&Rc<StreamState>> {
        self.state.as_ref()
    }

    /// Returns the worker.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Returns when the connection arrived.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Records why the connection ends. The first reason counts.
    pub fn end(&mut self, reason: Reason) {
        self.reason.get_or_insert(reason);
    }

    /// Counts bytes that moved since the last call.
    pub fn count_moved(&self, bytes_in: u64, bytes_out: u64) {
        if let Some(counts) = &self.counts {
            counts.moved(bytes_in, bytes_out);
        }
    }

    fn close(&mut self) {
        let reason = self.reason.unwrap_or(match std::thread::panicking() {
            true => Reason::ProxyInternalError,
            false => Reason::ShuttingDown,
        });
        let now = tollgate_net::now();
        let total = now.saturating_duration_since(self.started);
        let counts = self.counts.take().unwrap_or_else(|| {
            let counts = self.worker.stats.stream(NO_STREAM);
            counts.begun();
            counts
        });
        counts.ended(reason, total);
        let mut log = self.worker.log.borrow_mut();
        if !log.takes(None) {
            return;
        }
        let was_empty = log.is_empty();
        let passed = self.passed.as_deref();
        let record = Record {
            reason,
            status: 0,
            grpc_status: None,
            detail: None,
            client: self.client,
            peer: self.client,
            is_stream: true,
            secure: self.tls.is_some() || passed.is_some(),
            method: b"",
            target: b"",
            version: self.protocol.as_bytes(),
            tls: self.tls.as_ref().map(|tls| tls.record()),
            sni: passed.and_then(|passed| passed.server_name.as_deref()),
            alpn: passed.map(|passed| &*passed.alpn).filter(|alpn| !alpn.is_empty()),
            ja4: passed.and_then(|passed| passed.ja4.as_deref()),
            host: None,
            referer: None,
            user_agent: None,
            request_id: None,
            cache: None,
            consumer: None,
            span: None,
            route: self.state.as_ref().map_or("", |state| state.stream.name.as_str()),
            upstream: self.upstream.as_ref().map_or("", |upstream| upstream.name.as_str()),
            endpoint: self.endpoint.as_ref().map_or("", |pool| pool.name()),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            attempts: self.attempts,
            reused: false,
            started: self.started,
            connect: self.connect,
            header: None,
            total,
            earlier: 0,
            attempt: total,
            details: &(),
        };
        log.record_in(&record, None);
        if was_empty && !log.is_empty() {
            self.worker.log_due.set(now, Some(LOG_FLUSH));
        }
        if log.is_followed() {
            let facts = StreamFacts {
                stream: self.state.as_ref().map(|state| &*state.stream),
                is_passed: passed.is_some(),
                has_endpoint: self.endpoint.is_some(),
                remarks: self.remarks.as_deref(),
            };
            self.worker.followers.borrow().gather_stream(self.worker.id, &facts, &record);
        }
    }
}

impl Drop for StreamRecord {
    fn drop(&mut self) {
        self.close();
    }
}
