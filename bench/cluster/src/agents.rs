//! The pods of the agents.

use crate::{KEY, MANAGED};
use k8s_openapi::api::core::v1::Pod as KubePod;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tollgate_lab_study::{AGENT_PORT, Placement, agent_address};

/// The name of the agent's container.
pub(crate) const CONTAINER: &str = "agent";

/// The label with the role of a pod.
const ROLE: &str = "app.kubernetes.io/component";

/// The mount path of the node's control groups.
const CGROUPS: &str = "/host/cgroup";

/// The mount path of the shared key.
const KEYS: &str = "/tollgate-bench";

/// Seconds after the planned end of a run at which its pods end by themselves, for a run that was killed.
const MARGIN: f64 = 1_800.0;

/// The role of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Gateway,
    Origin,
}

impl Role {
    /// Returns the name of its pod.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Origin => "origin",
        }
    }
}

/// How the pods of a run's agents are made.
#[derive(Debug)]
pub(crate) struct Pod {
    image: String,
    cgroup_root: PathBuf,
    seconds: f64,
}

impl Pod {
    /// `seconds` is the planned duration of the run.
    pub(crate) fn new(image: &str, cgroup_root: &Path, seconds: f64) -> Self {
        Self { image: image.to_owned(), cgroup_root: cgroup_root.to_owned(), seconds }
    }

    /// Returns the pod of a role.
    pub(crate) fn of_role(&self, role: Role, placement: &Placement) -> Value {
        self.make(role.name(), placement)
    }

    /// Returns a pod that only reads the CPU time of other pods of a node.
    pub(crate) fn on_node(&self, name: &str, node: &str) -> Value {
        let mut pod = self.make(name, &Placement::default());
        // The name of the node goes past the scheduler, so taints do not keep the pod away.
        pod["spec"]["nodeName"] = node.into();
        pod
    }

    fn make(&self, name: &str, placement: &Placement) -> Value {
        let Placement { node_selector, labels, annotations, limits } = placement;
        let mut labels = labels.clone();
        labels.insert(MANAGED.0.to_owned(), MANAGED.1.to_owned());
        labels.insert(ROLE.to_owned(), name.to_owned());
        let key = format!("{KEYS}/lab.pem");
        let listen = format!("0.0.0.0:{AGENT_PORT}");
        json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {
                "nodeSelector": node_selector,
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 5,
                "activeDeadlineSeconds": (self.seconds * 3.0 + MARGIN).ceil() as u64,
                "containers": [{
                    "name": CONTAINER,
                    "image": self.image,
                    "command": ["tollgate-lab"],
                    "args": ["agent", "--key", key, "--listen", listen, "--cgroup-root", CGROUPS],
                    "ports": [{"containerPort": AGENT_PORT}],
                    "resources": {"limits": limits, "requests": limits},
                    // No further probe: it would use the CPU that is measured.
                    "startupProbe": {
                        "tcpSocket": {"port": AGENT_PORT},
                        "periodSeconds": 1,
                        "failureThreshold": 120,
                    },
                    "volumeMounts": [
                        {"name": "key", "mountPath": KEYS, "readOnly": true},
                        {"name": "cgroup", "mountPath": CGROUPS, "readOnly": true},
                    ],
                }],
                "volumes": [
                    {"name": "key", "secret": {"secretName": KEY, "defaultMode": 0o400}},
                    {"name": "cgroup", "hostPath": {"path": self.cgroup_root, "type": "Directory"}},
                ],
            },
        })
    }
}

/// Returns the address of a pod's agent.
pub(crate) fn address(pod: &KubePod) -> Option<String> {
    ip(pod).map(|ip| agent_address(&ip))
}

/// Returns the address of a pod.
pub(crate) fn ip(pod: &KubePod) -> Option<String> {
    pod.status.as_ref()?.pod_ip.clone()
}

/// Returns whether a pod is an agent's.
pub(crate) fn is_agent(pod: &KubePod) -> bool {
    pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(ROLE))
        && pod.spec.as_ref().is_some_and(|spec| spec.containers.iter().any(|one| one.name == CONTAINER))
}

/// Why a pod is not ready.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unready {
    /// The reason in its status.
    pub(crate) reason: String,
    /// Whether it can no longer become ready.
    pub(crate) ended: bool,
}

/// Returns whether a pod is ready, or why it is not.
pub(crate) fn readiness(pod: &KubePod) -> Result<(), Unready> {
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ended = phase == "Failed" || phase == "Succeeded";
    if !ended && conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True") {
        return Ok(());
    }
    let mut reasons: Vec<String> = vec![format!("it is {phase}").trim_end().to_owned()];
    reasons.extend(status.reason.into_iter().chain(status.message));
    for container in status.init_container_statuses.iter().chain(&status.container_statuses).flatten() {
        let state = container.state.clone().unwrap_or_default();
        let waiting = state.waiting.map(|waiting| (waiting.reason, waiting.message));
        let terminated = state.terminated.map(|ended| (ended.reason, ended.message));
        if let Some((reason, message)) = waiting.or(terminated) {
            let words: Vec<String> = reason.into_iter().chain(message).collect();
            reasons.push(format!("container {}: {}", container.name, words.join(", ")));
        }
    }
    // The scheduler says here why it finds no node.
    let refused = conditions.into_iter().filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    reasons.extend(refused.filter_map(|one| one.message));
    Err(Unready { reason: reasons.join("; "), ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: Value) -> KubePod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn the_pod_of_a_role_has_what_the_study_says() {
        let placement = Placement {
            node_selector: [("pool".to_owned(), "load".to_owned())].into(),
            labels: [("app".to_owned(), "client".to_owned())].into(),
            annotations: [("sidecar.istio.io/inject".to_owned(), "true".to_owned())].into(),
            limits: [("cpu".to_owned(), "2".to_owned())].into(),
        };
        let pod = Pod::new("lab:1", Path::new("/sys/fs/cgroup"), 60.0).of_role(Role::Client, &placement);
        assert_eq!(pod["spec"]["nodeSelector"], json!({"pool": "load"}));
        assert_eq!(pod["metadata"]["labels"]["app"], "client");
        assert_eq!(pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "true");
        assert_eq!(pod["spec"]["activeDeadlineSeconds"], 1_980);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"], json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}));
        // The types of the API accept it.
        let read: KubePod = serde_json::from_value(pod).unwrap();
        assert!(is_agent(&read));
        assert_eq!(read.spec.unwrap().restart_policy.as_deref(), Some("Never"));
    }

    #[test]
    fn a_pod_that_is_not_ready_says_why() {
        let ready = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(readiness(&pod(ready.clone())), Ok(()));
        assert_eq!(address(&pod(ready)), Some("10.0.0.1:7921".to_owned()));
        let waiting = json!({"phase": "Pending", "containerStatuses": [{"name": "agent", "image": "x", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
        let unready = readiness(&pod(waiting)).unwrap_err();
        assert_eq!(
            (unready.reason.as_str(), unready.ended),
            ("it is Pending; container agent: ImagePullBackOff", false)
        );
        let nowhere = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes match the selector"}]});
        assert!(readiness(&pod(nowhere)).unwrap_err().reason.contains("0/3 nodes"));
        assert!(readiness(&pod(json!({"phase": "Failed"}))).unwrap_err().ended);
    }
}
