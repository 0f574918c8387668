//! Runs a study's agents and the systems of its manifests in a Kubernetes cluster.
//!
//! `tollgate bench run --kubernetes` calls this crate before a run: [`Cluster::start`] creates a namespace, the
//! agents' shared key and one pod for each role, and [`Cluster::deploy`] creates the objects of manifests. Both
//! return addresses, after which the run is an ordinary one on several hosts. [`job`] makes the manifest of a run
//! inside the cluster.
//!
//! Everything that was created is in one list, [`Created`], and is deleted when the [`Cluster`] is dropped or when the
//! signal handler calls [`Created::delete`]. The laboratory creates objects and never changes existing ones, so a
//! deletion never removes an object of the user.

mod agents;
mod connection;
mod created;
mod job;
mod manifests;
mod systems;

pub use created::Created;
pub use job::{Job, job};
pub use manifests::read as read_manifests;
pub use systems::Placed;

use agents::{Pod, Role};
use connection::Connection;
use created::kind_of;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate_lab_study::{Hosts, Kubernetes};

/// The label of everything that the laboratory creates.
const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "tollgate-bench");

/// The name of the Secret with the shared key.
const KEY: &str = "tollgate-bench-key";

/// How long a namespace may take to get its default account. Pods are refused before.
const ACCOUNT: Duration = Duration::from_secs(20);

/// How long the pods of the agents may take to become ready, most of it for the image.
const READY: Duration = Duration::from_secs(300);

/// How often a wait looks again.
const PAUSE: Duration = Duration::from_millis(300);

/// The pods of a run in a cluster. Dropping it deletes what it created.
pub struct Cluster {
    connection: Connection,
    created: Created,
    namespace: String,
    /// The agents' address by the name of their node.
    agents: BTreeMap<String, String>,
    /// The agents' pods with their nodes.
    places: Vec<(String, String)>,
    /// How each pod of an agent is made.
    pod: Pod,
}

impl Cluster {
    /// Connects to the cluster of the user's `kubectl` (`KUBECONFIG`, `~/.kube/config`), or, in a pod, to its own.
    ///
    /// # Errors
    /// If neither exists, or the API server does not answer.
    pub fn connect(wanted: &Kubernetes, image: &str, seconds: f64) -> Result<Self, String> {
        let config = connection::config()?;
        let connection = Connection::open(&config)?;
        connection.check()?;
        let namespace = wanted.namespace.clone().unwrap_or_else(|| {
            let random: String = (0..5).map(|_| fastrand::lowercase()).collect();
            format!("tollgate-bench-{random}")
        });
        let pod = Pod::new(image, &wanted.cgroup_root(), seconds);
        let created = Created::new(config);
        Ok(Self { connection, created, namespace, agents: BTreeMap::new(), places: Vec::new(), pod })
    }

    /// Returns the list of what was created, for the signal handler.
    pub fn created(&self) -> Created {
        self.created.clone()
    }

    /// Returns the namespace of the run.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Describes the nodes of the agents.
    pub fn describe(&self) -> String {
        let nodes: Vec<String> =
            self.places.iter().map(|(pod, node)| format!("{pod} on the node {node}")).collect();
        nodes.join(", ")
    }

    /// Creates the namespace and the agents, which share the key `key` (the text of its file), and waits until
    /// they can be reached. Returns their addresses.
    ///
    /// # Errors
    /// If the namespace exists, a pod does not become ready, or its address cannot be reached from here.
    pub fn start(&mut self, wanted: &Kubernetes, key: &str) -> Result<Hosts, String> {
        let mut labels = BTreeMap::from([
            (MANAGED.0.to_owned(), MANAGED.1.to_owned()),
            // The folder of the control groups is mounted from the node.
            ("pod-security.kubernetes.io/enforce".to_owned(), "privileged".to_owned()),
        ]);
        labels.extend(wanted.labels.clone());
        let namespace = json!({"metadata": {"name": self.namespace, "labels": labels}});
        self.created.create(&self.connection, &kind_of::<Namespace>(), None, namespace).map_err(|text| {
            let name = &self.namespace;
            format!("the namespace {name}: {text} (left by a killed run? `kubectl delete namespace {name}`)")
        })?;
        self.await_account();
        let secret = json!({"metadata": {"name": KEY, "labels": {MANAGED.0: MANAGED.1}}, "stringData": {"lab.pem": key}});
        self.created.create(&self.connection, &kind_of::<Secret>(), Some(&self.namespace), secret)?;
        let roles = [
            (Role::Client, &wanted.client),
            (Role::Gateway, &wanted.gateway),
            (Role::Origin, &wanted.origin),
        ];
        // All are created before the first wait, so that their images arrive at the same time.
        for (role, placement) in roles {
            self.create_pod(&self.pod.of_role(role, placement))?;
        }
        let mut address = |role: Role| self.await_agent(role.name()).map(Some);
        Ok(Hosts {
            client: address(Role::Client)?,
            gateway: address(Role::Gateway)?,
            origin: address(Role::Origin)?,
        })
    }

    fn create_pod(&self, pod: &serde_json::Value) -> Result<(), String> {
        let kind = kind_of::<k8s_openapi::api::core::v1::Pod>();
        self.created.create(&self.connection, &kind, Some(&self.namespace), pod.clone())
    }

    /// Waits for the namespace's default account. Clusters without the controller have none and need none.
    fn await_account(&self) {
        let started = std::time::Instant::now();
        while started.elapsed() < ACCOUNT
            && !matches!(self.connection.get::<ServiceAccount>(&self.namespace, "default"), Ok(Some(_)))
        {
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until an agent's pod is ready and can be reached. Returns its address, and notes its node.
    fn await_agent(&mut self, name: &str) -> Result<String, String> {
        let pod = self.connection.await_pod(&self.namespace, name, READY)?;
        let address = agents::address(&pod).ok_or_else(|| format!("the pod {name} has no address"))?;
        connection::reach(&address).map_err(|error| {
            format!(
                "the agent of the pod {name} cannot be reached at {address}: {error}. The laboratory must run where \
                 pods can be reached: in the cluster (`tollgate bench kubernetes-job`), or on a machine that routes to \
                 their addresses"
            )
        })?;
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
            self.places.push((name.to_owned(), node.clone()));
            self.agents.entry(node).or_insert_with(|| address.clone());
        }
        Ok(address)
    }

    /// Returns the agent on a node; creates one if the node has none.
    fn agent_on(&mut self, node: &str) -> Result<String, String> {
        if let Some(address) = self.agents.get(node) {
            return Ok(address.clone());
        }
        let name = format!("meter-{}", self.places.len());
        self.create_pod(&self.pod.on_node(&name, node))?;
        self.await_agent(&name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(text) = self.created.delete() {
            eprintln!("tollgate bench: not everything was deleted from the cluster: {text}");
        }
    }
}
