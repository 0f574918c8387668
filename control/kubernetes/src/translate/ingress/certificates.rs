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
    /// The Secret for Ingresses without a certificate of their own.
    default: Option<ObjectName>,
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

    /// Returns whether the Ingress asks for TLS.
    pub fn asks_for_tls(&self) -> bool {
        !self.entries.is_empty()
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
    /// Collects the certificates of Ingresses, which are in the order of their ages. `default` is the Secret of those that
    /// have none. `before` knows the Secrets that have not changed since.
    pub fn collect<'a>(
        objects: &Objects,
        ingresses: impl IntoIterator<Item = (&'a Object<Ingress>, &'a Ingress)>,
        default: Option<&ObjectName>,
        before: &Self,
        changed: &BTreeSet<Reference>,
    ) -> Self {
        let mut out = Self { default: default.cloned(), ..Self::default() };
        // Several Secrets may have the same certificate.
        let mut known: HashSet<String> = HashSet::new();
        let mut has_certificate = |out: &mut Self, name: &ObjectName| {
            if !out.by_secret.contains_key(name) {
                let is_same = !changed.contains(&reference(Kind::Secret, name));
                let same = before.by_secret.get(name).filter(|_| is_same).cloned();
                let read = || secrets::certificate(objects, name).map(Arc::new);
                let certificate = same.unwrap_or_else(read);
                if let Ok(certificate) = &certificate
                    && known.insert(certificate.to_string())
                {
                    out.all.push(certificate.clone());
                }
                out.by_secret.insert(name.clone(), certificate);
            }
            matches!(out.by_secret.get(name), Some(Ok(_)))
        };
        // The first one is for every host that no certificate has.
        let has_default = default.is_some_and(|name| has_certificate(&mut out, name));
        for (ingress, spec) in ingresses {
            for tls in &spec.tls {
                let name = ObjectName::new(&ingress.meta.namespace, &tls.secret_name);
                let is_served = match tls.secret_name.is_empty() {
                    // Without a Secret, the certificate of another Ingress may cover the hosts.
                    true => has_default || default.is_none(),
                    false => has_certificate(&mut out, &name) || has_default,
                };
                if is_served {
                    out.hosts.extend(tls_hosts(tls, spec));
                }
            }
        }
        out
    }

    /// Returns the Secrets with certificates of an Ingress, and notes those without a valid one.
    pub fn report(&self, meta: &Meta, spec: &Ingress, out: &mut Translation) -> BTreeSet<Reference> {
        let mut references = BTreeSet::new();
        for tls in &spec.tls {
            let own = Some(&tls.secret_name).filter(|name| !name.is_empty());
            let own = own.map(|name| ObjectName::new(&meta.namespace, name));
            references.extend(own.as_ref().map(|name| reference(Kind::Secret, name)));
            if let Some(Err(why)) =
                own.or_else(|| self.default.clone()).and_then(|name| self.by_secret.get(&name))
            {
                out.note(reference(Kind::Ingress, &meta.object_name()), why.as_str());
            }
        }
        references
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
