//! The plan that the options describe for a URL.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use tollgate_lab_load::{Body, Data, Https, Length, Plan, Protocol, Request, Trust, recording};
use tollgate_lab_record::Verification;

use super::destination::{Destination, resolve};
use super::options::LoadOptions;
use super::values::arrivals;

/// How long a load without `--duration` takes.
const DURATION_SECONDS: f64 = 10.0;

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

impl LoadOptions {
    /// Returns the plan of a URL.
    pub fn plan(&self) -> Result<Plan, Wrong> {
        let to = Destination::parse(&self.target)?;
        self.check(&to)?;
        let mut plan = Plan::new(self.address(&to)?);
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
        let seconds = self.duration.unwrap_or(DURATION_SECONDS);
        plan.length = match self.requests {
            Some(count) => Length::Requests(count),
            None => Length::Seconds(seconds),
        };
        plan.https = self.https(&to)?;
        plan.requests = self.requests_to(&to)?;
        if let Some(rate) = &self.rate {
            (plan.model, plan.stages) =
                arrivals(rate, seconds).map_err(|what| format!("--rate {rate}: {what}"))?;
        }
        if let Some(file) = &self.csv {
            plan.data = Some(table(file).map_err(Wrong::Trouble)?);
        }
        if let Some(file) = &self.replay {
            self.repeat(file, &to, &mut plan)?;
        }
        Ok(plan)
    }

    /// Returns the address to connect to.
    fn address(&self, to: &Destination) -> Result<SocketAddr, Wrong> {
        let Some(other) = &self.connect_to else {
            return resolve(&to.host, to.port).map_err(Wrong::Trouble);
        };
        let (host, port) = other
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)))
            .ok_or_else(|| format!("--connect-to {other}: expected HOST:PORT"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        resolve(host, port).map_err(Wrong::Trouble)
    }

    /// Returns the settings of TLS; `None`: the URL has no TLS.
    fn https(&self, to: &Destination) -> Result<Option<Https>, String> {
        if !to.https {
            if self.insecure || self.cacert.is_some() || self.cert.is_some() {
                return Err(format!("{}: options of TLS need https:// or wss://", self.target));
            }
            return Ok(None);
        }
        let trust = match &self.cacert {
            Some(file) => Trust::Authorities(file.clone()),
            None if self.insecure => Trust::Anything,
            None => Trust::Platform,
        };
        let (certificate, key) = (self.cert.clone(), self.key.clone());
        Ok(Some(Https { name: to.host.clone(), trust, certificate, key }))
    }

    /// Replaces the requests of a plan by a recording, once through unless `--duration` says otherwise. Options
    /// override the recorded header fields and statuses.
    fn repeat(&self, file: &Path, to: &Destination, plan: &mut Plan) -> Result<(), Wrong> {
        let recording::Recording { requests, replay, skipped } =
            recording::read(file, self.speed).map_err(Wrong::Trouble)?;
        if skipped > 0 {
            say!("{}: {skipped} entries cannot be repeated and are left out", file.display());
        }
        let fields = self.fields()?;
        plan.requests = requests;
        for request in &mut plan.requests {
            let host = request.host.take().filter(|host| !host.is_empty());
            request.host = Some(host.unwrap_or_else(|| to.authority.clone()));
            request.headers.retain(|(name, _)| !fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
            request.headers.extend(fields.clone());
            if self.status.is_some() {
                request.expect.status = self.status;
            }
        }
        // The last request is within the period.
        plan.length = Length::Seconds(self.duration.unwrap_or(replay.period_us as f64 / 1e6));
        plan.replay = Some(replay);
        Ok(())
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
        let body = self.request_body()?;
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
        Ok(self.mix.iter().map(|text| self.share(text, &request)).collect::<Result<_, _>>()?)
    }

    /// Reads the body. Bytes that are text become text, because values can be filled into text only.
    fn request_body(&self) -> Result<Option<Body>, Wrong> {
        let Some(data) = &self.body else { return Ok(None) };
        let Some(file) = data.strip_prefix('@') else { return Ok(Some(Body::Text(data.clone()))) };
        let bytes = fs::read(file).map_err(|error| Wrong::Trouble(format!("--body @{file}: {error}")))?;
        Ok(Some(String::from_utf8(bytes).map_or_else(|error| Body::Raw(error.into_bytes()), Body::Text)))
    }

    /// Parses a request of a mix. It has the header fields, and if its method has a body, the body of `request`.
    fn share(&self, text: &str, request: &Request) -> Result<Request, String> {
        let wrong = || {
            format!(
                "--mix {text:?}: expected `WEIGHT:PATH` or `WEIGHT:METHOD PATH`, such as `3:POST /orders`"
            )
        };
        let (weight, rest) = text.split_once(':').ok_or_else(wrong)?;
        let weight = weight.trim().parse().map_err(|_| wrong())?;
        let (method, path) = match rest.trim().split_once(' ') {
            Some((method, path)) => (Some(method.to_owned()), path.trim()),
            None => (None, rest.trim()),
        };
        if !path.starts_with('/') {
            return Err(wrong());
        }
        let method = method.or_else(|| self.method.clone()).unwrap_or_else(|| "GET".to_owned());
        let body = request.body.clone().filter(|_| !matches!(method.as_str(), "GET" | "HEAD"));
        Ok(Request { method, weight, path: path.to_owned(), body, ..request.clone() })
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
