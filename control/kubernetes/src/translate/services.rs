//! The Service of each Gateway.
//!
//! One gateway serves all Gateways at one address, which is the pod's. So each port of a Gateway has a port of its own in
//! the pod, and the Gateway's Service leads from one to the other. The Service has no selector: it is in the namespace of
//! its Gateway and the pods are elsewhere. An EndpointSlice names the pods, which the Service of the pods knows.
//!
//! Every replica computes the ports independently, and they must agree: a port is derived from the Gateway's name, and
//! a port that the Service already has stays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::names::fingerprint;
use super::reference;
use crate::object::{GATEWAY_GROUP, Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{Gateway, ServiceContents, ServicePort};

/// The annotation with the fingerprint of what was applied, by which a difference is seen.
pub const APPLIED: &str = "tollgate.dev/applied";
/// The label with the name of the controller that made an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The labels with the name of the Gateway and of its class.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS_NAME: &str = "gateway.networking.k8s.io/gateway-class-name";
/// The ports of pods that listeners get: below those of outgoing connections.
const TARGETS: std::ops::Range<u16> = 20_000..30_000;
/// The longest name of a Service (RFC 1123).
const NAME_MAX: usize = 63;

/// The settings of the Services that are made for Gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Their type.
    pub kind: ServiceKind,
    /// The Service whose endpoints are the gateway's pods.
    pub pods: ObjectName,
}

/// The type of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// An address from a load balancer.
    LoadBalancer,
    /// A port of each node.
    NodePort,
    /// An address in the cluster.
    ClusterIp,
    /// No address of its own: it names the addresses of the pool, on which the Gateway listens itself.
    Headless,
}

/// A port of a Gateway: its number, and whether it is one of UDP.
pub type GatewayPort = (u16, bool);

/// The ports of Gateways, each with its port in the pod.
pub type Targets = BTreeMap<(ObjectName, GatewayPort), u16>;

/// The objects that the source keeps in the cluster.
pub type Applied = BTreeMap<Reference, Value>;

impl ServiceSettings {
    /// Returns whether Gateways share the address of the pod, so that their ports differ there.
    pub fn shares_address(&self) -> bool {
        self.kind != ServiceKind::Headless
    }
}

/// Returns the name of a Gateway's Service.
pub fn name(gateway: &ObjectName, class: &str) -> ObjectName {
    let whole = format!("{}-{class}", gateway.name);
    let name = match whole.len() <= NAME_MAX {
        true => whole,
        false => {
            let hash = format!("{:016x}", fingerprint(&whole));
            format!("{}-{hash}", whole.get(..NAME_MAX - 17).unwrap_or_default())
        }
    };
    ObjectName::new(&gateway.namespace, &name)
}

/// Returns the Service of a Gateway, if it exists and is the Gateway's.
fn existing<'o>(objects: &'o Objects, gateway: &ObjectName, class: &str) -> Option<&'o ServiceContents> {
    let service = objects.services.get(&name(gateway, class))?;
    let is_own = service.meta.labels.get(GATEWAY_NAME).is_some_and(|name| name == label(&gateway.name));
    service.spec.as_ref().ok().filter(|_| is_own)
}

/// Assigns the ports in the pod, in the order of the Gateways' precedence.
pub fn assign_targets(
    objects: &Objects,
    gateways: &[(&ObjectName, &str, BTreeSet<GatewayPort>)],
    before: &Targets,
) -> Targets {
    let mut targets = Targets::new();
    let mut used = BTreeSet::new();
    let mut take = |targets: &mut Targets, key: (ObjectName, GatewayPort), target: u16| {
        if TARGETS.contains(&target) && !targets.contains_key(&key) && used.insert(target) {
            targets.insert(key, target);
        }
    };
    for (gateway, class, ports) in gateways {
        let Some(service) = existing(objects, gateway, class) else { continue };
        for port in service.ports.iter().filter(|port| ports.contains(&number(port))) {
            if let Some(target) = port.target_port.as_ref().and_then(Value::as_u64) {
                let key = ((*gateway).clone(), number(port));
                take(&mut targets, key, u16::try_from(target).unwrap_or_default());
            }
        }
    }
    for (gateway, _, ports) in gateways {
        for port in ports {
            let key = ((*gateway).clone(), *port);
            if let Some(target) = before.get(&key) {
                take(&mut targets, key, *target);
            }
        }
    }
    let count = u64::from(TARGETS.end - TARGETS.start);
    for (gateway, _, ports) in gateways {
        for port in ports {
            let key = ((*gateway).clone(), *port);
            let first = fingerprint(&format!("{gateway} {} {}", port.0, port.1)) % count;
            for step in 0..count {
                if targets.contains_key(&key) {
                    break;
                }
                let offset = u16::try_from((first + step) % count).unwrap_or_default();
                take(&mut targets, key.clone(), TARGETS.start + offset);
            }
        }
    }
    targets
}

