//! The input of a run: target, connections, requests, rate and length. A [`Plan`] is JSON for `tollgate bench
//! load`, and the laboratory builds one for each trial. [`Plan::check`] refuses whatever cannot be run, so
//! that the worker threads need no checks of their own.

use crate::expect::digest;
use crate::failure::Failure;
use crate::token::is_token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    /// TLS 1.3 on every connection, with a full handshake; plain text if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether a connection carries many requests. Otherwise each request has its own connection and sends
    /// `Connection: close`.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// Whether requests are sent in a closed loop or at a rate.
    #[serde(default = "closed")]
    pub model: LoadModel,
    /// The seed of the Poisson model.
    #[serde(default)]
    pub seed: u64,
    /// The requests, sent in turn.
    #[serde(default = "root")]
    pub requests: Vec<Request>,
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
}

/// A request's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Body {
    /// This text.
    Text(String),
    /// This number of bytes, all `p`.
    Bytes(usize),
}

/// The expected response. Fields that are omitted are learnt from the first response with the right status.
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
            tls: None,
            keep_alive: true,
            model: LoadModel::Closed,
            seed: 0,
            requests: root(),
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
        if let Some(rate) = self.model.rps()
            && !(0.001..=FASTEST).contains(&rate)
        {
            return wrong(format!("the rate is {rate}: expected 0.001 to {FASTEST} requests a second"));
        }
        if let Some(source) = self.sources.iter().find(|ip| ip.is_ipv4() != self.target.is_ipv4()) {
            return wrong(format!("source {source} cannot reach {}: another IP version", self.target));
        }
        self.requests.iter().try_for_each(Request::check)
    }
}

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
