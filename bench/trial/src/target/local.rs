//! Starts a system of the catalogue on this host.
//!
//! [`Target::start_in`] fills in a [`LocalStart`] after it has found the system installed. The system starts with its
//! quota, or in a group that counts its CPU time, on its cores. The start waits until each copy answers correctly.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tollgate_lab_meter::callgrind::Callgrind;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::child::Launch;
use tollgate_lab_record::{RenderedFile, SystemUsed};
use tollgate_lab_study::{External, Settings, Url};
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{Address, CommandSpec, Feature, Setting, System};

use super::relay::relay;
use super::setting::setting;
use super::{Target, quota};
use crate::arm::Arm;
use crate::environment::Environment;
use crate::external::certificate;
use crate::failure::Failure;
use crate::origin::{Origin, READY_BODY, READY_PATH};
use crate::server::Server;

/// Longest recorded configuration file, in bytes. A configuration of 10,000 routes is cut here.
const LONGEST_FILE: usize = 16 * 1024;

/// Factor by which a start may take longer under valgrind. Valgrind executes about 50 times the instructions,
/// but a start is not all computation.
const COUNTING: f64 = 20.0;

/// A system to start, and everything that its start depends on.
pub(super) struct LocalStart<'a> {
    pub environment: &'a Environment,
    pub arm: &'a Arm,
    pub system: &'a System,
    pub settings: &'a Settings,
    pub clients: u32,
    pub counted: Option<(&'a Callgrind, &'a Path)>,
    pub listen: Option<IpAddr>,
}

/// The request that each copy must answer before the start is complete, and the answer.
struct ReadyAnswer {
    path: String,
    body: Vec<u8>,
}

/// The copies of a system that were started, from the origin to the front.
struct Chain {
    servers: Vec<Server>,
    /// The addresses of the front; without a copy, of the origin.
    addresses: Vec<Address>,
    /// The setting of the front.
    front: Option<Setting>,
}

