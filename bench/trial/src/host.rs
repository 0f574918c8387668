//! The hosts of a run: each role has one, this host or an agent's.
//!
//! This is the seam for runs on several hosts. `Target`, `Origin` and `Run` ask it where to start, and the
//! addresses that the roles use for each other follow from it.

use crate::agent::{Agent, Ask, Identity, Link};
use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tollgate_lab_study::Cores;

/// Cores in use by other programs from which a machine counts as busy.
const BUSY_CORES: f64 = 0.2;

/// A host of a run.
#[derive(Debug, Clone, Default)]
pub enum Host {
    /// The host of the laboratory.
    #[default]
    Local,
    /// The host of an agent.
    Agent(Rc<Agent>),
}

impl Host {
    /// Returns how many cores its role can use: the cores of the agent, but at most its CPU quota. `None` on the host
    /// of the laboratory.
    pub fn usable_cores(&self) -> Option<u32> {
        let Self::Agent(agent) = self else { return None };
        let count = u32::try_from(agent.cores().len()).unwrap_or(u32::MAX);
        // A float of this size is a whole number after `ceil`.
        Some(count.min(agent.facts().usable_cores.ceil() as u32).max(1))
    }
}

/// A system or an origin that an agent started. The agent stops it when this is dropped.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The agent.
    pub(crate) agent: Rc<Agent>,
    /// The number that the agent gave it.
    pub(crate) id: u64,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Fails only if the session is over, which stopped it already.
        let _ = self.agent.ask::<()>(&Ask::Stop(self.id));
    }
}

/// The host of each role.
#[derive(Debug, Default)]
pub struct Hosts {
    /// The load generator's.
    pub client: Host,
    /// The system's.
    pub gateway: Host,
    /// The origin's.
    pub origin: Host,
    /// The file with the shared identity, for the child that runs the load at an agent.
    pub key: Option<PathBuf>,
}

impl Hosts {
    /// Connects to the agents of a study.
    ///
    /// # Errors
    /// If an agent cannot be reached, has another identity or another version.
    pub fn connect(wanted: &tollgate_lab_study::Hosts, cores: &Cores, key: &Path) -> Result<Self, Failure> {
        let identity = Identity::read(key)?;
        let host = |address: &Option<String>, cores: &Option<tollgate_lab_study::CoreList>| match address {
            None => Ok(Host::Local),
            Some(address) => {
                let cores = cores.as_ref().map(|list| list.0.clone());
                Agent::connect(address, &identity, cores).map(Host::Agent)
            }
        };
        Ok(Self {
            client: host(&wanted.client, &cores.load)?,
            gateway: host(&wanted.gateway, &cores.target)?,
            origin: host(&wanted.origin, &cores.origin)?,
            key: Some(key.to_owned()),
        })
    }

    /// Returns whether every role runs on this host.
    pub fn are_local(&self) -> bool {
        [&self.client, &self.gateway, &self.origin].iter().all(|host| matches!(host, Host::Local))
    }

    /// Returns the address on which the system listens and to which the client sends.
    pub fn gateway_address(&self) -> IpAddr {
        between(&self.gateway, &self.client)
    }

    /// Returns the address of the origin as the system reaches it.
    pub fn origin_address(&self) -> IpAddr {
        between(&self.origin, &self.gateway)
    }

    /// Returns the address of the origin as the client reaches it.
    pub fn origin_address_for_client(&self) -> IpAddr {
        between(&self.origin, &self.client)
    }

    /// Measures the links between the client and the gateway, and between the gateway and the origin. Returns
    /// a sentence for each.
    ///
    /// # Errors
    /// If one end does not reach the other.
    pub fn links(&self) -> Result<Vec<String>, Failure> {
        let mut sentences = Vec::new();
        for (from, to, names) in [
            (&self.client, &self.gateway, "client and gateway"),
            (&self.gateway, &self.origin, "gateway and origin"),
        ] {
            if matches!((from, to), (Host::Local, Host::Local)) {
                continue;
            }
            let link =
                measure(from, to).map_err(|failure| Failure::of(format!("the link of {names}"), failure))?;
            sentences.push(format!("The link between {names}, measured before the first trial: {link}."));
        }
        Ok(sentences)
    }

    /// Watches the hosts of the agents in sequence, before the run starts anything there. Returns a warning for each
    /// that other programs use.
    ///
    /// # Errors
    /// If an agent no longer answers.
    pub fn warnings(&self) -> Result<Vec<String>, Failure> {
        let mut warnings = Vec::new();
        for host in [&self.client, &self.gateway, &self.origin] {
            if let Host::Agent(agent) = host {
                let busy: f64 = agent.ask(&Ask::Busy)?;
                warnings.extend(busy_warning(&format!("the host of the agent {}", agent.name), busy, None));
            }
        }
        Ok(warnings)
    }

    /// Describes the host and the cores of each role.
    pub fn describe(&self) -> String {
        let role = |host: &Host| match host {
            Host::Local => "the laboratory's host".to_owned(),
            Host::Agent(agent) => agent.describe(),
        };
        format!(
            "system under test on {}; origin on {}; generator on {}",
            role(&self.gateway),
            role(&self.origin),
            role(&self.client)
        )
    }
}

/// Returns a warning if other programs use `busy` cores of a machine before a run starts anything there.
pub(crate) fn busy_warning(machine: &str, busy: f64, load: Option<f64>) -> Option<String> {
    (busy > BUSY_CORES).then(|| {
        let load = load.map(|load| format!(" (load average {load:.1})")).unwrap_or_default();
        format!(
            "{machine} is busy: other programs use {busy:.1} of its cores{load}, so that figures scatter and rounds may \
             be dropped"
        )
    })
}

/// Returns the address of `server` as `client` reaches it.
fn between(server: &Host, client: &Host) -> IpAddr {
    match (server, client) {
        (Host::Agent(server), _) => server.address(),
        // The address of this host towards the agent.
        (Host::Local, Host::Agent(client)) => client.own_address(),
        (Host::Local, Host::Local) => Ipv4Addr::LOCALHOST.into(),
    }
}

fn measure(from: &Host, to: &Host) -> Result<Link, Failure> {
    let address = between(to, from);
    let port: u16 = match to {
        Host::Agent(agent) => agent.ask(&Ask::Sink)?,
        Host::Local => Agent::listen_here(address)?,
    };
    let to = SocketAddr::new(address, port);
    match from {
        Host::Agent(agent) => agent.ask(&Ask::Link(to)),
        Host::Local => Agent::probe_from_here(to),
    }
}
