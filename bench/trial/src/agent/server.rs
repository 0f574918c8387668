//! The agent: accepts sessions and executes their operations on its host.
//!
//! Each session has a thread and a [`Environment`] of its own. When its connection ends, everything that it started
//! ends, so a laboratory that was killed leaves nothing behind. A connection whose host is gone is noticed by
//! the kernel's keep-alive probes.

use super::identity::Identity;
use super::link::{listen, probe};
use super::message::{Ask, Certificate, OriginUp, StartSystem, SystemUp, Welcome, receive, send};
use crate::cpu::{Counter, CpuTime};
use crate::elsewhere::Reading;
use crate::environment::{Environment, LOOK_AT_START};
use crate::failure::Failure;
use crate::generator::{Phase, Run};
use crate::origin::Origin;
use crate::target::{StartOptions, Target, quota};
use rustix::net::sockopt;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate_lab_load::Plan;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::machine::{CoreTimes, busy_cores};
use tollgate_lab_study::{CpuSource, CpuSubject, Settings};

/// The longest wait for the handshake and the first message, so that an idle peer holds no thread.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Connections at a time; each has a thread. A run has at most four.
const MOST: usize = 32;

/// Readings that a session keeps; the oldest are forgotten first. A trial has at most four.
const READINGS: usize = 64;

/// Seconds without a byte until the kernel asks whether the peer lives, and between further attempts.
const PROBE: Duration = Duration::from_secs(10);

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Accepts sessions until the listener fails. `environment` prepares the surroundings of a session with the cores
/// that it asks for. `report` receives a sentence for each session.
///
/// # Errors
/// If the listener fails or the identity cannot be used.
pub fn serve<G, R>(
    listener: &TcpListener,
    identity: &Identity,
    environment: G,
    report: R,
) -> Result<std::convert::Infallible, Failure>
where
    G: Fn(Option<&[usize]>) -> Result<Environment, Failure> + Clone + Send + 'static,
    R: Fn(&str) + Clone + Send + 'static,
{
    let config = identity.server()?;
    let identity = identity.clone();
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(Failure::of("the listener", error)),
        };
        if open.load(Ordering::Relaxed) >= MOST {
            report(&format!("{peer}: refused, as {MOST} connections are open"));
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (config, open) = (Arc::clone(&config), Arc::clone(&open));
        let (environment, report, identity) = (environment.clone(), report.clone(), identity.clone());
        std::thread::spawn(move || {
            match session(stream, config, &environment, &identity) {
                Ok(true) => report(&format!("{peer}: the session ended")),
                Ok(false) => {}
                Err(failure) => report(&format!("{peer}: {failure}")),
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Serves one connection. Returns whether it became a session.
fn session(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    environment: &impl Fn(Option<&[usize]>) -> Result<Environment, Failure>,
    identity: &Identity,
) -> Result<bool, Failure> {
    let lost = |error: io::Error| Failure(error.to_string());
    stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(HANDSHAKE))).map_err(lost)?;
    sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, PROBE))
        .and_then(|()| sockopt::set_tcp_keepintvl(&stream, PROBE))
        .map_err(|error| lost(error.into()))?;
    let connection = ServerConnection::new(config).map_err(|error| Failure::of("the identity", error))?;
    let mut stream = StreamOwned::new(connection, stream);
    let Some(hello) = receive::<Ask>(&mut stream).map_err(lost)? else { return Ok(false) };
    let Ask::Hello { version, cores } = hello else {
        answer::<()>(&mut stream, Err(Failure("a session begins with a greeting".into())))?;
        return Ok(false);
    };
    if version != env!("CARGO_PKG_VERSION") {
        let own = env!("CARGO_PKG_VERSION");
        let text =
            format!("it is version {own}, and the laboratory is version {version}: use the same on both");
        answer::<()>(&mut stream, Err(Failure(text)))?;
        return Ok(false);
    }
    let environment = match environment(cores.as_deref()) {
        Ok(mut environment) => {
            environment.session = Some(stream.sock.try_clone().map_err(lost)?);
            environment
        }
        Err(failure) => {
            answer::<()>(&mut stream, Err(failure))?;
            return Ok(false);
        }
    };
    stream.sock.set_read_timeout(None).map_err(lost)?;
    let welcome = Welcome {
        facts: environment.facts.clone(),
        cores: environment.cores.target.clone(),
        host_cores: CoreTimes::read().highest(),
    };
    answer(&mut stream, Ok(welcome))?;
    let own = stream.sock.local_addr().map_err(lost)?.ip();
    let mut session = Session {
        environment,
        own,
        identity: identity.clone(),
        systems: BTreeMap::new(),
        origins: BTreeMap::new(),
        readings: BTreeMap::new(),
        counters: Vec::new(),
        last: 0,
    };
    while let Some(ask) = receive::<Ask>(&mut stream).map_err(lost)? {
        session.execute(ask, &mut stream)?;
    }
    Ok(true)
}

