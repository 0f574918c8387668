//! The options of `tollgate bench load`, and the plan that they describe for a URL.

use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_lab_load::shape::{Stage, sine};
use tollgate_lab_load::{Body, Data, Https, Length, Plan, Protocol, Request, Think, Trust, recording};
use tollgate_lab_record::{LoadModel, Verification};

use super::objective::Condition;

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

/// Why no plan can be made from the options.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The options ask for something that cannot be.
    Misuse(String),
    /// A file cannot be read, or a name cannot be resolved.
    Trouble(String),
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self::Misuse(text)
    }
}

/// Whether a target is a URL: everything else is the file of a plan.
pub fn is_url(target: &str) -> bool {
    target.contains("://")
}

/// The destination of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Destination {
    https: bool,
    web_socket: bool,
    /// Host and port as they stand in the URL: the value of `Host`.
    authority: String,
    host: String,
    port: u16,
    path: String,
}

fn destination(url: &str) -> Result<Destination, String> {
    let wrong = |what: &str| format!("{url}: {what}");
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("expected a URL"))?;
    let (https, web_socket) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, false),
        "https" => (true, false),
        "ws" => (false, true),
        "wss" => (true, true),
        _ => return Err(wrong("expected http://, https://, ws:// or wss://")),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('/') => (&rest[..at], rest[at..].to_owned()),
        Some(at) => (&rest[..at], format!("/{}", &rest[at..])),
        None => (rest, "/".to_owned()),
    };
    let parsed: http::uri::Authority = authority
        .parse()
        .map_err(|_| wrong("expected a host after ://, such as example.com or 127.0.0.1:8080"))?;
    if authority.contains('@') {
        return Err(wrong("a user in the URL is not sent: use `-H 'Authorization: Basic ...'`"));
    }
    if parsed.as_str().len() > parsed.host().len() && parsed.port_u16().is_none() {
        return Err(wrong("expected a port of 0 to 65535 after the colon"));
    }
    let host = parsed.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = parsed.port_u16().unwrap_or(if https { 443 } else { 80 });
    Ok(Destination { https, web_socket, authority: authority.to_owned(), host, port, path })
}

/// The shortest period of a sine wave, in seconds. The wave is divided into stages, each of which has some requests.
const SHORTEST_PERIOD: f64 = 0.1;

/// How long each address of a name with several may take to accept a connection.
const REACHABLE_WITHIN: Duration = Duration::from_secs(2);

/// Resolves `HOST:PORT`. Of several addresses, the first that accepts a connection is taken, IPv4 first: a server on
/// `localhost` may listen on one of its two alone.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.dedup();
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, REACHABLE_WITHIN).is_ok();
    let reached = if found.len() > 1 { found.iter().find(answers) } else { None };
    let chosen = reached.or(found.first()).copied();
    chosen.ok_or_else(|| format!("cannot resolve {host}: the name has no address"))
}

/// Replaces the URL in a plan's `target` by the address, the host and TLS that it stands for.
pub fn expand(plan: &mut serde_json::Value) -> Result<(), String> {
    let Some(url) = plan.get("target").and_then(|target| target.as_str()).filter(|text| is_url(text)) else {
        return Ok(());
    };
    let url = url.to_owned();
    let to = destination(&url)?;
    plan["target"] = resolve(&to.host, to.port)?.to_string().into();
    if to.https && plan.get("https").is_none() {
        plan["https"] = serde_json::json!({"name": to.host});
    }
    if to.web_socket && plan.get("protocol").is_none() {
        plan["protocol"] = "web-socket".into();
    }
    if plan.get("requests").is_none() {
        plan["requests"] = serde_json::json!([{"path": to.path}]);
    }
    for request in plan["requests"].as_array_mut().into_iter().flatten() {
        if request.is_object() && request.get("host").is_none() {
            request["host"] = to.authority.clone().into();
        }
    }
    Ok(())
}

