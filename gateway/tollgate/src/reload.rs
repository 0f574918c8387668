//! Reload: what has changed in the file, or is to change in the store, is read, and all compiled, on a thread that gives
//! way to the workers; it takes effect if it is good.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::oneshot;
use tollgate_config::Config;
use tollgate_net::notice;
use tollgate_observe::{Attempt, Registry};
use tollgate_plan::{Memo, compile_again};
use tollgate_proxy::Rollout;
use tollgate_sources::{Batch, Brought, Done, Landed, News, Pending, Refusal, Sources};
use tollgate_store::Store;
use tollgate_upstream::health::Health;

use crate::behind::behind;
use crate::check::counted;
use crate::compiled;
use crate::files::{Files, ends};
use crate::gateway::Gateway;
use crate::lookups;
use crate::systemd;

/// Reads the sources when asked to, one job after the other.
#[derive(Debug)]
pub struct Reader {
    file: PathBuf,
    /// What they held; away while a job is under way.
    sources: Option<Sources>,
    /// What is known of the routes of the last plan; held while a job is under way.
    memo: Arc<Mutex<Memo>>,
    running: Option<oneshot::Receiver<(Sources, Outcome)>>,
    /// The file was to be read while another job was under way.
    again: bool,
    /// Changes that are asked for, for the next job.
    queue: Vec<Pending>,
    /// What etcd told, for the next job.
    news: Vec<News>,
}

/// What came of a job.
#[derive(Debug)]
pub enum Outcome {
    /// The file was read.
    File(Box<Reading>),
    /// The store was changed.
    Changes(Box<Changed>),
    /// etcd has told something: what is to be rolled out, and what came of it.
    Brought(Option<Arc<Rollout>>, Box<Brought<()>>),
}

/// What came of a reading of the file.
#[derive(Debug)]
pub struct Reading {
    asked: Instant,
    /// What it says of the process, the plan, and the files that both were made of; nothing if the file is not good.
    good: Option<(Config, Arc<Rollout>, Files)>,
    /// How many routes were read.
    anew: usize,
    /// To be adopted once it is in force.
    reload: compiled::Reload,
}

/// What came of changes of the store: those that are to be answered when all workers run the plan.
#[derive(Debug)]
pub struct Changed {
    rollout: Option<Arc<Rollout>>,
    landed: Vec<Landed>,
    again: Vec<Pending>,
}

impl Reader {
    /// For sources that were read once.
    pub fn new(sources: Sources) -> Self {
        let file = sources.file().to_owned();
        Self {
            file,
            sources: Some(sources),
            memo: Arc::default(),
            running: None,
            again: false,
            queue: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Begins to read the file, at once or after the job that is under way. `current` is the plan in force.
    pub fn start(&mut self, current: &Arc<Rollout>, registry: &Arc<Registry>) {
        let Some(mut sources) = self.sources.take() else {
            self.again = true;
            return;
        };
        self.again = false;
        systemd::reloading();
        let asked = Instant::now();
        let (current, registry, memo) = (current.clone(), registry.clone(), self.memo.clone());
        self.running = Some(behind(move || {
            let reading = read(&mut sources, asked, &current, &registry, &mut held(&memo));
            (sources, Outcome::File(Box::new(reading)))
        }));
    }

    /// Takes a change, for the next job.
    pub fn ask(&mut self, pending: Pending) {
        self.queue.push(pending);
    }

    /// Takes what etcd told, for the next job. None: what was refused because of others is only tried again.
    pub fn hear(&mut self, news: Option<News>) {
        self.news.push(news.unwrap_or(News::Changes { revision: 0, entries: Vec::new() }));
    }

    /// Has this gateway's key in etcd tell what it runs.
    pub fn say(&self, generation: u64) {
        if let Some(sources) = &self.sources {
            sources.say(generation);
        }
    }

    /// Begins the next job, if one is due and none is under way.
    pub fn go_on(&mut self, current: &Arc<Rollout>, registry: &Arc<Registry>) {
        if self.again {
            return self.start(current, registry);
        }
        if self.queue.is_empty() && self.news.is_empty() {
            return;
        }
        let Some(mut sources) = self.sources.take() else { return };
        // First what others did: what is asked for here may depend on it.
        if !self.news.is_empty() {
            let news = std::mem::take(&mut self.news);
            let (current, registry, memo) = (current.clone(), registry.clone(), self.memo.clone());
            self.running = Some(behind(move || {
                let memo = &mut *held(&memo);
                let (plan, brought) =
                    sources.bring(news, |parts| Ok(compile_again(parts, memo)?.plan)).split();
                let rollout = plan.map(|plan| current.next(plan, &registry));
                (sources, Outcome::Brought(rollout, Box::new(brought)))
            }));
            return;
        }
        let requests = std::mem::take(&mut self.queue);
        let (current, registry, memo) = (current.clone(), registry.clone(), self.memo.clone());
        self.running = Some(behind(move || {
            let memo = &mut *held(&memo);
            let batch = sources.change(requests, |parts| Ok(compile_again(parts, memo)?.plan));
            let Batch { good, landed, again } = batch;
            let rollout = good.map(|plan| current.next(plan, &registry));
            (sources, Outcome::Changes(Box::new(Changed { rollout, landed, again })))
        }));
    }

    /// What came of the job that is under way; never, if there is none.
    pub async fn done(&mut self) -> io::Result<Outcome> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let outcome = running.await;
        self.running = None;
        let (sources, outcome) = outcome.map_err(io::Error::other)?;
        self.sources = Some(sources);
        Ok(outcome)
    }

    /// Whether a job is under way.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The store, if there is one and no job is under way: for a process that takes over.
    pub fn store(&self) -> HeldStore {
        HeldStore(self.sources.as_ref().and_then(Sources::store).cloned())
    }
}

/// The store while another process takes over. Both calls may wait for the disk.
#[derive(Debug)]
pub struct HeldStore(Option<Arc<Store>>);

impl HeldStore {
    /// Lets go of the file.
    pub fn close(&self) {
        if let Some(store) = &self.0 {
            store.close();
        }
    }

