//! Puts a read file in force, and reports the outcome to clients, the log, the status and systemd.
//!
//! The control thread calls [`apply_file`] with the result of a read by [`source_reader`](crate::source_reader). An invalid
//! file changes nothing.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Instant, SystemTime};

use tollgate_config::{Config, ControllerSettings, Severity};
use tollgate_net::component;
use tollgate_observe::{OperationResult, Registry};
use tollgate_proxy::Rollout;
use tollgate_upstream::health::HealthMonitor;
use tracing::{debug, error, info, warn};

use crate::endpoint_discovery;
use crate::fleet;
use crate::gateway::Gateway;
use crate::operation::{ReloadOutcome, ReloadReport, problems_to_json};
use crate::plural::count_noun;
use crate::roll_out::{Published, log_rollout};
use crate::source_reader::{FileReading, LoadedFile, SourceReader};
use crate::systemd;

/// Puts a file in force if it is valid; otherwise reports that the old plan stays.
pub async fn apply_file(
    reading: FileReading,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &mut SourceReader,
) {
    let FileReading { requested_at, loaded, routes_read, mut reload } = reading;
    let file = reader.file().to_owned();
    let waiters = reader.take_waiters();
    // Rendering is skipped if no client waits for it.
    let problems = if waiters.is_empty() { Vec::new() } else { problems_to_json(&reload.problems) };
    let Some(LoadedFile { config, rollout, listeners, files }) = loaded else {
        let mut errors = reload.problems.iter().filter(|problem| problem.severity == Severity::Error);
        let first = errors.next().map(|error| error.message.as_str()).unwrap_or_default();
        let problem = format!("the file has errors: {first}; the log has all of them");
        report_refused(gateway, requested_at, &file, problem);
        let message = format!("{} has errors and is not loaded; nothing has changed", file.display());
        return waiters.answer(&ReloadOutcome::Refused { message, problems });
    };
    let prepared = match listeners {
        Ok(listeners) => gateway.prepare(&config, &rollout.logs, listeners).await,
        Err(error) => Err(error),
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            error!(target: component::RELOAD, "{error}");
            report_refused(gateway, requested_at, &file, error.to_string());
            let message = format!("{} is not loaded; nothing has changed: {error}", file.display());
            return waiters.answer(&ReloadOutcome::Refused { message, problems: Vec::new() });
        }
    };
    let needs_restart = unchangeable_settings(&gateway.config, &config);
    if !needs_restart.is_empty() {
        let fixed = needs_restart.join(", ");
        warn!(
            target: component::RELOAD,
            "{fixed} changed: this needs an upgrade or a restart, the rest is in force"
        );
    }
    debug!(target: component::RELOAD, "opened the listeners and logs that are new");
    renew_certificates(&config, gateway, reader);
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let (receipts, admin_result) = gateway.change(rollout.clone(), config, prepared);
    log_rollout(&rollout);
    gateway.registry.update_status(|status| status.certificates.clone_from(&files.certificates));
    gateway.files = files;
    reader.adopt(&mut reload);
    let published = Published::new(gateway, reader);
    health.apply_plan(rollout.change());
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        let done = admin_result.and(receipts.all().await);
        published.wait_until_served().await;
        let problem = report_reload(done, (&rollout, routes_read), requested_at, &registry, &file);
        waiters.answer(&ReloadOutcome::InForce(ReloadReport {
            file: file.display().to_string(),
            generation: rollout.generation(),
            routes: rollout.routes.len(),
            routes_read,
            took: requested_at.elapsed(),
            needs_restart,
            problem,
            warnings: problems,
        }));
        ended_lookups.forget();
    });
}

/// Uses the file's certificates for new connections between a controller and its gateways.
fn renew_certificates(config: &Config, gateway: &Gateway, reader: &SourceReader) {
    if let (Some(fleet), Some(settings)) = (&gateway.fleet, &config.fleet) {
        fleet::renew_tls(fleet, settings);
    }
    if let (Some(sources), Some(settings)) = (reader.sources(), &config.controller)
        && let Err(why) = sources.set_controller_tls(settings)
    {
        warn!(target: component::CONTROLLER, "{why}; the last certificates stay in use");
    }
}

/// Reports a reload that has changed nothing.
fn report_refused(gateway: &Gateway, requested_at: Instant, file: &Path, problem: String) {
    let path = file.display();
    error!(target: component::RELOAD, "{path} is not loaded; the gateway goes on with what it has");
    let attempt =
        OperationResult { at: SystemTime::now(), took: requested_at.elapsed(), problem: Some(problem) };
    gateway.registry.update_status(|status| status.last_reload = Some(attempt));
    systemd::ready();
}

/// Reports that every worker runs the plan. Returns what is missing nevertheless.
fn report_reload(
    done: io::Result<()>,
    (rollout, routes_read): (&Rollout, usize),
    requested_at: Instant,
    registry: &Registry,
    file: &Path,
) -> Option<String> {
    let (took, at) = (requested_at.elapsed(), SystemTime::now());
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    debug!(target: component::RELOAD, generation, "every worker runs the plan");
    let problem = done.err().map(|error| format!("an address or the admin listener is missing: {error}"));
    if let Some(problem) = &problem {
        warn!(target: component::RELOAD, "{problem}");
    }
    registry.update_status(|status| {
        // If two reloads overtake each other, the later one is in force.
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.routes_read = routes_read;
            status.in_force_since = at;
            status.last_reload = Some(OperationResult { at, took, problem: problem.clone() });
        }
    });
    let routes = count_noun(routes, "route");
    let milliseconds = took.as_secs_f64() * 1e3;
    let path = file.display();
    info!(
        target: component::RELOAD,
        generation,
        "reloaded {path}: {routes}, generation {generation}, {milliseconds:.1} ms"
    );
    systemd::ready();
    problem
}

/// Returns whether two files name the same controllers, whatever their certificates: those are renewed.
fn is_same_controller(old: &Config, new: &Config) -> bool {
    match (&old.controller, &new.controller) {
        (Some(old), Some(new)) => {
            let ControllerSettings { ca, certificate, .. } = new.clone();
            ControllerSettings { ca, certificate, ..old.clone() } == *new
        }
        (old, new) => old == new,
    }
}

fn listen_of_fleet(config: &Config) -> Option<SocketAddr> {
    config.fleet.as_ref().map(|fleet| fleet.listen)
}

/// Returns the settings that the new file changes, but a reload cannot.
fn unchangeable_settings(old: &Config, new: &Config) -> Vec<&'static str> {
    let checks = [
        ("`workers`", old.workers != new.workers),
        ("`metrics`", old.metrics != new.metrics),
        ("`store`", old.store != new.store),
        ("`etcd`", old.etcd != new.etcd),
        ("`kubernetes`", old.kubernetes != new.kubernetes),
        ("`controller`", !is_same_controller(old, new)),
        ("`fleet.listen`", listen_of_fleet(old) != listen_of_fleet(new)),
    ];
    checks.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
