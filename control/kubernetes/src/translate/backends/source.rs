//! An upstream without its endpoints, from which its document is made again whenever they change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Map, Value, json};

use crate::object::ObjectName;
use crate::objects::Objects;
use crate::resources::{ServiceContents, ServicePort};

/// An upstream without its endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its Service.
    pub service: ObjectName,
    /// The name of the Service's port.
    port: String,
    /// The host and the port of a Service outside the cluster.
    host: Option<String>,
    /// The beginning of its endpoints' addresses.
    scheme: &'static str,
    /// Everything but its endpoints.
    settings: Map<String, Value>,
    /// The TollgatePolicies that the settings come from.
    pub policies: BTreeSet<ObjectName>,
}

impl Source {
    pub(super) fn new(
        service: ObjectName,
        port: &ServicePort,
        scheme: &'static str,
        settings: Map<String, Value>,
        policies: BTreeSet<ObjectName>,
    ) -> Self {
        Self { service, port: port.name.clone(), host: None, scheme, settings, policies }
    }

    /// Makes it the upstream of a host outside the cluster, if the Service is one.
    pub(super) fn outside(mut self, service: &ServiceContents, port: u16) -> Self {
        let is_external = service.kind == "ExternalName";
        let host = service.external_name.trim_end_matches('.');
        self.host = is_external.then(|| format!("{host}:{port}"));
        self
    }

    /// Returns the upstream's document.
    pub fn document(&self, objects: &Objects) -> Value {
        let mut value = json!({ "endpoints": self.endpoints(objects) });
        if let Some(fields) = value.as_object_mut() {
            fields.extend(self.settings.clone());
        }
        value
    }

    /// Returns whether there is an endpoint.
    pub fn has_endpoints(&self, objects: &Objects) -> bool {
        !self.endpoints(objects).is_empty()
    }

    /// Returns the endpoints of the Service's port. Endpoints that are about to end get no new requests, unless
    /// there are no others.
    fn endpoints(&self, objects: &Objects) -> Vec<Value> {
        if let Some(host) = &self.host {
            return vec![json!({ "address": format!("{}{host}", self.scheme) })];
        }
        let mut endpoints: BTreeMap<(IpAddr, u16), bool> = BTreeMap::new();
        for slice in objects.slices_of(&self.service) {
            let ports = slice.ports.iter().filter(|own| own.name.as_deref().unwrap_or_default() == self.port);
            for number in ports.filter_map(|own| own.port) {
                for endpoint in &slice.endpoints {
                    let Some(Ok(address)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>())
                    else {
                        continue;
                    };
                    let conditions = &endpoint.conditions;
                    let ready = conditions.ready.unwrap_or(true);
                    let serving = conditions.serving.unwrap_or(ready);
                    if ready {
                        endpoints.insert((address, number), true);
                    } else if serving && conditions.terminating == Some(true) {
                        endpoints.entry((address, number)).or_insert(false);
                    }
                }
            }
        }
        let any_ready = endpoints.values().any(|ready| *ready);
        endpoints
            .into_iter()
            .map(|((address, port), ready)| {
                let address = format!("{}{}", self.scheme, SocketAddr::new(address, port));
                match ready || !any_ready {
                    true => json!({ "address": address }),
                    false => json!({ "address": address, "drain": true }),
                }
            })
            .collect()
    }
}
