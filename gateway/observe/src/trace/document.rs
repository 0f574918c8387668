//! The trace of one request, or of one stream of layer 4, as the API sends it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TraceHead;

/// How the gateway handled one request or one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTrace {
    /// The stream of layer 4; `None`: a request of HTTP. A stream has no method, target, id and status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<TraceStream>,
    /// When the first byte of the request, or the connection, arrived, in seconds since 1970.
    pub started: f64,
    /// The number of the worker that handled it.
    pub worker: usize,
    /// The method; `None`: the request line could not be read.
    pub method: Option<String>,
    /// The requested host, with its port, or the server name of a TLS handshake.
    pub host: Option<String>,
    /// The target as sent, with masked query; `None`: the request line could not be read.
    pub target: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// The status that the client got; 0: none.
    pub status: u16,
    /// Why the gateway answered, or ended, the exchange itself.
    pub reason: Option<String>,
    /// From the first byte of the request to the end of the exchange, in milliseconds.
    pub total_ms: f64,
    /// The steps, in the order in which the gateway took them.
    pub steps: Vec<TraceStep>,
}

/// The stream of layer 4 that a trace is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStream {
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// Its name; `None`: no stream took the connection.
    pub name: Option<String>,
}

/// A line for the traces that a follower did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTraces {
    /// Their number since the previous such line.
    pub lost: u64,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    /// When it was done, or when an attempt began, in milliseconds after the first byte of the request;
    /// `None`: not measured.
    pub at_ms: Option<f64>,
    /// The event.
    #[serde(flatten)]
    pub event: TraceEvent,
}

/// One step of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TraceEvent {
    /// The connection on which the request arrived.
    Connection {
        /// The other end of the connection.
        peer: String,
        /// The client, if trusted proxies announce another address than the peer's.
        client: Option<String>,
        /// The TLS properties; `None`: plain text.
        tls: Option<TraceTls>,
    },
    /// A connection, or the first datagram of a session, arrived for a stream.
    Accepted {
        /// The client.
        client: String,
        /// The TLS properties, if the gateway terminates TLS.
        tls: Option<TraceTls>,
    },
    /// The ClientHello of a connection that passes through was read.
    ClientHello {
        /// The server name (SNI).
        server_name: Option<String>,
        /// The protocols that the client offers.
        alpn: Vec<String>,
    },
    /// A stream was chosen.
    Stream {
        /// Its name.
        name: String,
        /// `forward` or `close`.
        action: String,
    },
    /// No stream takes the connection.
    NoStream,
    /// A connection to an endpoint was opened for a stream, or failed.
    Connect {
        /// Its number, from 1.
        number: usize,
        /// The upstream.
        upstream: String,
        /// The address of the endpoint.
        endpoint: String,
        /// Time to open the connection; `None`: it was not opened.
        connect_ms: Option<f64>,
        /// Why it failed.
        reason: Option<String>,
        /// How long it took with its wait in the queue, in milliseconds; `None`: not measured.
        took_ms: Option<f64>,
    },
    /// The bytes of a stream were relayed.
    Relay {
        /// Bytes from the client.
        bytes_in: u64,
        /// Bytes to the client.
        bytes_out: u64,
    },
    /// The request was read.
    Request {
        /// The version of HTTP.
        version: String,
        /// Its head. The policies' changes are included.
        #[serde(flatten)]
        head: TraceHead,
    },
    /// The request could not be read.
    Unreadable {
        /// The bytes for which it is refused, escaped and without credentials.
        bytes: Option<String>,
    },
    /// A route was chosen.
    Route {
        /// Its name.
        name: String,
        /// Its action: `forward`, `respond` or `redirect`.
        action: String,
        /// Its conditions, all of which hold.
        because: Vec<String>,
        /// The routes that match too, with the reason why this one wins.
        others: Vec<OtherRoute>,
        /// How many further routes match too.
        more_others: usize,
    },
    /// No route takes the request.
    NoRoute {
        /// The routes that came nearest.
        nearest: Vec<OtherRoute>,
    },
    /// A policy was evaluated.
    Policy {
        /// Its key in the configuration.
        kind: String,
        /// The place it is attached to: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
        place: String,
        /// Its decision.
        verdict: String,
        /// The calls and queues that it waited for, if it did not decide at once.
        waited_for: Vec<String>,
        /// How long it waited, in milliseconds.
        waited_ms: Option<f64>,
    },
    /// A policy identified the client.
    Consumer {
        /// The name of the consumer.
        name: String,
    },
    /// The request was sent to an endpoint, or an attempt at that failed.
    Attempt {
        /// Its number, from 1.
        number: usize,
        /// The upstream.
        upstream: String,
        /// The address of the endpoint.
        endpoint: String,
        /// Whether it used a connection from the pool; `None`: it had none.
        reused: Option<bool>,
        /// Time to open the connection; `None`: none was opened.
        connect_ms: Option<f64>,
        /// The status of the response; `None`: there was none.
        status: Option<u16>,
        /// Why it failed.
        reason: Option<String>,
        /// How long it took, in milliseconds.
        took_ms: f64,
    },
    /// The request as it was sent to the endpoint of the last attempt.
    Sent {
        /// The request line without its version, and the fields.
        #[serde(flatten)]
        head: TraceHead,
        /// Bytes of the body.
        bytes: u64,
    },
    /// The head of the endpoint's response arrived.
    Received {
        /// Its status and fields.
        #[serde(flatten)]
        head: TraceHead,
    },
    /// The response as it was sent to the client.
    Response {
        /// Its author: `endpoint` or `gateway`.
        by: String,
        /// Its status and fields.
        #[serde(flatten)]
        head: TraceHead,
        /// Bytes of the body.
        bytes: u64,
    },
    /// The exchange ended.
    End {
        /// Why the gateway answered, or ended, the exchange itself.
        reason: Option<String>,
        /// Details of the reason.
        detail: Option<String>,
        /// The final `grpc-status` of a gRPC call.
        grpc_status: Option<u8>,
        /// Bytes of the request's body.
        bytes_in: u64,
        /// Bytes of the response's body.
        bytes_out: u64,
    },
}

