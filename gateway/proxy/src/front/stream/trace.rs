//! Builds the trace of a finished layer 4 stream, for `tollgate trace`.
//!
//! The worker calls [`trace`] when it closes the record of a stream while a client of the admin API follows traces. The
//! times of the steps come from the record's [remarks](StreamFacts::remarks). A stream has remarks only if a client
//! already followed when the stream opened, so that tracing costs nothing otherwise. The trace of an older stream has
//! steps without times.

use std::time::{Duration, Instant};

use tollgate_observe::trace::{RequestTrace, TraceEvent, TraceStep, TraceStream, milliseconds, printable};
use tollgate_observe::{Reason, Record};

use crate::front::trace::{TEXT_MAX_BYTES, reason, started, tls};
use crate::state::followers::GatheredTrace;
use crate::state::stream_facts::{FailedConnect, StreamFacts};

/// Builds the trace of a finished stream. `worker`: the number of the worker that carried it.
pub(crate) fn trace(worker: usize, stream: &StreamFacts<'_>, record: &Record<'_>) -> GatheredTrace {
    let remarks = stream.remarks;
    let since_start = |at: Instant| at.saturating_duration_since(record.started);
    let chosen = remarks.and_then(|remarks| remarks.chosen).map(since_start);
    let mut steps = Steps(Vec::new());
    steps.add(
        Some(Duration::ZERO),
        TraceEvent::Accepted { client: record.client.to_string(), tls: tls(record) },
    );
    if stream.is_passed {
        let alpn = record.alpn.unwrap_or_default().split(|byte| *byte == b',');
        let event = TraceEvent::ClientHello {
            server_name: record.sni.map(str::to_owned),
            alpn: alpn.filter(|name| !name.is_empty()).map(|name| printable(name, TEXT_MAX_BYTES)).collect(),
        };
        steps.add(chosen, event);
    }
    match stream.stream {
        Some(chosen_stream) => {
            let action = if chosen_stream.shares.is_empty() { "close" } else { "forward" };
            let event = TraceEvent::Stream { name: chosen_stream.name.clone(), action: action.to_owned() };
            steps.add(chosen, event);
        }
        None if record.reason == Reason::NoStream => steps.add(None, TraceEvent::NoStream),
        None => {}
    }
    let earlier = remarks.map_or(&[][..], |remarks| &remarks.earlier);
    for (index, FailedConnect { endpoint, reason: failed, began, ended }) in earlier.iter().enumerate() {
        let event = TraceEvent::Connect {
            number: index + 1,
            upstream: record.upstream.to_owned(),
            endpoint: endpoint.name().to_owned(),
            connect_ms: None,
            reason: reason(*failed),
            took_ms: began.map(|began| milliseconds(ended.saturating_duration_since(began))),
        };
        steps.add(began.map(since_start), event);
    }
    if stream.has_endpoint {
        let began = remarks.and_then(|remarks| remarks.began).map(since_start);
        let connected = remarks.and_then(|remarks| remarks.connected).map(since_start);
        let is_connected = record.connect.is_some();
        let ended = if is_connected { connected } else { Some(record.total) };
        let event = TraceEvent::Connect {
            number: record.attempts.into(),
            upstream: record.upstream.to_owned(),
            endpoint: record.endpoint.to_owned(),
            connect_ms: record.connect.map(milliseconds),
            reason: if is_connected { None } else { reason(record.reason) },
            took_ms: began.zip(ended).map(|(began, ended)| milliseconds(ended.saturating_sub(began))),
        };
        steps.add(began, event);
        if is_connected {
            let event = TraceEvent::Relay { bytes_in: record.bytes_in, bytes_out: record.bytes_out };
            steps.add(connected, event);
        }
    }
    let event = TraceEvent::End {
        reason: reason(record.reason),
        detail: None,
        grpc_status: None,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
    };
    steps.add(Some(record.total), event);
    let server_name = record.sni.or(record.tls.as_ref().and_then(|tls| tls.server_name));
    let trace = RequestTrace {
        stream: Some(TraceStream {
            protocol: String::from_utf8_lossy(record.version).into_owned(),
            name: stream.stream.map(|stream| stream.name.clone()),
        }),
        started: started(record),
        worker,
        method: None,
        host: server_name.map(str::to_owned),
        target: None,
        request_id: None,
        status: 0,
        reason: reason(record.reason),
        total_ms: milliseconds(record.total),
        steps: steps.0,
    };
    GatheredTrace { trace, question: None }
}

/// The steps of a trace so far.
struct Steps(Vec<TraceStep>);

impl Steps {
    fn add(&mut self, at: Option<Duration>, event: TraceEvent) {
        self.0.push(TraceStep { at_ms: at.map(milliseconds), event });
    }
}
