//! Keeps the translation of the Ingresses up to date with changes.
//!
//! Ingresses that name the same host depend on each other: of two with the same path the older one gets it, a canary is
//! a part of another Ingress's route, an expression changes how the other paths of its host are matched. So a change
//! translates all Ingresses that share hosts with the changed ones, directly or through others. The rest keeps its
//! documents. Certificates belong to the listener that all Ingresses share; they are collected again only if a
//! certificate, or the part of an Ingress about it, changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::super::backends::{Ancestors, Backends, Source, Wanted};
use super::super::{Document, DocumentKey, Translation, TranslationSettings, reference, services};
use super::certificates::{Certificates, TlsPart};
use super::hosts::Hosts;
use super::routes::{Routes, Written};
use super::{Classes, HTTP, HTTPS, Served};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::Objects;

/// The changes that affect Ingresses.
#[derive(Debug, Default)]
pub struct IngressChanges {
    /// Whether every Ingress may be affected.
    pub is_all: bool,
    /// Ingresses that changed, or were removed.
    pub ingresses: BTreeSet<ObjectName>,
    /// Services with other contents or other policies.
    pub services: BTreeSet<ObjectName>,
    /// Services with other endpoints.
    pub endpoints: BTreeSet<ObjectName>,
    /// Secrets and ConfigMaps with other contents.
    pub references: BTreeSet<Reference>,
}

/// The part of the translation that changed, and the part that it replaces.
#[derive(Default)]
pub struct IngressUpdate {
    pub documents_before: Vec<DocumentKey>,
    pub documents: BTreeMap<DocumentKey, Document>,
    pub upstreams_before: Vec<(String, Vec<Reference>)>,
    pub upstreams: BTreeMap<String, Wanted>,
    /// The new statuses; `None`: the status was removed.
    pub statuses: BTreeMap<Reference, Option<Value>>,
    /// The Services that Ingresses referred to that were translated again, before and now.
    pub services: BTreeSet<ObjectName>,
    /// The notes of every Ingress that was translated again, or is gone.
    pub notes: BTreeMap<Reference, BTreeSet<String>>,
}

/// The translation of the Ingresses.
#[derive(Default)]
pub struct IngressState {
    all: BTreeMap<ObjectName, One>,
    /// The Ingresses that name each host.
    by_host: HashMap<String, BTreeSet<ObjectName>>,
    certificates: Certificates,
    /// The documents of the listeners.
    listeners: Vec<DocumentKey>,
    address: Option<IpAddr>,
    /// The addresses of the Service by which clients reach Ingresses; `None`: they use `address`.
    published: Option<Vec<Value>>,
    /// The Secrets and ConfigMaps, with the number of Ingresses that refer to them.
    references: BTreeMap<Reference, usize>,
}

/// The contribution of an Ingress to the result.
#[derive(Default)]
struct One {
    hosts: BTreeSet<String>,
    tls: TlsPart,
    passes_tls: bool,
    services: BTreeSet<ObjectName>,
    references: BTreeSet<Reference>,
    documents: Vec<DocumentKey>,
    upstreams: Vec<(String, Vec<Reference>)>,
    ancestors: Ancestors,
    /// The upstreams of its canaries, and whether each had endpoints.
    canaries: Vec<(Source, bool)>,
}

