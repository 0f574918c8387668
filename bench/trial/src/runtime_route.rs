//! How long a route that is added while traffic flows takes until it answers, and what fails meanwhile.
//!
//! The system runs with so many routes under a constant load. Its files are written anew with one route more, which goes
//! to an origin of its own with another body; it is told to read them; then the new path is asked for every millisecond
//! until that body comes.

use crate::arm::Arm;
use crate::failure::Failure;
use crate::generator::{Phase, Run, plan};
use crate::ground::Ground;
use crate::origin::Origin;
use crate::target::Target;
use rustix::process::Signal;
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_lab_record::LoadModel;
use tollgate_lab_stats::median::median;
use tollgate_lab_study::Settings;
use tollgate_lab_system::{Address, ReloadSignal, Route, Upstream};

/// Bytes of the new route's answers; the others have two.
const NEW_BODY: usize = 11;

/// How long a system may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Seconds of load around an addition.
const LOAD: f64 = 4.0;

/// What the experiment found for one system and one number of routes.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Milliseconds from the signal to the first right answer, a value a time.
    pub milliseconds: Vec<f64>,
    /// Requests of the load meanwhile.
    pub requests: u64,
    /// Of them failed.
    pub failed: u64,
    /// 99th percentile of the load's latency, milliseconds, the worst of all times.
    pub p99_ms: f64,
}

impl Added {
    /// The median time, milliseconds.
    pub fn median(&self) -> Option<f64> {
        median(&self.milliseconds)
    }
}

/// Adds a route `times` times to a system with `routes` routes, at `rate` requests a second.
///
/// # Errors
/// In words for the table: the system cannot reload, is missing, or did not answer in time.
pub fn add_route(
    ground: &Ground,
    system: &str,
    routes: u32,
    rate: f64,
    times: u32,
) -> Result<Added, Failure> {
    let found = ground.catalogue.get(system)?;
    let reload = found
        .description()
        .reload
        .clone()
        .ok_or_else(|| Failure("has no signal to read its files again".into()))?;
    let signal = match reload.signal {
        ReloadSignal::Hup => Signal::HUP,
        ReloadSignal::Usr1 => Signal::USR1,
        ReloadSignal::Usr2 => Signal::USR2,
    };
    let arm = Arm {
        name: system.to_owned(),
        system: system.to_owned(),
        title: None,
        features: Vec::new(),
        options: reload.options,
        settings: Settings::default(),
    };
    let settings = Settings { routes: Some(routes), connections: Some(16), ..Settings::default() };
    let other = Settings { response_body: Some(NEW_BODY), ..Settings::default() };
    let added_origin = Origin::start(ground, &other, &[ground.cores.load], None)?;
    let mut result = Added { milliseconds: Vec::new(), requests: 0, failed: 0, p99_ms: 0.0 };
    for _ in 0..times {
        let origin = Origin::start(ground, &settings, &[ground.cores.load], None)?;
        let body = origin.body.clone();
        let target = Target::start(ground, &arm, &settings, Some(Rc::new(RefCell::new(origin))), 256)
            .map_err(|used| Failure(used.missing.map(|missing| missing.reason).unwrap_or_default()))?;
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
        let aim = target.aim(&settings, &body);
        let mut load = plan(&settings, aim, LOAD, Some(LoadModel::Constant { rps: rate }));
        load.warm_up = 0.5;
        let mut run = Run::builtin(ground, &load)?;
        run.until(Phase::Measuring, load.warm_up, || ())?;
        std::thread::sleep(Duration::from_millis(500));
        let files = found.render(&setting)?;
        for file in files {
            fs::write(&file.path, file.text).map_err(|error| Failure::of(file.path.display(), error))?;
        }
        let begun = Instant::now();
        target.reload(signal)?;
        let wanted = tollgate_lab_origin::body(NEW_BODY);
        loop {
            if ask(target.port)
                .is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(&wanted))
            {
                result.milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
                break;
            }
            if begun.elapsed() > LIMIT {
                return Err(Failure(format!("the new route did not answer within {} s", LIMIT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let load = run.finish(|| ())?.load;
        result.requests += load.ok + load.failures.total();
        result.failed += load.failures.total();
        let p99 = load.latency().and_then(|times| times.percentile(99.0)).unwrap_or(0.0) / 1e3;
        result.p99_ms = result.p99_ms.max(p99);
    }
    Ok(result)
}

/// One request for the new path on a connection of its own.
fn ask(port: u16) -> std::io::Result<Vec<u8>> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(200))?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.write_all(b"GET /added-at-run-time/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    Ok(answer)
}
