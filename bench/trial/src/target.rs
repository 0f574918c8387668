//! A system under test: prepared, started on its cores and under its quota, and checked to answer correctly.
//!
//! A [`Target`] is one system, or a chain of copies of it, with the optional slow link in front.
//! [`Target::start`] starts it on this host (`local`) or on another one (`at_agent`), or uses a gateway that already runs
//! (`running`). It returns the reason if a system is missing or lacks a feature, which
//! becomes a row of the report. Between its turns the target is paused with its connections open.

mod at_agent;
mod local;
mod relay;
mod running;
mod setting;
mod workers;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

use rustix::process::{Pid, Signal, kill_process};
use tollgate_lab_meter::callgrind::Callgrind;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::process::process_ids;
use tollgate_lab_record::{Missing, SystemUsed};
use tollgate_lab_study::{Settings, Url};
use tollgate_lab_system::{Setting, Status, TlsFiles, WorkerMetrics};

use self::local::LocalStart;
use crate::agent::{Agent, Ask};
use crate::arm::Arm;
use crate::cpu::{Counter, CpuTime};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host::{Host, Remote};
use crate::load_plan::Aim;
use crate::origin::{Counted, Origin};
use crate::server::Server;

/// A running system. Dropping it ends the processes first, then removes the quota.
#[derive(Debug)]
pub struct Target {
    /// The arm's name in the study.
    pub name: String,
    /// The port that the load is sent to.
    pub port: u16,
    /// The address that the load is sent to.
    at: IpAddr,
    /// The way to a system that this program did not start itself.
    elsewhere: Option<StartedElsewhere>,
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
    /// The counters of its workers, if it has several and they are on.
    workers: Option<WorkerMetrics>,
    /// Whether the origin runs within this system's quota.
    pub holds_origin: bool,
}

/// A system that this program did not start itself.
#[derive(Debug)]
enum StartedElsewhere {
    /// An agent started it.
    Agent(Remote),
    /// It already runs, and its CPU time is counted elsewhere.
    Counted(RefCell<Counter>),
    /// It already runs on this host; its tree begins with this process.
    Process(u32),
    /// It already runs, and nothing is known of its CPU time.
    Uncounted,
}

/// Options for a start. The default starts a system of the catalogue with an origin of its own within its quota.
#[derive(Debug, Default)]
pub struct StartOptions<'a> {
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
    /// Describes a system at this address that this program does not start.
    fn started_elsewhere(
        arm: &Arm,
        address: SocketAddr,
        elsewhere: StartedElsewhere,
        used: SystemUsed,
        origin: Rc<RefCell<Origin>>,
    ) -> Self {
        Self {
            name: arm.name.clone(),
            port: address.port(),
            at: address.ip(),
            elsewhere: Some(elsewhere),
            url: None,
            certificate: None,
            used,
            origin,
            servers: Vec::new(),
            relay: None,
            quota: None,
            account: None,
            paused: false,
            setting: None,
            workers: None,
            holds_origin: false,
        }
    }

    /// Starts a system, or a chain of `settings.chain` copies, in front of `origin`. With `None`, the system
    /// gets an origin of its own within its quota.
    ///
    /// # Errors
    /// As [`Target::start_in`].
    pub fn start(
        environment: &Environment,
        arm: &Arm,
        settings: &Settings,
        origin: Option<Rc<RefCell<Origin>>>,
        clients: u32,
    ) -> Result<Self, Box<SystemUsed>> {
        Self::start_in(
            environment,
            arm,
            settings,
            StartOptions { origin, ..StartOptions::default() },
            clients,
        )
    }

    /// Starts a system, or a chain of `settings.chain` copies, with options.
    ///
    /// # Errors
    /// What is known of the system, with the reason in `missing`: it is not installed, cannot do what the
    /// settings ask for, or did not start.
    pub fn start_in(
        environment: &Environment,
        arm: &Arm,
        settings: &Settings,
        options: StartOptions<'_>,
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
        if let (Some(external), Some(origin)) = (&arm.external, &options.origin) {
            return running::of_running(environment, arm, external, Rc::clone(origin), &mut used)
                .map_err(|failure| missing(&used, failure.0, ""));
        }
        let system =
            environment.catalogue.get(&arm.system).map_err(|error| missing(&used, error.to_string(), ""))?;
        if let (Host::Agent(agent), Some(origin), false) =
            (&environment.hosts.gateway, &options.origin, system.is_direct())
        {
            let started = at_agent::start_at(environment, arm, agent, settings, Rc::clone(origin), clients);
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
        LocalStart {
            environment,
            arm,
            system,
            settings,
            clients,
            counted: options.counted,
            listen: options.listen,
        }
        .start(options.origin, used.clone())
        .map_err(|failure| missing(&used, failure.0, ""))
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
        if let Some(StartedElsewhere::Process(pid)) = &self.elsewhere {
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
        self.quota.as_ref().or(self.account.as_ref()).filter(|_| !self.holds_origin)
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
        match &self.elsewhere {
            None | Some(StartedElsewhere::Process(_)) => !self.ids().is_empty(),
            Some(StartedElsewhere::Agent(_) | StartedElsewhere::Counted(_)) => true,
            Some(StartedElsewhere::Uncounted) => false,
        }
    }

    /// Returns the counters of the origin behind it; `None` if they cannot be read. A gateway that already runs
    /// has an origin of its own, which has no counters here.
    pub(crate) fn counted(&self) -> Option<Counted> {
        match &self.elsewhere {
            None | Some(StartedElsewhere::Agent(_)) => self.origin.borrow().counted(),
            Some(
                StartedElsewhere::Counted(_) | StartedElsewhere::Process(_) | StartedElsewhere::Uncounted,
            ) => None,
        }
    }

    /// Returns the agent that started it, and its number there.
    pub(crate) fn remote(&self) -> Option<(Rc<Agent>, u64)> {
        match &self.elsewhere {
            Some(StartedElsewhere::Agent(Remote { agent, id })) => Some((Rc::clone(agent), *id)),
            _ => None,
        }
    }

    /// Reads its CPU time, if another source counts it.
    ///
    /// # Errors
    /// If the source no longer answers.
    pub(crate) fn read_cpu(&self) -> Result<Option<CpuTime>, Failure> {
        match &self.elsewhere {
            Some(StartedElsewhere::Counted(counter)) => counter.borrow_mut().read().map(Some),
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
        if self.holds_origin {
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
