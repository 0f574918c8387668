//! Discovery: looks up the endpoints of upstreams, by DNS or in a file.
//!
//! A [`EndpointSource`] returns all endpoints of an upstream whenever there is news. [`Discovery`] runs the
//! sources of a plan on the control thread's runtime, one task each. There is one for the process, so workers
//! neither ask nor wait. The results are published through [`UpstreamState::set_discovered`], where the
//! workers read them.
//!
//! **The last good answer is kept** whatever follows it: a dead name server, SERVFAIL, NXDOMAIN, an empty
//! answer, a file with a mistake. A request to an endpoint that may be gone costs a retry; a request without
//! any endpoint costs the service.

mod dns;
mod file;
mod host;
mod resolver;
mod schedule;
mod source;
mod srv;
mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_net::component;
use tollgate_plan::{Discover, Endpoint, Upstream};
use tracing::{debug, trace};

use crate::{UpstreamState, UpstreamStates};

use dns::DnsSource;
use file::FileSource;
pub use source::{EndpointSource, LookupError};
pub use state::{LookupReport, Lookups};

/// The most endpoints that an event lists.
const LOGGED_ENDPOINTS_MAX: usize = 16;

/// Receives messages for the operator: why a lookup fails, and that it works again.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The lookups of the current plan, one task for each upstream.
pub struct Discovery {
    shared: Arc<UpstreamStates>,
    warn: Warn,
    running: HashMap<String, RunningLookup>,
}

struct RunningLookup {
    source: Discover,
    /// Held so that a worker that uses the upstream later finds its endpoints.
    state: Arc<UpstreamState>,
    task: JoinHandle<()>,
    /// Whether the first lookup is over.
    first_lookup_done: watch::Receiver<bool>,
}

impl Discovery {
    /// Creates a discovery without lookups. `warn` receives messages for the operator.
    #[must_use]
    pub fn new(shared: Arc<UpstreamStates>, warn: Warn) -> Self {
        Self { shared, warn, running: HashMap::new() }
    }

    /// Applies a plan: starts its lookups on the current tokio runtime. Lookups that did not change continue
    /// undisturbed. Lookups that the plan does not name end. Their endpoints must be
    /// [forgotten](EndedLookups::forget) once no worker's plan names them.
    pub fn apply(&mut self, upstreams: &[Arc<Upstream>]) -> EndedLookups {
        let wanted: HashMap<&str, &Discover> = upstreams
            .iter()
            .filter_map(|upstream| Some((upstream.name.as_str(), upstream.discover.as_ref()?)))
            .collect();
        let ended =
            self.running.extract_if(|name, _| !wanted.contains_key(name.as_str())).map(|(_, running)| {
                running.task.abort();
                running.state.lookups.end();
                running.state
            });
        let ended = EndedLookups(ended.collect());
        for (name, discover) in wanted {
            let before = self.running.get(name);
            if before.is_some_and(|running| running.source == *discover) {
                continue;
            }
            // With other bounds or servers, the name still means the same endpoints.
            let is_other_source =
                before.is_none_or(|running| short_form(&running.source) != short_form(discover));
            if let Some(running) = before {
                running.task.abort();
            }
            let running = self.start(name, discover, is_other_source);
            self.running.insert(name.to_owned(), running);
        }
        ended
    }

    fn start(&self, name: &str, discover: &Discover, is_other_source: bool) -> RunningLookup {
        let state = self.shared.upstream(name);
        state.lookups.begin(short_form(discover));
        let (sender, looked) = watch::channel(false);
        let source_task = SourceTask {
            state: state.clone(),
            warn: self.warn.clone(),
            is_other_source,
            first_lookup_done: sender,
        };
        let task = match discover {
            Discover::Dns { name, port, rules } => {
                tokio::spawn(source_task.follow(DnsSource::addresses(name, *port, rules)))
            }
            Discover::Srv { name, rules } => tokio::spawn(source_task.follow(DnsSource::srv(name, rules))),
            Discover::File(file) => tokio::spawn(source_task.follow(FileSource::new(file))),
        };
        RunningLookup { source: discover.clone(), state, task, first_lookup_done: looked }
    }

