//! A system under test: prepared, started on its cores and under its quota, and checked to answer correctly.
//!
//! A [`Target`] is one system, or a chain of copies of it, with the optional slow link in front.
//! [`Target::start`] returns the reason if a system is missing or lacks a feature, which becomes a row of the
//! report. Between its turns the target is paused with its connections open.

use crate::arm::Arm;
use crate::failure::Failure;
use crate::generator::Aim;
use crate::ground::{Ground, tail};
use crate::origin::{Origin, READY_BODY, READY_PATH};
use crate::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_lab_meter::callgrind::Callgrind;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::child::Launch;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_origin::Link;
use tollgate_lab_record::{Missing, RenderedFile, SystemUsed};
use tollgate_lab_study::{Relay, Settings};
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{Address, Feature, Setting, Status, System, Upstream, VirtualHost};

/// Longest recorded configuration file, in bytes. A configuration of 10,000 routes is cut here.
const LONGEST_FILE: usize = 16 * 1024;

/// Factor by which a start may take longer under valgrind. Valgrind executes about 50 times the instructions,
/// but a start is not all computation.
const COUNTING: f64 = 20.0;

/// How long the slow link may take to start.
const RELAY_LIMIT: Duration = Duration::from_secs(5);

/// A running system. Dropping it ends the processes first, then removes the quota.
#[derive(Debug)]
pub struct Target {
    /// The arm's name in the study.
    pub name: String,
    /// The port that the load is sent to.
    pub port: u16,
    /// The record of the system for the result file.
    pub used: SystemUsed,
    /// The origin behind it.
    pub origin: Rc<std::cell::RefCell<Origin>>,
    servers: Vec<Server>,
    /// The slow link in front of it, if the study sets one.
    relay: Option<Server>,
    quota: Option<Quota>,
    /// The setting that it was rendered from; `None` for a direct run.
    pub setting: Option<Setting>,
    /// Whether the origin runs within this system's quota.
    pub beside: bool,
}

/// The surroundings in which a system is started.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// The origin behind it; `None` gives the system an origin of its own within its quota.
    pub origin: Option<Rc<std::cell::RefCell<Origin>>>,
    /// The valgrind to run it under, and the folder for the counts; `None` runs it at full speed.
    pub counted: Option<(&'a Callgrind, &'a Path)>,
}

/// Creates the quota of a system; `None` if the settings limit neither CPU nor memory.
///
/// # Errors
/// If this process may not create control groups.
pub fn quota(name: &str, settings: &Settings) -> Result<Option<Quota>, Failure> {
    let memory = settings.memory_mib.map(|mib| mib << 20);
    match (settings.quota, memory) {
        (None, None) => Ok(None),
        (cores, memory) => {
            let cores = cores.unwrap_or(f64::from(settings.target_cores()));
            Ok(Some(Quota::create(name, cores, memory)?))
        }
    }
}

impl Target {
    /// Starts a system, or a chain of `settings.chain` copies, in front of `origin`. With `None`, the system
    /// gets an origin of its own within its quota.
    ///
    /// # Errors
    /// As [`Target::start_in`].
    pub fn start(
        ground: &Ground,
        arm: &Arm,
        settings: &Settings,
        origin: Option<Rc<std::cell::RefCell<Origin>>>,
        clients: u32,
    ) -> Result<Self, Box<SystemUsed>> {
        Self::start_in(ground, arm, settings, Place { origin, counted: None }, clients)
    }

    /// Starts a system, or a chain of `settings.chain` copies, in the given surroundings.
    ///
    /// # Errors
    /// What is known of the system, with the reason in `missing`: it is not installed, cannot do what the
    /// settings ask for, or did not start.
    pub fn start_in(
        ground: &Ground,
        arm: &Arm,
        settings: &Settings,
        place: Place<'_>,
        clients: u32,
    ) -> Result<Self, Box<SystemUsed>> {
        let mut used = SystemUsed {
            name: arm.name.clone(),
            title: arm.title.clone().unwrap_or_else(|| arm.name.clone()),
            version: String::new(),
            missing: None,
            marked: None,
            terms: Vec::new(),
            command: Vec::new(),
            files: Vec::new(),
        };
        let missing = |used: &SystemUsed, reason: String, get: &str| {
            Box::new(SystemUsed { missing: Some(Missing { reason, get: get.to_owned() }), ..used.clone() })
        };
        let system =
            ground.catalogue.get(&arm.system).map_err(|error| missing(&used, error.to_string(), ""))?;
        let description = system.description();
        used.title = arm.title.clone().unwrap_or_else(|| description.title.clone());
        used.marked = description.marked.clone();
        used.terms = description.equal_terms.clone();
        match system.status() {
            Status::Ready { version, .. } => used.version = version.unwrap_or_default(),
            Status::Installable { .. } => {
                let get = format!("tollgate bench install {}", system.name());
                return Err(missing(&used, "not installed".into(), &get));
            }
            Status::Broken { reason } => return Err(missing(&used, reason, "")),
            Status::Missing { reason, get } => return Err(missing(&used, reason, &get)),
        }
        Self::start_ready(ground, arm, system, settings, place, clients, used.clone())
            .map_err(|failure| missing(&used, failure.0, ""))
    }