impl LocalStart<'_> {
    /// Starts the system in front of the origin. With `None`, the origin is started too, within the system's quota.
    ///
    /// # Errors
    /// If the system cannot do what the settings ask for, or did not start.
    pub fn start(self, origin: Option<Rc<RefCell<Origin>>>, mut used: SystemUsed) -> Result<Target, Failure> {
        let (environment, settings) = (self.environment, self.settings);
        let quota = quota(&self.group_name(), settings)?;
        let cores = environment.target_cores(settings.target_cores());
        let holds_origin = origin.is_none();
        let origin = match origin {
            Some(origin) => origin,
            None => Rc::new(RefCell::new(Origin::start(environment, settings, &cores, quota.as_ref())?)),
        };
        let copies = if self.system.is_direct() { 0 } else { settings.chain() };
        self.check_origin(&origin.borrow(), copies)?;
        // The run goes on without a group: the process tree has the CPU time of all but daemons.
        let counts = quota.is_none() && !self.system.is_direct();
        let account = counts.then(|| Quota::account(&self.group_name()).ok()).flatten();
        let group = quota.as_ref().or(account.as_ref());
        let Chain { servers, addresses, front: last } =
            self.start_chain(copies, &origin, &cores, group, &mut used)?;
        let front = addresses.first().ok_or_else(|| Failure("the settings ask for no origin".into()))?;
        let mut port = front.port;
        let at = front.host.parse().map_err(|error| Failure::of(&front.host, error))?;
        let relay = settings.relay.map(|link| relay(environment, &link, &mut port)).transpose()?;
        let unasked = last.as_ref().map(|setting| self.system.unasked(setting)).unwrap_or_default();
        used.terms
            .extend(unasked.iter().map(|feature| format!("does {} although not asked to", feature.name())));
        // `direct` sends to the origin's own URL. A system in front of it gets the same path.
        let url = origin.borrow().url().cloned().map(|url| match copies {
            0 => url,
            _ => Url { tls: settings.tls(), host: front.host.clone(), port, path: url.path },
        });
        let certificate = match &url {
            Some(url) if url.tls && copies == 0 => {
                let external =
                    External { url: url.clone(), certificate: None, cpu: None, version: String::new() };
                certificate(environment, &external, SocketAddr::new(at, port))?
            }
            _ => last.as_ref().and_then(|setting| setting.tls.clone()),
        };
        let has_workers = settings.workers() > 1
            && copies == 1
            && last.as_ref().is_some_and(|setting| setting.features.contains(&Feature::Statistics));
        let workers = self.system.description().workers.clone().filter(|_| has_workers);
        Ok(Target {
            name: self.arm.name.clone(),
            port,
            at,
            elsewhere: None,
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
            workers,
            holds_origin,
        })
    }

    /// Returns the name of the control group for the quota or the count.
    fn group_name(&self) -> String {
        self.arm.name.replace('#', "-")
    }

    /// Refuses an origin that the system, or the load of a direct run, cannot use.
    fn check_origin(&self, origin: &Origin, copies: u32) -> Result<(), Failure> {
        if self.system.is_direct() && self.settings.http() == 2 && !self.settings.grpc() {
            return Err(Failure("the origin speaks only HTTP/1".into()));
        }
        if copies == 0 && origin.ports.is_empty() {
            return Err(Failure(
                "the study names no `origin: URL` to which the load could go directly".into(),
            ));
        }
        if let (true, Some(url)) = (copies > 0, origin.url().filter(|url| url.tls)) {
            return Err(Failure(format!(
                "the systems of the catalogue reach origins in plain text, and not {url}"
            )));
        }
        Ok(())
    }

    /// Starts the copies of the system one after another, each in front of the previous one.
    fn start_chain(
        &self,
        copies: u32,
        origin: &RefCell<Origin>,
        cores: &[usize],
        group: Option<&Quota>,
        used: &mut SystemUsed,
    ) -> Result<Chain, Failure> {
        let settings = self.settings;
        let ready = ReadyAnswer::of(&origin.borrow());
        let mut chain = Chain {
            servers: Vec::new(),
            addresses: match copies {
                0 => origin.borrow().straight(),
                _ => origin.borrow_mut().for_next_system(settings.http2_origin() || settings.passthrough()),
            },
            front: None,
        };
        for copy in 1..=copies {
            let is_front = copy == copies;
            let setting = self.setting(&chain.addresses, &origin.borrow(), is_front)?;
            let launch = self.system.prepare(&setting)?;
            if let Some(command) = &launch.command {
                let mut server = Server::new(self.launch(command, cores, group).start()?);
                self.wait_until_ready(&mut server, &launch, &setting, &ready)?;
                chain.servers.push(server);
                if is_front {
                    used.command = std::iter::once(name_of(&command.program))
                        .chain(command.args.iter().cloned())
                        .map(|word| self.environment.without_paths(&word))
                        .collect();
                    used.files = launch.files.iter().map(|file| written(self.environment, file)).collect();
                }
            }
            chain.addresses = vec![setting.listen.clone()];
            chain.front = Some(setting);
        }
        Ok(chain)
    }

    /// Returns the setting of one copy in front of `addresses`.
    fn setting(&self, addresses: &[Address], origin: &Origin, is_front: bool) -> Result<Setting, Failure> {
        let mut setting =
            setting(self.environment, self.arm, self.settings, addresses, self.clients, is_front)?;
        if let Some(listen) = self.listen {
            setting.listen.host = listen.to_string();
        }
        setting.partners = origin.partners();
        let cannot = self.system.unsupported(&setting);
        if cannot.is_empty() {
            return Ok(setting);
        }
        let names: Vec<&str> = cannot.iter().map(|feature| feature.name()).collect();
        Err(Failure(format!("cannot do what the cell asks for: {}", names.join(", "))))
    }

    /// Returns the process to start, on the cores and in the group, under valgrind if it is counted.
    fn launch<'q>(&self, command: &CommandSpec, cores: &[usize], group: Option<&'q Quota>) -> Launch<'q> {
        let (program, before) = match self.counted {
            Some((callgrind, folder)) => callgrind.command(folder, &command.program),
            None => (command.program.clone(), Vec::new()),
        };
        let mut launch = Launch::new(program)
            .arguments(before)
            .arguments(&command.args)
            .folder(&command.directory)
            .cores(cores)
            .output(&command.output, &command.output);
        for (name, value) in &command.env {
            launch = launch.variable(name, value);
        }
        match group {
            Some(group) => launch.quota(group),
            None => launch,
        }
    }

    /// Waits until a copy gives the expected answer.
    fn wait_until_ready(
        &self,
        server: &mut Server,
        launch: &tollgate_lab_system::Launch,
        setting: &Setting,
        ready: &ReadyAnswer,
    ) -> Result<(), Failure> {
        let host = self.settings.hosts.as_ref().and_then(|hosts| hosts.first()).map(String::as_str);
        let within = Duration::from_secs(self.system.description().ready_within_seconds.into());
        // Under a quota of less than one core a start takes longer in proportion.
        let slower = self.settings.quota.map_or(1.0, |cores| (1.0 / cores.max(0.05)).max(1.0));
        let slower = if self.counted.is_some() { slower * COUNTING } else { slower };
        let probe = Probe {
            path: &ready.path,
            host,
            body: &ready.body,
            within: within.mul_f64(slower),
            tls: setting.tls.as_ref(),
        };
        wait(&self.arm.name, launch, &probe, || {
            if self.environment.is_cut_off() {
                return Some("the laboratory is gone".into());
            }
            server.ended().unwrap_or_else(|failure| Some(failure.0))
        })?;
        Ok(())
    }
}

impl ReadyAnswer {
    fn of(origin: &Origin) -> Self {
        match origin.url() {
            Some(url) => Self { path: url.path.clone(), body: origin.body.clone() },
            None => Self { path: READY_PATH.to_owned(), body: READY_BODY.to_vec() },
        }
    }
}

/// Returns the program's file name; its folder exists on this machine only.
fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

fn written(environment: &Environment, file: &tollgate_lab_system::RenderedFile) -> RenderedFile {
    let mut text = environment.without_paths(&file.text);
    if text.len() > LONGEST_FILE {
        let end = text[..text.floor_char_boundary(LONGEST_FILE)].rfind('\n').unwrap_or(0);
        text.truncate(end);
        text.push_str("\n... cut here\n");
    }
    RenderedFile { name: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text }
}
