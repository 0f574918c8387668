//! The servers of a cell: one origin, every system of the cell in front of it, each standing still until its turn.

use crate::arm::Arm;
use crate::failure::Failure;
use crate::ground::Ground;
use crate::origin::Origin;
use crate::target::{Target, quota};
use std::cell::RefCell;
use std::rc::Rc;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_record::SystemUsed;
use tollgate_lab_study::Settings;

/// A system of the cell.
#[derive(Debug)]
pub enum Slot {
    /// It runs.
    Up(Box<Target>),
    /// It is started for each trial.
    Cold,
    /// It cannot be measured; what is known of it says why.
    Out,
}

/// The servers of one cell, and of the next ones as long as nothing but the load changes.
#[derive(Debug)]
pub struct Fleet {
    key: String,
    /// In the order of the arms.
    pub slots: Vec<Slot>,
    /// What is known of each, for the record.
    pub used: Vec<SystemUsed>,
    /// The most connections of any cell that these servers see.
    pub clients: u32,
    origin: Option<Rc<RefCell<Origin>>>,
    /// The origin's quota; `None` when it has none of its own.
    pub origin_quota: Option<Quota>,
}

/// All that servers depend on; two cells with the same key can use the same servers.
pub fn key(arms: &[Arm], settings: &Settings) -> String {
    let load = Settings {
        tool: None,
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
    /// Whether these servers serve that cell as well.
    pub fn fits(&self, arms: &[Arm], settings: &Settings, clients: u32) -> bool {
        self.key == key(arms, settings) && clients <= self.clients
    }

    /// Starts everything. `clients` is the most connections of any cell that these servers will see.
    ///
    /// # Errors
    /// When the origin cannot be started: then nothing can be measured. A system that cannot is a [`Slot::Out`].
    pub fn start(ground: &Ground, arms: &[Arm], settings: &Settings, clients: u32) -> Result<Self, Failure> {
        let beside = settings.origin_beside_target.unwrap_or(false);
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
            fleet.origin_quota = quota("origin", &own)?;
            let origin = Origin::start(ground, settings, &[ground.cores.load], fleet.origin_quota.as_ref())?;
            fleet.origin = Some(Rc::new(RefCell::new(origin)));
        }
        for arm in arms {
            let settings = arm.settings(settings);
            // What lacks the feature needs nobody beside it, who comes right behind it.
            if let (true, Some(Slot::Out), Some(used)) =
                (arm.instead.is_some(), fleet.slots.last(), fleet.used.last().cloned())
            {
                fleet.used.push(SystemUsed { name: arm.name.clone(), ..used });
                fleet.slots.push(Slot::Out);
                continue;
            }
            match Target::start(ground, arm, &settings, fleet.origin.clone(), clients) {
                // A cold system was started to see that it can be; each trial starts it anew.
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

    /// The origin that all share.
    pub fn origin(&self) -> Option<Rc<RefCell<Origin>>> {
        self.origin.clone()
    }
}