    fn start_ready(
        ground: &Ground,
        arm: &Arm,
        system: &System,
        settings: &Settings,
        place: Place<'_>,
        clients: u32,
        mut used: SystemUsed,
    ) -> Result<Self, Failure> {
        let quota = quota(&arm.name.replace('#', "-"), settings)?;
        let cores = ground.target_cores(settings.target_cores());
        let beside = place.origin.is_none();
        let origin = match place.origin {
            Some(origin) => origin,
            None => {
                Rc::new(std::cell::RefCell::new(Origin::start(ground, settings, &cores, quota.as_ref())?))
            }
        };
        if system.is_direct() && settings.http() == 2 && !settings.grpc() {
            return Err(Failure("the origin speaks HTTP/1 alone".into()));
        }
        let mut servers = Vec::new();
        let mut last = None;
        let links = if system.is_direct() { 0 } else { settings.chain() };
        let mut behind =
            if links == 0 { origin.borrow().straight() } else { origin.borrow_mut().for_next_system() };
        for link in 0..links {
            let front = link + 1 == links;
            let mut setting = setting(ground, arm, settings, &behind, clients, front)?;
            setting.partners = origin.borrow().partners();
            let cannot = system.unsupported(&setting);
            if !cannot.is_empty() {
                let names: Vec<&str> = cannot.iter().map(|feature| feature.name()).collect();
                return Err(Failure(format!("cannot do what the cell asks for: {}", names.join(", "))));
            }
            let launch = system.prepare(&setting)?;
            if let Some(command) = &launch.command {
                let (program, before) = match place.counted {
                    Some((callgrind, folder)) => callgrind.command(folder, &command.program),
                    None => (command.program.clone(), Vec::new()),
                };
                let mut start = Launch::new(program)
                    .arguments(before)
                    .arguments(&command.args)
                    .folder(&command.directory)
                    .cores(&cores)
                    .output(&command.output, &command.output);
                for (name, value) in &command.env {
                    start = start.variable(name, value);
                }
                if let Some(quota) = &quota {
                    start = start.quota(quota);
                }
                let mut server = Server::new(start.start()?);
                let host = settings.hosts.as_ref().and_then(|hosts| hosts.first()).map(String::as_str);
                let within = Duration::from_secs(system.description().ready_within_seconds.into());
                // Under a quota of less than one core a start takes longer in proportion.
                let slower = settings.quota.map_or(1.0, |cores| (1.0 / cores.max(0.05)).max(1.0));
                let slower = if place.counted.is_some() { slower * COUNTING } else { slower };
                let probe = Probe {
                    path: READY_PATH,
                    host,
                    body: READY_BODY,
                    within: within.mul_f64(slower),
                    tls: setting.tls.as_ref(),
                };
                wait(&arm.name, &launch, &probe, || {
                    server.ended().unwrap_or_else(|failure| Some(failure.0))
                })?;
                servers.push(server);
                if front {
                    used.command = std::iter::once(name_of(&command.program))
                        .chain(command.args.iter().cloned())
                        .map(|word| ground.without_paths(&word))
                        .collect();
                    used.files = launch.files.iter().map(|file| written(ground, file)).collect();
                }
            }
            behind = vec![setting.listen.clone()];
            last = Some(setting);
        }
        let mut port = behind.first().ok_or_else(|| Failure("the settings ask for no origin".into()))?.port;
        let relay = settings.relay.map(|link| relay(ground, &link, &mut port)).transpose()?;
        let unasked = last.as_ref().map(|setting| system.unasked(setting)).unwrap_or_default();
        used.terms
            .extend(unasked.iter().map(|feature| format!("does {} although not asked to", feature.name())));
        Ok(Self { name: arm.name.clone(), port, used, origin, servers, relay, quota, setting: last, beside })
    }

    /// Returns where its load is sent to.
    pub fn aim<'a>(&'a self, settings: &Settings, body: &'a [u8]) -> Aim<'a> {
        let tls = self.setting.as_ref().and_then(|setting| setting.tls.as_ref());
        Aim { port: self.port, body, status: settings.origin_status(), tls }
    }

