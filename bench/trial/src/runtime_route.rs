//! Measures how long a route added under traffic takes until it answers, and which requests fail during the
//! change.
//!
//! The system runs with a given number of routes under constant load. Then one more route is added, which
//! leads to a separate origin with another body: by a request to the admin API, or by rewriting the system's
//! files. The new path is then requested every millisecond until that body arrives.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::generator::{Phase, Run};
use crate::http::{Answer, connect, read_answer};
use crate::load_plan::{Aim, plan};
use crate::origin::Origin;
use crate::target::Target;
use rustix::process::Signal;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_lab_record::{LoadModel, LoadResult};
use tollgate_lab_stats::histogram::Histogram;
use tollgate_lab_stats::median::median;
use tollgate_lab_study::Settings;
use tollgate_lab_system::{AddRoute, Address, ReloadSignal, Route, Setting, System, Upstream};

/// Size of the new route's body, in bytes; the other routes' bodies have two.
const NEW_BODY: usize = 11;

/// How long the new route may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// Seconds of load before an addition.
const BEFORE: f64 = 2.0;

/// Seconds of load around an addition.
const AROUND: f64 = 4.0;

/// How a running system receives a new route.
#[derive(Debug, Clone)]
pub enum Way {
    /// A request to its admin API.
    Request(AddRoute),
    /// Rewritten files (with these options), then this signal.
    Signal(ReloadSignal, BTreeMap<String, String>),
    /// Rewritten files (with these options), which the system watches.
    Watched(BTreeMap<String, String>),
}

impl Way {
    /// Returns the ways that a system's description names.
    pub fn of(system: &System) -> Vec<Self> {
        let description = system.description();
        let request = description.add_route.clone().map(Self::Request);
        let files = description.reload.clone().map(|reload| match reload.signal {
            Some(signal) => Self::Signal(signal, reload.options),
            None => Self::Watched(reload.options),
        });
        request.into_iter().chain(files).collect()
    }

    /// Describes the way in a few words for the table.
    pub fn reported(&self) -> String {
        match self {
            Self::Request(request) => format!("{} {}", request.method, request.path),
            Self::Signal(ReloadSignal::Hup, _) => "files and SIGHUP".into(),
            Self::Signal(ReloadSignal::Usr1, _) => "files and SIGUSR1".into(),
            Self::Signal(ReloadSignal::Usr2, _) => "files and SIGUSR2".into(),
            Self::Watched(_) => "files, which it watches".into(),
        }
    }

    fn options(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Request(request) => &request.options,
            Self::Signal(_, options) | Self::Watched(options) => options,
        }
    }
}

/// The result for one system, one way and one number of routes.
#[derive(Debug, Clone, Default)]
pub struct Added {
    /// Milliseconds from the request to its answer, one value for each addition; empty if files are changed.
    pub answered: Vec<f64>,
    /// Milliseconds until the new route's first correct answer, counted from the admin API's answer, or from
    /// when the files were in place and the signal was sent.
    pub served: Vec<f64>,
    /// Requests of the load around the additions.
    pub requests: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Latencies of the load before the additions.
    before: Histogram,
    /// Latencies of the load around the additions.
    around: Histogram,
}

impl Added {
    /// Returns the median time until the admin API answered, in milliseconds.
    pub fn answer(&self) -> Option<f64> {
        median(&self.answered)
    }

    /// Returns the median time from then until the route served, in milliseconds.
    pub fn serving(&self) -> Option<f64> {
        median(&self.served)
    }

    /// Returns the 99th percentiles of the load's latency before and around the additions, over all
    /// additions, in milliseconds.
    pub fn p99(&self) -> (f64, f64) {
        let ms = |times: &Histogram| times.percentile(99.0) as f64 / 1e6;
        (ms(&self.before), ms(&self.around))
    }
}

