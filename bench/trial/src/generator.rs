//! Runs a load generator as a child process on the generator's core and reads its result and its CPU use. The
//! generator is the built-in one (this program, called as `load`) or one of the external tools.
//!
//! A [`Run`] is started from the settings of a cell ([`Run::start`]) or from a complete plan
//! ([`Run::builtin`]). [`Run::until`] lets the caller read its counters at the start and the end of the
//! measurement, if the generator reports these points. [`Run::finish`] returns the result.

use crate::failure::Failure;
use crate::ground::{Ground, tail};
use crate::host::Host;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tollgate_lab_load::{
    Done, Expect, Length as PlanLength, Plan, Protocol, Request as PlanRequest, Tls, recording,
};
use tollgate_lab_meter::child::{Ended, Group, Launch};
use tollgate_lab_origin::{ANSWER, LONGEST_ANSWER, body};
use tollgate_lab_record::{LoadModel, Tree, Verification};
use tollgate_lab_study::{OriginKind, Settings, Url, Verify};
use tollgate_lab_system::TlsFiles;
use tollgate_lab_system::credentials::header_lines;
use tollgate_lab_tools::{Found, Header, HttpVersion, Length, Output, Request, Tool};

/// Distinct paths requested if many routes are configured, spread evenly over the routes.
const ROUTES_ASKED: u32 = 64;

/// Connections of a check beside a load tool.
const CHECKING: u32 = 4;

/// Interval at which `watch` is called while a generator runs.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// A point in a run that the built-in generator and some tools report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The ramp and the warm-up are over; the measurement starts.
    Measuring,
    /// The measurement is over.
    Measured,
}

impl Phase {
    /// Returns the line that the built-in generator prints at this point.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measuring => "measuring",
            Self::Measured => "measured",
        }
    }
}

/// A generator that runs.
#[derive(Debug)]
pub struct Run {
    group: Group,
    limit: Duration,
    how: How,
    folder: std::path::PathBuf,
}

#[derive(Debug)]
enum How {
    Builtin,
    Tool { tool: Tool, request: Box<Request>, version: String, command: Vec<String>, then: Option<Launched> },
}

/// The second command of a tool that first writes a log and then counts it.
#[derive(Debug)]
struct Launched {
    program: std::path::PathBuf,
    args: Vec<String>,
}

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

