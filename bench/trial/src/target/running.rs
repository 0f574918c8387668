//! A gateway that already runs: the laboratory only sends requests to it, and reads its CPU time if the study says where.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_record::SystemUsed;
use tollgate_lab_study::{CpuSource, CpuSubject, External};

use super::{StartedElsewhere, Target};
use crate::arm::Arm;
use crate::cpu::Counter;
use crate::environment::Environment;
use crate::external::{certificate, resolve};
use crate::failure::Failure;
use crate::origin::Origin;

/// Describes a gateway that already runs.
///
/// # Errors
/// If it cannot be reached, or its CPU time cannot be read.
pub(super) fn of_running(
    environment: &Environment,
    arm: &Arm,
    external: &External,
    origin: Rc<RefCell<Origin>>,
    used: &mut SystemUsed,
) -> Result<Target, Failure> {
    let External { url, cpu, .. } = external;
    used.version.clone_from(&external.version);
    used.title = arm.title.clone().unwrap_or_else(|| format!("{} ({url})", arm.name));
    let address = resolve(url)?;
    let certificate = certificate(environment, external, address)?;
    let elsewhere = match cpu {
        None => StartedElsewhere::Uncounted,
        // The tree of a process of this host is read with its threads and its memory.
        Some(CpuSource::Local(CpuSubject::Pid(pid))) if Snapshot::take(*pid).processes() > 0 => {
            StartedElsewhere::Process(*pid)
        }
        Some(source) => {
            let counter = Counter::open(source, environment.identity.as_ref(), &environment.cgroup_root)?;
            StartedElsewhere::Counted(RefCell::new(counter))
        }
    };
    used.marked = Some(match cpu {
        None => format!("Runs at {url}. Its CPU time is not read, so no toll is shown."),
        Some(source) => format!("Runs at {url}. Its CPU time is read from {source}."),
    });
    used.terms.push("runs with its user's configuration, behind which its own origin answers".into());
    if url.tls && external.certificate.is_none() {
        used.terms
            .push("its certificate is the one that it presented at the start; no authority was asked".into());
    }
    Ok(Target {
        url: Some(url.clone()),
        certificate,
        ..Target::started_elsewhere(arm, address, elsewhere, used.clone(), origin)
    })
}
