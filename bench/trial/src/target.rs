//! A system under test: prepared, started on its cores and under its quota, and checked to answer correctly.
//!
//! A [`Target`] is one system, or a chain of copies of it, with the optional slow link in front.
//! [`Target::start`] returns the reason if a system is missing or lacks a feature, which becomes a row of the
//! report. Between its turns the target is paused with its connections open.

use crate::agent::{Agent, Ask, Certificate, StartSystem, SystemUp};
use crate::arm::Arm;
use crate::cpu::{Counter, CpuTime};
use crate::external::{certificate, resolve};
use crate::failure::Failure;
use crate::generator::Aim;
use crate::ground::{Ground, tail};
use crate::host::{Host, Remote};
use crate::origin::{Counted, Origin, READY_BODY, READY_PATH};
use crate::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_lab_meter::callgrind::Callgrind;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::child::Launch;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_meter::process::{Snapshot, process_ids};
use tollgate_lab_origin::Link;
use tollgate_lab_record::{Missing, RenderedFile, SystemUsed};
use tollgate_lab_study::{CpuSource, CpuSubject, External, Relay, Settings, Url};
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{Address, Feature, Setting, Status, System, TlsFiles, Upstream, VirtualHost};

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
    /// The address that the load is sent to.
    at: IpAddr,
    /// How this program reaches a system that it did not start itself.
    afar: Option<Afar>,
    /// The URL of a gateway, or of the user's own origin, that already runs.
    url: Option<Url>,
    /// The certificate of a gateway that already runs.
    certificate: Option<TlsFiles>,
    /// The record of the system for the result file.
    pub used: SystemUsed,
    /// The origin behind it.
    pub origin: Rc<RefCell<Origin>>,
    servers: Vec<Server>,
    /// The slow link in front of it, if the study sets one.
    relay: Option<Server>,
    quota: Option<Quota>,
    /// The group that counts its CPU time if it has no quota; `None` if this user may not create groups.
    account: Option<Quota>,
    paused: bool,
    /// The setting that it was rendered from; `None` for a direct run.
    pub setting: Option<Setting>,
    /// Whether the origin runs within this system's quota.
    pub beside: bool,
}

/// A system that this program did not start itself.
#[derive(Debug)]
enum Afar {
    /// An agent started it.
    Agent(Remote),
    /// It already runs, and its CPU time is counted elsewhere.
    Counted(RefCell<Counter>),
    /// It already runs on this host; its tree begins with this process.
    Process(u32),
    /// It already runs, and nothing is known of its CPU time.
    Uncounted,
}

