//! The input of a run: target, connections, requests, rate and length. A [`Plan`] is JSON for `tollgate bench
//! load`, and the laboratory builds one for each trial. [`Plan::check`] refuses whatever cannot be run, so
//! that the worker threads need no checks of their own.

use crate::expect::digest;
use crate::failure::Failure;
use crate::shape::{Stage, mean};
use crate::token::is_token;
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

    /// Checks the plan.
    ///
    /// # Errors
    /// [`Failure::Plan`] with the field and what it should be.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        if self.threads == 0 || self.connections < self.threads {
            return wrong(format!(
                "{} connections over {} threads: expected at least one thread and a connection for each",
                self.connections, self.threads
            ));
        }
        if self.requests.is_empty() {
            return wrong("`requests` is empty: expected at least one".into());
        }
        for (name, seconds) in [("warm_up", self.warm_up), ("ramp", self.ramp)] {
            if !(0.0..=LONGEST).contains(&seconds) {
                return wrong(format!("`{name}` is {seconds}: expected 0 to {LONGEST} seconds"));
            }
        }
        if !(0.001..=LONGEST).contains(&self.time_limit) {
            return wrong(format!(
                "`time_limit` is {}: expected 0.001 to {LONGEST} seconds",
                self.time_limit
            ));
        }
        match self.length {
            Length::Seconds(seconds) if !(0.001..=LONGEST).contains(&seconds) => {
                return wrong(format!("`length` is {seconds} seconds: expected 0.001 to {LONGEST}"));
            }
            Length::Requests(0) => return wrong("`length` is 0 requests: expected at least 1".into()),
            _ => {}
        }
        if let Some(rate) = self.arrivals().rps()
            && !(0.001..=FASTEST).contains(&rate)
        {
            return wrong(format!("the rate is {rate}: expected 0.001 to {FASTEST} requests a second"));
        }
        self.check_course()?;
        self.check_protocol()?;
        if let Some(source) = self.sources.iter().find(|ip| ip.is_ipv4() != self.target.is_ipv4()) {
            return wrong(format!("source {source} cannot reach {}: another IP version", self.target));
        }
        self.requests.iter().try_for_each(Request::check)?;
        crate::template::Names::of(self).map(drop)
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

    /// Checks the fields that say when a request is sent and which one.
    fn check_course(&self) -> Result<(), Failure> {
        let wrong = |what: &str| Err(Failure::Plan(what.to_owned()));
        if let Some(stage) = self.stages.iter().find(|stage| {
            !(0.001..=LONGEST).contains(&stage.seconds)
                || ![stage.from, stage.to].iter().all(|rate| (0.0..=FASTEST).contains(rate))
        }) {
            return Err(Failure::Plan(format!(
                "the stage from {} to {} over {} s: expected rates of 0 to {FASTEST} and 0.001 to {LONGEST} seconds",
                stage.from, stage.to, stage.seconds
            )));
        }
        let timed = !self.stages.is_empty() || self.replay.is_some();
        if timed && matches!(self.length, Length::Requests(_)) {
            return wrong("`length` counts requests: with `stages` or `replay`, expected seconds");
        }
        if let Some(replay) = &self.replay {
            if !self.stages.is_empty() || self.flow {
                return wrong(
                    "`replay` has times and an order of its own: expected neither `stages` nor `flow`",
                );
            }
            let known = |at: &u32| (*at as usize) < self.requests.len();
            if replay.times_us.is_empty()
                || replay.times_us.len() != replay.order.len()
                || !replay.times_us.is_sorted()
                || !replay.order.iter().all(known)
                || replay.times_us.last().is_some_and(|last| *last >= replay.period_us)
            {
                return wrong(
                    "`replay`: expected ascending times below the period, and for each the index of a request",
                );
            }
        }
        if let Some(Think { least, most }) = self.think {
            if !(0.0..=most).contains(&least) || !(0.0..=LONGEST).contains(&most) {
                return wrong("`think`: expected pauses of 0 seconds or more, the shortest first");
            }
            if self.arrivals() != LoadModel::Closed {
                return wrong(
                    "`think` is for a closed loop: a rate decides by itself when a request is sent",
                );
            }
        }
        if !self.requests.iter().any(|request| request.weight > 0) {
            return wrong("every `weight` is 0: expected one above 0");
        }
        if self.requests.iter().map(|request| u64::from(request.weight)).sum::<u64>() > MOST_WEIGHT {
            return Err(Failure::Plan(format!(
                "the weights add up to more than {MOST_WEIGHT}: use smaller ones"
            )));
        }
        if !self.flow && self.requests.iter().any(|request| !request.extract.is_empty()) {
            return wrong("`extract` needs `flow`: only the same user can use the value later");
        }
        match &self.data {
            Some(data) if data.rows.is_empty() => wrong("`data` has no rows: expected at least one"),
            Some(data) if data.rows.iter().any(|row| row.len() != data.columns.len()) => {
                wrong("`data`: expected a value for each column in every row")
            }
            _ => Ok(()),
        }
    }

    /// Checks that the protocol can do what the plan asks.
    fn check_protocol(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        let name = self.protocol.name();
        if self.tls.is_some() && self.https.is_some() {
            return wrong("both `tls` and `https`: expected at most one".into());
        }
        if let Some(Https { certificate, key, .. }) = &self.https
            && certificate.is_some() != key.is_some()
        {
            return wrong("`https` has only one of `certificate` and `key`: expected both or neither".into());
        }
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return wrong(format!("`streams` is {}: expected 1 to {MOST_STREAMS}", self.streams));
        }
        if self.streams > 1 && !self.protocol.is_over_http2() {
            return wrong(format!(
                "`streams` is {}, but {name} has one request at a time on a connection: use HTTP/2 or more connections",
                self.streams
            ));
        }
        if self.protocol == Protocol::Http1 {
            return Ok(());
        }
        if !self.keep_alive {
            return wrong(format!("`keep_alive` is false: {name} is supported over kept connections only"));
        }
        if self.protocol == Protocol::Sse && self.arrivals() != LoadModel::Closed {
            return wrong("server-sent events come at the server's rate: expected no rate".into());
        }
        if self.ramp > 0.0 {
            return wrong(format!("`ramp` is supported with HTTP/1.1 only, not with {name}"));
        }
        Ok(())
    }
}