/// The TLS properties of the client's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceTls {
    /// `1.2` or `1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The server name from the handshake (SNI).
    pub server_name: Option<String>,
    /// The subject of the client's certificate.
    pub client_subject: Option<String>,
}

/// A route that does not take the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRoute {
    /// Its name.
    pub name: String,
    /// Why it does not take the request.
    pub why: String,
}

/// Returns a duration in milliseconds, to the microsecond.
#[must_use]
pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

/// Returns bytes of a peer as text without control characters, at most `bytes_max` of them.
#[must_use]
pub fn printable(bytes: &[u8], bytes_max: usize) -> String {
    let shown = &bytes[..bytes.len().min(bytes_max)];
    let mut text: String = shown
        .iter()
        .map(|byte| match byte {
            b' '..=b'~' => char::from(*byte).to_string(),
            other => format!("\\x{other:02x}"),
        })
        .collect();
    if shown.len() < bytes.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_flat_object() {
        let head = TraceHead { line: "200".to_owned(), fields: Vec::new(), more_fields: 0 };
        let step = TraceStep { at_ms: Some(1.25), event: TraceEvent::Received { head } };
        let json = serde_json::to_value(&step).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({
                "at_ms": 1.25, "step": "received", "line": "200", "fields": [], "more_fields": 0
            })
        );
        assert_eq!(serde_json::from_value::<TraceStep>(json).expect("the same"), step);
    }

    #[test]
    fn bytes_of_peers_cannot_move_the_cursor() {
        assert_eq!(printable(b"a\x1b[2J\xff\r\n", 100), "a\\x1b[2J\\xff\\x0d\\x0a");
        assert_eq!(printable(b"abcdef", 3), "abc...");
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.234);
    }
}