    /// Waits until each upstream was looked up once, successfully or not, but at most for `bound`. Returns
    /// the names of the upstreams whose first lookup has not ended, sorted.
    pub async fn wait_for_first_lookups(&self, bound: Duration) -> Vec<String> {
        let until = tokio::time::Instant::now() + bound;
        let mut late = Vec::new();
        for (name, running) in &self.running {
            let mut looked = running.first_lookup_done.clone();
            // An error means that the task is over, so there is nothing to wait for.
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

/// Upstreams whose lookups ended, and which may still be in a worker's plan.
#[derive(Debug)]
#[must_use = "call `forget` once no plan uses these upstreams"]
pub struct EndedLookups(Vec<Arc<UpstreamState>>);

impl EndedLookups {
    /// Forgets the endpoints of these upstreams. Call it when no worker's plan looks them up.
    pub fn forget(self) {
        // A later plan may look up the same upstream again.
        self.0
            .iter()
            .filter(|state| state.lookups.report().is_none())
            .for_each(|state| state.forget_discovered());
    }
}

/// Returns the source in the short form of the configuration.
fn short_form(discover: &Discover) -> String {
    match discover {
        Discover::Dns { name, port, .. } => format!("dns://{name}:{port}"),
        Discover::Srv { name, .. } => format!("srv://{name}"),
        Discover::File(file) => file.path.display().to_string(),
    }
}

/// The task that follows the source of one upstream.
struct SourceTask {
    state: Arc<UpstreamState>,
    warn: Warn,
    /// Whether the known endpoints come from another source. They are kept until the new source has answered
    /// or failed once, so that a change of configuration loses no request.
    is_other_source: bool,
    first_lookup_done: watch::Sender<bool>,
}

impl SourceTask {
    /// Follows a source endlessly: publishes new endpoints, and keeps the last good ones after a failure.
    async fn follow(mut self, mut source: impl EndpointSource) {
        loop {
            match source.next().await {
                Ok(endpoints) => self.answered(endpoints),
                Err(failure) => self.failed(&failure),
            }
            self.is_other_source = false;
            self.first_lookup_done.send_replace(true);
        }
    }

    fn answered(&self, endpoints: Vec<Endpoint>) {
        // Name servers rotate their answers; another order is not a change.
        let endpoints = normalized(endpoints);
        let (upstream, count) = (self.state.name.as_str(), endpoints.len());
        if self.state.discovered().as_deref() != Some(&endpoints) {
            let addresses = || endpoints.iter().map(|endpoint| endpoint.address.to_string());
            debug!(
                target: component::DISCOVERY,
                upstream,
                endpoints = addresses().take(LOGGED_ENDPOINTS_MAX).collect::<Vec<_>>().join(","),
                count,
                "the look-up found other endpoints"
            );
            self.state.set_discovered(endpoints.into());
        } else {
            trace!(target: component::DISCOVERY, upstream, count, "the look-up found the same endpoints");
        }
        if self.state.lookups.ended(tollgate_net::now(), None).is_some() {
            (self.warn)(&format!("upstream {}: its endpoints can be looked up again", self.state.name));
        }
    }

    fn failed(&self, failure: &LookupError) {
        if self.is_other_source {
            self.state.forget_discovered();
        }
        let problem = failure.to_string();
        debug!(
            target: component::DISCOVERY,
            upstream = self.state.name.as_str(),
            "the look-up failed: {problem}"
        );
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

/// Sorts endpoints independently of the answer's order, and keeps each address once: with its first priority,
/// and with the sum of its weights of that priority.
fn normalized(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
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

#[cfg(test)]
mod tests;
