//! Stand-ins for endpoints that the manifests do not have: the Service's name in DNS.
//!
//! The translation knows addresses only. So a Service without endpoints gets one with an address out of a block
//! that no network uses, and the configuration has the name in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::manifests::Manifests;
use crate::object::{Kind, ObjectName};
use crate::objects::Objects;

/// The first address of a block for measurements (RFC 2544), of 131,072 addresses.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const SIZE: u32 = 1 << 17;

/// Services whose endpoints are not in the manifests.
#[derive(Default)]
pub struct StandIns {
    /// The names in DNS, by the addresses that stand for them.
    names: BTreeMap<Ipv4Addr, String>,
    /// Remarks about Ingresses.
    notes: BTreeMap<ObjectName, BTreeSet<String>>,
}

impl StandIns {
    /// Adds endpoints to Services that have none, and Services that Ingresses name and the manifests lack.
    pub fn add(manifests: &mut Manifests, objects: &mut Objects) -> Self {
        let mut out = Self::default();
        for (name, ingress) in &manifests.ingresses {
            let mut backends = Vec::new();
            find_services(&ingress.data, &mut backends);
            let pages = ingress.metadata.annotations.get("nginx.ingress.kubernetes.io/default-backend");
            backends.extend(pages.map(|service| (service.clone(), json!({ "number": 80 }))));
            for (service, port) in backends {
                let service = ObjectName::new(&name.namespace, &service);
                if objects.services.contains_key(&service) {
                    continue;
                }
                // The name of a port says nothing without the Service.
                let Some(number) = port.get("number").and_then(Value::as_u64) else { continue };
                let raw = json!({
                    "metadata": { "namespace": &*service.namespace, "name": &*service.name },
                    "spec": { "ports": [{ "port": number }] },
                });
                if let Ok(raw) = serde_json::from_value(raw) {
                    objects.put(Kind::Service, raw);
                }
                let note = format!("the Service {service} is not in the files; its name in DNS is used");
                out.notes.entry(name.clone()).or_default().insert(note);
            }
        }
        let with_slices: BTreeSet<ObjectName> = objects
            .endpoint_slices
            .values()
            .filter_map(|slice| {
                let service = slice.meta.labels.get("kubernetes.io/service-name")?;
                Some(ObjectName::new(&slice.meta.namespace, service))
            })
            .collect();
        let mut slices = Vec::new();
        for (name, service) in &objects.services {
            let Ok(spec) = &service.spec else { continue };
            let number = u32::try_from(out.names.len()).unwrap_or(SIZE);
            if with_slices.contains(name) || number >= SIZE {
                continue;
            }
            let address = Ipv4Addr::from(FIRST + number);
            out.names.insert(address, format!("{}.{}.svc.cluster.local", name.name, name.namespace));
            let ports: Vec<Value> =
                spec.ports.iter().map(|port| json!({ "name": port.name, "port": port.port })).collect();
            slices.push(json!({
                "metadata": {
                    "namespace": &*name.namespace, "name": &*name.name,
                    "labels": { "kubernetes.io/service-name": &*name.name },
                },
                "addressType": "IPv4", "endpoints": [{ "addresses": [address.to_string()] }], "ports": ports,
            }));
        }
        for slice in slices {
            if let Ok(slice) = serde_json::from_value(slice) {
                objects.put(Kind::EndpointSlice, slice);
            }
        }
        out
    }

    /// Returns the remarks about an Ingress.
    pub fn notes(&self, ingress: &ObjectName) -> BTreeSet<String> {
        self.notes.get(ingress).cloned().unwrap_or_default()
    }

    /// Returns an endpoint's address with the name in DNS in place of an address that stands for it.
    pub fn named(&self, endpoint: &str) -> String {
        let (scheme, address) =
            endpoint.rsplit_once("://").map_or(("", endpoint), |(scheme, address)| (scheme, address));
        let name = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((self.names.get(&host.parse::<Ipv4Addr>().ok()?)?, port)));
        match name {
            Some((name, port)) if scheme.is_empty() => format!("{name}:{port}"),
            Some((name, port)) => format!("{scheme}://{name}:{port}"),
            None => endpoint.to_owned(),
        }
    }
}

/// Finds the Services that backends name, wherever they are.
fn find_services(value: &Value, out: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            if let Some(service) = fields.get("service")
                && let Some(name) = service.get("name").and_then(Value::as_str)
            {
                out.push((name.to_owned(), service["port"].clone()));
            }
            fields.values().for_each(|value| find_services(value, out));
        }
        Value::Array(items) => items.iter().for_each(|item| find_services(item, out)),
        _ => {}
    }
}