impl LoadOptions {
    /// Returns the plan of a URL.
    pub fn plan(&self) -> Result<Plan, Wrong> {
        let to = destination(&self.target)?;
        self.check(&to)?;
        let mut plan = Plan::new(match &self.connect_to {
            None => resolve(&to.host, to.port).map_err(Wrong::Trouble)?,
            Some(other) => {
                let (host, port) = other
                    .rsplit_once(':')
                    .and_then(|(host, port)| Some((host, port.parse().ok()?)))
                    .ok_or_else(|| format!("--connect-to {other}: expected HOST:PORT"))?;
                let host = host.trim_start_matches('[').trim_end_matches(']');
                resolve(host, port).map_err(Wrong::Trouble)?
            }
        });
        plan.threads = self.threads;
        plan.connections = self.connections;
        plan.protocol = self.protocol(&to)?;
        plan.streams = self.streams;
        plan.keep_alive = !self.no_keep_alive;
        plan.warm_up = self.warm_up;
        plan.time_limit = self.timeout;
        plan.think = self.think;
        plan.seed = self.seed;
        plan.verification = if self.verify_body { Verification::Full } else { Verification::Status };
        let seconds = self.duration.unwrap_or(10.0);
        plan.length = match self.requests {
            Some(count) => Length::Requests(count),
            None => Length::Seconds(seconds),
        };
        if to.https {
            plan.https = Some(Https {
                name: to.host.clone(),
                trust: match &self.cacert {
                    Some(file) => Trust::Authorities(file.clone()),
                    None if self.insecure => Trust::Anything,
                    None => Trust::Platform,
                },
                certificate: self.cert.clone(),
                key: self.key.clone(),
            });
        } else if self.insecure || self.cacert.is_some() || self.cert.is_some() {
            return Err(format!("{}: options of TLS need https:// or wss://", self.target).into());
        }
        plan.requests = self.requests_to(&to)?;
        if let Some(rate) = &self.rate {
            (plan.model, plan.stages) =
                arrivals(rate, seconds).map_err(|what| format!("--rate {rate}: {what}"))?;
        }
        if let Some(file) = &self.csv {
            plan.data = Some(table(file).map_err(Wrong::Trouble)?);
        }
        if let Some(file) = &self.replay {
            let recording::Recording { requests, replay, skipped } =
                recording::read(file, self.speed).map_err(Wrong::Trouble)?;
            if skipped > 0 {
                say!("{}: {skipped} entries cannot be repeated and are left out", file.display());
            }
            let more = self.fields()?;
            plan.requests = requests;
            for request in &mut plan.requests {
                let host = request.host.take().filter(|host| !host.is_empty());
                request.host = Some(host.unwrap_or_else(|| to.authority.clone()));
                request
                    .headers
                    .retain(|(name, _)| !more.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name)));
                request.headers.extend(more.clone());
                if self.status.is_some() {
                    request.expect.status = self.status;
                }
            }
            // Once through; the last request is within it.
            plan.length = Length::Seconds(self.duration.unwrap_or(replay.period_us as f64 / 1e6));
            plan.replay = Some(replay);
        }
        Ok(plan)
    }

    /// Checks combinations of options that a plan no longer shows.
    fn check(&self, to: &Destination) -> Result<(), String> {
        // The parser does not check the recording if other options exclude it.
        if self.replay.is_none() && self.speed != 1.0 {
            return Err(format!("--speed {}: expected a recording with --replay FILE", self.speed));
        }
        let templates = self.mix.iter().chain([&to.path, &to.authority]).find(|text| text.contains("{{"));
        if let (None, Some(text)) = (&self.csv, templates) {
            return Err(format!("{text:?}: expected --csv FILE with the values for {{{{...}}}}"));
        }
        Ok(())
    }

    fn protocol(&self, to: &Destination) -> Result<Protocol, String> {
        let chosen = match self {
            Self { http2: true, .. } => Protocol::Http2,
            Self { grpc: true, .. } => Protocol::Grpc,
            Self { grpc_stream: true, .. } => Protocol::GrpcStream,
            Self { sse: true, .. } => Protocol::Sse,
            _ if to.web_socket => Protocol::WebSocket,
            _ => Protocol::Http1,
        };
        if to.web_socket && chosen != Protocol::WebSocket {
            return Err(format!(
                "{}: WebSocket runs over HTTP/1.1 here; leave the other protocol out",
                self.target
            ));
        }
        Ok(chosen)
    }

    /// Returns the header fields, cookies included.
    fn fields(&self) -> Result<Vec<(String, String)>, String> {
        let mut fields = Vec::new();
        for text in &self.headers {
            let (name, value) =
                text.split_once(':').ok_or_else(|| format!("-H {text:?}: expected `Name: value`"))?;
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        if let Some(text) = self.cookies.iter().find(|text| !text.contains('=')) {
            return Err(format!("-b {text:?}: expected `name=value`"));
        }
        if !self.cookies.is_empty() {
            fields.push(("Cookie".into(), self.cookies.join("; ")));
        }
        Ok(fields)
    }

    fn requests_to(&self, to: &Destination) -> Result<Vec<Request>, Wrong> {
        let mut headers = self.fields()?;
        let mut host = to.authority.clone();
        headers.retain(|(name, value)| {
            let is_host = name.eq_ignore_ascii_case("host");
            if is_host {
                host.clone_from(value);
            }
            !is_host
        });
        let body = match self.body.as_deref().map(|data| (data, data.strip_prefix('@'))) {
            None => None,
            Some((_, Some(file))) => {
                let wrong = |error| Wrong::Trouble(format!("--body @{file}: {error}"));
                Some(Body::Raw(fs::read(file).map_err(wrong)?))
            }
            Some((text, None)) => Some(Body::Text(text.to_owned())),
        };
        // Values can be filled into text only.
        let body = match body {
            Some(Body::Raw(bytes)) => {
                Some(String::from_utf8(bytes).map_or_else(|error| Body::Raw(error.into_bytes()), Body::Text))
            }
            body => body,
        };
        let usual = if body.is_some() || self.grpc || self.grpc_stream { "POST" } else { "GET" };
        let usual = if to.web_socket { "GET" } else { usual };
        let mut request = Request {
            method: self.method.clone().unwrap_or_else(|| usual.to_owned()),
            host: Some(host),
            headers,
            body,
            ..Request::get(&to.path)
        };
        request.expect.status = self.status;
        if self.mix.is_empty() {
            return Ok(vec![request]);
        }
        self.mix
            .iter()
            .map(|text| -> Result<Request, Wrong> {
                let wrong = || format!("--mix {text:?}: expected `WEIGHT:PATH` or `WEIGHT:METHOD PATH`, such as `3:POST /orders`");
                let (weight, rest) = text.split_once(':').ok_or_else(wrong)?;
                let weight = weight.trim().parse().map_err(|_| wrong())?;
                let (method, path) = match rest.trim().split_once(' ') {
                    Some((method, path)) => (Some(method.to_owned()), path.trim()),
                    None => (None, rest.trim()),
                };
                if !path.starts_with('/') {
                    return Err(wrong().into());
                }
                let method = method.or_else(|| self.method.clone()).unwrap_or_else(|| "GET".to_owned());
                // The body belongs to the requests that have one.
                let body = request.body.clone().filter(|_| !matches!(method.as_str(), "GET" | "HEAD"));
                Ok(Request { method, weight, path: path.to_owned(), body, ..request.clone() })
            })
            .collect()
    }
}

