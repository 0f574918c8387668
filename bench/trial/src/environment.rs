//! The environment that all trials of a run share: cores, folders, the catalogue of systems and the locations
//! of load tools.

use crate::agent::Identity;
use crate::cpu::CGROUPS;
use crate::failure::Failure;
use crate::host::{Host, Hosts, busy_warning};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::{Cell, OnceCell};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_lab_meter::Scratch;
use tollgate_lab_meter::machine::{CoreTimes, Facts, Roles, busy_cores, load_average};
use tollgate_lab_record::Host as HostLine;
use tollgate_lab_study::Url;
use tollgate_lab_system::{Catalogue, TlsFiles};
use tollgate_lab_tools::ToolPaths;

/// How long the run watches the machine before it starts anything.
pub(crate) const LOOK_AT_START: Duration = Duration::from_millis(300);

/// The environment of a run.
#[derive(Debug)]
pub struct Environment {
    /// The laboratory's own program, which also runs as generator, origin and relay.
    pub exe: PathBuf,
    /// The systems under test.
    pub catalogue: Catalogue,
    /// Locations of the load tools.
    pub tool_paths: ToolPaths,
    /// The cores of the system under test, of the origin, and of the load.
    pub cores: Roles,
    /// The host of each role.
    pub hosts: Hosts,
    /// The user's own origin; `None` starts one.
    pub own_origin: Option<Url>,
    /// The shared identity of the agents, for sources of CPU time.
    pub identity: Option<Identity>,
    /// The folder of the control groups of this host, for the CPU time of pods. In a pod it is where the node's
    /// folder is mounted.
    pub cgroup_root: PathBuf,
    /// In an agent's session, the connection to the laboratory.
    pub(crate) session: Option<TcpStream>,
    /// Facts about this machine.
    pub facts: Facts,
    /// Cores that other programs used before this run started anything.
    /// `None` if [`Environment::look_at_start`] was not called.
    pub busy: Option<f64>,
    /// The load average over one minute when the environment was prepared.
    pub load: f64,
    scratch: Scratch,
    certificate: OnceCell<TlsFiles>,
    arrivals: Cell<u64>,
    folders: Cell<u32>,
}

impl Environment {
    /// Prepares the environment and moves this process to the cores of the load.
    ///
    /// # Errors
    /// If this process may not run on these cores, or no folder can be created.
    pub fn prepare(
        exe: PathBuf,
        catalogue: Catalogue,
        tool_paths: ToolPaths,
        cores: Roles,
    ) -> Result<Self, Failure> {
        // The result is ignored: if the limit stays low, plans shrink the cells with many connections.
        let _ = tollgate_lab_load::raise_limit();
        let facts = Facts::read();
        let load = load_average()[0];
        let mut set = CpuSet::new();
        cores.load.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
        sched_setaffinity(None, &set)
            .map_err(|error| Failure::of("moving to the generator's cores", error))?;
        let scratch = Scratch::create("run")?;
        Ok(Self {
            exe,
            catalogue,
            tool_paths,
            cores,
            hosts: Hosts::default(),
            own_origin: None,
            identity: None,
            cgroup_root: CGROUPS.into(),
            session: None,
            facts,
            busy: None,
            load,
            scratch,
            certificate: OnceCell::new(),
            arrivals: Cell::new(0),
            folders: Cell::new(0),
        })
    }

    /// Watches the machine for a moment, before the run starts anything.
    pub fn look_at_start(&mut self) {
        self.busy = Some(busy_cores(LOOK_AT_START));
    }

    /// Returns whether the laboratory on the other host is gone, so that a start need not be awaited.
    pub(crate) fn is_cut_off(&self) -> bool {
        let Some(stream) = &self.session else { return false };
        let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && polled[0].revents().intersects(gone)
    }

