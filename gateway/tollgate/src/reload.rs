//! Reload: the file is read and compiled on a thread of its own, and takes effect if it is good.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::task::{JoinHandle, spawn_blocking};
use tollgate_config::Config;
use tollgate_observe::{Attempt, Registry};
use tollgate_proxy::Rollout;
use tollgate_upstream::health::Health;

use crate::check::counted;
use crate::compiled;
use crate::gateway::Gateway;
use crate::lookups;
use crate::systemd;

/// Reads the file when asked to, one time after the other.
#[derive(Debug)]
pub struct Reader {
    file: PathBuf,
    running: Option<JoinHandle<Reading>>,
    /// It was asked for while it was being read: what came of that may be old.
    again: bool,
}

/// What came of a reading.
#[derive(Debug)]
pub struct Reading {
    asked: Instant,
    /// What it says of the process, the plan, and the files that are watched; nothing if the file is not good.
    good: Option<(Config, Arc<Rollout>, Vec<PathBuf>)>,
}

impl Reader {
    /// For the file of that name.
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), running: None, again: false }
    }

    /// Begins to read, at once or after the reading that is under way. `current` is the plan in force.
    pub fn start(&mut self, current: &Arc<Rollout>, registry: &Arc<Registry>) {
        if self.running.is_some() {
            self.again = true;
            return;
        }
        systemd::reloading();
        let (file, asked) = (self.file.clone(), Instant::now());
        let (current, registry) = (current.clone(), registry.clone());
        self.running = Some(spawn_blocking(move || read(&file, asked, &current, &registry)));
    }

    /// What came of the reading that is under way; never, if there is none.
    pub async fn done(&mut self) -> io::Result<Reading> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let reading = running.await;
        self.running = None;
        reading.map_err(io::Error::other)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether it was asked for again meanwhile.
    pub fn is_due(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }
}

/// All that takes time: it runs beside the workers and beside the control thread, which goes on answering.
fn read(file: &Path, asked: Instant, current: &Rollout, registry: &Registry) -> Reading {
    let (good, problems) = compiled::read(file);
    compiled::show(&problems);
    let good = good.map(|good| {
        let rollout = current.next(good.plan, registry);
        let watched = compiled::watched(&good.config);
        (compiled::without_routes(good.config), rollout, watched)
    });
    Reading { asked, good }
}

/// Takes over what was read, if it is good; else says that the old plan goes on.
pub async fn apply(reading: Reading, gateway: &mut Gateway, health: &Health, file: &Path) {
    let Reading { asked, good } = reading;
    let Some((config, rollout, watched)) = good else {
        let problem = "the file has errors: the standard error says which".to_owned();
        return refused(gateway, asked, file, problem);
    };
    let prepared = match gateway.prepare(&config) {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("error: {error}");
            return refused(gateway, asked, file, error.to_string());
        }
    };
    let fixed = unchangeable(&gateway.config, &config);
    if !fixed.is_empty() {
        let fixed = fixed.join(", ");
        eprintln!("warning: {fixed} changed: this needs an upgrade or a restart, the rest is in force");
    }
    let gone = lookups::change(&mut gateway.discovery, &rollout).await;
    let (receipts, told) = gateway.change(rollout.clone(), config, prepared);
    gateway.watched = watched;
    health.change(rollout.change());
    let registry = gateway.registry.clone();
    let file = file.to_owned();
    tokio::spawn(async move {
        let done = told.and(receipts.all().await);
        in_force(done, &rollout, asked, &registry, &file);
        gone.forget();
    });
}

/// Nothing has changed.
fn refused(gateway: &Gateway, asked: Instant, file: &Path, problem: String) {
    eprintln!("error: {} is not loaded; the gateway goes on with what it has", file.display());
    let attempt = Attempt { at: SystemTime::now(), took: asked.elapsed(), problem: Some(problem) };
    gateway.registry.update_status(|status| status.last_reload = Some(attempt));
    systemd::ready();
}

/// Every worker runs the plan: says so.
fn in_force(done: io::Result<()>, rollout: &Rollout, asked: Instant, registry: &Registry, file: &Path) {
    let (took, at) = (asked.elapsed(), SystemTime::now());
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    let problem = done.err().map(|error| format!("an address or the admin listener is missing: {error}"));
    if let Some(problem) = &problem {
        eprintln!("warning: {problem}");
    }
    registry.update_status(|status| {
        // Of two that overtake each other the later one is in force.
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.in_force_since = at;
            status.last_reload = Some(Attempt { at, took, problem });
        }
    });
    let routes = counted(routes, "route");
    let milliseconds = took.as_secs_f64() * 1e3;
    eprintln!("reloaded {}: {routes}, generation {generation}, {milliseconds:.1} ms", file.display());
    systemd::ready();
}

/// What a reload cannot change, and the new file wants changed.
fn unchangeable(old: &Config, new: &Config) -> Vec<&'static str> {
    let checks = [("`workers`", old.workers != new.workers), ("`metrics`", old.metrics != new.metrics)];
    checks.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