/// The surroundings in which a system is started.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// The origin behind it; `None` gives the system an origin of its own within its quota.
    pub origin: Option<Rc<RefCell<Origin>>>,
    /// The valgrind to run it under, and the folder for the counts; `None` runs it at full speed.
    pub counted: Option<(&'a Callgrind, &'a Path)>,
    /// The address on which it listens; `None` means 127.0.0.1.
    pub listen: Option<IpAddr>,
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
        origin: Option<Rc<RefCell<Origin>>>,
        clients: u32,
    ) -> Result<Self, Box<SystemUsed>> {
        Self::start_in(ground, arm, settings, Place { origin, ..Place::default() }, clients)
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
        if let (Some(external), Some(origin)) = (&arm.external, &place.origin) {
            return Self::of_running(ground, arm, external, Rc::clone(origin), &mut used)
                .map_err(|failure| missing(&used, failure.0, ""));
        }
        let system =
            ground.catalogue.get(&arm.system).map_err(|error| missing(&used, error.to_string(), ""))?;
        if let (Host::Agent(agent), Some(origin), false) =
            (&ground.hosts.gateway, &place.origin, system.is_direct())
        {
            let started = Self::start_at(ground, arm, agent, settings, Rc::clone(origin), clients);
            return started.unwrap_or_else(|failure| Err(missing(&used, failure.0, "")));
        }
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

    /// Describes a gateway that already runs.
    ///
    /// # Errors
    /// If it cannot be reached, or its CPU time cannot be read.
    fn of_running(
        ground: &Ground,
        arm: &Arm,
        external: &External,
        origin: Rc<RefCell<Origin>>,
        used: &mut SystemUsed,
    ) -> Result<Self, Failure> {
        let External { url, cpu, .. } = external;
        used.title = arm.title.clone().unwrap_or_else(|| format!("{} ({url})", arm.name));
        let address = resolve(url)?;
        let certificate = certificate(ground, external, address)?;
        let afar = match cpu {
            None => Afar::Uncounted,
            // The tree of a process of this host is read with its threads and its memory.
            Some(CpuSource::Local(CpuSubject::Pid(pid))) if Snapshot::take(*pid).processes() > 0 => {
                Afar::Process(*pid)
            }
            Some(source) => {
                let counter = Counter::open(source, ground.identity.as_ref(), &ground.cgroup_root)?;
                Afar::Counted(RefCell::new(counter))
            }
        };
        used.marked = Some(match cpu {
            None => format!("Runs at {url}. Its CPU time is not read, so no toll is shown."),
            Some(source) => format!("Runs at {url}. Its CPU time is read from {source}."),
        });
        used.terms.push("runs with its user's configuration, behind which its own origin answers".into());
        if url.tls && external.certificate.is_none() {
            used.terms.push(
                "its certificate is the one that it presented at the start; no authority was asked".into(),
            );
        }
        Ok(Self {
            name: arm.name.clone(),
            port: address.port(),
            at: address.ip(),
            afar: Some(afar),
            url: Some(url.clone()),
            certificate,
            used: used.clone(),
            origin,
            servers: Vec::new(),
            relay: None,
            quota: None,
            account: None,
            paused: false,
            setting: None,
            beside: false,
        })
    }

    /// Starts a system at an agent. The inner error is the agent's record of why it did not start.
    ///
    /// # Errors
    /// If the agent cannot be asked, or the settings need everything on one host.
    fn start_at(
        ground: &Ground,
        arm: &Arm,
        agent: &Rc<Agent>,
        settings: &Settings,
        origin: Rc<RefCell<Origin>>,
        clients: u32,
    ) -> Result<Result<Self, Box<SystemUsed>>, Failure> {
        if settings.relay.is_some() {
            return Err(Failure("`relay` stands for a link, and this run has a real one (`hosts`)".into()));
        }
        let tls = settings.tls().then(|| ground.certificate()).transpose()?;
        let text = |file: &Path| fs::read_to_string(file).map_err(|error| Failure::of(file.display(), error));
        let pem = |files: &TlsFiles| -> Result<Certificate, Failure> {
            Ok(Certificate { certificate: text(&files.certificate)?, key: text(&files.key)? })
        };
        let addresses =
            origin.borrow_mut().for_next_system(settings.http2_origin() || settings.passthrough());
        let origins: Result<Vec<SocketAddr>, Failure> = addresses
            .iter()
            .map(|at| {
                let host = at.host.parse().map_err(|error| Failure::of(at, error))?;
                Ok(SocketAddr::new(host, at.port))
            })
            .collect();
        let at = ground.hosts.gateway_address();
        let start = StartSystem {
            arm: arm.clone(),
            settings: settings.clone(),
            origins: origins?,
            clients,
            listen: at,
            certificate: tls.as_ref().map(pem).transpose()?,
        };
        let SystemUp { up, used } = agent.ask(&Ask::StartSystem(Box::new(start)))?;
        let Some((id, port)) = up else { return Ok(Err(Box::new(used))) };
        Ok(Ok(Self {
            name: arm.name.clone(),
            port,
            at,
            afar: Some(Afar::Agent(Remote { agent: Rc::clone(agent), id })),
            url: None,
            certificate: tls,
            used,
            origin,
            servers: Vec::new(),
            relay: None,
            quota: None,
            account: None,
            paused: false,
            setting: None,
            beside: false,
        }))
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
            None => Rc::new(RefCell::new(Origin::start(ground, settings, &cores, quota.as_ref())?)),
        };
        if system.is_direct() && settings.http() == 2 && !settings.grpc() {
            return Err(Failure("the origin speaks HTTP/1 alone".into()));
        }
        // The run goes on without a group: the process tree has the CPU time of all but daemons.
        let counts = quota.is_none() && !system.is_direct();
        let account = counts.then(|| Quota::account(&arm.name.replace('#', "-")).ok()).flatten();
        let mut servers = Vec::new();
        let mut last = None;
        let links = if system.is_direct() { 0 } else { settings.chain() };
        let url = origin.borrow().url().cloned();
        if links == 0 && origin.borrow().ports.is_empty() {
            return Err(Failure(
                "the study names no `origin: URL` to which the load could go directly".into(),
            ));
        }
        if let (true, Some(url)) = (links > 0, url.as_ref().filter(|url| url.tls)) {
            return Err(Failure(format!(
                "the systems of the catalogue reach origins in plain text, and not {url}"
            )));
        }
        let (ready_path, ready_body) = match &url {
            Some(url) => (url.path.clone(), origin.borrow().body.clone()),
            None => (READY_PATH.to_owned(), READY_BODY.to_vec()),
        };
        let mut behind = match links {
            0 => origin.borrow().straight(),
            _ => origin.borrow_mut().for_next_system(settings.http2_origin() || settings.passthrough()),
        };
        for link in 0..links {
            let front = link + 1 == links;
            let mut setting = setting(ground, arm, settings, &behind, clients, front)?;
            if let Some(listen) = place.listen {
                setting.listen.host = listen.to_string();
            }
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
                if let Some(group) = quota.as_ref().or(account.as_ref()) {
                    start = start.quota(group);
                }
                let mut server = Server::new(start.start()?);
                let host = settings.hosts.as_ref().and_then(|hosts| hosts.first()).map(String::as_str);
                let within = Duration::from_secs(system.description().ready_within_seconds.into());
                // Under a quota of less than one core a start takes longer in proportion.
                let slower = settings.quota.map_or(1.0, |cores| (1.0 / cores.max(0.05)).max(1.0));
                let slower = if place.counted.is_some() { slower * COUNTING } else { slower };
                let probe = Probe {
                    path: &ready_path,
                    host,
                    body: &ready_body,
                    within: within.mul_f64(slower),
                    tls: setting.tls.as_ref(),
                };
                wait(&arm.name, &launch, &probe, || {
                    if ground.is_cut_off() {
                        return Some("the laboratory is gone".into());
                    }
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
        let front = behind.first().ok_or_else(|| Failure("the settings ask for no origin".into()))?;
        let mut port = front.port;
        let front_host = front.host.clone();
        let at = front_host.parse().map_err(|error| Failure::of(&front_host, error))?;
        let relay = settings.relay.map(|link| relay(ground, &link, &mut port)).transpose()?;
        let unasked = last.as_ref().map(|setting| system.unasked(setting)).unwrap_or_default();
        used.terms
            .extend(unasked.iter().map(|feature| format!("does {} although not asked to", feature.name())));
        // `direct` sends to the origin's own URL. A system in front of it gets the same path.
        let url = url.map(|url| match links {
            0 => url,
            _ => Url { tls: settings.tls(), host: front_host, port, path: url.path },
        });
        let certificate = match &url {
            Some(url) if url.tls && links == 0 => {
                let external = External { url: url.clone(), certificate: None, cpu: None };
                certificate(ground, &external, SocketAddr::new(at, port))?
            }
            _ => last.as_ref().and_then(|setting: &Setting| setting.tls.clone()),
        };
        Ok(Self {
            name: arm.name.clone(),
            port,
            at,
            afar: None,
            url,
            certificate,
            used,
            origin,
            servers,
            relay,
            quota,
            account,
            paused: false,
            setting: last,
            beside,
        })
    }

    /// Returns where its load is sent to.
    pub fn aim<'a>(&'a self, settings: &Settings, body: &'a [u8]) -> Aim<'a> {
        Aim {
            to: SocketAddr::new(self.at, self.port),
            url: self.url.as_ref(),
            // Nothing is known of the answers of a server that the laboratory did not start.
            body: self.url.is_none().then_some(body),
            status: settings.origin_status(),
            tls: self.certificate.as_ref(),
        }
    }

    /// Returns the process ids whose trees are the system on this host; none for a direct run. The started processes
    /// come first, then daemons that left their trees.
    pub fn ids(&self) -> Vec<u32> {
        if let Some(Afar::Process(pid)) = &self.afar {
            return vec![*pid];
        }
        let mut ids: Vec<u32> = self.servers.iter().map(Server::id).collect();
        let mut known: BTreeSet<u32> = ids.iter().flat_map(|id| process_ids(*id)).collect();
        for id in self.group().map(Quota::process_ids).unwrap_or_default() {
            if !known.contains(&id) {
                known.extend(process_ids(id));
                ids.push(id);
            }
        }
        ids
    }

    /// Returns the group that holds all processes of the system and no others; `None` if there is none.
    pub fn group(&self) -> Option<&Quota> {
        self.quota.as_ref().or(self.account.as_ref()).filter(|_| !self.beside)
    }

    /// Sends a signal to every process of the group, including processes that left the process groups of the servers.
    fn signal_group(&self, signal: Signal) {
        for id in self.group().map(Quota::process_ids).unwrap_or_default() {
            if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
                // A process that has just ended needs no signal.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Returns whether its CPU time is read, here or elsewhere.
    pub(crate) fn has_cpu(&self) -> bool {
        match &self.afar {
            None | Some(Afar::Process(_)) => !self.ids().is_empty(),
            Some(Afar::Agent(_) | Afar::Counted(_)) => true,
            Some(Afar::Uncounted) => false,
        }
    }

    /// Returns the counters of the origin behind it; `None` if they cannot be read. A gateway that already runs
    /// has an origin of its own, which has no counters here.
    pub(crate) fn counted(&self) -> Option<Counted> {
        match &self.afar {
            None | Some(Afar::Agent(_)) => self.origin.borrow().counted(),
            Some(Afar::Counted(_) | Afar::Process(_) | Afar::Uncounted) => None,
        }
    }

    /// Returns the agent that started it, and its number there.
    pub(crate) fn remote(&self) -> Option<(Rc<Agent>, u64)> {
        match &self.afar {
            Some(Afar::Agent(Remote { agent, id })) => Some((Rc::clone(agent), *id)),
            _ => None,
        }
    }

    /// Reads its CPU time, if another source counts it.
    ///
    /// # Errors
    /// If the source no longer answers.
    pub(crate) fn read_cpu(&self) -> Result<Option<CpuTime>, Failure> {
        match &self.afar {
            Some(Afar::Counted(counter)) => counter.borrow_mut().read().map(Some),
            _ => Ok(None),
        }
    }

    /// Asks its agent for an operation, if one started it.
    fn at_agent<T: serde::de::DeserializeOwned>(
        &self,
        ask: impl Fn(u64) -> Ask,
    ) -> Option<Result<T, Failure>> {
        self.remote().map(|(agent, id)| agent.ask(&ask(id)))
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
        // A lost agent shows in the next trial.
        let _ = self.at_agent::<()>(Ask::Pause);
        self.servers.iter_mut().chain(&mut self.relay).for_each(Server::pause);
        if !self.paused {
            self.signal_group(Signal::STOP);
            self.paused = true;
        }
        if self.beside {
            self.origin.borrow_mut().pause();
        }
    }

    /// Resumes the system and its origin.
    pub fn resume(&mut self) {
        let _ = self.at_agent::<()>(Ask::Resume);
        self.servers.iter_mut().chain(&mut self.relay).for_each(Server::resume);
        if self.paused {
            self.signal_group(Signal::CONT);
            self.paused = false;
        }
        self.origin.borrow_mut().resume();
    }

    /// Returns how a process of the system ended; `None` while all run.
    ///
    /// # Errors
    /// If the state of a process cannot be read.
    pub fn ended(&mut self) -> Result<Option<String>, Failure> {
        if let Some(ended) = self.at_agent(Ask::Ended) {
            return ended;
        }
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
