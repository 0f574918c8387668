//! Reload: what has changed in the file is read, and all compiled, on a thread of its own; it takes effect if it is good.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::task::{JoinHandle, spawn_blocking};
use tollgate_config::{Config, Source};
use tollgate_observe::{Attempt, Registry};
use tollgate_proxy::Rollout;
use tollgate_upstream::health::Health;

use crate::check::counted;
use crate::compiled;
use crate::files::Files;
use crate::gateway::Gateway;
use crate::lookups;
use crate::systemd;

/// Reads the file when asked to, one time after the other.
#[derive(Debug)]
pub struct Reader {
    file: PathBuf,
    /// What it held; away while it is read.
    source: Option<Source>,
    running: Option<JoinHandle<(Source, Reading)>>,
    /// It was asked for while it was being read: what came of that may be old.
    again: bool,
}

/// What came of a reading.
#[derive(Debug)]
pub struct Reading {
    asked: Instant,
    /// What it says of the process, the plan, and the files that both were made of; nothing if the file is not good.
    good: Option<(Config, Arc<Rollout>, Files)>,
    /// How many routes were read.
    anew: usize,
}

impl Reader {
    /// For a file that was read once.
    pub fn new(source: Source) -> Self {
        Self { file: source.path().to_owned(), source: Some(source), running: None, again: false }
    }

    /// Begins to read, at once or after the reading that is under way. `current` is the plan in force.
    pub fn start(&mut self, current: &Arc<Rollout>, registry: &Arc<Registry>) {
        if self.running.is_some() {
            self.again = true;
            return;
        }
        systemd::reloading();
        // A reading that panicked took it along.
        let mut source = self.source.take().unwrap_or_else(|| Source::new(&self.file));
        let asked = Instant::now();
        let (current, registry) = (current.clone(), registry.clone());
        self.running = Some(spawn_blocking(move || {
            let reading = read(&mut source, asked, &current, &registry);
            (source, reading)
        }));
    }

    /// What came of the reading that is under way; never, if there is none.
    pub async fn done(&mut self) -> io::Result<Reading> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let reading = running.await;
        self.running = None;
        let (source, reading) = reading.map_err(io::Error::other)?;
        self.source = Some(source);
        Ok(reading)
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
fn read(source: &mut Source, asked: Instant, current: &Rollout, registry: &Registry) -> Reading {
    let (good, problems) = compiled::read_again(source);
    compiled::show(&problems);
    let anew = good.as_ref().map_or(0, |good| good.anew);
    let good = good.map(|good| {
        let rollout = current.next(good.plan, registry);
        (good.config, rollout, good.files)
    });
    Reading { asked, good, anew }
}

/// Takes over what was read, if it is good; else says that the old plan goes on.
pub async fn apply(reading: Reading, gateway: &mut Gateway, health: &Health, file: &Path) {
    let Reading { asked, good, anew } = reading;
    let Some((config, rollout, files)) = good else {
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
    gateway.registry.update_status(|status| status.certificates.clone_from(&files.certificates));
    gateway.files = files;
    health.change(rollout.change());
    let registry = gateway.registry.clone();
    let file = file.to_owned();
    tokio::spawn(async move {
        let done = told.and(receipts.all().await);
        in_force(done, (&rollout, anew), asked, &registry, &file);
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
fn in_force(
    done: io::Result<()>,
    (rollout, anew): (&Rollout, usize),
    asked: Instant,
    registry: &Registry,
    file: &Path,
) {
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
            status.routes_read = anew;
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
