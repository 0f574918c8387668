//! The settings of a cell. Each may come from the study, the section or the point; the last one wins.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The server behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// nginx from the system's packages.
    Nginx,
    /// The laboratory's own origin, which can delay and stall.
    Builtin,
    /// The laboratory's own HTTP/2 origin, which answers unary gRPC calls. The clients then send such calls.
    Grpc,
    /// The same origin, which sends each message of a gRPC stream back. The clients keep their streams open, and a
    /// request is one message.
    GrpcStream,
}

/// How closely the built-in generator verifies each response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Status, length and a hash of the body.
    Full,
    /// The status alone, for a server whose responses differ from each other.
    Status,
}

/// A link of limited speed between generator and system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// Added round trip in milliseconds.
    pub round_trip_ms: f64,
    /// Bytes per second from the system to the generator.
    pub bytes_per_second: f64,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Settings of a cell. `None` means the default, which the field documents and the method of the same
        /// name applies.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl Settings {
            /// Returns these settings overridden by `over`.
            #[must_use]
            pub fn with(&self, over: &Self) -> Self {
                Self { $($name: over.$name.clone().or_else(|| self.$name.clone()),)* }
            }

            /// Returns the names of the settings that are given.
            pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($name), self.$name.is_some())),*]
                    .into_iter()
                    .filter_map(|(name, given)| given.then_some(name))
            }
        }
    };
}

settings! {
    /// Load generator: `builtin` (default), `wrk`, `ab`...
    tool: String,
    /// Client connections; default 64.
    connections: u32,
    /// Threads of the generator; default 1.
    threads: u32,
    /// Requests per second; if absent, a closed loop.
    rate: f64,
    /// Whether gaps between requests are random (exponential) rather than even; default false.
    poisson: bool,
    /// A recording that the built-in generator repeats in place of a rate: the gateway's access log in JSON, or
    /// a HAR file. The path counts from the current folder.
    replay: String,
    /// How much faster the recording is repeated; default 1.
    replay_speed: f64,
    /// Whether connections are reused for several requests; default true.
    keep_alive: bool,
    /// Seconds over which the built-in generator opens its connections, before the warm-up; default 0: all at
    /// once.
    ramp: f64,
    /// Local addresses that the built-in generator's connections use in turn, each with its own range of
    /// ports; default 1.
    sources: u32,
    /// The HTTP version of the clients, 1 or 2; default 1.
    http: u32,
    /// Concurrent requests on each connection, over HTTP/2; default 1.
    streams: u32,
    /// Header lines exactly as given, such as `Connection:Close`.
    header_lines: Vec<String>,
    /// Whether each request carries the client's credentials, for all features that need some; default false.
    known_client: bool,
    /// `Host` header; if absent, the address.
    host: String,
    /// The path; default `/`.
    path: String,
    /// The method; default GET.
    method: String,
    /// Size of the request body (with gRPC, of its message) in bytes; default 0.
    request_body: usize,
    /// The body of every response, if the system generates it; if absent, the origin's.
    answer: String,
    /// Size of the response body (with gRPC, of its message) in bytes; default 2.
    response_body: usize,
    /// How closely the built-in generator verifies responses; default: status, length and body.
    verify: Verify,
    /// The status of the origin's responses; default 200.
    origin_status: u16,
    /// The kind of origin; default nginx.
    origin: OriginKind,
    /// Workers of the origin; default 1.
    origin_workers: u32,
    /// Origins behind the system; default 1.
    origins: u32,
    /// Idle connections to the origin that each system may keep; default: the number of clients, at least 64.
    origin_kept: u32,
    /// CPU quota of the origin in cores.
    origin_quota: f64,
    /// Delay before each response of the (built-in) origin, in milliseconds.
    origin_delay_ms: u64,
    /// Whether the origin shares the system's quota, as on one small machine.
    origin_beside_target: bool,
    /// Workers of the system under test; default 1.
    workers: u32,
    /// CPU quota of the system under test in cores.
    quota: f64,
    /// Memory limit of the system under test in MiB.
    memory_mib: u64,
    /// Cores that the system may use; default 1. It shares none unless this exceeds the cores of its role.
    target_cores: u32,
    /// The enabled features, such as `access_log`.
    features: Vec<String>,
    /// The number of configured routes; default 1.
    routes: u32,
    /// The configured virtual hosts; default none (any host).
    hosts: Vec<String>,
    /// Copies of the system in a row on the path; default 1. With 2, the first is the client's sidecar, the
    /// second the server's.
    chain: u32,
    /// A slow link in front of the system.
    relay: Relay,
    /// Timeout of a request in the generator, in seconds; default 10.
    timeout: f64,
    /// Requests in a trial, for tools that run a number of requests instead of a time (ab -n).
    requests: u64,
    /// Seconds of a trial; default 5.
    seconds: f64,
    /// The number of rounds; default 3.
    rounds: u32,
    /// Seconds of load before a trial; default 1.
    warm_up: f64,
    /// Seconds, at most, for which a system that compiles at run time (a JVM) is loaded before the first
    /// trial until its rate is steady. Default 0: only the fixed warm-up.
    until_steady: f64,
    /// Whether the system is restarted before each trial and not warmed up; default false.
    cold: bool,
}