    /// Takes the file back: no process has taken over.
    pub fn reopen(&self) {
        if let Some(store) = &self.0
            && let Err(error) = store.reopen()
        {
            notice!("error: cannot open the store {} again: {error}", store.path().display());
        }
    }
}

/// What is known of routes. It is never wrong, so a panic while it was held does no harm.
fn held(memo: &Mutex<Memo>) -> MutexGuard<'_, Memo> {
    memo.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that takes time: it runs beside the workers and beside the control thread, which goes on answering.
fn read(
    sources: &mut Sources,
    asked: Instant,
    current: &Rollout,
    registry: &Registry,
    memo: &mut Memo,
) -> Reading {
    let mut reload = compiled::read_again(sources, memo);
    compiled::show(&reload.problems);
    let good = compiled::good(&mut reload);
    let anew = good.as_ref().map_or(0, |good| good.anew);
    let good = good.map(|good| {
        let rollout = current.next(good.plan, registry);
        (good.config, rollout, good.files)
    });
    Reading { asked, good, anew, reload }
}

/// Puts changes in force: they are answered when all workers run the plan.
pub async fn land(changed: Changed, gateway: &mut Gateway, health: &Health, reader: &mut Reader) {
    let Changed { rollout, mut landed, again } = changed;
    reader.queue.splice(..0, again);
    for landed in &landed {
        let who = &landed.pending.request.who;
        if !landed.done.changes.is_empty() {
            notice!("audit: version {} by {who}: {}", landed.done.version, landed.what);
        }
    }
    let Some(rollout) = rollout else {
        let generation = gateway.current().generation();
        for Landed { pending, done, .. } in landed {
            pending.answer(Ok(Done { generation, ..done }));
        }
        return;
    };
    let gone = lookups::change(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.take_over(rollout.clone()).await;
    health.change(rollout.change());
    if let Some(sources) = &reader.sources {
        sources.show(&landed);
    }
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        let done = receipts.all().await;
        let generation = rollout.generation();
        serving(&rollout, &registry);
        drop(rollout);
        for Landed { pending, done: what, .. } in landed.drain(..) {
            pending.answer(match &done {
                Ok(()) => Ok(Done { generation, ..what }),
                Err(error) => Err(Refusal::Broken(error.to_string())),
            });
        }
        gone.forget();
    });
}

/// Puts in force what etcd has told.
pub async fn bring(
    rollout: Option<Arc<Rollout>>,
    brought: &Brought<()>,
    gateway: &mut Gateway,
    health: &Health,
    reader: &Reader,
) {
    brought.told.iter().for_each(|line| notice!("{line}"));
    if let Some(sources) = &reader.sources {
        sources.show_brought(brought);
    }
    let Some(rollout) = rollout else { return };
    let gone = lookups::change(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.take_over(rollout.clone()).await;
    health.change(rollout.change());
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        if receipts.all().await.is_ok() {
            serving(&rollout, &registry);
        }
        drop(rollout);
        gone.forget();
    });
}

/// Every worker runs the plan.
fn serving(rollout: &Rollout, registry: &Registry) {
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    registry.update_status(|status| {
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.certificates = ends(rollout);
            status.in_force_since = SystemTime::now();
        }
    });
}

/// Takes over what was read, if it is good; else says that the old plan goes on.
pub async fn apply(reading: Reading, gateway: &mut Gateway, health: &Health, reader: &mut Reader) {
    let Reading { asked, good, anew, mut reload } = reading;
    let file = reader.file.as_path();
    let Some((config, rollout, files)) = good else {
        let problem = "the file has errors: the standard error says which".to_owned();
        return refused(gateway, asked, file, problem);
    };
    let prepared = match gateway.prepare(&config, &rollout.logs).await {
        Ok(prepared) => prepared,
        Err(error) => {
            notice!("error: {error}");
            return refused(gateway, asked, file, error.to_string());
        }
    };
    let fixed = unchangeable(&gateway.config, &config);
    if !fixed.is_empty() {
        let fixed = fixed.join(", ");
        notice!("warning: {fixed} changed: this needs an upgrade or a restart, the rest is in force");
    }
    let gone = lookups::change(&mut gateway.discovery, &rollout).await;
    let (receipts, told) = gateway.change(rollout.clone(), config, prepared);
    gateway.registry.update_status(|status| status.certificates.clone_from(&files.certificates));
    gateway.files = files;
    if let Some(sources) = &mut reader.sources {
        sources.adopt(&mut reload);
    }
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
    notice!("error: {} is not loaded; the gateway goes on with what it has", file.display());
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
        notice!("warning: {problem}");
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
    notice!("reloaded {}: {routes}, generation {generation}, {milliseconds:.1} ms", file.display());
    systemd::ready();
}

/// What a reload cannot change, and the new file wants changed.
fn unchangeable(old: &Config, new: &Config) -> Vec<&'static str> {
    let checks = [
        ("`workers`", old.workers != new.workers),
        ("`metrics`", old.metrics != new.metrics),
        ("`store`", old.store != new.store),
        ("`etcd`", old.etcd != new.etcd),
    ];
    checks.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