/// Adds a route to a system with `routes` routes, at `rate` requests per second; repeats it `times` times.
///
/// # Errors
/// In words for the table: the system is missing, refused the route, or did not answer in time.
pub fn add_route(
    environment: &Environment,
    system: &System,
    way: &Way,
    routes: u32,
    rate: f64,
    times: u32,
) -> Result<Added, Failure> {
    let arm = Arm {
        name: system.name().to_owned(),
        system: system.name().to_owned(),
        external: None,
        title: None,
        features: Vec::new(),
        options: way.options().clone(),
        settings: Settings::default(),
        instead: None,
    };
    let settings = Settings { routes: Some(routes), connections: Some(16), ..Settings::default() };
    let other = Settings { response_body: Some(NEW_BODY), ..Settings::default() };
    let added_origin = Origin::start(environment, &other, &environment.cores.origin, None)?;
    let wanted = Answer { status: 200, body: tollgate_lab_origin::body(NEW_BODY) };
    let mut result = Added::default();
    for _ in 0..times {
        let origin = Origin::start(environment, &settings, &environment.cores.origin, None)?;
        let body = origin.body.clone();
        let target = Target::start(environment, &arm, &settings, Some(Rc::new(RefCell::new(origin))), 256)?;
        let mut setting =
            target.setting.clone().ok_or_else(|| Failure("is no gateway, so it has no routes".into()))?;
        setting.upstreams.push(Upstream {
            name: "added".into(),
            origins: added_origin.ports.iter().map(|port| Address::local(*port)).collect(),
        });
        setting.routes.push(Route {
            name: "added".into(),
            prefix: "/added-at-run-time/".into(),
            upstream: "added".into(),
        });
        let aim = || target.aim(&settings, &body);
        let calm = load(environment, &settings, aim(), BEFORE, rate)?.finish(|| ())?.load;
        take_in(&mut result.before, &calm)?;
        let mut run = load(environment, &settings, aim(), AROUND, rate)?;
        run.until(Phase::Measuring, WARM_UP, || ())?;
        std::thread::sleep(Duration::from_millis(500));
        let reported = tell(&target, system, way, &setting)?;
        result.answered.extend(reported.answered);
        while !ask(target.port).is_ok_and(|answer| answer == wanted) {
            if reported.at.elapsed() > LIMIT {
                return Err(Failure(format!("the new route did not answer within {} s", LIMIT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        result.served.push(reported.at.elapsed().as_secs_f64() * 1e3);
        let around = run.finish(|| ())?.load;
        result.requests += around.ok + around.failures.total();
        result.failed += around.failures.total();
        take_in(&mut result.around, &around)?;
    }
    Ok(result)
}

/// Seconds of load that do not count.
const WARM_UP: f64 = 0.5;

fn load(
    environment: &Environment,
    settings: &Settings,
    aim: Aim<'_>,
    seconds: f64,
    rate: f64,
) -> Result<Run, Failure> {
    let mut load = plan(settings, aim, seconds, Some(LoadModel::Constant { rps: rate }));
    load.warm_up = WARM_UP;
    Run::builtin(environment, &load)
}

fn take_in(all: &mut Histogram, load: &LoadResult) -> Result<(), Failure> {
    let reported = load.latency().and_then(|times| times.histogram.as_deref());
    let reported = reported.ok_or_else(|| Failure("no request of the load was answered".into()))?;
    all.merge(&Histogram::decode(reported).map_err(|error| Failure::of("the load's times", error))?);
    Ok(())
}

/// The result of handing a route to a system.
struct Told {
    /// When the admin API answered, or the files were in place and the signal was sent.
    at: Instant,
    /// Milliseconds until the admin API answered; `None` if files were changed.
    answered: Option<f64>,
}

/// Hands the last route of the setting to a system.
fn tell(target: &Target, system: &System, way: &Way, setting: &Setting) -> Result<Told, Failure> {
    let signal = match way {
        Way::Request(request) => {
            let body = system.route_body(request, setting)?;
            let started = Instant::now();
            let answer = send(setting.admin_port, request, &body)
                .map_err(|error| Failure::of("asking for the route", error))?;
            let at = Instant::now();
            if !(200..300).contains(&answer.status) {
                let words = String::from_utf8_lossy(&answer.body).trim().to_owned();
                return Err(Failure(format!("refused the route with {}: {words}", answer.status)));
            }
            return Ok(Told { at, answered: Some((at - started).as_secs_f64() * 1e3) });
        }
        Way::Signal(ReloadSignal::Hup, _) => Some(Signal::HUP),
        Way::Signal(ReloadSignal::Usr1, _) => Some(Signal::USR1),
        Way::Signal(ReloadSignal::Usr2, _) => Some(Signal::USR2),
        Way::Watched(_) => None,
    };
    for file in system.render(setting)? {
        // A watcher must never see half a file: write a new file and rename it over the old one.
        let mut beside = file.path.clone().into_os_string();
        beside.push(".new");
        fs::write(&beside, file.text)
            .and_then(|()| fs::rename(&beside, &file.path))
            .map_err(|error| Failure::of(file.path.display(), error))?;
    }
    let at = Instant::now();
    if let Some(signal) = signal {
        target.reload(signal)?;
    }
    Ok(Told { at, answered: None })
}

/// Sends the request that adds the route.
fn send(port: u16, request: &AddRoute, body: &str) -> std::io::Result<Answer> {
    let mut stream = connect(port, LIMIT)?;
    let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes())?;
    read_answer(&mut stream)
}

/// Sends one request for the new path on a new connection.
fn ask(port: u16) -> std::io::Result<Answer> {
    let mut stream = connect(port, Duration::from_millis(500))?;
    stream.write_all(b"GET /added-at-run-time/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    read_answer(&mut stream)
}