    /// Returns the process ids of the system; none for a direct run.
    pub fn ids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::id).collect()
    }

    /// Sends the signal that makes the system reload its files.
    ///
    /// # Errors
    /// If the process no longer exists.
    pub fn reload(&self, signal: Signal) -> Result<(), Failure> {
        for server in &self.servers {
            let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| Failure("no such process".into()))?;
            kill_process(pid, signal).map_err(|error| Failure::of("sending the signal to reload", error))?;
        }
        Ok(())
    }

    /// Returns the quota, if the system has one.
    pub fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// Pauses the system and, if it runs within its quota, the origin.
    pub fn pause(&mut self) {
        self.servers.iter_mut().chain(&mut self.relay).for_each(Server::pause);
        if self.beside {
            self.origin.borrow_mut().pause();
        }
    }

    /// Resumes the system and its origin.
    pub fn resume(&mut self) {
        self.servers.iter_mut().chain(&mut self.relay).for_each(Server::resume);
        self.origin.borrow_mut().resume();
    }

    /// Returns how a process of the system ended; `None` while all run.
    ///
    /// # Errors
    /// If the state of a process cannot be read.
    pub fn ended(&mut self) -> Result<Option<String>, Failure> {
        for server in &mut self.servers {
            if let Some(how) = server.ended()? {
                return Ok(Some(how));
            }
        }
        Ok(None)
    }
}

/// Starts a slow link in front of `port` and sets `port` to the link's port.
fn relay(ground: &Ground, settings: &Relay, port: &mut u16) -> Result<Server, Failure> {
    let own = free_ports(1)?[0];
    let folder = ground.folder("relay")?;
    let file = folder.join("link.json");
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let link = Link {
        listen: address(own),
        to: address(*port),
        round_trip_ms: settings.round_trip_ms,
        bytes_per_second: settings.bytes_per_second,
    };
    let text = serde_json::to_vec(&link).map_err(|error| Failure::of("the link's settings", error))?;
    fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
    let output = folder.join("output.log");
    let group = Launch::new(&ground.exe)
        .arguments(["relay".as_ref(), file.as_os_str()])
        .cores(&ground.cores.load)
        .output(&output, &output)
        .start()?;
    let mut server = Server::new(group);
    let begun = Instant::now();
    while TcpStream::connect(address(own)).is_err() {
        if server.ended()?.is_some() || begun.elapsed() > RELAY_LIMIT {
            return Err(Failure(format!("the slow link did not start: {}", tail(&output, 4))));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    *port = own;
    Ok(server)
}

fn setting(
    ground: &Ground,
    arm: &Arm,
    settings: &Settings,
    origins: &[Address],
    clients: u32,
    front: bool,
) -> Result<Setting, Failure> {
    let ports = free_ports(2)?;
    let folder = ground.folder(&arm.name)?;
    let mut setting = Setting::new(ports[0], ports[1], origins[0].port, folder);
    setting.workers = settings.workers();
    setting.upstreams = vec![Upstream { name: "origin".into(), origins: origins.to_vec() }];
    setting.features = features(settings.features())?;
    if settings.http() == 2 {
        setting.features.insert(Feature::Http2);
    }
    if settings.grpc() {
        setting.features.insert(Feature::Http2Origin);
    }
    if !front {
        // The copies of a chain speak plain HTTP/1 to each other.
        setting.features.remove(&Feature::Tls);
        setting.features.remove(&Feature::Http2);
    }
    if setting.features.contains(&Feature::Tls) {
        setting.tls = Some(ground.certificate()?);
    }
    setting.options = arm.options.clone();
    setting.clients = clients;
    setting.keepalive = settings.origin_kept.unwrap_or_else(|| clients.max(64));
    setting.cores = settings.target_cores();
    setting.quota = settings.quota;
    setting.memory_mib = settings.memory_mib;
    setting.file_limit = ground.facts.file_limit;
    for host in settings.hosts.iter().flatten() {
        setting.hosts.push(VirtualHost { host: host.clone(), routes: Vec::new() });
    }
    if settings.routes() > 1 {
        setting = setting.with_routes(settings.routes());
    }
    Ok(setting)
}

fn features(names: &[String]) -> Result<BTreeSet<Feature>, Failure> {
    names
        .iter()
        .map(|name| {
            Feature::ALL.into_iter().find(|feature| feature.name() == name).ok_or_else(|| {
                let known: Vec<&str> = Feature::ALL.iter().map(|feature| feature.name()).collect();
                Failure(format!("no feature is called `{name}`; known: {}", known.join(", ")))
            })
        })
        .collect()
}

/// Returns the program's file name; its folder exists on this machine only.
fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

fn written(ground: &Ground, file: &tollgate_lab_system::RenderedFile) -> RenderedFile {
    let mut text = ground.without_paths(&file.text);
    if text.len() > LONGEST_FILE {
        let end = text[..text.floor_char_boundary(LONGEST_FILE)].rfind('\n').unwrap_or(0);
        text.truncate(end);
        text.push_str("\n... cut here\n");
    }
    RenderedFile { name: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text }
}
