//! The documents of Gateways: one for each listener and address. Listeners of TLS on one port share a document.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::{GatewayState, settings_of};
use crate::object::{Kind, ObjectName};
use crate::translate::listeners::{self, ListenerState};
use crate::translate::policies::Policies;
use crate::translate::{Translation, names, reference};

impl GatewayState {
    /// Gives each listener that serves the names of its documents.
    pub(super) fn name_listeners(&mut self, name: &ObjectName) {
        let count = self.addresses.len();
        let is_tls = |listener: &ListenerState| listener.spec.protocol == "TLS" && listener.serves();
        let terminated = self.listeners.iter().filter(|listener| is_tls(listener));
        let terminated = terminated.filter(|listener| listeners::is_terminated(&listener.spec));
        let terminated: BTreeSet<u16> = terminated.map(|listener| listener.spec.port).collect();
        // Listeners of TLS on one port are one listener of the gateway: it has all server names.
        let mut by_port: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for listener in self.listeners.iter_mut().filter(|listener| listener.serves()) {
            let mut parts = vec![name.namespace.to_string(), name.name.to_string()];
            if let Some(set) = &listener.set {
                parts.extend([set.namespace.to_string(), set.name.to_string()]);
            }
            parts.push(listener.spec.name.clone());
            if listener.spec.protocol == "TLS" {
                let is_own = listeners::is_terminated(&listener.spec);
                listener.is_passed = !is_own && terminated.contains(&listener.spec.port);
                parts.clone_from(by_port.entry(listener.spec.port).or_insert(parts.clone()));
            }
            listener.documents = (0..count)
                .map(|index| {
                    let number = index.to_string();
                    let parts = parts.iter().map(String::as_str);
                    names::join(&parts.chain((index > 0).then_some(number.as_str())).collect::<Vec<_>>())
                })
                .collect();
        }
    }

    /// Writes the documents.
    pub(super) fn documents(&self, name: &ObjectName, policies: &Policies, out: &mut Translation) {
        for (index, address) in self.addresses.iter().enumerate() {
            for listener in self.listeners.iter().filter(|listener| listener.serves()) {
                let Some(document) = listener.documents.get(index) else { continue };
                let mut value = match listener.spec.protocol.as_str() {
                    "TLS" => self.tls_document(*address, document, index),
                    _ => listener.document(*address),
                };
                let settings = settings_of(policies, name, listener);
                if !settings.policies.is_empty() {
                    value["policies"] = settings.policies.clone().into();
                }
                let owner = match &listener.set {
                    Some(set) => reference(Kind::ListenerSet, set),
                    None => reference(Kind::Gateway, name),
                };
                out.put("listeners", document, value, settings.owners().chain([owner]));
            }
        }
    }

    /// Returns the document of all listeners of TLS that have this name for it.
    fn tls_document(&self, address: IpAddr, document: &str, index: usize) -> Value {
        let is_part =
            |listener: &&ListenerState| listener.documents.get(index).is_some_and(|name| name == document);
        let parts: Vec<_> = self.listeners.iter().filter(is_part).collect();
        let port = parts.first().map_or(0, |listener| listener.bind_port);
        let mut value = json!({ "bind": SocketAddr::new(address, port).to_string(), "protocol": "tcp" });
        let mut certificates: Vec<&Value> = Vec::new();
        for certificate in parts.iter().flat_map(|listener| &listener.certificates) {
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
        if !certificates.is_empty() {
            value["tls"] = json!({ "certificates": certificates });
        }
        value
    }
}
