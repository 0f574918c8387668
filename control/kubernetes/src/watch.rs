//! Watches of the API server. A listing replaces everything that was known of its scope at once, so that the
//! translation never sees a state in between.

use std::time::Duration;

use futures_util::{StreamExt, pin_mut};
use kube::Client;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::connection::{api, reduce};
use crate::object::{Kind, ObjectName, RawObject, Reference};
use crate::rights;

/// The shortest and the longest wait before a failed request is repeated. The longest one bounds how late the
/// gateway follows after the API server was away.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_millis(1500);
/// How many objects a page of a listing has.
const PAGE_SIZE: u32 = 500;

/// The objects that a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All objects of the kind.
    All,
    /// The objects of a namespace.
    Namespace(String),
    /// One object.
    Named(ObjectName),
}

impl Scope {
    /// Returns whether an object belongs to the scope.
    pub fn contains(&self, name: &ObjectName) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => *name.namespace == **namespace,
            Self::Named(named) => name == named,
        }
    }
}

/// A report of a watch or a write.
#[derive(Debug)]
pub enum Observation {
    /// All objects of a scope.
    Listed(Kind, Scope, Vec<RawObject>),
    /// A new version of an object.
    Changed(Kind, RawObject),
    /// An object that is gone.
    Deleted(Kind, ObjectName),
    /// A watch failed and will be repeated.
    Failed(Kind, String),
    /// The status of an object was written. `None`: it was not, and the next change tries again.
    Written(Reference, Option<RawObject>),
    /// A write of an object of this controller is finished. `None`: it was not applied, or it was removed.
    Applied(Reference, Option<RawObject>),
}

/// Starts to watch the objects of a scope. The task ends when the receiver is gone.
pub fn start(
    client: &Client,
    kind: Kind,
    scope: Scope,
    observations: mpsc::Sender<Observation>,
) -> JoinHandle<()> {
    let mut settings = watcher::Config::default().page_size(PAGE_SIZE);
    let api = match &scope {
        Scope::All => api(client, kind, None),
        Scope::Namespace(namespace) => api(client, kind, Some(namespace)),
        Scope::Named(name) => {
            settings = settings.fields(&format!("metadata.name={}", name.name));
            api(client, kind, Some(&name.namespace))
        }
    };
    tokio::spawn(async move {
        let events = watcher(api, settings).backoff(Pauses::default());
        pin_mut!(events);
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            let observation = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    listed.push(reduce(object));
                    continue;
                }
                Ok(watcher::Event::InitDone) => {
                    Observation::Listed(kind, scope.clone(), std::mem::take(&mut listed))
                }
                Ok(watcher::Event::Apply(object)) => Observation::Changed(kind, reduce(object)),
                Ok(watcher::Event::Delete(object)) => {
                    Observation::Deleted(kind, reduce(object).metadata.object_name())
                }
                // The resource is not installed, so there are no objects. The watch begins when it is.
                Err(error) if is_absent(&error) => Observation::Listed(kind, scope.clone(), Vec::new()),
                Err(error) => Observation::Failed(kind, explain(&error, &rights::Resource::of(kind))),
            };
            if observations.send(observation).await.is_err() {
                return;
            }
        }
    })
}

/// The waits between failed requests: each twice as long as the one before, shortened at random by up to a
/// half, so that many gateways do not come back at once.
#[derive(Default)]
pub struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = RETRY_MIN.saturating_mul(1 << self.failures.min(10)).min(RETRY_MAX);
        self.failures += 1;
        Some(pause.mul_f64(1.0 - fastrand::f64() / 2.0))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Describes why a watch of a resource failed.
pub fn explain(error: &watcher::Error, resource: &rights::Resource) -> String {
    let verbs = "list, watch";
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => rights::explain(error, verbs, resource),
        watcher::Error::WatchError(status) => {
            rights::explain_status(status.code, &status.message, verbs, resource)
        }
        other => other.to_string(),
    }
}

/// Returns whether the API server does not know the resource.
fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