    /// Creates a new folder for a server or a generator.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn folder(&self, purpose: &str) -> Result<PathBuf, Failure> {
        let number = self.folders.get() + 1;
        self.folders.set(number);
        let folder = self.scratch.path().join(format!("{number:04}-{}", purpose.replace(['/', '#'], "-")));
        fs::create_dir_all(&folder).map_err(|error| Failure::of(folder.display(), error))?;
        Ok(folder)
    }

    /// Returns the certificate that all systems of this run use; creates it at the first call. It is
    /// self-signed, with an ECDSA key on P-256, as most public servers have.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn certificate(&self) -> Result<TlsFiles, Failure> {
        if let Some(files) = self.certificate.get() {
            return Ok(files.clone());
        }
        let folder = self.folder("certificate")?;
        let files = TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        // rcgen's default key is ECDSA on P-256.
        let names = vec!["127.0.0.1".to_owned(), self.hosts.gateway_address().to_string()];
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| Failure::of("the certificate", error))?;
        write_both(&files, &made.cert.pem(), &made.signing_key.serialize_pem())?;
        Ok(self.certificate.get_or_init(|| files).clone())
    }

    /// Uses the certificate of the laboratory on another host, in PEM, instead of one of its own. A second
    /// call replaces the files.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn use_certificate(&self, certificate: &str, key: &str) -> Result<(), Failure> {
        let files = match self.certificate.get() {
            Some(files) => files.clone(),
            None => {
                let folder = self.folder("certificate")?;
                TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
            }
        };
        write_both(&files, certificate, key)?;
        self.certificate.get_or_init(|| files);
        Ok(())
    }

    /// Moves the roles to the hosts of agents, with the cores that they have there.
    pub fn use_hosts(&mut self, hosts: Hosts) {
        let cores = |host: &Host, own: &[usize]| match host {
            Host::Local => own.to_vec(),
            Host::Agent(agent) => agent.cores().to_vec(),
        };
        self.cores = Roles {
            target: cores(&hosts.gateway, &self.cores.target),
            origin: cores(&hosts.origin, &self.cores.origin),
            load: cores(&hosts.client, &self.cores.load),
        };
        self.hosts = hosts;
    }

    /// Returns the number of logical cores of the client's host.
    pub(crate) fn client_cores(&self) -> usize {
        match &self.hosts.client {
            Host::Local => CoreTimes::read().highest(),
            Host::Agent(agent) => agent.host_cores(),
        }
    }

    /// Returns the cores that only the origin uses, as the evidence numbers them; none if it shares the
    /// cores of the load. The cores of an origin's own host follow the cores of the client's host.
    pub(crate) fn origin_cores(&self) -> Vec<usize> {
        match &self.hosts.origin {
            Host::Agent(_) => {
                let first = self.client_cores();
                self.cores.origin.iter().map(|core| first + core).collect()
            }
            Host::Local if matches!(self.hosts.client, Host::Local) && self.cores.apart() => {
                self.cores.origin.clone()
            }
            Host::Local => Vec::new(),
        }
    }

    /// Begins a round: derives the seed of its random arrivals, which all systems share. Each round has
    /// another seed.
    pub fn begin_round(&self, seed: u64, round: u32) {
        self.arrivals.set(fastrand::Rng::with_seed(seed ^ (u64::from(round) << 32)).u64(..));
    }

    /// Returns the seed of the random arrivals of this round.
    pub fn arrivals(&self) -> u64 {
        self.arrivals.get()
    }

    /// Returns the cores for a system that may use `count` of them: first its role's own cores, then the cores of the
    /// load and the origin, which it then shares ([`Environment::shares`]).
    pub fn target_cores(&self, count: u32) -> Vec<usize> {
        let mut cores: Vec<usize> = Vec::new();
        for core in self.cores.target.iter().chain(&self.cores.load).chain(&self.cores.origin) {
            if cores.len() < count.max(1) as usize && !cores.contains(core) {
                cores.push(*core);
            }
        }
        cores
    }

    /// Returns whether a system that may use `count` cores also uses cores of the load or the origin.
    pub fn shares(&self, count: u32) -> bool {
        self.hosts.are_local() && count as usize > self.cores.target.len()
    }

    /// Replaces this run's own paths in a text, which mean nothing to a reader.
    pub fn without_paths(&self, text: &str) -> String {
        let home = self.tool_paths.home.to_string_lossy();
        let mut text = text
            .replace(self.scratch.path().to_string_lossy().as_ref(), "RUN")
            .replace(home.as_ref(), "LAB_HOME");
        for system in self.catalogue.systems() {
            let short = format!("bench/systems/{}", system.name());
            text = text.replace(system.folder().to_string_lossy().as_ref(), &short);
        }
        text
    }

    /// Returns the description of this machine for the result file.
    pub fn host(&self) -> HostLine {
        HostLine {
            cpu: self.facts.cpu.clone(),
            cores: self.facts.usable_cores,
            memory_kib: self.facts.memory_kib,
            kernel: self.facts.kernel.clone(),
            open_files: self.facts.file_limit,
            own_quota: self.facts.cpu_quota,
            placement: if self.hosts.are_local() { self.cores.describe() } else { self.hosts.describe() },
            irq_time_accounting: self.facts.irq_time_accounting,
            governor: self.facts.governor.clone(),
            hypervisor: self.facts.hypervisor.clone(),
            mitigations: self.facts.mitigations.clone(),
            busy_at_start: self.busy,
            load_at_start: self.load,
        }
    }

    /// Returns a warning if other programs used the machine before this run started anything.
    pub fn is_busy(&self) -> Option<String> {
        busy_warning("this machine", self.busy?, Some(self.load))
    }
}

fn write_both(files: &TlsFiles, certificate: &str, key: &str) -> Result<(), Failure> {
    for (file, text) in [(&files.certificate, certificate), (&files.key, key)] {
        fs::write(file, text).map_err(|error| Failure::of(file.display(), error))?;
    }
    Ok(())
}

/// Returns the last lines of a text file, for messages; an unreadable file yields an empty string.
pub fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_warns_at_its_start_if_other_programs_use_the_machine() {
        assert_eq!(busy_warning("this machine", 0.1, Some(9.0)), None);
        let warning = busy_warning("this machine", 1.3, Some(2.5)).unwrap();
        assert!(
            warning
                .starts_with("this machine is busy: other programs use 1.3 of its cores (load average 2.5)"),
            "{warning}"
        );
    }
}