impl IngressState {
    /// Returns the Secrets and ConfigMaps that Ingresses refer to.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.references.keys()
    }

    /// Returns the BackendTLSPolicies of the Services that Ingresses refer to, each with its Ingresses.
    pub fn ancestors(&self) -> impl Iterator<Item = (&ObjectName, &BTreeSet<Reference>)> {
        self.all.values().flat_map(|one| &one.ancestors)
    }

    /// Returns the Services that each Ingress refers to.
    pub fn services(&self) -> impl Iterator<Item = (&ObjectName, &BTreeSet<ObjectName>)> {
        self.all.iter().map(|(ingress, one)| (ingress, &one.services))
    }

    /// Translates the Ingresses that changes affect; `None`: there are none.
    pub fn update<'a>(
        &mut self,
        objects: &'a Objects,
        settings: &TranslationSettings,
        address: Option<IpAddr>,
        changes: &IngressChanges,
        backends: &mut Backends<'a>,
    ) -> Option<IngressUpdate> {
        let classes = Classes::new(objects, settings);
        let published = settings.publish_service.as_ref().map(|name| services::published(objects, name));
        let mut is_all = changes.is_all || address != self.address || published != self.published;
        let mut seeds = self.concerned(objects, changes);
        // The Ingresses as they are now, with what they ask for.
        let mut now: BTreeMap<ObjectName, (One, Served<'a>)> = BTreeMap::new();
        let read = |name: &ObjectName| -> Option<(One, Served<'a>)> {
            let (ingress, spec) = classes.find(objects, name)?;
            let served = Served::new(objects, &ingress.meta, spec);
            let hosts = served.hosts();
            let tls = TlsPart::of(&ingress.meta, spec);
            Some((One { hosts, tls, passes_tls: served.passes_tls(), ..One::default() }, served))
        };
        if !is_all {
            now = seeds.iter().filter_map(|name| Some((name.clone(), read(name)?))).collect();
        }
        let without = TlsPart::default();
        let has_other_tls = |name: &ObjectName| {
            let before = self.all.get(name).map_or(&without, |one| &one.tls);
            let after = now.get(name).map_or(&without, |(one, _)| &one.tls);
            before != after || changes.references.iter().any(|secret| before.refers_to(secret))
        };
        let mut queue: Vec<String> = Vec::new();
        let default = settings.default_certificate.as_ref();
        let is_default_changed =
            default.is_some_and(|secret| changes.references.contains(&reference(Kind::Secret, secret)));
        let is_tls_due = is_all || is_default_changed || seeds.iter().any(has_other_tls);
        if is_tls_due {
            let were_none = self.certificates.all.is_empty();
            queue = self.renew_certificates(objects, &classes, default, &changes.references);
            is_all |= were_none != self.certificates.all.is_empty();
        }
        if is_all {
            seeds = objects.ingresses.keys().chain(self.all.keys()).cloned().collect();
        }
        if is_default_changed {
            // Those that list hosts without a certificate say so.
            seeds.extend(
                self.all.iter().filter(|(_, one)| one.tls.asks_for_tls()).map(|(name, _)| name.clone()),
            );
        }
        if seeds.is_empty() && !is_all && !is_tls_due {
            return None;
        }
        (self.address, self.published) = (address, published);
        for name in &seeds {
            queue.extend(self.all.get(name).into_iter().flat_map(|one| &one.hosts).cloned());
            queue.extend(now.get(name).into_iter().flat_map(|(one, _)| &one.hosts).cloned());
        }
        let concerned = self.connected(seeds, queue);
        for name in &concerned {
            if !now.contains_key(name)
                && let Some(one) = read(name)
            {
                now.insert(name.clone(), one);
            }
        }
        let mut update = IngressUpdate::default();
        let members_before = self.all.len();
        let mut is_known = true;
        let passed_before = self.passes_tls();
        for name in &concerned {
            is_known &= self.all.contains_key(name) == now.contains_key(name);
            self.remove(name, &mut update);
        }
        self.translate(objects, now, backends, &mut update);
        let has_other_members = !is_known || self.all.len() != members_before;
        if is_all || is_tls_due || has_other_members || passed_before != self.passes_tls() {
            self.write_listeners(&mut update);
        }
        Some(update)
    }

    /// Collects the certificates again. Returns the hosts that have other certificates than before.
    fn renew_certificates(
        &mut self,
        objects: &Objects,
        classes: &Classes<'_>,
        default: Option<&ObjectName>,
        changed: &BTreeSet<Reference>,
    ) -> Vec<String> {
        let certificates =
            Certificates::collect(objects, classes.all(objects), default, &self.certificates, changed);
        let mut hosts = Vec::new();
        for host in certificates.differing_hosts(&self.certificates) {
            if let Some(suffix) = host.strip_prefix("*.") {
                let below = |name: &&String| name.split_once('.').is_some_and(|(_, above)| above == suffix);
                hosts.extend(self.by_host.keys().filter(below).cloned());
            }
            hosts.push(host);
        }
        self.certificates = certificates;
        hosts
    }

    /// Returns the Ingresses that changed, and the Ingresses that depend on a changed object.
    fn concerned(&self, objects: &Objects, changes: &IngressChanges) -> BTreeSet<ObjectName> {
        let mut concerned = changes.ingresses.clone();
        // A canary takes requests while it has endpoints.
        let has_other_canaries = |one: &One| {
            one.canaries.iter().any(|(source, had_endpoints)| {
                changes.endpoints.contains(&source.service) && source.has_endpoints(objects) != *had_endpoints
            })
        };
        if !changes.services.is_empty() || !changes.references.is_empty() || !changes.endpoints.is_empty() {
            let reads = |one: &One| {
                changes.services.iter().any(|service| one.services.contains(service))
                    || changes.references.iter().any(|object| one.references.contains(object))
                    || has_other_canaries(one)
            };
            concerned.extend(self.all.iter().filter(|(_, one)| reads(one)).map(|(name, _)| name.clone()));
        }
        concerned
    }

    /// Adds the Ingresses that are connected with some by hosts, or that name one of these hosts.
    fn connected(&self, mut found: BTreeSet<ObjectName>, mut queue: Vec<String>) -> BTreeSet<ObjectName> {
        let mut seen = HashSet::new();
        while let Some(host) = queue.pop() {
            let names = self.by_host.get(&host);
            if !seen.insert(host) {
                continue;
            }
            for name in names.into_iter().flatten() {
                if found.insert(name.clone()) {
                    queue.extend(self.all.get(name).into_iter().flat_map(|one| &one.hosts).cloned());
                }
            }
        }
        found
    }

    /// Removes the contribution of an Ingress.
    fn remove(&mut self, name: &ObjectName, update: &mut IngressUpdate) {
        let object = reference(Kind::Ingress, name);
        update.statuses.insert(object.clone(), None);
        update.notes.insert(object, BTreeSet::new());
        let Some(one) = self.all.remove(name) else { return };
        for host in one.hosts {
            if let Some(names) = self.by_host.get_mut(&host) {
                names.remove(name);
                if names.is_empty() {
                    self.by_host.remove(&host);
                }
            }
        }
        for object in one.references {
            if let Some(count) = self.references.get_mut(&object) {
                *count -= 1;
                if *count == 0 {
                    self.references.remove(&object);
                }
            }
        }
        update.services.extend(one.services);
        update.documents_before.extend(one.documents);
        update.upstreams_before.extend(one.upstreams);
    }

    /// Translates Ingresses that no other one shares a host with.
    fn translate<'a>(
        &mut self,
        objects: &'a Objects,
        now: BTreeMap<ObjectName, (One, Served<'a>)>,
        backends: &mut Backends<'a>,
        update: &mut IngressUpdate,
    ) {
        let mut out = Translation::default();
        let mut members: Vec<(ObjectName, One)> = Vec::with_capacity(now.len());
        let mut all: Vec<Served<'a>> = Vec::with_capacity(now.len());
        let mut sorted: Vec<_> = now.into_iter().collect();
        sorted.sort_by(|(_, (_, one)), (_, (_, other))| one.meta.precedence().cmp(&other.meta.precedence()));
        for (name, (one, served)) in sorted {
            members.push((name, one));
            all.push(served);
        }
        if let Some(address) = self.address {
            for ((_, one), served) in members.iter_mut().zip(&mut all) {
                served.report(&mut out);
                one.references = std::mem::take(&mut out.references);
                one.references.extend(self.certificates.report(served.meta, served.spec, &mut out));
            }
            let hosts = Hosts::new(&all, &mut out);
            let own = || vec![json!({ "ip": address.to_string() })];
            let points = self.published.as_ref().map_or_else(own, |all| all.iter().map(point).collect());
            let status = json!({ "loadBalancer": { "ingress": points } });
            let mut routes = Routes::new(objects, &self.certificates, &hosts, backends, &mut out);
            for ((name, one), served) in members.iter_mut().zip(&all) {
                let Written { documents, found, canaries } = routes.write(served);
                one.canaries = canaries;
                one.documents = documents.keys().cloned().collect();
                update.documents.extend(documents);
                update.services.extend(found.services.iter().cloned());
                one.services = found.services;
                one.references.extend(found.references);
                one.ancestors = found.ancestors;
                for (upstream, wanted) in found.upstreams {
                    one.upstreams.push((upstream.clone(), wanted.owners.iter().cloned().collect()));
                    match update.upstreams.get_mut(&upstream) {
                        Some(known) => known.owners.extend(wanted.owners),
                        None => drop(update.upstreams.insert(upstream, wanted)),
                    }
                }
                update.statuses.insert(reference(Kind::Ingress, name), Some(status.clone()));
            }
        } else {
            for (name, _) in &members {
                let object = reference(Kind::Ingress, name);
                out.note(object, "the pool of addresses has no free address");
            }
        }
        update.notes.extend(out.notes);
        for (name, one) in members {
            for host in &one.hosts {
                self.by_host.entry(host.clone()).or_default().insert(name.clone());
            }
            for object in &one.references {
                *self.references.entry(object.clone()).or_default() += 1;
            }
            self.all.insert(name, one);
        }
    }

    fn passes_tls(&self) -> bool {
        self.all.values().any(|one| one.passes_tls)
    }

    /// Writes the documents of the listeners.
    fn write_listeners(&mut self, update: &mut IngressUpdate) {
        let mut out = Translation::default();
        if let Some(address) = self.address.filter(|_| !self.all.is_empty()) {
            let owners: Vec<Reference> = self.all.keys().map(|name| reference(Kind::Ingress, name)).collect();
            let bind = |port| SocketAddr::new(address, port).to_string();
            out.put("listeners", HTTP, json!({ "bind": bind(80) }), owners.clone());
            let certificates: Vec<&Value> = self.certificates.all.iter().map(AsRef::as_ref).collect();
            if !certificates.is_empty() {
                let value = json!({ "bind": bind(443), "tls": { "certificates": certificates } });
                out.put("listeners", HTTPS, value, owners);
            } else if self.passes_tls() {
                out.put("listeners", HTTPS, json!({ "bind": bind(443), "protocol": "tcp" }), owners);
            }
        }
        let now = out.documents.keys().cloned().collect();
        update.documents_before.extend(std::mem::replace(&mut self.listeners, now));
        update.documents.extend(out.documents);
    }
}