/// Reads a CSV file with a line of names.
fn table(file: &Path) -> Result<Data, String> {
    let wrong = |error: csv::Error| format!("{}: {error}", file.display());
    let mut reader = csv::Reader::from_path(file).map_err(wrong)?;
    let columns: Vec<String> = reader.headers().map_err(wrong)?.iter().map(str::to_owned).collect();
    let rows = reader
        .records()
        .map(|row| Ok(row.map_err(wrong)?.iter().map(str::to_owned).collect()))
        .collect::<Result<Vec<Vec<String>>, String>>()?;
    let mut names = BTreeMap::new();
    if let Some(twice) = columns.iter().find(|name| names.insert(*name, ()).is_some()) {
        return Err(format!("{}: two columns are called `{twice}`", file.display()));
    }
    if rows.is_empty() {
        return Err(format!("{}: expected a line of names, and at least one row after it", file.display()));
    }
    Ok(Data { columns, rows })
}

/// Parses a rate: its kind of arrivals, and its stages over `seconds` if it changes.
fn arrivals(text: &str, seconds: f64) -> Result<(LoadModel, Vec<Stage>), String> {
    let (kind, rest) = text.split_once(':').unwrap_or(("constant", text));
    let number = |text: &str| number(text).ok_or("expected requests a second, such as 250 or 5k");
    let flat = |seconds: f64, rate: f64| Stage::new(seconds, rate, rate);
    let stages = match kind {
        "constant" => return Ok((LoadModel::Constant { rps: number(rest)? }, Vec::new())),
        "poisson" => return Ok((LoadModel::Poisson { rps: number(rest)? }, Vec::new())),
        "ramp" => {
            let (from, to) = rest.split_once('-').ok_or("expected `ramp:FROM-TO`")?;
            vec![Stage::new(seconds, number(from)?, number(to)?)]
        }
        "step" => {
            let rates = rest.split(',').map(number).collect::<Result<Vec<f64>, _>>()?;
            let each = seconds / rates.len() as f64;
            rates.into_iter().map(|rate| flat(each, rate)).collect()
        }
        "spike" => {
            let expected = "expected `spike:BASE-PEAK,LENGTH`, such as spike:100-5k,2s";
            let (rates, length) = rest.split_once(',').ok_or(expected)?;
            let (base, peak) = rates.split_once('-').ok_or(expected)?;
            let (base, peak, length) = (number(base)?, number(peak)?, span(length)?);
            let around = (seconds - length) / 2.0;
            if around <= 0.0 {
                return Err(format!(
                    "the spike of {length} s is not shorter than the duration of {seconds} s"
                ));
            }
            vec![flat(around, base), flat(length, peak), flat(around, base)]
        }
        "sine" => {
            let expected = "expected `sine:MIDDLE,AMPLITUDE,PERIOD`, such as sine:1k,500,10s";
            let [middle, amplitude, period] = rest.split(',').collect::<Vec<_>>()[..] else {
                return Err(expected.into());
            };
            let (middle, amplitude, period) = (number(middle)?, number(amplitude)?, span(period)?);
            if period < SHORTEST_PERIOD {
                return Err(format!("a period of {period} s: expected at least {SHORTEST_PERIOD} s"));
            }
            if amplitude > middle {
                return Err(format!(
                    "the rate would fall below 0: expected an amplitude of at most {middle}"
                ));
            }
            sine(seconds, middle, amplitude, period)
        }
        _ => return Err("expected a rate, or poisson:, ramp:, step:, spike: or sine: before it".into()),
    };
    // The plan's mean follows from its stages.
    Ok((LoadModel::Constant { rps: 1.0 }, stages))
}

