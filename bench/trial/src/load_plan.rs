//! Plans the load of a cell from its settings and its [`Aim`]: a plan for the built-in generator, or a request to a load tool.

use crate::failure::Failure;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tollgate_lab_load::{
    Expect, Length as PlanLength, Plan, Protocol, Request as PlanRequest, Tls, recording,
};
use tollgate_lab_origin::{ANSWER, LONGEST_ANSWER, body};
use tollgate_lab_record::{LoadModel, Verification};
use tollgate_lab_study::{OriginKind, Settings, Url, Verify};
use tollgate_lab_system::TlsFiles;
use tollgate_lab_system::credentials::header_lines;
use tollgate_lab_tools::{Header, HttpVersion, Length, Request};

/// Distinct paths requested if many routes are configured, spread evenly over the routes.
const PATHS_MAX: u32 = 64;

/// Connections of a check beside a load tool.
const CHECK_CONNECTIONS_MAX: u32 = 4;

/// The destination of the load and the answer to expect.
#[derive(Debug, Clone, Copy)]
pub struct Aim<'a> {
    /// The address and port.
    pub to: SocketAddr,
    /// The URL of a gateway or an origin that already runs: its host and path are requested unless the
    /// settings name others.
    pub url: Option<&'a Url>,
    /// The expected body of every answer; `None`: the first good answer sets the expectation.
    pub body: Option<&'a [u8]>,
    /// The expected status of every answer.
    pub status: u16,
    /// The certificate and key of the destination; `None` means plain text.
    pub tls: Option<&'a TlsFiles>,
}

/// Returns the paths to request, in turn.
fn paths(settings: &Settings, url: Option<&Url>) -> Vec<String> {
    if let (None, Some(url)) = (&settings.path, url) {
        return vec![url.path.clone()];
    }
    if settings.routes() <= 1 {
        return vec![settings.path().to_owned()];
    }
    let count = PATHS_MAX.min(settings.routes());
    let step = settings.routes() / count;
    (0..count).map(|at| format!("/r{:05}/x", at * step + step / 2)).collect()
}

fn model(settings: &Settings) -> LoadModel {
    match settings.rate {
        None => LoadModel::Closed,
        Some(rps) if settings.poisson() => LoadModel::Poisson { rps },
        Some(rps) => LoadModel::Constant { rps },
    }
}

/// Returns the built-in generator's plan for the settings' load. `model_instead` replaces the settings' own
/// model.
pub fn plan(settings: &Settings, aim: Aim<'_>, seconds: f64, model_instead: Option<LoadModel>) -> Plan {
    let mut plan = Plan::new(aim.to);
    plan.threads = settings.threads();
    plan.connections = settings.connections().max(settings.threads());
    plan.keep_alive = settings.keep_alive();
    plan.ramp = settings.ramp();
    if settings.sources() > 1 {
        // Not in 127.0.0.0/24, where systems and origins listen.
        plan.sources = (1..=settings.sources()).map(|last| IpAddr::from([127, 0, 1, last as u8])).collect();
    }
    plan.tls = aim.tls.map(|files| Tls {
        certificate: files.certificate.clone(),
        key: settings.client_certificate().then(|| files.key.clone()),
    });
    plan.model = model_instead.unwrap_or_else(|| model(settings));
    if settings.grpc_streams() {
        plan.protocol = Protocol::GrpcStream;
        plan.streams = settings.streams();
    }
    plan.requests = paths(settings, aim.url)
        .iter()
        .map(|path| {
            let mut request = PlanRequest::get(path);
            request.method = settings.method().to_owned();
            request.host = settings.host.clone().or_else(|| aim.url.map(Url::authority));
            request.headers = header_fields(settings);
            request.body = settings.request_body.map(tollgate_lab_load::Body::Bytes);
            let body = settings.answer.as_deref().map(str::as_bytes).or(aim.body);
            request.expect = match body {
                Some(body) => Expect::exactly(aim.status, body),
                None => Expect { status: Some(aim.status), ..Expect::default() },
            };
            request
        })
        .collect();
    plan.length = match settings.requests {
        Some(count) if plan.model == LoadModel::Closed => PlanLength::Requests(count),
        _ => PlanLength::Seconds(seconds),
    };
    plan.time_limit = settings.timeout();
    plan.verification = match settings.verify {
        Some(Verify::Status) => Verification::Status,
        Some(Verify::Full) | None => Verification::Full,
    };
    plan
}