fn number(port: &ServicePort) -> GatewayPort {
    (port.port, port.protocol == "UDP")
}

/// Returns the addresses that a Gateway's Service has.
pub fn addresses(
    objects: &Objects,
    gateway: &ObjectName,
    class: &str,
    settings: &ServiceSettings,
) -> Vec<Value> {
    match existing(objects, gateway, class) {
        Some(_) if settings.kind == ServiceKind::LoadBalancer => balanced(objects, &name(gateway, class)),
        Some(service) => in_cluster(service),
        None => Vec::new(),
    }
}

/// Returns the addresses by which clients reach a Service, in the form of a Gateway's status.
pub fn published(objects: &Objects, service: &ObjectName) -> Vec<Value> {
    let found = objects.services.get(service).and_then(|found| found.spec.as_ref().ok());
    match found {
        Some(found) if found.kind == "LoadBalancer" => balanced(objects, service),
        Some(found) => in_cluster(found),
        None => Vec::new(),
    }
}

fn address(kind: &str, value: &str) -> Value {
    json!({ "type": kind, "value": value })
}

/// Returns the addresses of a Service in the cluster.
fn in_cluster(service: &ServiceContents) -> Vec<Value> {
    let own = service.cluster_ips.iter().filter(|text| text.parse::<IpAddr>().is_ok());
    own.map(|text| address("IPAddress", text)).collect()
}

/// Returns the addresses that a load balancer gave to a Service.
fn balanced(objects: &Objects, service: &ObjectName) -> Vec<Value> {
    let status = objects.services.get(service).map(|service| service.status.value());
    let points = status.as_ref().and_then(|status| status.pointer("/loadBalancer/ingress")?.as_array());
    let points = points.into_iter().flatten().filter_map(|point| {
        let text = |key: &str| point.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text("ip")
            .map(|ip| address("IPAddress", ip))
            .or_else(|| text("hostname").map(|name| address("Hostname", name)))
    });
    points.collect()
}

/// The Gateway that a Service is made for.
pub struct Owner<'a> {
    pub meta: &'a Meta,
    pub spec: &'a Gateway,
    /// Its ports, each with its port in the pod.
    pub ports: BTreeMap<GatewayPort, u16>,
    /// The addresses that it listens on, if its Service is headless.
    pub addresses: &'a [IpAddr],
    pub controller: &'a str,
}

