//! Starts a system at an agent, which runs the same code on another host.

use std::cell::RefCell;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

use tollgate_lab_record::SystemUsed;
use tollgate_lab_study::Settings;
use tollgate_lab_system::TlsFiles;

use super::{StartedElsewhere, Target};
use crate::agent::{Agent, Ask, Certificate, StartSystem, SystemUp};
use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host::Remote;
use crate::origin::Origin;

/// Starts a system at an agent. The inner error is the agent's record of why it did not start.
///
/// # Errors
/// If the agent cannot be asked, or the settings need everything on one host.
pub(super) fn start_at(
    environment: &Environment,
    arm: &Arm,
    agent: &Rc<Agent>,
    settings: &Settings,
    origin: Rc<RefCell<Origin>>,
    clients: u32,
) -> Result<Result<Target, Box<SystemUsed>>, Failure> {
    if settings.relay.is_some() {
        return Err(Failure("`relay` stands for a link, and this run has a real one (`hosts`)".into()));
    }
    let tls = settings.tls().then(|| environment.certificate()).transpose()?;
    let text = |file: &Path| fs::read_to_string(file).map_err(|error| Failure::of(file.display(), error));
    let pem = |files: &TlsFiles| -> Result<Certificate, Failure> {
        Ok(Certificate { certificate: text(&files.certificate)?, key: text(&files.key)? })
    };
    let addresses = origin.borrow_mut().for_next_system(settings.http2_origin() || settings.passthrough());
    let origins: Result<Vec<SocketAddr>, Failure> = addresses
        .iter()
        .map(|at| {
            let host = at.host.parse().map_err(|error| Failure::of(at, error))?;
            Ok(SocketAddr::new(host, at.port))
        })
        .collect();
    let at = environment.hosts.gateway_address();
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
    let elsewhere = StartedElsewhere::Agent(Remote { agent: Rc::clone(agent), id });
    let address = SocketAddr::new(at, port);
    Ok(Ok(Target { certificate: tls, ..Target::started_elsewhere(arm, address, elsewhere, used, origin) }))
}
