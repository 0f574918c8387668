//! The keys of a study that runs in a Kubernetes cluster: where its agents run (`kubernetes:` of the study),
//! and systems that manifests deploy (`kubernetes:` of an arm). Keys that Kubernetes has are spelled as there.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder of the control groups on a node.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The agents of a study in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Kubernetes {
    /// The image of the agents, which has the laboratory's programs and the systems to measure.
    pub image: Option<String>,
    /// The namespace that the run creates and deletes; default: a new name.
    pub namespace: Option<String>,
    /// Labels of the namespace, such as `istio-injection: enabled`.
    pub labels: BTreeMap<String, String>,
    /// The folder of the control groups on the nodes, where the CPU time of pods is read.
    pub cgroup_root: Option<PathBuf>,
    /// The pod of the load generator.
    pub client: Placement,
    /// The pod of the systems that the laboratory starts.
    pub gateway: Placement,
    /// The pod of the origin.
    pub origin: Placement,
}

impl Kubernetes {
    /// Returns the folder of the control groups on the nodes.
    pub fn cgroup_root(&self) -> PathBuf {
        self.cgroup_root.clone().unwrap_or_else(|| CGROUP_ROOT.into())
    }
}

/// The node and the limits of a role's pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Placement {
    /// The labels that its node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod, for example to inject a sidecar.
    pub annotations: BTreeMap<String, String>,
    /// The limits of the agent's container, which are also its requests: `cpu`, `memory`.
    pub limits: BTreeMap<String, String>,
}

/// A system that manifests deploy: an arm of a study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Deployed {
    /// Files with the objects, relative to the study's folder. The run creates them at its start and deletes
    /// them at its end. Several arms may name the same file.
    #[serde(default)]
    pub manifests: Vec<PathBuf>,
    /// The Service that the load is sent to. If it is headless, the load goes to its first pod.
    pub service: String,
    /// The port.
    #[serde(default = "port")]
    pub port: u16,
    /// Whether clients use TLS.
    #[serde(default)]
    pub tls: bool,
    /// The path that is requested unless the settings name another.
    #[serde(default = "path")]
    pub path: String,
    /// The namespace of the Service and the pods; default: the run's.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The labels of the pods whose CPU time is the system's; empty: no CPU time is read.
    #[serde(default)]
    pub pods: BTreeMap<String, String>,
    /// The containers of these pods that count, such as a sidecar's; empty: all.
    #[serde(default)]
    pub containers: Vec<String>,
}

fn port() -> u16 {
    80
}

fn path() -> String {
    "/".to_owned()
}

impl Deployed {
    /// Checks what no other part checks.
    ///
    /// # Errors
    /// A sentence about the wrong key.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.service.is_empty() || self.port == 0 {
            return Err("expected `service: NAME` and a port above 0".into());
        }
        if !self.path.starts_with('/') {
            return Err(format!("the path `{}` does not begin with `/`", self.path));
        }
        if self.pods.is_empty() && !self.containers.is_empty() {
            return Err("`containers` needs `pods: {LABEL: VALUE}`, whose containers they are".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_spelled_as_in_a_pod() {
        let text = "
image: example/lab:1
client: {nodeSelector: {pool: load}, limits: {cpu: 2, memory: 1Gi}}
gateway: {annotations: {sidecar.istio.io/inject: 'true'}}
";
        let read: Kubernetes = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read.client.node_selector["pool"], "load");
        assert_eq!((read.client.limits["cpu"].as_str(), read.client.limits["memory"].as_str()), ("2", "1Gi"));
        assert_eq!(read.gateway.annotations["sidecar.istio.io/inject"], "true");
        assert_eq!((read.origin, read.cgroup_root), (Placement::default(), None));
        assert!(serde_saphyr::from_str::<Kubernetes>("client: {node_selector: {}}").is_err());
    }

    #[test]
    fn a_deployed_system_needs_a_service() {
        let read = |text: &str| serde_saphyr::from_str::<Deployed>(text).map_err(|error| error.to_string());
        let system = read("{manifests: [web.yaml], service: web, pods: {app: web}}").unwrap();
        assert_eq!((system.port, system.path.as_str(), system.check()), (80, "/", Ok(())));
        assert!(read("{manifests: [web.yaml]}").unwrap_err().contains("service"));
        let without_pods = read("{service: web, containers: [istio-proxy]}").unwrap();
        assert!(without_pods.check().unwrap_err().contains("needs `pods"));
        assert!(read("{service: web, port: 0}").unwrap().check().is_err());
        assert!(read("{service: web, path: x}").unwrap().check().unwrap_err().contains("begin with"));
    }
}
