//! The connection to the API server. Its operations block, since a run does nothing else at the time.

use crate::{PAUSE, agents};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, Config, Error, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::Debug;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How long a connection to the API server may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait for an answer of the API server.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a pod that is ready may take to accept a connection: its node may learn of it later.
const REACH: Duration = Duration::from_secs(30);

/// A client of the API server with a runtime of its own.
pub(crate) struct Connection {
    pub(crate) client: Client,
    runtime: Runtime,
}

/// Finds the cluster of the user, or of the pod that this program runs in.
///
/// # Errors
/// If there is neither.
pub(crate) fn config() -> Result<Config, String> {
    let mut config = runtime()?
        .block_on(Config::infer())
        .map_err(|error| format!("no cluster was found: {error} (KUBECONFIG names the file of `kubectl`)"))?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    Ok(config)
}

fn runtime() -> Result<Runtime, String> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(|error| format!("a runtime for the API server: {error}"))
}

impl Connection {
    /// Makes a client. It connects when it is used.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub(crate) fn open(config: &Config) -> Result<Self, String> {
        let runtime = runtime()?;
        let client = runtime.block_on(async { Client::try_from(config.clone()) });
        Ok(Self { client: client.map_err(|error| text(&error))?, runtime })
    }

    /// Waits for an operation.
    pub(crate) fn wait<T>(&self, operation: impl Future<Output = T>) -> T {
        self.runtime.block_on(operation)
    }

    /// Asks for the version of the API server, which needs no rights.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn check(&self) -> Result<(), String> {
        let version = self.wait(self.client.apiserver_version());
        version.map(|_| ()).map_err(|error| format!("the API server: {}", text(&error)))
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// If the API server refuses.
    pub(crate) fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, String>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        self.wait(api.get_opt(name)).map_err(|error| format!("{} {name}: {}", K::kind(&()), text(&error)))
    }

    /// Lists the pods with these labels, by name.
    ///
    /// # Errors
    /// If the API server refuses.
    pub(crate) fn pods(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Pod>, String> {
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let listed = self.wait(api.list(&ListParams::default().labels(&selector.join(","))));
        let mut pods = listed.map_err(|error| format!("the pods: {}", text(&error)))?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        Ok(pods)
    }

    /// Waits until a pod is ready.
    ///
    /// # Errors
    /// The reason why it is not, after the limit or if it can no longer become ready.
    pub(crate) fn await_pod(&self, namespace: &str, name: &str, limit: Duration) -> Result<Pod, String> {
        let started = Instant::now();
        loop {
            let pod: Pod = self.get(namespace, name)?.ok_or_else(|| format!("the pod {name} was deleted"))?;
            match agents::readiness(&pod) {
                Ok(()) => return Ok(pod),
                Err(agents::Unready { ended: false, .. }) if started.elapsed() < limit => {
                    std::thread::sleep(PAUSE);
                }
                Err(unready) => return Err(format!("the pod {name} is not ready: {}", unready.reason)),
            }
        }
    }
}

/// Connects to an address once, and waits for it to accept.
///
/// # Errors
/// The last refusal.
pub(crate) fn reach(address: &str) -> Result<(), String> {
    let started = Instant::now();
    loop {
        let tried = address.to_socket_addrs().and_then(|mut found| {
            let first = found.next().ok_or_else(|| std::io::Error::other("the name has no address"))?;
            TcpStream::connect_timeout(&first, CONNECT_TIMEOUT)
        });
        match tried {
            Ok(_) => return Ok(()),
            Err(error) if started.elapsed() > REACH => return Err(error.to_string()),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Returns the text of an error: the API server's own message, or the chain of causes.
pub(crate) fn text(error: &Error) -> String {
    if let Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