fn answer<T: Serialize>(stream: &mut Stream, result: Result<T, Failure>) -> Result<(), Failure> {
    let result = result.map_err(|failure| failure.0);
    send(stream, &result).map_err(|error| Failure::of("the connection", error))
}

/// A reading, with the numbers of the system and the origin that it covers.
type Kept = (Reading, Option<u64>, Option<u64>);

/// The state of a session. Systems are dropped before their origins.
struct Session {
    systems: BTreeMap<u64, Target>,
    origins: BTreeMap<u64, (Origin, Option<Quota>)>,
    readings: BTreeMap<u64, Kept>,
    counters: Vec<(CpuSubject, Counter)>,
    /// The address of this host on which the session came in.
    own: IpAddr,
    identity: Identity,
    /// The last number given to a system, an origin or a reading.
    last: u64,
    environment: Environment,
}

impl Session {
    /// Executes an operation and sends its answer.
    ///
    /// # Errors
    /// If the connection is lost. A failed operation is an answer.
    fn execute(&mut self, ask: Ask, stream: &mut Stream) -> Result<(), Failure> {
        match ask {
            Ask::Hello { .. } => answer::<()>(stream, Err(Failure("the session has begun already".into()))),
            Ask::StartOrigin(settings) => answer(stream, self.start_origin(&settings)),
            Ask::StartSystem(start) => answer(stream, self.start_system(*start)),
            Ask::Pause(id) => answer(stream, self.system(id).map(Target::pause)),
            Ask::Resume(id) => answer(stream, self.system(id).map(Target::resume)),
            Ask::Ended(id) => answer(stream, self.system(id).and_then(Target::ended)),
            Ask::Stop(id) => {
                self.systems.remove(&id);
                self.origins.remove(&id);
                answer(stream, Ok(()))
            }
            Ask::Counted(id) => answer(stream, self.origin(id).map(|(origin, _)| origin.counted())),
            Ask::Workers(id) => answer(stream, self.system(id).map(|system| system.read_workers())),
            Ask::Read { system, origin } => answer(stream, self.read(system, origin)),
            Ask::Between(earlier, later) => answer(stream, self.between(earlier, later)),
            Ask::Cpu(subject) => answer(stream, self.cpu(&subject)),
            Ask::Load { plan, certificate } => {
                match self.load(*plan, certificate, stream) {
                    // The last answer is empty.
                    Ok(()) => answer::<Option<String>>(stream, Ok(None)),
                    Err(failure) => answer::<Option<String>>(stream, Err(failure)),
                }
            }
            Ask::Busy => answer(stream, Ok(busy_cores(LOOK_AT_START))),
            Ask::Sink => answer(stream, listen(self.own).map_err(|error| Failure::of("listening", error))),
            Ask::Link(to) => answer(stream, probe(to).map_err(|error| Failure::of(to, error))),
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn system(&mut self, id: u64) -> Result<&mut Target, Failure> {
        self.systems.get_mut(&id).ok_or_else(|| Failure(format!("there is no system {id}")))
    }

    fn origin(&self, id: u64) -> Result<&(Origin, Option<Quota>), Failure> {
        self.origins.get(&id).ok_or_else(|| Failure(format!("there is no origin {id}")))
    }

    fn start_origin(&mut self, settings: &Settings) -> Result<OriginUp, Failure> {
        let own = Settings { quota: settings.origin_quota, memory_mib: None, ..settings.clone() };
        let quota = quota("origin", &own)?;
        let origin =
            Origin::start(&self.environment, settings, &self.environment.cores.origin, quota.as_ref())?;
        let (ports, second_ports) = (origin.ports.clone(), origin.second_ports.clone());
        let id = self.next();
        self.origins.insert(id, (origin, quota));
        Ok(OriginUp { id, ports, second_ports })
    }

    fn start_system(&mut self, start: StartSystem) -> Result<SystemUp, Failure> {
        let StartSystem { arm, settings, origins, clients, listen, certificate } = start;
        if let Some(Certificate { certificate, key }) = certificate {
            self.environment.use_certificate(&certificate, &key)?;
        }
        let origin = Rc::new(RefCell::new(Origin::at(origins)));
        let place = StartOptions { origin: Some(origin), listen: Some(listen), ..StartOptions::default() };
        Ok(match Target::start_in(&self.environment, &arm, &settings, place, clients) {
            Ok(target) => {
                let id = self.next();
                let up = SystemUp { up: Some((id, target.port)), used: target.used.clone() };
                self.systems.insert(id, target);
                up
            }
            Err(used) => SystemUp { up: None, used: *used },
        })
    }

    fn read(&mut self, system: Option<u64>, origin: Option<u64>) -> Result<u64, Failure> {
        let read = |session: &Self| -> Result<Reading, Failure> {
            let missing = |id: u64| Failure(format!("there is no system {id}"));
            let target = system.map(|id| session.systems.get(&id).ok_or_else(|| missing(id))).transpose()?;
            let origin = origin.map(|id| session.origin(id)).transpose()?;
            Ok(Reading::take(target, origin))
        };
        let reading = read(self)?;
        if self.readings.len() >= READINGS {
            self.readings.pop_first();
        }
        let id = self.next();
        self.readings.insert(id, (reading, system, origin));
        Ok(id)
    }

    fn between(&self, earlier: u64, later: u64) -> Result<crate::elsewhere::Interval, Failure> {
        let kept =
            |id: u64| self.readings.get(&id).ok_or_else(|| Failure(format!("there is no reading {id}")));
        let ((earlier, ..), (later, system, origin)) = (kept(earlier)?, kept(later)?);
        let system = system.and_then(|id| self.systems.get(&id));
        let origin = origin.and_then(|id| self.origins.get(&id));
        Ok(later.since(earlier, system, origin))
    }

    fn cpu(&mut self, subject: &CpuSubject) -> Result<CpuTime, Failure> {
        if let Some((_, counter)) = self.counters.iter_mut().find(|(known, _)| known == subject) {
            return counter.read();
        }
        let mut counter = Counter::open(
            &CpuSource::Local(subject.clone()),
            Some(&self.identity),
            &self.environment.cgroup_root,
        )?;
        let time = counter.read()?;
        self.counters.push((subject.clone(), counter));
        Ok(time)
    }

    fn load(
        &mut self,
        mut plan: Plan,
        certificate: Option<Certificate>,
        stream: &mut Stream,
    ) -> Result<(), Failure> {
        if let (Some(tls), Some(Certificate { certificate, key })) = (&mut plan.tls, certificate) {
            self.environment.use_certificate(&certificate, &key)?;
            let files = self.environment.certificate()?;
            tls.certificate = files.certificate;
            tls.key = tls.key.is_some().then_some(files.key);
        }
        let seconds = match plan.length {
            tollgate_lab_load::Length::Seconds(seconds) => seconds,
            tollgate_lab_load::Length::Requests(_) => 0.0,
        };
        let mut run = Run::builtin(&self.environment, &plan)?;
        for (phase, soonest) in [(Phase::Measuring, plan.ramp + plan.warm_up), (Phase::Measured, seconds)] {
            run.until(phase, soonest, || ())?;
            answer(stream, Ok(Some(phase.word().to_owned())))?;
        }
        let done = run.finish(|| ())?;
        let text = serde_json::to_string(&done).map_err(|error| Failure::of("the result", error))?;
        answer(stream, Ok(Some(text)))
    }
}