/// Parses a number with `k` or `M`.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|value| value * factor).filter(|value| value.is_finite() && *value >= 0.0)
}

/// Parses a time in seconds: `500us`, `200ms`, `10s`, `5m`, `1h`; a bare number counts seconds.
pub fn span(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let at = text.find(|char: char| char.is_ascii_alphabetic() || char == 'µ').unwrap_or(text.len());
    let factor = match &text[at..] {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => f64::NAN,
    };
    text[..at]
        .trim()
        .parse::<f64>()
        .ok()
        .map(|value| value * factor)
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| "expected a time, such as 200ms, 10s or 5m".into())
}

fn pauses(text: &str) -> Result<Think, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let think = Think { least: span(least)?, most: span(most)? };
    if think.least > think.most { Err("expected the shorter time first".into()) } else { Ok(think) }
}

fn factor(text: &str) -> Result<f64, String> {
    text.trim_end_matches('x')
        .parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a factor above 0, such as 2 or 0.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let at = |url: &str| {
            let to = destination(url).unwrap();
            (to.host, to.port, to.authority, to.path)
        };
        let own = |parts: (&str, u16, &str, &str)| {
            (parts.0.to_owned(), parts.1, parts.2.to_owned(), parts.3.to_owned())
        };
        assert_eq!(at("http://a.test"), own(("a.test", 80, "a.test", "/")));
        assert_eq!(at("https://a.test:8443/x?y#z"), own(("a.test", 8443, "a.test:8443", "/x?y")));
        assert_eq!(at("http://[::1]:81?q={{id}}"), own(("::1", 81, "[::1]:81", "/?q={{id}}")));
        assert!(destination("wss://a").unwrap().web_socket);
        for (url, words) in [
            ("ftp://a", "expected http://"),
            ("http://", "expected a host"),
            ("http://a:99999/", "expected a port"),
            ("http://me:pw@a/", "Authorization"),
        ] {
            assert!(destination(url).unwrap_err().contains(words), "{url}");
        }
    }

    #[test]
    fn rates_have_shapes() {
        let stages = |text: &str| arrivals(text, 10.0).unwrap().1;
        assert_eq!(arrivals("5k", 10.0), Ok((LoadModel::Constant { rps: 5_000.0 }, vec![])));
        assert_eq!(arrivals("poisson:250", 10.0), Ok((LoadModel::Poisson { rps: 250.0 }, vec![])));
        assert_eq!(stages("ramp:0-1k"), [Stage::new(10.0, 0.0, 1_000.0)]);
        assert_eq!(stages("step:1,2"), [Stage::new(5.0, 1.0, 1.0), Stage::new(5.0, 2.0, 2.0)]);
        assert_eq!(
            stages("spike:10-1k,2s"),
            [Stage::new(4.0, 10.0, 10.0), Stage::new(2.0, 1e3, 1e3), Stage::new(4.0, 10.0, 10.0)]
        );
        assert_eq!(stages("sine:100,50,5s").len(), 128);
        for (text, words) in [
            ("fast", "requests a second"),
            ("ramp:5", "ramp:FROM-TO"),
            ("spike:1-2,20s", "not shorter"),
            ("square:5", "poisson:"),
            ("sine:5", "sine:MIDDLE"),
            ("sine:5,6,1s", "an amplitude of at most 5"),
            ("sine:5,5,0s", "a period of 0 s: expected at least 0.1 s"),
            ("sine:5,5,1us", "expected at least 0.1 s"),
        ] {
            assert!(arrivals(text, 10.0).unwrap_err().contains(words), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!((span("500ms"), span("2m"), span("3")), (Ok(0.5), Ok(120.0), Ok(3.0)));
        assert!(["", "1d", "-1s", "x"].iter().all(|text| span(text).is_err()));
        assert_eq!(pauses("100ms-1s"), Ok(Think { least: 0.1, most: 1.0 }));
        assert!(pauses("2s-1s").is_err());
    }
}
