//! `tollgate run [FILE]`: starts the gateway, or takes over from a running one, and hands it to the control
//! thread.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use tollgate_config::Config;
use tollgate_config::file_access::run_with_timeout;
use tollgate_net::component;
use tollgate_sources::Sources;
use tracing::{error, info, warn};

use crate::config_path;
use crate::control::{self, StartedGateway, Upgradable, control};
use crate::controller;
use crate::diagnostics;
use crate::documents::JoinedSource;
use crate::etcd;
use crate::fleet;
use crate::gateway::Gateway;
use crate::kubernetes;
use crate::listeners::InheritedSockets;
use crate::load::{self, LoadedPlan};
use crate::plural::count_noun;
use crate::print::print_error;
use crate::signals::Signals;
use crate::startup::raise_file_limit;
use crate::takeover::Predecessor;
use crate::upgrade::Program;

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It serves requests.
    Gateway,
    /// It hands its documents to gateways.
    Controller,
}

impl Role {
    /// Returns why a configuration is not for this role.
    fn problem(self, config: &Config) -> Option<&'static str> {
        match (self, &config.fleet) {
            (Self::Gateway, Some(_)) => {
                Some("the file has the section `fleet`: it is for `tollgate controller`, not for `run`")
            }
            (Self::Controller, None) => Some(
                "the file has no section `fleet`: a controller needs an address for gateways, and certificates",
            ),
            _ => None,
        }
    }
}

/// Runs the gateway, or a controller, until a signal stops it.
pub fn run(named: Option<&Path>, role: Role) -> ExitCode {
    raise_file_limit();
    let mut program = Program::current();
    let found = match config_path::resolve(named) {
        Ok(found) => found,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            return ExitCode::from(2);
        }
    };
    if let Some(line) = found.announcement() {
        info!(target: component::GATEWAY, "{line}");
        // An upgrade must not find another file.
        program.add_argument(found.file.as_os_str());
    }
    let file = found.file.as_path();
    if load::is_standard_input(file) {
        error!(target: component::GATEWAY, "`run` needs a file: SIGHUP reads it again");
        return ExitCode::from(2);
    }
    let predecessor = match Predecessor::find() {
        Ok(found) => found,
        Err(error) => {
            error!(target: component::UPGRADE, "cannot take over: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (predecessor, inherited) = predecessor.unzip();
    let inherited = inherited.unwrap_or_default();
    let Some(started) = start(file, inherited, predecessor, role) else { return ExitCode::FAILURE };
    let upgradable = match role {
        Role::Gateway => Upgradable::By(program),
        Role::Controller => {
            Upgradable::No("a controller is restarted: its gateways continue where they were")
        }
    };
    exit_code(control(started, upgradable))
}

/// Starts the gateway with a file, taking over from its predecessor if there is one. Reports the start, or
/// the reason why it failed.
pub fn start(
    file: &Path,
    mut inherited: InheritedSockets,
    predecessor: Option<Predecessor>,
    role: Role,
) -> Option<StartedGateway> {
    let (mut sources, mut loaded) = load_file(file, role)?;
    let etcd_events = etcd::join(&mut sources, &mut loaded).inspect_err(report).ok()?;
    if loaded.config.etcd.is_some() && role == Role::Gateway && loaded.plan.routes.is_empty() {
        // Only now is it known that etcd has none either.
        warn!(target: component::GATEWAY, "{}", load::NO_ROUTES_YET);
    }
    let cluster = kubernetes::join(&mut sources, &mut loaded).inspect_err(report).ok()?;
    let controller = controller::join(&mut sources, &mut loaded).inspect_err(report).ok()?;
    let routes = count_noun(loaded.plan.routes.len(), "route");
    let runtime = control::runtime().inspect_err(report).ok()?;
    // Before any other process can know that this one runs.
    let signals = runtime.block_on(async { Signals::new() }).inspect_err(report).ok()?;
    let mut gateway = Gateway::start(loaded, &mut inherited, &runtime).inspect_err(report).ok()?;
    // Sockets that the file no longer names: the predecessor must be the last to hold them.
    drop(inherited);
    if let Some(predecessor) = &predecessor {
        // The predecessor is about to end this process, and reports the reason itself.
        predecessor.ready().ok()?;
    }
    gateway.listen().inspect_err(report).ok()?;
    report_addresses(&gateway, &routes);
    if let Some(predecessor) = predecessor {
        predecessor.serving(gateway.listeners.configured_addresses());
    }
    let has_etcd = gateway.config.etcd.is_some();
    let fleet = gateway.config.fleet.as_ref().map(|settings| fleet::start(settings, &sources, has_etcd));
    let fleet = fleet.transpose().inspect_err(report).ok()?;
    gateway.fleet = fleet.as_ref().map(|fleet| fleet.handle().clone());
    let source_events = cluster.or(controller).map(JoinedSource::start);
    Some(StartedGateway { gateway, runtime, signals, sources, etcd_events, source_events, fleet })
}

/// Reads and compiles the file, starts the log with its settings, and reports its problems. Returns `None` if it is not
/// valid, or not for this role.
fn load_file(file: &Path, role: Role) -> Option<(Sources, LoadedPlan)> {
    let mut sources = Sources::new(file);
    let mut reload = load::reload(&mut sources, &mut tollgate_plan::CompileCache::default());
    let loaded = load::take_loaded(&mut reload);
    if let Some(loaded) = &loaded {
        start_log(&loaded.config).inspect_err(report).ok()?;
    }
    diagnostics::report_problems(&reload.problems);
    let loaded = loaded?;
    if let Some(problem) = role.problem(&loaded.config) {
        error!(target: component::GATEWAY, "{}: {problem}", file.display());
        return None;
    }
    sources.adopt(&mut reload);
    Some((sources, loaded))
}

/// Reports why the gateway cannot start.
fn report(error: &impl Display) {
    error!(target: component::GATEWAY, "{error}");
}

/// Reports the addresses of a gateway that accepts connections.
fn report_addresses(gateway: &Gateway, routes: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let workers = count_noun(gateway.workers.count(), "worker");
    for address in gateway.listeners.addresses() {
        info!(target: component::GATEWAY, "tollgate {version} listens on {address}: {routes}, {workers}");
    }
    if let Some(address) = gateway.admin.display_address() {
        info!(target: component::GATEWAY, "dashboard, metrics, cost and health on {address}");
    }
}

/// Puts the settings of the log in force.
fn start_log(config: &Config) -> io::Result<()> {
    let settings = config.log.clone();
    let prepared = run_with_timeout(move || diagnostics::prepare(&settings));
    prepared.unwrap_or_else(|stalled| Err(io::Error::other(stalled.to_string())))?.apply();
    Ok(())
}

/// Returns the exit code for the result of the control thread.
pub fn exit_code(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(target: component::GATEWAY, "{error}");
            ExitCode::FAILURE
        }
    }
}
