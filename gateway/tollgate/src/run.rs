//! `tollgate run FILE`.

use std::path::Path;
use std::process::ExitCode;

use crate::compiled;
use crate::control::control;
use crate::gateway::Gateway;

/// Runs the gateway until it is told to stop.
pub fn run(file: &Path) -> ExitCode {
    let (good, problems) = compiled::read(file);
    compiled::show(&problems);
    let Some(good) = good else { return ExitCode::FAILURE };
    let gateway = match Gateway::start(good) {
        Ok(gateway) => gateway,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    for address in gateway.addresses() {
        eprintln!("tollgate listens on {address} with {} workers", gateway.workers());
    }
    match control(gateway, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
