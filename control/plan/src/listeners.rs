//! The listeners of a plan, found by their addresses, and the mistakes that show only when all sources are combined.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{CombinedResources, Problem};

use crate::{ListenAddress, PlannedListener};

/// Up to this number of listeners, comparing their addresses is cheaper than hashing one.
const LINEAR_MAX: usize = 8;

/// The listeners of a plan: the file's in its order, then those of documents by name. Several may share an address.
#[derive(Debug, Default)]
pub struct PlannedListeners {
    all: Vec<Arc<PlannedListener>>,
    /// The first listener of each address, if there are many.
    by_address: HashMap<AddressKey, usize>,
}

/// The part of a listener's address that identifies it.
#[derive(Debug, PartialEq, Eq, Hash)]
enum AddressKey {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl AddressKey {
    fn new(bind: &ListenAddress) -> Self {
        match bind {
            ListenAddress::Tcp(address) => Self::Tcp(*address),
            ListenAddress::Unix(socket) => Self::Unix(socket.path.clone()),
        }
    }
}

impl PlannedListeners {
    /// Makes the index of addresses.
    #[must_use]
    pub fn new(all: Vec<Arc<PlannedListener>>) -> Self {
        let mut by_address = HashMap::new();
        if all.len() > LINEAR_MAX {
            for (index, listener) in all.iter().enumerate() {
                by_address.entry(AddressKey::new(&listener.bind)).or_insert(index);
            }
        }
        Self { all, by_address }
    }

    /// Returns the first listener at an address. The address is compared as it is written in the configuration.
    #[must_use]
    pub fn at(&self, bind: &ListenAddress) -> Option<&Arc<PlannedListener>> {
        if self.by_address.is_empty() {
            return self.all.iter().find(|listener| listener.bind.is_same_address(bind));
        }
        self.all.get(*self.by_address.get(&AddressKey::new(bind))?)
    }
}

impl Deref for PlannedListeners {
    type Target = [Arc<PlannedListener>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// Returns the problems of the listeners of all sources.
pub(crate) fn problems(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let mut problems = unknown_listeners(parts);
    // The reader has compared those of the file.
    if parts.listeners.len() > parts.config.listen.len() {
        problems.extend(config::listener_conflicts(&parts.listeners, parts.config.admin.as_ref()));
    }
    problems
}

/// Reports the listeners that routes name and that do not exist.
fn unknown_listeners(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let names: HashSet<&str> =
        parts.listeners.iter().filter_map(|listener| Some(listener.name.as_ref()?.value.as_str())).collect();
    let mut problems: Vec<Problem> = Vec::new();
    for name in parts.routes.iter().flat_map(|route| &route.listeners) {
        // A route with several matches is several routes.
        if names.contains(name.value.as_str()) || problems.last().is_some_and(|last| last.at == name.at) {
            continue;
        }
        let problem = Problem::error(name.at, format!("there is no listener named `{}`", name.value));
        let mut known: Vec<&str> = names.iter().copied().collect();
        known.sort_unstable();
        let near = config::nearest(&name.value, known.iter().copied());
        problems.push(match (near, known.is_empty()) {
            (Some(near), _) => problem.help(format!("did you mean `{near}`?")),
            (None, true) => problem
                .help(format!("no listener has a name: `listen: {{bind: \":8080\", name: {}}}`", name.value)),
            (None, false) => {
                let known: Vec<String> = known.iter().take(8).map(|name| format!("`{name}`")).collect();
                problem.help(format!("names of listeners: {}", known.join(", ")))
            }
        });
    }
    problems
}
