//! The options of `tollgate bench load`. [`plan`](super::plan) makes a plan of them.

use clap::Args;
use std::path::PathBuf;
use tollgate_lab_load::Think;

use super::objective::Condition;
use super::values::{factor, pauses, span};

/// The options of `load`.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// A URL (http://, https://, ws://, wss://), or the file of a plan in JSON.
    #[arg(value_name = "URL|PLAN")]
    pub target: String,
    /// Requests per second; without it, each connection sends as soon as it has an answer. `5k`,
    /// `poisson:5k`, `ramp:100-5k`, `step:100,1k,5k`, `spike:100-5k,2s`, `sine:1k,500,10s`.
    #[arg(short, long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Find the highest rate at which this holds, such as `p99<10ms`; may be repeated. Each rate is tried for
    /// `--duration`.
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["rate", "requests", "think", "replay"])]
    pub find_rate: Vec<Condition>,
    /// Open connections.
    #[arg(short, long, default_value_t = 50, value_name = "N")]
    pub connections: u32,
    /// Threads of the generator.
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    pub threads: u32,
    /// How long to measure, such as `30s`, `500ms`, `5m` [default: 10s; of a recording, once through].
    #[arg(short = 'z', long, value_parser = span, value_name = "TIME")]
    pub duration: Option<f64>,
    /// End after this number of requests instead.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Load before the measurement.
    #[arg(long, value_parser = span, default_value = "0s", value_name = "TIME")]
    pub warm_up: f64,
    /// How long a request may take.
    #[arg(long, value_parser = span, default_value = "10s", value_name = "TIME")]
    pub timeout: f64,
    /// Pause of each connection after an answer: `200ms`, or at random within `100ms-1s`.
    #[arg(long, value_parser = pauses, value_name = "TIME", conflicts_with = "rate")]
    pub think: Option<Think>,
    /// The method [default: GET; with a body, POST].
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub method: Option<String>,
    /// A header field, `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub headers: Vec<String>,
    /// A cookie, `name=value`; may be repeated.
    #[arg(short = 'b', long = "cookie", value_name = "COOKIE")]
    pub cookies: Vec<String>,
    /// The body, or the message of gRPC and WebSocket; `@FILE` reads it from a file.
    #[arg(short = 'd', long, value_name = "BODY")]
    pub body: Option<String>,
    /// One request of a mix: `WEIGHT:PATH` or `WEIGHT:METHOD PATH`; may be repeated. Replaces the URL's path.
    #[arg(long, value_name = "SHARE")]
    pub mix: Vec<String>,
    /// A CSV file with a line of names; `{{name}}` in the URL, headers, body or mix is the column's next
    /// value.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Repeat the requests of the gateway's access log (JSON) or of a HAR file at their times, against the
    /// URL's server. Their paths and hosts replace the URL's.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "requests", "mix", "csv", "body", "method"])]
    pub replay: Option<PathBuf>,
    /// Repeat the recording this much faster.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor, requires = "replay")]
    pub speed: f64,
    /// Use HTTP/2: over TLS by ALPN, on http:// with prior knowledge.
    #[arg(long)]
    pub http2: bool,
    /// Concurrent requests on each connection, with HTTP/2 or gRPC.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub streams: u32,
    /// Send unary gRPC calls; the body is the message.
    #[arg(long, conflicts_with_all = ["http2", "grpc_stream", "sse"])]
    pub grpc: bool,
    /// Keep gRPC streams open; each request is a message, answered by the next message of the server.
    #[arg(long, conflicts_with_all = ["http2", "sse"])]
    pub grpc_stream: bool,
    /// Count server-sent events.
    #[arg(long, conflicts_with_all = ["http2", "rate", "find_rate"])]
    pub sse: bool,
    /// Open a connection for each request.
    #[arg(long)]
    pub no_keep_alive: bool,
    /// Connect to this address, or host and port, instead of the URL's.
    #[arg(long, value_name = "HOST:PORT")]
    pub connect_to: Option<String>,
    /// Accept any certificate.
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    pub insecure: bool,
    /// Accept certificates that an authority in this PEM file has signed [default: the system's authorities].
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The client's certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The key of the client's certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The status that counts as success [default: any 2xx or 3xx; of a recording, the recorded one].
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=999))]
    pub status: Option<u16>,
    /// Also require that every body equals the first one.
    #[arg(long)]
    pub verify_body: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Exit with status 3 if this holds at the end, such as `p99>10ms`, `errors>0.1%`, `rate<1k`; may be
    /// repeated.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Write the result as JSON; `-` writes it to standard output instead of the summary.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the result as one self-contained page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print a line for each second even if standard error is not a terminal.
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,
    /// Print no line for each second.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the plan in JSON instead of running it.
    #[arg(long)]
    pub print_plan: bool,
}

/// The options that describe a load, by the names that clap gives them; a plan has fields for them.
pub const OF_A_URL: [&str; 30] = [
    "rate",
    "find_rate",
    "connections",
    "threads",
    "duration",
    "requests",
    "warm_up",
    "timeout",
    "think",
    "method",
    "headers",
    "cookies",
    "body",
    "mix",
    "csv",
    "replay",
    "speed",
    "http2",
    "streams",
    "grpc",
    "grpc_stream",
    "sse",
    "no_keep_alive",
    "connect_to",
    "insecure",
    "cacert",
    "cert",
    "key",
    "status",
    "verify_body",
];