impl Settings {
    /// Returns all settings as words, for the result file.
    pub fn words(&self) -> BTreeMap<String, String> {
        let mut words = BTreeMap::new();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.insert(name.to_owned(), value);
            }
        };
        put("tool", Some(self.tool().to_owned()));
        put("connections", Some(self.connections().to_string()));
        put("threads", Some(self.threads().to_string()));
        put(
            "rate",
            self.rate.map(|rate| format!("{rate}/s{}", if self.poisson() { ", Poisson" } else { "" })),
        );
        put("replay", self.replay.as_ref().map(|file| format!("{file}, {} x", self.replay_speed())));
        put("keep-alive", Some(if self.keep_alive() { "yes" } else { "no" }.to_owned()));
        put("opened", self.ramp.map(|seconds| format!("over {seconds} s")));
        put("sources", self.sources.map(|count| format!("{count} addresses")));
        put("http", self.http.map(|version| version.to_string()));
        put("streams", self.streams.map(|streams| streams.to_string()));
        put("header lines", self.header_lines.as_ref().map(|lines| lines.join(" | ")));
        put("known client", self.known_client().then(|| "yes".to_owned()));
        put("host", self.host.clone());
        put("path", Some(self.path().to_owned()));
        put("method", self.method.clone());
        put("request body", self.request_body.map(|bytes| format!("{bytes} B")));
        put("answer", self.answer.clone());
        put("response body", Some(format!("{} B", self.response_body())));
        put(
            "verified",
            self.verify.filter(|verify| *verify == Verify::Status).map(|_| "the status alone".to_owned()),
        );
        put("origin status", self.origin_status.map(|status| status.to_string()));
        put(
            "origin",
            Some(format!(
                "{} x {} ({} worker{})",
                self.origins(),
                match self.origin() {
                    OriginKind::Nginx => "nginx",
                    OriginKind::Builtin => "built-in",
                    OriginKind::Grpc => "gRPC",
                    OriginKind::GrpcStream => "gRPC streams",
                },
                self.origin_workers(),
                if self.origin_workers() == 1 { "" } else { "s" }
            )),
        );
        put("kept to the origin", self.origin_kept.map(|count| format!("{count} connections")));
        put("origin quota", self.origin_quota.map(|cores| format!("{cores} cores")));
        put("origin delay", self.origin_delay_ms.map(|ms| format!("{ms} ms")));
        put("workers", Some(self.workers().to_string()));
        put("quota", self.quota.map(|cores| format!("{cores} cores")));
        put("memory", self.memory_mib.map(|mib| format!("{mib} MiB")));
        put("cores", self.target_cores.map(|cores| cores.to_string()));
        put("features", self.features.as_ref().filter(|list| !list.is_empty()).map(|list| list.join(", ")));
        put("routes", self.routes.map(|routes| routes.to_string()));
        put("hosts", self.hosts.as_ref().map(|hosts| hosts.join(", ")));
        put("chain", self.chain.map(|chain| chain.to_string()));
        put(
            "link",
            self.relay.map(|relay| {
                format!("{} ms round trip, {} B/s", relay.round_trip_ms, relay.bytes_per_second)
            }),
        );
        put("time limit", Some(format!("{} s", self.timeout())));
        put(
            "load until steady",
            self.until_steady.map(|seconds| format!("at most {seconds} s, if it compiles while it runs")),
        );
        put("requests", self.requests.map(|count| count.to_string()));
        put("seconds", Some(self.seconds().to_string()));
        put("rounds", Some(self.rounds().to_string()));
        put("start", self.cold.filter(|cold| *cold).map(|_| "anew, before each trial".to_owned()));
        words
    }

    /// Returns the name of the load tool.
    pub fn tool(&self) -> &str {
        self.tool.as_deref().unwrap_or("builtin")
    }
    /// Returns the number of client connections.
    pub fn connections(&self) -> u32 {
        self.connections.unwrap_or(64)
    }
    /// Returns the number of generator threads.
    pub fn threads(&self) -> u32 {
        self.threads.unwrap_or(1)
    }
    /// Returns how much faster a recording is repeated.
    pub fn replay_speed(&self) -> f64 {
        self.replay_speed.unwrap_or(1.0)
    }
    /// Returns whether gaps between requests are random.
    pub fn poisson(&self) -> bool {
        self.poisson.unwrap_or(false)
    }
    /// Returns whether connections are reused for several requests.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive.unwrap_or(true)
    }
    /// Returns the seconds over which connections are opened.
    pub fn ramp(&self) -> f64 {
        self.ramp.unwrap_or(0.0)
    }
    /// Returns the number of the generator's addresses.
    pub fn sources(&self) -> u32 {
        self.sources.unwrap_or(1)
    }
    /// Returns the HTTP version of the clients.
    pub fn http(&self) -> u32 {
        self.http.unwrap_or(1)
    }
    /// Returns the number of concurrent requests on each connection.
    pub fn streams(&self) -> u32 {
        self.streams.unwrap_or(1)
    }
    /// Returns whether clients use TLS, which is the feature `tls`.
    pub fn tls(&self) -> bool {
        self.features().iter().any(|name| name == "tls")
    }
    /// Returns the path.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }
    /// Returns the method; default POST with gRPC.
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.grpc() { "POST" } else { "GET" })
    }
    /// Returns whether requests are gRPC, over HTTP/2 on both sides: the origins `grpc` and `grpc-stream`.
    pub fn grpc(&self) -> bool {
        matches!(self.origin(), OriginKind::Grpc | OriginKind::GrpcStream)
    }
    /// Returns whether a request is a message on a gRPC stream, which the origin sends back.
    pub fn grpc_streams(&self) -> bool {
        self.origin() == OriginKind::GrpcStream
    }
    /// Returns whether the system speaks HTTP/2 to the origin.
    pub fn http2_origin(&self) -> bool {
        self.grpc() || self.features().iter().any(|name| name == "http2_origin")
    }
    /// Returns whether the system passes TLS on to the origin, which does the handshake.
    pub fn passthrough(&self) -> bool {
        self.features().iter().any(|name| name == "passthrough")
    }
    /// Returns whether requests carry the client's credentials.
    pub fn known_client(&self) -> bool {
        self.known_client.unwrap_or(false)
    }
    /// Returns whether clients present a certificate.
    pub fn client_certificate(&self) -> bool {
        self.features().iter().any(|feature| feature == "client_certificate")
    }
    /// Returns the size in bytes of the response body, or on gRPC streams of the request.
    pub fn response_body(&self) -> usize {
        match self.grpc_streams() {
            true => self.request_body.unwrap_or(0),
            false => self.response_body.unwrap_or(2),
        }
    }
    /// Returns the origin's status.
    pub fn origin_status(&self) -> u16 {
        self.origin_status.unwrap_or(200)
    }
    /// Returns the kind of origin.
    pub fn origin(&self) -> OriginKind {
        self.origin.unwrap_or(OriginKind::Nginx)
    }
    /// Returns the number of workers of each origin.
    pub fn origin_workers(&self) -> u32 {
        self.origin_workers.unwrap_or(1)
    }
    /// Returns whether the origin shares the system's cores and quota.
    pub fn origin_beside_target(&self) -> bool {
        self.origin_beside_target.unwrap_or(false)
    }
    /// Returns the number of origins.
    pub fn origins(&self) -> u32 {
        self.origins.unwrap_or(1)
    }
    /// Returns the number of workers of the system.
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or(1)
    }
    /// Returns the number of cores of the system.
    pub fn target_cores(&self) -> u32 {
        self.target_cores.unwrap_or(1)
    }
    /// Returns the enabled features.
    pub fn features(&self) -> &[String] {
        self.features.as_deref().unwrap_or_default()
    }
    /// Returns the number of configured routes.
    pub fn routes(&self) -> u32 {
        self.routes.unwrap_or(1)
    }
    /// Returns the number of copies in a row.
    pub fn chain(&self) -> u32 {
        self.chain.unwrap_or(1)
    }
    /// Returns the seconds of a trial.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(5.0)
    }
    /// Returns the number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(3)
    }
    /// Returns the seconds of load before a trial; default 0 for a cold start.
    pub fn warm_up(&self) -> f64 {
        self.warm_up.unwrap_or(if self.cold() { 0.0 } else { 1.0 })
    }
    /// Returns the timeout of a request in seconds.
    pub fn timeout(&self) -> f64 {
        self.timeout.unwrap_or(10.0)
    }
    /// Returns whether each trial restarts the system.
    pub fn cold(&self) -> bool {
        self.cold.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_setting_wins_and_the_others_stay() {
        let section = Settings { connections: Some(64), tool: Some("wrk".into()), ..Default::default() };
        let point = Settings { connections: Some(640), cold: Some(true), ..Default::default() };
        let cell = section.with(&point);
        assert_eq!((cell.connections(), cell.tool(), cell.warm_up()), (640, "wrk", 0.0));
        assert_eq!(cell.words()["connections"], "640");
        assert_eq!(cell.words()["start"], "anew, before each trial");
        // A system that runs for the second time since its start.
        let second = Settings { warm_up: Some(3.0), ..cell };
        assert_eq!(second.warm_up(), 3.0);
    }
}