/// Returns an address of a Gateway's status in the form of an Ingress's.
fn point(address: &Value) -> Value {
    let key = if address["type"] == "Hostname" { "hostname" } else { "ip" };
    json!({ key: address["value"] })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::addresses::AddressPool;
    use crate::object::RawObject;

    struct World {
        objects: Objects,
        settings: TranslationSettings,
        state: IngressState,
    }

    impl World {
        fn new() -> Self {
            let settings = TranslationSettings {
                controller: "c".to_owned(),
                addresses: AddressPool::new(Vec::new()),
                services: None,
                publish_service: None,
                default_certificate: None,
                external_names: false,
            };
            let mut world = Self { objects: Objects::default(), settings, state: IngressState::default() };
            world.put(Kind::IngressClass, json!({"name": "own"}), json!({"controller": "c"}));
            let ports = json!({"ports": [{"name": "p", "port": 80}]});
            world.put(Kind::Service, json!({"namespace": "a", "name": "s"}), ports);
            world
        }

        fn put(&mut self, kind: Kind, metadata: Value, spec: Value) {
            let object = json!({ "metadata": metadata, "spec": spec });
            self.objects.put(kind, serde_json::from_value::<RawObject>(object).expect("an object"));
        }

        fn ingress(&mut self, name: &str, host: &str, path: &str) {
            let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
            let path = json!({"path": path, "pathType": "Prefix", "backend": backend});
            let rule = json!({"host": host, "http": {"paths": [path]}});
            let metadata = json!({"namespace": "a", "name": name});
            self.put(Kind::Ingress, metadata, json!({"ingressClassName": "own", "rules": [rule]}));
        }

        /// Applies a change of one Ingress. Returns the names of the Ingresses that were translated again, and the keys
        /// of the documents.
        fn changed(&mut self, name: &str) -> (Vec<String>, Vec<String>) {
            let ingresses = BTreeSet::from([ObjectName::new("a", name)]);
            let changes = IngressChanges { ingresses, ..IngressChanges::default() };
            let mut backends = Backends::new(&self.objects, BTreeMap::new(), Arc::default(), false);
            let address = "192.0.2.1".parse().ok();
            let made = self.state.update(&self.objects, &self.settings, address, &changes, &mut backends);
            let made = made.expect("an update");
            let names = made.notes.keys().map(|object| object.name.name.to_string()).collect();
            (names, made.documents.keys().map(|key| key.name.clone()).collect())
        }
    }

    #[test]
    fn a_change_concerns_the_ingresses_that_share_a_host_with_it() {
        let mut world = World::new();
        for number in 0..100 {
            world.ingress(&format!("i{number}"), &format!("h{number}.example"), "/");
        }
        world.ingress("j7", "h7.example", "/j");
        assert_eq!(world.changed("j7").0.len(), 101, "the first time all of them get their address");
        world.ingress("i9", "h9.example", "/x");
        assert_eq!(world.changed("i9"), (vec!["i9".to_owned()], vec!["ingress/a/i9/00".to_owned()]));
        world.ingress("i7", "h7.example", "/x");
        assert_eq!(world.changed("i7").0, ["i7", "j7"]);
        // An Ingress that moves changes the Ingresses of its old host and of its new host.
        world.ingress("i7", "h8.example", "/x");
        assert_eq!(world.changed("i7").0, ["i7", "i8", "j7"]);
        // Adding or removing an Ingress also changes the owners of the listener.
        world.ingress("new", "new.example", "/");
        assert_eq!(world.changed("new").1, ["ingress_http", "ingress/a/new/00"]);
        world.objects.remove(Kind::Ingress, &ObjectName::new("a", "new"));
        let (names, documents) = world.changed("new");
        assert_eq!((names, documents), (vec!["new".to_owned()], vec!["ingress_http".to_owned()]));
        assert!(!world.state.by_host.contains_key("new.example"));
    }
}