/// The most weights together; the order of a mix is computed before the run.
const MOST_WEIGHT: u64 = 100_000;

/// The most concurrent requests of a connection.
const MOST_STREAMS: u32 = 10_000;

/// The longest span, a day; a longer one is surely a mistake.
const LONGEST: f64 = 86_400.0;

/// The highest rate, far above what the sockets of one machine can do.
const FASTEST: f64 = 1e8;

impl Request {
    fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        if !is_token(self.method.as_bytes()) {
            return wrong(format!("method {:?}: expected a word such as GET", self.method));
        }
        if self.path.is_empty() || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(format!(
                "path {:?}: expected visible ASCII without spaces, such as /index",
                self.path
            ));
        }
        let host = self.host.iter().map(|host| ("Host", host.as_str()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in headers.clone().chain(host) {
            if !is_token(name.as_bytes()) {
                return wrong(format!("header name {name:?}: expected letters, digits and dashes"));
            }
            if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                return wrong(format!("value of header {name}: control characters cannot be sent"));
            }
        }
        for (name, _) in headers {
            for (ours, field) in [
                ("Host", "host"),
                ("Connection", "keep_alive"),
                ("Content-Length", "body"),
                ("Transfer-Encoding", "body"),
            ] {
                if name.eq_ignore_ascii_case(ours) {
                    return wrong(format!(
                        "header {name} is written by the generator: set `{field}` instead"
                    ));
                }
            }
        }
        Ok(())
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

    #[test]
    fn what_cannot_be_run_is_named() {
        let bad = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(plan().check().is_ok());
        assert!(bad(|plan| plan.threads = 2).contains("1 connections over 2 threads"));
        assert!(bad(|plan| plan.requests.clear()).contains("`requests` is empty"));
        assert!(bad(|plan| plan.warm_up = f64::NAN).contains("`warm_up`"));
        assert!(bad(|plan| plan.time_limit = 0.0).contains("`time_limit`"));
        assert!(bad(|plan| plan.length = Length::Requests(0)).contains("0 requests"));
        assert!(bad(|plan| plan.model = LoadModel::Constant { rps: -1.0 }).contains("rate is -1"));
        assert!(bad(|plan| plan.sources = vec!["::1".parse().unwrap()]).contains("another IP version"));
        assert!(bad(|plan| plan.requests[0].path = "/a b".into()).contains("path \"/a b\""));
        assert!(bad(|plan| plan.requests[0].method = String::new()).contains("method"));
        assert!(bad(|plan| plan.requests[0].host = Some("a\r\nb".into())).contains("value of header Host"));
        assert!(
            bad(|plan| plan.requests[0].headers = vec![("connection".into(), "close".into())])
                .contains("set `keep_alive` instead")
        );
    }
}
