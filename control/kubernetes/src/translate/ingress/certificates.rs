//! The certificates of all Ingresses, and the hosts that are served over TLS.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{Translation, reference, secrets};
use crate::object::{Kind, Meta, ObjectName};
use crate::objects::Objects;
use crate::resources::Ingress;

/// The certificates of all Ingresses.
#[derive(Default)]
pub struct Certificates {
    /// The certificates in the gateway's form.
    pub all: Vec<Value>,
    /// The hosts with TLS; an empty one is every request without a host of its own.
    hosts: BTreeSet<String>,
}

impl Certificates {
    /// Reads the certificates of an Ingress.
    pub fn read(&mut self, objects: &Objects, meta: &Meta, spec: &Ingress, out: &mut Translation) {
        let ingress = meta.object_name();
        for tls in &spec.tls {
            // Without a Secret, the certificate of another Ingress may cover the hosts.
            if !tls.secret_name.is_empty() {
                let name = ObjectName::new(&meta.namespace, &tls.secret_name);
                out.references.insert(reference(Kind::Secret, &name));
                match secrets::certificate(objects, &name) {
                    Ok(certificate) if self.all.contains(&certificate) => {}
                    Ok(certificate) => self.all.push(certificate),
                    Err(why) => {
                        out.note(reference(Kind::Ingress, &ingress), why);
                        continue;
                    }
                }
            }
            if tls.hosts.is_empty() {
                let own = spec.rules.iter().filter_map(|rule| rule.host.as_deref());
                self.hosts.extend(own.map(str::to_ascii_lowercase));
                self.hosts.insert(String::new());
            }
            self.hosts.extend(tls.hosts.iter().map(|host| host.to_ascii_lowercase()));
        }
    }

    /// Returns whether a host is served over TLS: an Ingress names it, or the wildcard above it. Its paths may be
    /// in other Ingresses.
    pub fn covers(&self, host: &str) -> bool {
        let above = host.split_once('.').map(|(_, suffix)| format!("*.{suffix}"));
        !self.all.is_empty()
            && (self.hosts.contains(host) || above.is_some_and(|above| self.hosts.contains(&above)))
    }
}
