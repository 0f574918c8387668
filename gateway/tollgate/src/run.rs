//! `tollgate run FILE`: starts the gateway, or takes over from a running one, and hands it to the control
//! thread.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tollgate_net::notice;
use tollgate_sources::Sources;

use crate::compiled;
use crate::control::{self, Started, Upgradable, control};
use crate::etcd;
use crate::gateway::Gateway;
use crate::listeners::Inherited;
use crate::plural::counted;
use crate::signals::Signals;
use crate::startup::make_room_for_files;
use crate::takeover::Predecessor;
use crate::upgrade::Program;

/// Runs the gateway until a signal stops it.
pub fn run(file: &Path) -> ExitCode {
    make_room_for_files();
    let program = Program::current();
    if compiled::is_standard_input(file) {
        notice!("error: `run` needs a file: SIGHUP reads it again");
        return ExitCode::from(2);
    }
    let predecessor = match Predecessor::find() {
        Ok(found) => found,
        Err(error) => {
            notice!("error: cannot take over: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (predecessor, inherited) = predecessor.unzip();
    let inherited = inherited.unwrap_or_default();
    let Some(started) = start(file, inherited, predecessor) else { return ExitCode::FAILURE };
    ended(control(started, Upgradable::By(program)))
}

/// Starts the gateway with a file, taking over from its predecessor if there is one. Reports the start, or
/// the reason why it failed.
pub fn start(file: &Path, mut inherited: Inherited, predecessor: Option<Predecessor>) -> Option<Started> {
    let mut sources = Sources::new(file);
    let mut reload = compiled::read_again(&mut sources, &mut tollgate_plan::CompileCache::default());
    compiled::show(&reload.problems);
    let mut good = compiled::good(&mut reload)?;
    sources.adopt(&mut reload);
    let etcd_events = match etcd::join(&mut sources, &mut good) {
        Ok(etcd_events) => etcd_events,
        Err(error) => {
            notice!("error: {error}");
            return None;
        }
    };
    let routes = counted(good.plan.routes.len(), "route");
    let told = |error: &io::Error| notice!("error: {error}");
    let runtime = control::runtime().inspect_err(told).ok()?;
    // Before any other process can know that this one runs.
    let signals = runtime.block_on(async { Signals::new() }).inspect_err(told).ok()?;
    let mut gateway = Gateway::start(good, &mut inherited, &runtime).inspect_err(told).ok()?;
    // Sockets that the file no longer names: the predecessor must be the last to hold them.
    drop(inherited);
    if let Some(predecessor) = &predecessor {
        // The predecessor is about to end this process, and reports the reason itself.
        predecessor.ready().ok()?;
    }
    gateway.listen().inspect_err(told).ok()?;
    let workers = counted(gateway.workers.count(), "worker");
    for address in gateway.listeners.addresses() {
        notice!("tollgate {} listens on {address}: {routes}, {workers}", env!("CARGO_PKG_VERSION"));
    }
    if let Some(address) = gateway.admin.shown() {
        notice!("dashboard, metrics, cost and health on {address}");
    }
    if let Some(predecessor) = predecessor {
        predecessor.serving(gateway.listeners.written());
    }
    Some(Started { gateway, runtime, signals, sources, etcd_events })
}

/// Returns the exit code for the result of the control thread.
pub fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
