//! The input of a run: target, connections, requests, rate and length. A [`Plan`] is JSON for `tollgate bench
//! load`, and the laboratory builds one for each trial. [`Plan::check`] refuses whatever cannot be run, so
//! that the worker threads need no checks of their own.

use crate::digest::digest;
use crate::shape::{Stage, mean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tollgate_lab_record::{LoadModel, Verification};

/// One run of the generator. [`Plan::new`] has the defaults. In JSON, every field except `target` may be
/// omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The address to connect to.
    pub target: SocketAddr,
    /// Local addresses that the connections use in turn. Each provides the ports of
    /// `net.ipv4.ip_local_port_range`, about 28,000. If empty, the kernel chooses.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Threads, each with its own share of the connections and of the rate.
    #[serde(default = "one")]
    pub threads: u32,
    /// Cores that the threads use in turn. If empty, the kernel places the threads.
    #[serde(default)]
    pub cores: Vec<u32>,
    /// Connections over all threads: exactly this number, at least one for each thread.
    #[serde(default = "one")]
    pub connections: u32,
    /// The protocol above TCP or TLS.
    #[serde(default, skip_serializing_if = "Protocol::is_http1")]
    pub protocol: Protocol,
    /// Concurrent requests on each connection; more than 1 over HTTP/2 only.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub streams: u32,
    /// TLS 1.3 on every connection, with a full handshake and one pinned certificate: what the laboratory
    /// measures with. Plain text if this and `https` are omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// TLS as a browser uses it, with a verified certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Https>,
    /// Whether a connection carries many requests. Otherwise each request has its own connection and sends
    /// `Connection: close`.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// Whether requests are sent in a closed loop or at a rate.
    #[serde(default = "closed")]
    pub model: LoadModel,
    /// A rate that changes over time, from the start of the measurement. It replaces the rate of `model`,
    /// which then only says whether the gaps are even or random.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// A recording whose times and order replace the rate and the order of `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// How long each connection of a closed loop pauses after a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// The seed of the Poisson model and of random pauses.
    #[serde(default)]
    pub seed: u64,
    /// The requests, sent in turn, each as often as its weight says.
    #[serde(default = "root")]
    pub requests: Vec<Request>,
    /// Whether each connection is a user of its own, who sends all requests in order and keeps the values
    /// that [`Request::extract`] took. After a failure the user starts over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flow: bool,
    /// Rows of values for `{{column}}` in the requests. Each request (of a flow: each pass) takes the next
    /// row; after the last one follows the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// When the measurement ends.
    #[serde(default = "ten_seconds")]
    pub length: Length,
    /// Seconds of load before the measurement.
    #[serde(default)]
    pub warm_up: f64,
    /// Seconds over which connections are opened, evenly, under load. The ramp precedes the warm-up and is
    /// not measured. With 0, all connections are open before the first request.
    #[serde(default)]
    pub ramp: f64,
    /// Seconds after which a request times out, counted from when it begins, connecting included. Checked 20
    /// times in that span.
    #[serde(default = "two_seconds")]
    pub time_limit: f64,
    /// How closely each response is verified: `Full`, or `Status` for responses that differ from each other.
    #[serde(default = "full")]
    pub verification: Verification,
}

/// The protocol above TCP or TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: by ALPN over TLS, with prior knowledge in plain text.
    Http2,
    /// Unary gRPC calls over HTTP/2. A request's body is one message, without its prefix.
    Grpc,
    /// gRPC streams over HTTP/2, each kept open: a request is one message on the stream, and its response is
    /// the next message from the server.
    GrpcStream,
    /// WebSocket over HTTP/1.1: a request is one message, and its response is the next message from the
    /// server.
    WebSocket,
    /// Server-sent events over HTTP/1.1: each event counts as one response, to a request that began when the
    /// previous event arrived.
    Sse,
}

impl Protocol {
    fn is_http1(&self) -> bool {
        *self == Self::Http1
    }

    /// Returns whether the protocol runs over HTTP/2.
    pub fn is_over_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcStream)
    }

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Grpc => "gRPC",
            Self::GrpcStream => "gRPC streams",
            Self::WebSocket => "WebSocket",
            Self::Sse => "server-sent events",
        }
    }
}

/// TLS 1.2 or 1.3 with an ordinary certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Https {
    /// The name, or address, that the certificate must be valid for.
    pub name: String,
    /// The accepted certificates.
    #[serde(default)]
    pub trust: Trust,
    /// PEM file with the client's own certificate chain.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// PEM file with the key of `certificate`.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// The certificates that a client accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Certificates that an authority of this machine has signed.
    #[default]
    Platform,
    /// Certificates that an authority in this PEM file has signed.
    Authorities(PathBuf),
    /// Any certificate, for any name.
    Anything,
}

