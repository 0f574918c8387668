//! Systems that manifests deploy: creates their objects, waits until their pods are ready, and finds where their
//! load goes and where their CPU time is counted.

use crate::connection::{reach, text};
use crate::{Cluster, MANAGED, PAUSE, agents, manifests};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_lab_study::{CpuSource, CpuSubject, Deployed, PodGroup, Url};

/// How long the pods of manifests may take to become ready, most of it for their images.
const READY: Duration = Duration::from_secs(300);

/// A system that runs in the cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Placed {
    /// The address for its load.
    pub url: Url,
    /// The source of its CPU time; `None` if it names no pods.
    pub cpu: Option<CpuSource>,
    /// The images of the pods whose CPU time counts, without their registry: `envoy:v1.40.0, contour:v1.33.8`.
    pub version: String,
}

/// An object of a manifest that was created.
struct Workload {
    kind: ApiResource,
    namespace: String,
    name: String,
}

impl Cluster {
    /// Creates the objects of these systems, in the order of their files, and waits until the pods are ready.
    /// Paths are relative to `folder`. A file that several systems name is created once.
    ///
    /// # Errors
    /// If a file cannot be read, an object is refused or exists, or a pod does not become ready.
    pub fn deploy(&mut self, folder: &Path, systems: &[&Deployed]) -> Result<Vec<Placed>, String> {
        let mut files: Vec<&Path> = Vec::new();
        for file in systems.iter().flat_map(|system| &system.manifests) {
            if !files.contains(&file.as_path()) {
                files.push(file);
            }
        }
        let mut workloads = Vec::new();
        for file in files {
            let file = folder.join(file);
            for object in manifests::read(&file)? {
                let made = self.create(object).map_err(|text| format!("{}: {text}", file.display()))?;
                workloads.extend(made);
            }
        }
        let begun = Instant::now();
        for workload in &workloads {
            self.await_workload(workload, begun)?;
        }
        systems.iter().map(|system| self.place(system, begun)).collect()
    }

