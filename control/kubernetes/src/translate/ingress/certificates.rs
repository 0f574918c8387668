//! The certificates of all Ingresses, and the hosts that are served over TLS.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::{Translation, reference, secrets};
use crate::object::{Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{Ingress, IngressTls};

/// The certificates of all Ingresses.
#[derive(Default)]
pub struct Certificates {
    /// The certificates in the gateway's form; the oldest Ingress comes first.
    pub all: Vec<Arc<Value>>,
    /// The certificate of each Secret, or why it has none. Kept, because checking a key costs more than all else here.
    by_secret: HashMap<ObjectName, Result<Arc<Value>, String>>,
    /// The hosts with TLS; an empty one is every request without a host of its own.
    hosts: BTreeSet<String>,
}

/// The part of an Ingress that decides about certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TlsPart {
    /// Its age decides about the order of the certificates.
    created: String,
    namespace: Arc<str>,
    entries: Vec<TlsEntry>,
}

/// An entry of `tls`.
#[derive(Debug, PartialEq, Eq)]
struct TlsEntry {
    secret: String,
    hosts: Vec<String>,
}

impl TlsPart {
    /// Returns the part of an Ingress. Without `tls` it is the same for all.
    pub fn of(meta: &Meta, spec: &Ingress) -> Self {
        if spec.tls.is_empty() {
            return Self::default();
        }
        let entry =
            |tls: &IngressTls| TlsEntry { secret: tls.secret_name.clone(), hosts: tls_hosts(tls, spec) };
        Self {
            created: meta.creation_timestamp.clone(),
            namespace: meta.namespace.clone(),
            entries: spec.tls.iter().map(entry).collect(),
        }
    }

    /// Returns whether it refers to an object.
    pub fn refers_to(&self, object: &Reference) -> bool {
        object.kind == Kind::Secret
            && object.name.namespace == self.namespace
            && self.entries.iter().any(|entry| *entry.secret == *object.name.name)
    }
}

/// Returns the hosts of an entry of `tls`. An entry without hosts covers the hosts of the rules, and requests that
/// match no host.
fn tls_hosts(tls: &IngressTls, spec: &Ingress) -> Vec<String> {
    let own = || spec.rules.iter().filter_map(|rule| rule.host.as_deref()).chain([""]);
    match tls.hosts.is_empty() {
        true => own().map(str::to_ascii_lowercase).collect(),
        false => tls.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
    }
}

impl Certificates {
    /// Collects the certificates of Ingresses, which are in the order of their ages. `before` knows the Secrets that
    /// have not changed since.
    pub fn collect<'a>(
        objects: &Objects,
        ingresses: impl IntoIterator<Item = (&'a Object<Ingress>, &'a Ingress)>,
        before: &Self,
        changed: &BTreeSet<Reference>,
    ) -> Self {
        let mut out = Self::default();
        // Several Secrets may have the same certificate.
        let mut known: HashSet<String> = HashSet::new();
        for (ingress, spec) in ingresses {
            for tls in &spec.tls {
                // Without a Secret, the certificate of another Ingress may cover the hosts.
                if !tls.secret_name.is_empty() {
                    let name = ObjectName::new(&ingress.meta.namespace, &tls.secret_name);
                    if !out.by_secret.contains_key(&name) {
                        let is_same = !changed.contains(&reference(Kind::Secret, &name));
                        let same = before.by_secret.get(&name).filter(|_| is_same).cloned();
                        let read = || secrets::certificate(objects, &name).map(Arc::new);
                        let certificate = same.unwrap_or_else(read);
                        if let Ok(certificate) = &certificate
                            && known.insert(certificate.to_string())
                        {
                            out.all.push(certificate.clone());
                        }
                        out.by_secret.insert(name.clone(), certificate);
                    }
                    if !matches!(out.by_secret.get(&name), Some(Ok(_))) {
                        continue;
                    }
                }
                out.hosts.extend(tls_hosts(tls, spec));
            }
        }
        out
    }

    /// Returns the Secrets with certificates of an Ingress, and notes those without a valid one.
    pub fn report(&self, meta: &Meta, spec: &Ingress, out: &mut Translation) -> BTreeSet<Reference> {
        let secrets = spec.tls.iter().filter(|tls| !tls.secret_name.is_empty());
        let one = |tls: &IngressTls| {
            let name = ObjectName::new(&meta.namespace, &tls.secret_name);
            if let Some(Err(why)) = self.by_secret.get(&name) {
                out.note(reference(Kind::Ingress, &meta.object_name()), why.as_str());
            }
            reference(Kind::Secret, &name)
        };
        secrets.map(one).collect()
    }

    /// Returns whether a host is served over TLS: an Ingress names it, or the wildcard above it. Its paths may be
    /// in other Ingresses.
    pub fn covers(&self, host: &str) -> bool {
        let above = host.split_once('.').map(|(_, suffix)| format!("*.{suffix}"));
        !self.all.is_empty()
            && (self.hosts.contains(host) || above.is_some_and(|above| self.hosts.contains(&above)))
    }

    /// Returns the hosts that only one of both has.
    pub fn differing_hosts(&self, other: &Self) -> Vec<String> {
        self.hosts.symmetric_difference(&other.hosts).cloned().collect()
    }
}