impl Owner<'_> {
    /// Writes the Service and its EndpointSlices.
    pub fn write(&self, objects: &Objects, settings: &ServiceSettings, out: &mut Applied) {
        let service = name(&self.meta.object_name(), &self.spec.gateway_class_name);
        let ports: Vec<Value> = self.ports.iter().map(|(port, target)| self.port(*port, *target)).collect();
        // A Service needs a port.
        if ports.is_empty() {
            return;
        }
        let mut spec = json!({ "ports": ports });
        match settings.kind {
            ServiceKind::Headless => spec["clusterIP"] = "None".into(),
            ServiceKind::ClusterIp => spec["type"] = "ClusterIP".into(),
            ServiceKind::NodePort => spec["type"] = "NodePort".into(),
            ServiceKind::LoadBalancer => spec["type"] = "LoadBalancer".into(),
        }
        let object = json!({ "apiVersion": "v1", "kind": "Service", "spec": spec });
        self.put(reference(Kind::Service, &service), object, Map::new(), out);
        for (family, endpoints) in self.endpoints(objects, settings) {
            let ports: Vec<Value> = self
                .ports
                .iter()
                .map(|(port, target)| {
                    json!({ "name": port_name(*port), "port": target, "protocol": protocol(*port) })
                })
                .collect();
            let object = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "addressType": family, "endpoints": endpoints, "ports": ports,
            });
            let slice = format!("{}-{}", service.name, family.to_ascii_lowercase());
            let labels = Map::from_iter([
                ("kubernetes.io/service-name".to_owned(), (&*service.name).into()),
                (
                    "endpointslice.kubernetes.io/managed-by".to_owned(),
                    self.controller.replace('/', ".").into(),
                ),
            ]);
            let slice = reference(Kind::EndpointSlice, &ObjectName::new(&service.namespace, &slice));
            self.put(slice, object, labels, out);
        }
    }

    fn port(&self, port: GatewayPort, target: u16) -> Value {
        json!({
            "name": port_name(port), "port": port.0, "targetPort": target, "protocol": protocol(port),
        })
    }

    /// Returns the endpoints by family of addresses. The API server takes no loopback addresses.
    fn endpoints(&self, objects: &Objects, settings: &ServiceSettings) -> BTreeMap<&'static str, Vec<Value>> {
        let family = |address: &IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let mut all: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
        if !settings.shares_address() {
            for address in self.addresses.iter().filter(|address| !address.is_loopback()) {
                let endpoint = json!({ "addresses": [address.to_string()], "conditions": { "ready": true } });
                all.entry(family(address)).or_default().push(endpoint);
            }
            return all;
        }
        for endpoint in objects.slices_of(&settings.pods).flat_map(|slice| &slice.endpoints) {
            let Some(Ok(address)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>()) else {
                continue;
            };
            let conditions = &endpoint.conditions;
            let ready = conditions.ready.unwrap_or(true);
            let mut value = json!({
                "addresses": [address.to_string()],
                "conditions": {
                    "ready": ready, "serving": conditions.serving.unwrap_or(ready),
                    "terminating": conditions.terminating.unwrap_or(false),
                },
            });
            for (key, text) in [("zone", &endpoint.zone), ("nodeName", &endpoint.node_name)] {
                if let Some(text) = text {
                    value[key] = text.as_str().into();
                }
            }
            all.entry(family(&address)).or_default().push(value);
        }
        all
    }

    /// Adds the metadata of an object, and the object.
    fn put(&self, object: Reference, mut value: Value, mut labels: Map<String, Value>, out: &mut Applied) {
        let infrastructure = self.spec.infrastructure.as_ref();
        let mut annotations = Map::new();
        if let Some(wanted) = infrastructure {
            let copied = |from: &BTreeMap<String, String>, to: &mut Map<String, Value>| {
                to.extend(from.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
            };
            copied(&wanted.annotations, &mut annotations);
            let mut own = Map::new();
            copied(&wanted.labels, &mut own);
            own.extend(labels);
            labels = own;
        }
        for (key, text) in [
            (GATEWAY_NAME, &*self.meta.name),
            (CLASS_NAME, self.spec.gateway_class_name.as_str()),
            (MANAGED_BY, &self.controller.replace('/', ".")),
        ] {
            labels.insert(key.to_owned(), label(text).into());
        }
        value["metadata"] = json!({
            "namespace": &*object.name.namespace,
            "name": &*object.name.name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": format!("{GATEWAY_GROUP}/v1"), "kind": "Gateway",
                "name": &*self.meta.name, "uid": self.meta.uid, "controller": true,
            }],
        });
        value["metadata"]["annotations"][APPLIED] =
            format!("{:016x}", fingerprint(&value.to_string())).into();
        out.insert(object, value);
    }
}

/// Cuts a text to the length of a label.
fn label(text: &str) -> &str {
    text.get(..NAME_MAX).unwrap_or(text)
}

fn port_name((port, is_udp): GatewayPort) -> String {
    format!("{}-{port}", if is_udp { "udp" } else { "tcp" })
}

fn protocol((_, is_udp): GatewayPort) -> &'static str {
    if is_udp { "UDP" } else { "TCP" }
}

/// Returns the objects of a controller that exist and are not wanted any more.
pub fn leftovers(objects: &Objects, controller: &str, wanted: &Applied) -> Vec<Reference> {
    let manager = controller.replace('/', ".");
    let is_own =
        |meta: &Meta| meta.annotations.contains_key(APPLIED) && meta.labels.get(MANAGED_BY) == Some(&manager);
    let services = objects.services.values().filter(|object| is_own(&object.meta));
    let services = services.map(|object| reference(Kind::Service, &object.meta.object_name()));
    let slices = objects.endpoint_slices.values().filter(|object| is_own(&object.meta));
    let slices = slices.map(|object| reference(Kind::EndpointSlice, &object.meta.object_name()));
    services.chain(slices).filter(|object| !wanted.contains_key(object)).collect()
}