impl Run {
    /// Starts the load of the settings for `seconds`.
    ///
    /// # Errors
    /// If the tool is missing, does not support what the settings ask for, or does not start.
    pub fn start(ground: &Ground, settings: &Settings, aim: Aim<'_>, seconds: f64) -> Result<Self, Failure> {
        if settings.tool() == "builtin" {
            let mut plan = plan(settings, aim, seconds, None);
            if let Some(file) = &settings.replay {
                repeat(&mut plan, file, settings, ground.own_origin.is_none())?;
            }
            plan.warm_up = settings.warm_up();
            plan.seed = ground.arrivals();
            return Self::builtin(ground, &plan);
        }
        if matches!(ground.hosts.client, Host::Agent(_)) {
            return Err(Failure("only the built-in generator runs at an agent (`hosts.client`)".into()));
        }
        let tool = Tool::from_name(settings.tool())
            .ok_or_else(|| Failure(format!("no load tool is called `{}`", settings.tool())))?;
        let program = match tool.find(&ground.places) {
            Found::Here(program) => program,
            Found::Missing { how_to_get } => {
                return Err(Failure(format!("the load tool {tool} is not installed: {how_to_get}")));
            }
        };
        let mut request = request(settings, aim, seconds);
        request.threads = tool.abilities().threads_for(request.threads, request.connections);
        if tool.phases().is_some() {
            request.warm_up = Duration::from_secs_f64(settings.warm_up());
        }
        let invocation = tool.command(&request).map_err(|refused| Failure(refused.to_string()))?;
        let folder = ground.folder(tool.name())?;
        for (name, content) in &invocation.files {
            fs::write(folder.join(name), content)
                .map_err(|error| Failure::of(folder.join(name).display(), error))?;
        }
        fs::write(folder.join("stdin"), &invocation.stdin)
            .map_err(|error| Failure::of(folder.display(), error))?;
        let path =
            std::path::absolute(&program.path).map_err(|error| Failure::of(program.path.display(), error))?;
        let mut launch = Launch::new("/bin/sh")
            // [`Launch`] starts processes with empty standard input; the shell redirects it from a file.
            .arguments(["-c", r#"exec "$0" "$@" <stdin"#])
            .arguments([path.as_os_str()])
            .arguments(&invocation.args)
            .folder(&folder)
            .cores(&ground.cores.load)
            .output(folder.join("stdout"), folder.join("stderr"));
        for (name, value) in &invocation.env {
            launch = launch.variable(name, value);
        }
        let then =
            (!invocation.then.is_empty()).then(|| Launched { program: path, args: invocation.then.clone() });
        let warm_up = request.warm_up;
        let how = How::Tool {
            tool,
            request: Box::new(request),
            version: program.version,
            command: invocation.line(),
            then,
        };
        // A tool that runs a number of requests may take long against a slow system.
        let limit = warm_up
            + Duration::from_secs_f64(seconds * 2.0 + if settings.requests.is_some() { 90.0 } else { 45.0 });
        Ok(Self { group: launch.start()?, limit, how, folder })
    }

    /// Starts the built-in generator with the given plan.
    ///
    /// # Errors
    /// If the plan is not valid or the generator does not start.
    pub fn builtin(ground: &Ground, plan: &Plan) -> Result<Self, Failure> {
        plan.check().map_err(|failure| Failure(failure.to_string()))?;
        let folder = ground.folder("load")?;
        let file = folder.join("plan.json");
        // With several threads each keeps a core of its own, so that none waits for another.
        let cores = ground.cores.load.iter().filter_map(|core| u32::try_from(*core).ok());
        let elsewhere = matches!(ground.hosts.client, Host::Agent(_));
        let cores = if plan.threads > 1 || elsewhere { cores.collect() } else { Vec::new() };
        let text = serde_json::to_vec_pretty(&Plan { cores, ..plan.clone() })
            .map_err(|error| Failure::of("plan", error))?;
        fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
        let launch = Launch::new(&ground.exe);
        let launch = match (&ground.hosts.client, &ground.hosts.key) {
            (Host::Agent(agent), Some(key)) => launch.arguments([
                "load-at".as_ref(),
                OsStr::new(&agent.name),
                key.as_os_str(),
                file.as_os_str(),
            ]),
            // Here, on the cores of the load.
            _ => launch.arguments(["load".as_ref(), file.as_os_str()]).cores(&ground.cores.load),
        };
        let group = launch.output(folder.join("stdout"), folder.join("stderr")).start()?;
        let seconds = match plan.length {
            PlanLength::Seconds(seconds) => seconds,
            PlanLength::Requests(_) => 240.0,
        };
        let limit = Duration::from_secs_f64(seconds + plan.warm_up + plan.ramp + plan.time_limit + 30.0);
        Ok(Self { group, limit, how: How::Builtin, folder })
    }

    /// Returns the generator's process id.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Returns the start of the line that the generator prints at a phase; `None` if the tool reports no
    /// phases.
    fn says(&self, phase: Phase) -> Option<&'static str> {
        match &self.how {
            How::Builtin => Some(phase.word()),
            How::Tool { tool, .. } => tool.phases().map(|(measuring, measured)| match phase {
                Phase::Measuring => measuring,
                Phase::Measured => measured,
            }),
        }
    }

    /// Waits until the generator reports the phase; returns at once for a tool that reports none. The caller
    /// expects the phase no earlier than `soonest` seconds from now. Until then the output is read every 40
    /// ms only, because a read each millisecond costs 2 % of the generator's core.
    ///
    /// # Errors
    /// If the generator fails before the phase, or runs past its time limit.
    pub fn until(&mut self, phase: Phase, soonest: f64, mut watch: impl FnMut()) -> Result<(), Failure> {
        let Some(words) = self.says(phase) else { return Ok(()) };
        let started = Instant::now();
        let mut watched = started;
        loop {
            if self.read("stdout").lines().any(|line| line.starts_with(words)) {
                return Ok(());
            }
            if watched.elapsed() > WATCH_EVERY {
                watched = Instant::now();
                watch();
            }
            if let Some(ended) = self.group.ended()? {
                // The process may have reported the phase and ended since the last read.
                if ended.status.success() {
                    return Ok(());
                }
                let words = tail(&self.folder.join("stderr"), 4);
                return Err(Failure(format!("the generator failed ({}): {words}", ended.status)));
            }
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
            let soon = started.elapsed().as_secs_f64() + 0.05 >= soonest;
            std::thread::sleep(Duration::from_millis(if soon { 1 } else { 40 }));
        }
    }

    /// Calls `watch` at this interval until it returns `true`. Returns `false` if the generator ended before.
    ///
    /// # Errors
    /// If the generator runs past its time limit.
    pub fn follow(&mut self, every: Duration, mut watch: impl FnMut() -> bool) -> Result<bool, Failure> {
        let started = Instant::now();
        loop {
            if self.group.wait(every)?.is_some() {
                return Ok(false);
            }
            if watch() {
                return Ok(true);
            }
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
        }
    }

    /// Waits until the generator ends and parses its result. The built-in generator reports its own CPU use
    /// during the measurement; for a tool it is the kernel's count over the whole life of the process.
    ///
    /// # Errors
    /// If the generator did not end in time, failed, or printed output that cannot be parsed.
    pub fn finish(mut self, watch: impl FnMut()) -> Result<Done, Failure> {
        let ended = self.wait(watch)?;
        let done = match &self.how {
            How::Builtin => {
                let text = self.read("stdout");
                if !ended.status.success() {
                    let words = tail(&self.folder.join("stderr"), 4);
                    return Err(Failure(format!(
                        "the built-in generator failed ({}): {words}",
                        ended.status
                    )));
                }
                // The lines of the phases precede the result.
                let text = text.find('{').map_or("", |start| &text[start..]);
                let mut done: Done = serde_json::from_str(text)
                    .map_err(|error| Failure::of("the built-in generator's result", error))?;
                // Replaces the real command: the paths of this run's folder mean nothing to a reader.
                done.load.command = ["tollgate", "bench", "load", "plan.json"].map(str::to_owned).to_vec();
                done
            }
            How::Tool { tool, request, version, command, then } => {
                if let Some(then) = then {
                    fs::remove_file(self.folder.join("stdout")).ok();
                    let mut second = Launch::new(&then.program)
                        .arguments(&then.args)
                        .folder(&self.folder)
                        .output(self.folder.join("stdout"), self.folder.join("stderr"))
                        .start()?;
                    second.wait(Duration::from_secs(60))?;
                }
                let output = Output {
                    version: version.clone(),
                    command: command.clone(),
                    stdout: self.read("stdout"),
                    stderr: self.read("stderr"),
                    exit: ended.status.code(),
                    dir: self.folder.clone(),
                };
                let load = tool.parse(request, &output).map_err(|error| Failure(error.to_string()))?;
                Done { load, used: whole_life(ended) }
            }
        };
        let _ = fs::remove_dir_all(&self.folder);
        Ok(done)
    }

    fn wait(&mut self, mut watch: impl FnMut()) -> Result<Ended, Failure> {
        let started = Instant::now();
        loop {
            if let Some(ended) = self.group.wait(WATCH_EVERY)? {
                return Ok(ended);
            }
            watch();
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
        }
    }

    fn too_long(&mut self) -> Result<Failure, Failure> {
        let said = tail(&self.folder.join("stderr"), 4);
        self.group.stop()?;
        let limit = self.limit.as_secs_f64();
        let reported = if said.trim().is_empty() { String::new() } else { format!(": {said}") };
        Ok(Failure(format!("the generator had not ended after {limit:.0} s and was stopped{reported}")))
    }

    fn read(&self, name: &str) -> String {
        fs::read(self.folder.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

fn whole_life(ended: Ended) -> Tree {
    Tree {
        user_us: ended.user_us as f64,
        system_us: ended.system_us as f64,
        voluntary_switches: ended.voluntary_switches,
        involuntary_switches: ended.involuntary_switches,
        ..Tree::default()
    }
}

/// Returns whether the settings' generator reports the start and the end of its measurement.
pub fn tells_phases(settings: &Settings) -> bool {
    Tool::from_name(settings.tool()).is_none_or(|tool| tool.phases().is_some())
}

/// Returns the paths to request, in turn.
fn paths(settings: &Settings, url: Option<&Url>) -> Vec<String> {
    if let (None, Some(url)) = (&settings.path, url) {
        return vec![url.path.clone()];
    }
    if settings.routes() <= 1 {
        return vec![settings.path().to_owned()];
    }
    let asked = ROUTES_ASKED.min(settings.routes());
    let step = settings.routes() / asked;
    (0..asked).map(|at| format!("/r{:05}/x", at * step + step / 2)).collect()
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
        connections: Some(settings.connections().min(CHECKING)),
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
fn repeat(plan: &mut Plan, file: &str, settings: &Settings, ours: bool) -> Result<(), Failure> {
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

fn request(settings: &Settings, aim: Aim<'_>, seconds: f64) -> Request {
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