/// Returns the bytes of the first request of the settings' load, as the built-in generator sends it.
pub(crate) fn first_request(settings: &Settings, aim: Aim<'_>) -> Vec<u8> {
    let plan = check_plan(settings, aim, 1);
    let Some(request) = plan.requests.first() else { return Vec::new() };
    let host = request.host.clone().unwrap_or_else(|| aim.to.to_string());
    let mut bytes = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", request.method, request.path).into_bytes();
    for (name, value) in &request.headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let body = match &request.body {
        Some(tollgate_lab_load::Body::Bytes(count)) => vec![b'p'; *count],
        Some(tollgate_lab_load::Body::Text(text)) => text.clone().into_bytes(),
        Some(tollgate_lab_load::Body::Raw(bytes)) => bytes.clone(),
        None => Vec::new(),
    };
    if request.body.is_some() {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

/// Returns the plan of `count` verified requests, to check the responses that a load tool does not verify: unary gRPC
/// calls or HTTP/2 if the settings have them, otherwise HTTP/1.1, even for a tool with HTTP/1.0. The built-in generator
/// itself writes the fields that frame a message.
pub fn check_plan(settings: &Settings, aim: Aim<'_>, count: u64) -> Plan {
    let named = |line: &str| line.split_once(':').map_or("", |(name, _)| name.trim()).to_ascii_lowercase();
    let framing = ["connection", "content-length", "host", "transfer-encoding"];
    let lines = settings.header_lines.iter().flatten();
    let closes = lines
        .clone()
        .any(|line| named(line) == "connection" && line.to_ascii_lowercase().trim_end().ends_with("close"));
    let host = lines.clone().find(|line| named(line) == "host").and_then(|line| line.split_once(':'));
    let kept = Settings {
        header_lines: Some(lines.filter(|line| !framing.contains(&named(line).as_str())).cloned().collect()),
        host: settings.host.clone().or_else(|| host.map(|(_, value)| value.trim().to_owned())),
        keep_alive: Some(settings.keep_alive() && !closes),
        connections: Some(settings.connections().min(CHECK_CONNECTIONS_MAX)),
        threads: Some(1),
        ramp: None,
        sources: None,
        requests: None,
        replay: None,
        ..settings.clone()
    };
    let mut plan = plan(&kept, aim, 1.0, Some(LoadModel::Closed));
    plan.length = PlanLength::Requests(count.max(plan.requests.len() as u64));
    if settings.http() == 2 && !settings.grpc_streams() {
        plan.protocol = if settings.grpc() { Protocol::Grpc } else { Protocol::Http2 };
        plan.keep_alive = true;
    }
    if let (Protocol::Grpc, Some(body)) = (plan.protocol, aim.body) {
        // The response to a call is one message, which starts with a prefix.
        let message = tollgate_lab_origin::message(body);
        for request in &mut plan.requests {
            request.expect = Expect::exactly(aim.status, &message);
        }
    }
    plan
}

/// Makes a plan repeat a recording: its times, methods, hosts, paths and sizes of requests. The laboratory's built-in
/// origin (`ours`) gives the recorded status and length when a request asks for them. Of every other origin the usual
/// answer is expected, since the same origin is behind all systems. The host of the settings comes first, then the recorded host, then the
/// host of the gateway's URL.
pub(crate) fn repeat(plan: &mut Plan, file: &str, settings: &Settings, ours: bool) -> Result<(), Failure> {
    let read = recording::read(std::path::Path::new(file), settings.replay_speed()).map_err(Failure)?;
    let usual = plan.requests.swap_remove(0);
    plan.requests = read.requests;
    let asks = ours && settings.origin() == OriginKind::Builtin && settings.answer.is_none();
    let mut expected: HashMap<(u16, u32), Expect> = HashMap::new();
    for request in &mut plan.requests {
        request.headers.extend(usual.headers.iter().cloned());
        request.host = settings.host.clone().or(request.host.take()).or_else(|| usual.host.clone());
        let wanted = if asks { answer_of(&request.expect) } else { None };
        let expect = match wanted {
            Some((status, bytes)) => {
                request.headers.push((ANSWER.to_owned(), format!("{status} {bytes}")));
                *expected
                    .entry((status, bytes))
                    .or_insert_with(|| Expect::exactly(status, &body(bytes as usize)))
            }
            None => usual.expect,
        };
        request.expect = match request.method.as_str() {
            "HEAD" => Expect { length: Some(0), digest: None, ..expect },
            _ => expect,
        };
    }
    plan.replay = Some(read.replay);
    plan.length = PlanLength::Seconds(match plan.length {
        PlanLength::Seconds(seconds) => seconds,
        PlanLength::Requests(_) => plan.replay.as_ref().map_or(1.0, |replay| replay.period_us as f64 / 1e6),
    });
    Ok(())
}

/// Returns the status and the length of a recorded answer; `None` if the recording does not hold them, or if no origin gives
/// such an answer.
fn answer_of(recorded: &Expect) -> Option<(u16, u32)> {
    let status = recorded.status.filter(|status| (200..=599).contains(status))?;
    if matches!(status, 204 | 304) {
        return Some((status, 0));
    }
    let bytes = recorded.length?.min(u64::from(LONGEST_ANSWER));
    Some((status, u32::try_from(bytes).ok()?))
}

/// Returns the header lines of a known client if the settings ask for them; otherwise none.
fn known(settings: &Settings) -> Vec<(String, String)> {
    let lines = if settings.known_client() { header_lines() } else { Vec::new() };
    lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Splits the header lines into names and values for the built-in generator, which sends well-formed fields
/// only.
fn header_fields(settings: &Settings) -> Vec<(String, String)> {
    let field = |line: &String| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        (name.trim().to_owned(), value.trim().to_owned())
    };
    settings.header_lines.iter().flatten().map(field).chain(known(settings)).collect()
}

/// Returns the request to a load tool for the settings' load.
pub(crate) fn request(settings: &Settings, aim: Aim<'_>, seconds: f64) -> Request {
    let scheme = if aim.tls.is_some() { "https" } else { "http" };
    let authority = aim.url.map_or_else(|| aim.to.to_string(), Url::authority);
    let urls: Vec<String> =
        paths(settings, aim.url).iter().map(|path| format!("{scheme}://{authority}{path}")).collect();
    let mut request =
        Request::new("", settings.connections(), Length::Time(Duration::from_secs_f64(seconds)));
    request.urls = urls;
    request.threads = settings.threads();
    if let Some(count) = settings.requests.filter(|_| settings.tool() == "ab") {
        request.length = Length::Count(count);
    }
    request.model = model(settings);
    request.keep_alive = settings.keep_alive();
    request.version = match (settings.tool(), settings.http()) {
        ("ab", _) => HttpVersion::Http10,
        (_, 2) => HttpVersion::Http2,
        _ => HttpVersion::Http11,
    };
    request.streams = settings.streams();
    request.method = settings.method().to_owned();
    request.headers.extend(settings.host.iter().map(|host| Header::new("Host", host.clone())));
    request.headers.extend(settings.header_lines.iter().flatten().map(|line| Header::Verbatim(line.clone())));
    request.headers.extend(known(settings).into_iter().map(|(name, value)| Header::new(name, value)));
    request.body = vec![b'p'; settings.request_body.unwrap_or(0)];
    if settings.grpc() {
        request.body = tollgate_lab_origin::message(&request.body);
        request.headers.push(Header::new("content-type", "application/grpc"));
        request.headers.push(Header::new("te", "trailers"));
    }
    request.timeout = Duration::from_secs_f64(settings.timeout());
    request.status = (aim.status != 200).then_some(aim.status);
    request
}
