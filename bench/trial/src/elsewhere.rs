//! Readings of what this program cannot read itself: agents' hosts, and the CPU time of a gateway that it did
//! not start. `measure` takes one with each reading of its own host and adds the difference to the evidence.
//!
//! [`Reading`] is also what an agent takes on its host. Each host uses its own clock for its own interval, and
//! no time crosses a link.

use crate::agent::{Agent, Ask};
use crate::cpu::CpuTime;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host::Host;
use crate::origin::Origin;
use crate::target::Target;
use crate::usage::{machine, quota, tree, with_group};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tollgate_lab_meter::cgroup::{GroupCpu, Quota, Throttling};
use tollgate_lab_meter::machine::CoreTimes;
use tollgate_lab_meter::network::NetCounters;
use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_record::{Evidence, Machine, Network, Throttled, Tree};

/// The use of a host between two readings.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interval {
    system: Tree,
    origin: Tree,
    machine: Machine,
    network: Network,
    system_quota: Option<Throttled>,
    origin_quota: Option<Throttled>,
}

/// The counters of this host at one moment, taken for the laboratory on another host.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The trees of the system, each with the process id of its root.
    system: Vec<(u32, Snapshot)>,
    /// CPU time of the group that holds all processes of the system.
    group: Option<GroupCpu>,
    origin: Vec<Snapshot>,
    cores: CoreTimes,
    net: NetCounters,
    system_quota: Option<Throttling>,
    origin_quota: Option<Throttling>,
}

impl Reading {
    /// Reads a system and an origin that this program started.
    pub(crate) fn take(system: Option<&Target>, origin: Option<&(Origin, Option<Quota>)>) -> Self {
        let throttling = |quota: &Quota| quota.throttling().ok();
        Self {
            system: system
                .map(|system| system.ids().into_iter().map(|id| (id, Snapshot::take(id))).collect())
                .unwrap_or_default(),
            group: system.and_then(Target::group).and_then(|group| group.cpu().ok()),
            origin: origin
                .map(|(origin, _)| origin.ids().into_iter().map(Snapshot::take).collect())
                .unwrap_or_default(),
            cores: CoreTimes::read(),
            net: NetCounters::read(),
            system_quota: system.and_then(Target::quota).and_then(throttling),
            origin_quota: origin.and_then(|(_, quota)| quota.as_ref()).and_then(throttling),
        }
    }

    /// Returns the use since `earlier`, a reading of the same system and origin.
    pub(crate) fn since(
        &self,
        earlier: &Self,
        system: Option<&Target>,
        origin: Option<&(Origin, Option<Quota>)>,
    ) -> Interval {
        let net = self.net.since(&earlier.net);
        // A process that left its tree in between is in one of the readings only; the group has its time.
        let after =
            |id: u32| self.system.iter().find(|(other, _)| *other == id).map(|(_, after)| after.clone());
        let mut ids = Vec::new();
        let (mut before_all, mut after_all) = (Vec::new(), Vec::new());
        for (id, before) in &earlier.system {
            if let Some(after) = after(*id) {
                ids.push(*id);
                before_all.push(before.clone());
                after_all.push(after);
            }
        }
        let origin_ids = origin.map(|(origin, _)| origin.ids()).unwrap_or_default();
        Interval {
            system: with_group(tree(&ids, &before_all, &after_all), earlier.group, self.group),
            origin: tree(&origin_ids, &earlier.origin, &self.origin),
            machine: machine(&self.cores.since(&earlier.cores)),
            network: Network {
                listen_overflows: net.listen_overflows,
                listen_drops: net.listen_drops,
                retransmits: net.retransmits,
            },
            system_quota: quota(system.and_then(Target::quota), earlier.system_quota, self.system_quota),
            origin_quota: quota(
                origin.and_then(|(_, quota)| quota.as_ref()),
                earlier.origin_quota,
                self.origin_quota,
            ),
        }
    }
}

/// The readings of a trial elsewhere; empty if everything runs on this host.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    client: Option<u64>,
    gateway: Option<u64>,
    origin: Option<u64>,
    cpu: Option<CpuTime>,
}

impl Elsewhere {
    /// Takes the readings.
    ///
    /// # Errors
    /// If an agent or the source of CPU time no longer answers.
    pub(crate) fn read(environment: &Environment, target: &Target) -> Result<Self, Failure> {
        let mut all = Self::default();
        if let Host::Agent(agent) = &environment.hosts.client {
            all.client = Some(agent.ask(&Ask::Read { system: None, origin: None })?);
        }
        if let Some((agent, origin)) = target.origin.borrow().remote() {
            all.origin = Some(agent.ask(&Ask::Read { system: None, origin: Some(origin) })?);
        }
        if let Some((agent, system)) = target.remote() {
            all.gateway = Some(agent.ask(&Ask::Read { system: Some(system), origin: None })?);
        }
        all.cpu = target.read_cpu()?;
        Ok(all)
    }

    /// Adds what was used since `earlier` to the evidence. The cores of the hosts follow each other: the
    /// client's, the origin's, the gateway's ([`Environment::origin_cores`]).
    ///
    /// # Errors
    /// As [`Elsewhere::read`].
    pub(crate) fn add_to(
        &self,
        evidence: &mut Evidence,
        earlier: &Self,
        environment: &Environment,
        target: &Target,
    ) -> Result<(), Failure> {
        let between = |agent: &Rc<Agent>, before: Option<u64>, after: Option<u64>| -> Result<_, Failure> {
            match (before, after) {
                (Some(before), Some(after)) => agent.ask::<Interval>(&Ask::Between(before, after)).map(Some),
                _ => Ok(None),
            }
        };
        if let Host::Agent(agent) = &environment.hosts.client
            && let Some(client) = between(agent, earlier.client, self.client)?
        {
            add_network(&mut evidence.network, &client.network);
            evidence.machine = client.machine;
        }
        if let Some((agent, _)) = target.origin.borrow().remote()
            && let Some(origin) = between(&agent, earlier.origin, self.origin)?
        {
            append(&mut evidence.machine, origin.machine, environment.client_cores());
            add_network(&mut evidence.network, &origin.network);
            evidence.origin = origin.origin;
            evidence.origin_quota = origin.origin_quota;
        }
        if let Some((agent, _)) = target.remote()
            && let Some(gateway) = between(&agent, earlier.gateway, self.gateway)?
        {
            let cores = evidence.machine.busy.len();
            append(&mut evidence.machine, gateway.machine, cores);
            add_network(&mut evidence.network, &gateway.network);
            evidence.target = gateway.system;
            evidence.target_quota = gateway.system_quota;
        }
        if let (Some(after), Some(before)) = (self.cpu, earlier.cpu) {
            evidence.target = after.since(before);
        }
        Ok(())
    }
}

fn append(all: &mut Machine, more: Machine, first: usize) {
    for (all, more) in
        [(&mut all.busy, more.busy), (&mut all.softirq, more.softirq), (&mut all.steal, more.steal)]
    {
        all.resize(first, 0.0);
        all.extend(more);
    }
}

fn add_network(all: &mut Network, more: &Network) {
    all.listen_overflows += more.listen_overflows;
    all.listen_drops += more.listen_drops;
    all.retransmits += more.retransmits;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_of_the_next_host_follow() {
        let mut all = Machine { busy: vec![0.1], softirq: vec![0.0], steal: vec![0.0] };
        append(&mut all, Machine { busy: vec![0.9], softirq: vec![0.2], steal: vec![0.0] }, 2);
        assert_eq!((all.busy, all.softirq), (vec![0.1, 0.0, 0.9], vec![0.0, 0.0, 0.2]));
    }
}
