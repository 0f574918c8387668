//! The servers of a cell: one shared origin and, in front of it, every system. All but the measured system
//! are stopped (SIGSTOP).

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host::Host;
use crate::origin::Origin;
use crate::target::{Target, quota};
use std::cell::RefCell;
use std::rc::Rc;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_record::SystemUsed;
use tollgate_lab_study::Settings;

/// The state of one arm's server.
#[derive(Debug)]
pub enum Slot {
    /// The server runs, paused between its turns.
    Up(Box<Target>),
    /// The server is started for each trial.
    Cold,
    /// The server cannot be measured; [`Fleet::used`] has the reason.
    Out,
}

/// The servers of one cell. The next cells use them too as long as only the load differs.
#[derive(Debug)]
pub struct Fleet {
    key: String,
    /// One slot per arm, in the order of the arms.
    pub slots: Vec<Slot>,
    /// The record of each arm for the result file, in the same order.
    pub used: Vec<SystemUsed>,
    /// The most connections of any cell that these servers serve.
    pub clients: u32,
    origin: Option<Rc<RefCell<Origin>>>,
    /// The origin's own quota; `None` if it has none.
    pub origin_quota: Option<Quota>,
}

/// Returns a key of everything that the servers depend on. Two cells with the same key can use the same
/// servers.
pub fn key(arms: &[Arm], settings: &Settings) -> String {
    let load = Settings {
        tool: None,
        verify: None,
        connections: None,
        threads: None,
        rate: None,
        poisson: None,
        keep_alive: None,
        ramp: None,
        sources: None,
        streams: None,
        header_lines: None,
        known_client: None,
        answer: None,
        host: None,
        path: None,
        method: None,
        request_body: None,
        timeout: None,
        requests: None,
        seconds: None,
        rounds: None,
        warm_up: None,
        ..settings.clone()
    };
    format!(
        "{:?} {load:?}",
        arms.iter().map(|arm| (&arm.name, &arm.settings, &arm.instead)).collect::<Vec<_>>()
    )
}

impl Fleet {
    /// Returns whether these servers can serve a cell with these arms and settings.
    pub fn fits(&self, arms: &[Arm], settings: &Settings, clients: u32) -> bool {
        self.key == key(arms, settings) && clients <= self.clients
    }

    /// Starts the origin and every system. `clients` is the most connections of any cell that these servers
    /// will serve.
    ///
    /// # Errors
    /// If the origin cannot be started, since then nothing can be measured. A system that cannot be started
    /// becomes a [`Slot::Out`].
    pub fn start(
        environment: &Environment,
        arms: &[Arm],
        settings: &Settings,
        clients: u32,
    ) -> Result<Self, Failure> {
        let beside = settings.origin_beside_target();
        if beside && !environment.hosts.are_local() {
            return Err(Failure("`origin_beside_target` needs all roles on one host".into()));
        }
        let mut fleet = Self {
            key: key(arms, settings),
            slots: Vec::new(),
            used: Vec::new(),
            clients,
            origin: None,
            origin_quota: None,
        };
        if !beside {
            let own = Settings { quota: settings.origin_quota, memory_mib: None, ..settings.clone() };
            // An agent limits an origin on its host itself.
            if matches!(environment.hosts.origin, Host::Local) {
                fleet.origin_quota = quota("origin", &own)?;
            }
            // Gateways that already run have an origin of their own.
            let external = arms.iter().any(|arm| arm.external.is_some());
            let needed = arms.iter().any(|arm| arm.external.is_none() && arm.system != "direct");
            let origin = match &environment.own_origin {
                Some(url) => Origin::of_user(url)?,
                None if external && !needed => Origin::none(),
                None => Origin::start_on_its_host(environment, settings, fleet.origin_quota.as_ref())?,
            };
            fleet.origin = Some(Rc::new(RefCell::new(origin)));
        }
        for arm in arms {
            let settings = arm.settings(settings);
            // If a system lacks the feature, its copy without the feature (the next arm) is not needed.
            if let (true, Some(Slot::Out), Some(used)) =
                (arm.instead.is_some(), fleet.slots.last(), fleet.used.last().cloned())
            {
                fleet.used.push(SystemUsed { name: arm.name.clone(), ..used });
                fleet.slots.push(Slot::Out);
                continue;
            }
            match Target::start(environment, arm, &settings, fleet.origin.clone(), clients) {
                // The start only proves that a cold system starts; each trial starts it again.
                Ok(target) if settings.cold() => {
                    fleet.used.push(target.used.clone());
                    fleet.slots.push(Slot::Cold);
                }
                Ok(mut target) => {
                    target.pause();
                    fleet.used.push(target.used.clone());
                    fleet.slots.push(Slot::Up(Box::new(target)));
                }
                Err(used) => {
                    fleet.used.push(*used);
                    fleet.slots.push(Slot::Out);
                }
            }
        }
        Ok(fleet)
    }

    /// Returns the origin that all systems share; `None` if each has its own within its quota.
    pub fn origin(&self) -> Option<Rc<RefCell<Origin>>> {
        self.origin.clone()
    }
}