/// A recording to repeat. It starts with the load, and over again at the end of its period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Microseconds from the start of the recording, ascending, one for each exchange.
    pub times_us: Vec<u64>,
    /// For each exchange, the index of its request in [`Plan::requests`].
    pub order: Vec<u32>,
    /// Microseconds after which the recording starts over.
    pub period_us: u64,
}

impl Replay {
    /// Returns the mean rate in requests per second.
    pub fn rps(&self) -> f64 {
        self.times_us.len() as f64 * 1e6 / self.period_us.max(1) as f64
    }
}

/// A pause between a response and the next request on the same connection, evenly distributed, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// The shortest pause.
    pub least: f64,
    /// The longest pause.
    pub most: f64,
}

/// A table of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<String>>,
}

/// The place of a value in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Extract {
    /// In a JSON body, at this pointer (RFC 6901), such as `/items/0/id`.
    Json(String),
    /// In this header field.
    Header(String),
    /// In the body: the first group of this regular expression, or its whole match without a group.
    Pattern(String),
}

/// TLS to the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the only certificate that the target may present.
    pub certificate: PathBuf,
    /// PEM file of the certificate's private key; if given, the client presents the same certificate.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Length {
    /// After this number of seconds.
    Seconds(f64),
    /// After this number of requests over all threads.
    Requests(u64),
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Value of `Host`; the target's address if omitted.
    #[serde(default)]
    pub host: Option<String>,
    /// Further header fields, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body; `Content-Length` is set from it.
    #[serde(default)]
    pub body: Option<Body>,
    /// The expected response.
    #[serde(default)]
    pub expect: Expect,
    /// How often the request is sent, relative to the others.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
    /// Values to take from each good response, by the name that later requests of the flow use as `{{name}}`.
    /// A response without the value counts as one with a wrong body.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extract: BTreeMap<String, Extract>,
}

/// A request's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Body {
    /// This text.
    Text(String),
    /// This number of bytes, all `p`.
    Bytes(usize),
    /// Exactly these bytes.
    Raw(Vec<u8>),
}

/// The expected response. Fields that are omitted are learnt from the first response with the right status;
/// if all are, and only the status is verified, every 2xx and 3xx is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// The status; if omitted, the first 2xx sets it.
    pub status: Option<u16>,
    /// Length of the body in bytes.
    pub length: Option<u64>,
    /// [`digest`] of the body.
    pub digest: Option<u64>,
}

impl Expect {
    /// Expects exactly this status and body.
    pub fn exactly(status: u16, body: &[u8]) -> Self {
        Self { status: Some(status), length: Some(body.len() as u64), digest: Some(digest(body)) }
    }
}

impl Request {
    /// Creates a `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self {
            method: get(),
            path: path.to_owned(),
            host: None,
            headers: Vec::new(),
            body: None,
            expect: Expect::default(),
            weight: 1,
            extract: BTreeMap::new(),
        }
    }
}

impl Plan {
    /// Creates a plan of a closed loop on one keep-alive connection of one thread, which requests `/` for ten
    /// seconds.
    pub fn new(target: SocketAddr) -> Self {
        Self {
            target,
            sources: Vec::new(),
            threads: 1,
            cores: Vec::new(),
            connections: 1,
            protocol: Protocol::Http1,
            streams: 1,
            tls: None,
            https: None,
            keep_alive: true,
            model: LoadModel::Closed,
            stages: Vec::new(),
            replay: None,
            think: None,
            seed: 0,
            requests: root(),
            flow: false,
            data: None,
            length: ten_seconds(),
            warm_up: 0.0,
            ramp: 0.0,
            time_limit: two_seconds(),
            verification: Verification::Full,
        }
    }

    /// Returns how requests are sent, with the mean rate of `stages` or `replay` if there is one.
    pub fn arrivals(&self) -> LoadModel {
        if let Some(replay) = &self.replay {
            return LoadModel::Constant { rps: replay.rps() };
        }
        let Length::Seconds(seconds) = self.length else { return self.model };
        match (self.stages.is_empty(), self.model) {
            (true, model) => model,
            (false, LoadModel::Poisson { .. }) => LoadModel::Poisson { rps: mean(&self.stages, seconds) },
            (false, _) => LoadModel::Constant { rps: mean(&self.stages, seconds) },
        }
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn yes() -> bool {
    true
}

fn closed() -> LoadModel {
    LoadModel::Closed
}

fn get() -> String {
    "GET".into()
}

fn root() -> Vec<Request> {
    vec![Request::get("/")]
}

fn ten_seconds() -> Length {
    Length::Seconds(10.0)
}

fn two_seconds() -> f64 {
    2.0
}

fn full() -> Verification {
    Verification::Full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new(SocketAddr::from(([127, 0, 0, 1], 80)))
    }

    #[test]
    fn json_with_a_target_alone_is_the_default_plan() {
        let plan: Plan = serde_json::from_str(r#"{"target":"127.0.0.1:80"}"#).unwrap();
        assert_eq!(plan, self::plan());
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
