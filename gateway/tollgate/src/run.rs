//! `tollgate run FILE`.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::check::counted;
use crate::compiled;
use crate::control::control;
use crate::gateway::Gateway;
use crate::startup::raise_file_limit;

/// Runs the gateway until it is told to stop.
pub fn run(file: &Path) -> ExitCode {
    if compiled::is_standard_input(file) {
        eprintln!("error: `run` needs a file: SIGHUP reads it again");
        return ExitCode::from(2);
    }
    let Some(gateway) = start(file) else { return ExitCode::FAILURE };
    ended(control(gateway, file))
}

/// Starts the gateway with a file and says so; says why, if that cannot be.
pub fn start(file: &Path) -> Option<Gateway> {
    let (good, problems) = compiled::read(file);
    compiled::show(&problems);
    let good = good?;
    raise_file_limit();
    let routes = counted(good.plan.routes.len(), "route");
    let gateway = Gateway::start(good).inspect_err(|error| eprintln!("error: {error}")).ok()?;
    let workers = counted(gateway.workers(), "worker");
    for address in gateway.addresses() {
        eprintln!("tollgate {} listens on {address}: {routes}, {workers}", env!("CARGO_PKG_VERSION"));
    }
    if let Some(address) = gateway.admin_address() {
        eprintln!("metrics, cost and health on http://{address}/");
    }
    Some(gateway)
}

/// The exit status for the way it ended.
pub fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
