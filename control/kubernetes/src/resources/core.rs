//! Objects of Kubernetes itself.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::object::Contents;

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceContents {
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// `ClusterIP`, `ExternalName` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its addresses in the cluster.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// The host of a Service of the type `ExternalName`.
    pub external_name: String,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name; empty if the Service has one port.
    pub name: String,
    /// Its number.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The protocol inside, such as `kubernetes.io/h2c`.
    pub app_protocol: Option<String>,
    /// The port of its endpoints: a number or a name.
    pub target_port: Option<Value>,
}

/// Endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The endpoints.
    pub endpoints: Vec<SlicedEndpoint>,
    /// The ports that each endpoint has, by the name of the Service's port.
    pub ports: Vec<SlicePort>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlicedEndpoint {
    /// Its addresses, which are all the same endpoint: the first one counts.
    pub addresses: Vec<String>,
    /// Its state.
    pub conditions: EndpointConditions,
    /// Its zone.
    pub zone: Option<String>,
    /// The node that it runs on.
    pub node_name: Option<String>,
}

/// The state of an endpoint. An absent value counts as `true`, except for `terminating`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether it takes new connections.
    pub ready: Option<bool>,
    /// Whether it answers, even if it is about to end.
    pub serving: Option<bool>,
    /// Whether it is about to end.
    pub terminating: Option<bool>,
}

/// A port of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SlicePort {
    /// The name of the Service's port.
    pub name: Option<String>,
    /// The port of the endpoints.
    pub port: Option<u16>,
}

/// A Namespace: only its labels are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Namespace {}

/// A Secret.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Its type, such as `kubernetes.io/tls`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its entries in Base64.
    pub data: BTreeMap<String, String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Its entries.
    pub data: BTreeMap<String, String>,
}

impl Contents for ServiceContents {
    // The status has the addresses of load balancers.
    const READS_STATUS: bool = true;
}
impl Contents for Namespace {}
impl Contents for EndpointSlice {
    const FIELD: Option<&'static str> = None;
}
impl Contents for Secret {
    const FIELD: Option<&'static str> = None;
}
impl Contents for ConfigMap {
    const FIELD: Option<&'static str> = None;
}