    /// Creates an object of a manifest. Returns it if it has a namespace.
    fn create(&self, mut object: Value) -> Result<Option<Workload>, String> {
        let text_of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text_of("/apiVersion"), text_of("/kind"));
        let (name, own) = (text_of("/metadata/name").to_owned(), text_of("/metadata/namespace").to_owned());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let named = GroupVersionKind::gvk(group, version, kind);
        let found = self.connection.wait(pinned_kind(&self.connection.client, &named));
        let (resource, capabilities) = found
            .map_err(|error| format!("the cluster has no {kind} of {group}/{version}: {}", text(&error)))?;
        let namespace = match capabilities.scope {
            Scope::Cluster => None,
            Scope::Namespaced if own.is_empty() => Some(self.namespace.clone()),
            Scope::Namespaced => Some(own),
        };
        object["metadata"]["labels"][MANAGED.0] = MANAGED.1.into();
        self.created.create(&self.connection, &resource, namespace.as_deref(), object)?;
        Ok(namespace.map(|namespace| Workload { kind: resource, namespace, name }))
    }

    /// Waits until the pods of a workload are ready; other objects need no wait.
    fn await_workload(&self, workload: &Workload, begun: Instant) -> Result<(), String> {
        let Workload { kind, namespace, name } = workload;
        let api: Api<DynamicObject> = Api::namespaced_with(self.connection.client.clone(), namespace, kind);
        loop {
            let read = self.connection.wait(api.get(name));
            let object = read.map_err(|error| format!("{} {name}: {}", kind.kind, text(&error)))?;
            let Some((ready, wanted)) = replicas(&kind.kind, &object.data) else { return Ok(()) };
            if ready >= wanted && wanted > 0 {
                return Ok(());
            }
            if begun.elapsed() > READY {
                let why = self.unready(namespace);
                return Err(format!("{} {name}: {ready} of {wanted} pods are ready: {why}", kind.kind));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Says why pods of a namespace are not ready.
    fn unready(&self, namespace: &str) -> String {
        let pods = self.connection.pods(namespace, &BTreeMap::new()).unwrap_or_default();
        let reasons: Vec<String> = pods
            .iter()
            .filter_map(|pod| {
                let why = agents::readiness(pod).err()?;
                Some(format!("{}: {}", pod.metadata.name.as_deref().unwrap_or_default(), why.reason))
            })
            .collect();
        if reasons.is_empty() { "no pod says why".into() } else { reasons.join("; ") }
    }

    /// Finds the address of a system and the source of its CPU time.
    fn place(&mut self, system: &Deployed, begun: Instant) -> Result<Placed, String> {
        let namespace = system.namespace.clone().unwrap_or_else(|| self.namespace.clone());
        let name = &system.service;
        let service: Service = self
            .connection
            .get(&namespace, name)?
            .ok_or_else(|| format!("there is no Service {namespace}/{name}"))?;
        let spec = service.spec.unwrap_or_default();
        let backends = match spec.selector.filter(|labels| !labels.is_empty()) {
            Some(labels) => self.await_pods(&namespace, &labels, begun)?,
            None => Vec::new(),
        };
        let host = match spec.cluster_ip.filter(|ip| !ip.is_empty() && ip != "None") {
            Some(ip) => ip,
            None => backends
                .iter()
                .find_map(agents::ip)
                .ok_or_else(|| format!("the Service {namespace}/{name} has no address and no pods"))?,
        };
        let url = Url { tls: system.tls, host, port: system.port, path: system.path.clone() };
        let address = if url.host.contains(':') {
            format!("[{}]:{}", url.host, url.port)
        } else {
            format!("{}:{}", url.host, url.port)
        };
        reach(&address).map_err(|error| format!("the Service {namespace}/{name} at {address}: {error}"))?;
        if system.pods.is_empty() {
            return Ok(Placed { url, cpu: None, version: images(&backends) });
        }
        let pods = self.await_pods(&namespace, &system.pods, begun)?;
        let version = images(&pods);
        let mut sources = Vec::new();
        for pod in &pods {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            let subject = CpuSubject::Pod(group(pod, &system.containers)?);
            subject.check()?;
            sources.push(CpuSource::Agent(self.agent_on(&node)?, subject));
        }
        let cpu = if sources.len() == 1 { sources.pop() } else { Some(CpuSource::Sum(sources)) };
        Ok(Placed { url, cpu, version })
    }

    /// Waits until there are pods with these labels and all are ready.
    fn await_pods(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        begun: Instant,
    ) -> Result<Vec<Pod>, String> {
        loop {
            let pods = self.connection.pods(namespace, labels)?;
            if !pods.is_empty() && pods.iter().all(|pod| agents::readiness(pod).is_ok()) {
                return Ok(pods);
            }
            if begun.elapsed() > READY {
                return Err(format!("no ready pods have the labels {labels:?}: {}", self.unready(namespace)));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Returns the images of pods, each once, without registry and folder. An init container's image counts too: it
/// may be the only trace of the control plane.
fn images(pods: &[Pod]) -> String {
    let mut images: Vec<&str> = Vec::new();
    for spec in pods.iter().filter(|pod| !agents::is_agent(pod)).filter_map(|pod| pod.spec.as_ref()) {
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            let image = container.image.as_deref().unwrap_or_default();
            let image = image.rsplit('/').next().unwrap_or(image);
            if !image.is_empty() && !images.contains(&image) {
                images.push(image);
            }
        }
    }
    images.join(", ")
}

/// Returns how many pods of a workload are ready, and how many it wants; `None` if the kind has no pods.
fn replicas(kind: &str, object: &Value) -> Option<(u64, u64)> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    match kind {
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            Some((number("/status/readyReplicas").unwrap_or(0), number("/spec/replicas").unwrap_or(1)))
        }
        // Until its controller has seen it, it wants none.
        "DaemonSet" => Some((
            number("/status/numberReady").unwrap_or(0),
            number("/status/desiredNumberScheduled").unwrap_or(1),
        )),
        _ => None,
    }
}

/// Returns the groups of a pod whose CPU time counts: of the named containers, of all but the agent in an agent's
/// pod, or the whole pod's.
fn group(pod: &Pod, containers: &[String]) -> Result<PodGroup, String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let uid = pod.metadata.uid.clone().ok_or_else(|| format!("the pod {name} has no id"))?;
    let status = pod.status.clone().unwrap_or_default();
    // A native sidecar is an init container that goes on running.
    let all: BTreeMap<String, String> = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten()
        .filter_map(|one| {
            let id = one.container_id.as_deref()?;
            Some((one.name.clone(), id.rsplit('/').next()?.to_owned()))
        })
        .collect();
    let wanted: BTreeSet<&String> = match containers {
        [] if agents::is_agent(pod) => all.keys().filter(|name| *name != agents::CONTAINER).collect(),
        [] => return Ok(PodGroup { uid, containers: Vec::new() }),
        some => some.iter().collect(),
    };
    let ids: Vec<String> = wanted.iter().filter_map(|name| all.get(*name).cloned()).collect();
    if ids.is_empty() || ids.len() < wanted.len() {
        let known: Vec<&str> = all.keys().map(String::as_str).collect();
        let wanted: Vec<&str> = wanted.iter().map(|name| name.as_str()).collect();
        return Err(format!(
            "the pod {name} has the containers {}, and not {}",
            known.join(", "),
            if wanted.is_empty() {
                "another one that could be counted".to_owned()
            } else {
                wanted.join(", ")
            }
        ));
    }
    Ok(PodGroup { uid, containers: ids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(containers: &[&str]) -> Pod {
        let statuses: Vec<Value> = containers
            .iter()
            .map(|name| {
                json!({"name": name, "image": "x", "imageID": "", "ready": true, "restartCount": 0,
                       "containerID": format!("containerd://id-{name}")})
            })
            .collect();
        let specs: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let labels = json!({"app.kubernetes.io/component": "client"});
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "7-f", "labels": labels},
            "spec": {"containers": specs},
            "status": {"containerStatuses": statuses},
        }))
        .unwrap()
    }

    #[test]
    fn the_groups_that_count() {
        let group = |pod: &Pod, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            super::group(pod, &names)
        };
        let of = |ids: &[&str]| {
            let containers = ids.iter().map(|id| (*id).to_owned()).collect();
            Ok(PodGroup { uid: "7-f".into(), containers })
        };
        let plain = pod(&["web", "istio-proxy"]);
        assert_eq!(group(&plain, &[]), of(&[]), "the whole pod");
        assert_eq!(group(&plain, &["istio-proxy"]), of(&["id-istio-proxy"]));
        let error = group(&plain, &["envoy"]).unwrap_err();
        assert!(error.contains("the containers istio-proxy, web, and not envoy"), "{error}");
        assert_eq!(group(&pod(&["agent", "istio-proxy"]), &[]), of(&["id-istio-proxy"]), "not the agent");
        assert!(group(&pod(&["agent"]), &[]).is_err());
    }

    #[test]
    fn the_images_of_the_pods_are_the_version() {
        let of = |containers: Value, init: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": containers, "initContainers": init}}))
                .unwrap()
        };
        let envoy = of(
            json!([{"name": "envoy", "image": "docker.io/envoyproxy/envoy:v1.40.0"}, {"name": "bare"}]),
            json!([{"name": "config", "image": "registry.example:5000/projectcontour/contour:v1.33.8"}]),
        );
        assert_eq!(images(&[envoy.clone(), envoy]), "envoy:v1.40.0, contour:v1.33.8");
        assert_eq!(images(&[of(json!([{"name": "a", "image": "nginx"}]), json!(null))]), "nginx");
        assert_eq!(images(&[pod(&["agent"])]), "", "an agent is no part of a system");
    }

    #[test]
    fn workloads_say_how_many_pods_they_want() {
        let deployment = json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1}});
        assert_eq!(replicas("Deployment", &deployment), Some((1, 2)));
        assert_eq!(replicas("Deployment", &json!({"spec": {}})), Some((0, 1)));
        assert_eq!(
            replicas("DaemonSet", &json!({"status": {"desiredNumberScheduled": 3, "numberReady": 3}})),
            Some((3, 3))
        );
        assert_eq!(replicas("DaemonSet", &json!({})), Some((0, 1)), "its controller has not seen it");
        assert_eq!(replicas("Service", &json!({})), None);
    }
}
