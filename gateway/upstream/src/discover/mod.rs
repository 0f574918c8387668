//! Endpoints that are looked up: by DNS, in a file, and elsewhere later.
//!
//! A [`Source`] gives all endpoints of an upstream whenever there is something new to know. [`Discovery`] runs the
//! sources of a plan, one task each, on the control thread's runtime: once for the process, so that workers neither
//! ask nor wait. What comes is published through [`UpstreamState::discover`], from where the workers take it.
//!
//! **The last good answer is kept**, whatever follows it: a name server that is dead, SERVFAIL, NXDOMAIN, an empty
//! answer, a file with a mistake. Sending requests to endpoints that may have gone costs a retry; sending them nowhere
//! because of a name server's bad minute costs the service.

mod dns;
mod file;
mod host;
mod resolver;
mod schedule;
mod source;
mod srv;
mod state;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_plan::{Discover, Endpoint, Upstream};

use crate::{Shared, UpstreamState};

use dns::Dns;
use file::File;
pub use source::{Failure, Source};
pub use state::{LookupReport, Lookups};

/// Told what an operator should know: why a look-up fails, and that it works again.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The look-ups of the present plan, each a task.
pub struct Discovery {
    shared: Arc<Shared>,
    warn: Warn,
    running: HashMap<String, Running>,
}

struct Running {
    source: Discover,
    /// Kept, so that a worker that comes to the upstream later finds what was looked up.
    state: Arc<UpstreamState>,
    task: JoinHandle<()>,
    /// Whether the first look-up has ended.
    looked: watch::Receiver<bool>,
}

impl Discovery {
    /// Nothing is looked up yet.
    #[must_use]
    pub fn new(shared: Arc<Shared>, warn: Warn) -> Self {
        Self { shared, warn, running: HashMap::new() }
    }

    /// Looks up what a plan's upstreams say, from now on and within the present tokio runtime. What is looked up already
    /// goes on undisturbed; what is named no longer ends, and is to be forgotten once no worker's plan names it.
    pub fn apply(&mut self, upstreams: &[Arc<Upstream>]) -> Gone {
        let wanted: HashMap<&str, &Discover> = upstreams
            .iter()
            .filter_map(|upstream| Some((upstream.name.as_str(), upstream.discover.as_ref()?)))
            .collect();
        let gone =
            self.running.extract_if(|name, _| !wanted.contains_key(name.as_str())).map(|(_, running)| {
                running.task.abort();
                running.state.lookups.end();
                running.state
            });
        let gone = Gone(gone.collect());
        for (name, discover) in wanted {
            let before = self.running.get(name);
            if before.is_some_and(|running| running.source == *discover) {
                continue;
            }
            // Other bounds or servers for the same name do not make its endpoints another's.
            let foreign = before.is_none_or(|running| shown(&running.source) != shown(discover));
            if let Some(running) = before {
                running.task.abort();
            }
            let running = self.start(name, discover, foreign);
            self.running.insert(name.to_owned(), running);
        }
        gone
    }

    fn start(&self, name: &str, discover: &Discover, foreign: bool) -> Running {
        let state = self.shared.upstream(name);
        state.lookups.begin(shown(discover));
        let (sender, looked) = watch::channel(false);
        let followed = Followed { state: state.clone(), warn: self.warn.clone(), foreign, looked: sender };
        let task = match discover {
            Discover::Dns { name, port, rules } => {
                tokio::spawn(followed.follow(Dns::addresses(name, *port, rules)))
            }
            Discover::Srv { name, rules } => tokio::spawn(followed.follow(Dns::srv(name, rules))),
            Discover::File(file) => tokio::spawn(followed.follow(File::new(file))),
        };
        Running { source: discover.clone(), state, task, looked }
    }

    /// Waits until every upstream has been looked up once, well or badly, but no longer than `bound`. Gives the names
    /// of those that have not.
    pub async fn looked_up(&self, bound: Duration) -> Vec<String> {
        let until = tokio::time::Instant::now() + bound;
        let mut late = Vec::new();
        for (name, running) in &self.running {
            let mut looked = running.looked.clone();
            // An error means that the task has ended: there is nothing to wait for.
            if tokio::time::timeout_at(until, looked.wait_for(|looked| *looked)).await.is_err() {
                late.push(name.clone());
            }
        }
        late.sort();
        late
    }
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.running.keys()).finish()
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.running.values().for_each(|running| running.task.abort());
    }
}

/// Upstreams that are not looked up any longer, but may still be in a worker's plan.
#[derive(Debug)]
#[must_use = "what was looked up is to be forgotten when no plan names it any longer"]
pub struct Gone(Vec<Arc<UpstreamState>>);

impl Gone {
    /// No worker's plan looks them up any longer: their endpoints are forgotten.
    pub fn forget(self) {
        // One that is looked up again has come back with a later plan.
        self.0
            .iter()
            .filter(|state| state.lookups.report().is_none())
            .for_each(|state| state.forget_discovered());
    }
}

/// What is looked up, in its short form.
fn shown(discover: &Discover) -> String {
    match discover {
        Discover::Dns { name, port, .. } => format!("dns://{name}:{port}"),
        Discover::Srv { name, .. } => format!("srv://{name}"),
        Discover::File(file) => file.path.display().to_string(),
    }
}

/// One upstream, followed.
struct Followed {
    state: Arc<UpstreamState>,
    warn: Warn,
    /// Whether the endpoints that are known are another source's: they are kept until this one has been asked once,
    /// so that a change of config loses no request, and not longer.
    foreign: bool,
    looked: watch::Sender<bool>,
}

impl Followed {
    /// Follows a source for ever: publishes what is new and keeps what was good.
    async fn follow(mut self, mut source: impl Source) {
        loop {
            match source.next().await {
                Ok(endpoints) => self.answered(endpoints),
                Err(failure) => self.failed(&failure),
            }
            self.foreign = false;
            self.looked.send_replace(true);
        }
    }

    fn answered(&self, endpoints: Vec<Endpoint>) {
        // A name server turns its answer round each time: that is no change.
        let endpoints = ordered(endpoints);
        if self.state.discovered().as_deref() != Some(&endpoints) {
            self.state.discover(endpoints.into());
        }
        if self.state.lookups.ended(tollgate_net::now(), None).is_some() {
            (self.warn)(&format!("upstream {}: its endpoints can be looked up again", self.state.name));
        }
    }

    fn failed(&self, failure: &Failure) {
        if self.foreign {
            self.state.forget_discovered();
        }
        let problem = failure.to_string();
        let before = self.state.lookups.ended(tollgate_net::now(), Some(problem.clone()));
        if before.as_ref() == Some(&problem) {
            return;
        }
        let kept = match self.state.discovered() {
            Some(_) => ", it goes on with those that it has",
            None => "",
        };
        (self.warn)(&format!("upstream {}: cannot look up its endpoints{kept}: {problem}", self.state.name));
    }
}

/// In an order that does not depend on that of the answer, each address once: in its first priority, with the sum of
/// the weights that it has there.
fn ordered(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.sort_by_cached_key(|endpoint| (endpoint.address.to_string(), endpoint.priority));
    endpoints.dedup_by(|next, kept| {
        let same = next.address == kept.address;
        if same && next.priority == kept.priority {
            kept.weight = kept.weight.saturating_add(next.weight);
        }
        same
    });
    endpoints.sort_by_key(|endpoint| endpoint.priority);
    endpoints
}
