//! Ingress: all Ingresses of this controller's classes share one address, with a listener of HTTP on port 80 and
//! one of HTTPS on port 443.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer};
use super::{Translation, TranslationSettings, add_age, names, reference, secrets};
use crate::object::{Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, Ingress, IngressBackend, IngressPath};

/// The names of the listeners. Those of Gateways have two separators more.
const HTTP: &str = "ingress_http";
const HTTPS: &str = "ingress_https";
/// The annotation of an IngressClass for Ingresses without a class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation of an Ingress from before there was `ingressClassName`.
const CLASS: &str = "kubernetes.io/ingress.class";

/// The Ingresses of this controller, the oldest first.
pub struct Ingresses<'a>(Vec<(&'a Object<Ingress>, &'a Ingress)>);

impl<'a> Ingresses<'a> {
    /// Collects the Ingresses of this controller's classes.
    pub fn new(objects: &'a Objects, settings: &TranslationSettings) -> Self {
        let mut classes = BTreeSet::new();
        let mut has_default = false;
        for (name, class) in &objects.ingress_classes {
            if class.spec.as_ref().is_ok_and(|spec| spec.controller == settings.controller) {
                has_default |= class.meta.annotations.get(IS_DEFAULT).is_some_and(|value| value == "true");
                classes.insert(name.name.as_str());
            }
        }
        let is_own = |meta: &Meta, spec: &Ingress| {
            let named = spec.ingress_class_name.as_ref().or_else(|| meta.annotations.get(CLASS));
            named.map_or(has_default, |class| classes.contains(class.as_str()))
        };
        let all = objects.ingresses.values();
        let mut own: Vec<_> = all
            .filter_map(|ingress| Some((ingress, ingress.spec.as_ref().ok()?)))
            .filter(|(ingress, spec)| is_own(&ingress.meta, spec))
            .collect();
        own.sort_by_key(|(ingress, _)| ingress.meta.precedence());
        Self(own)
    }

    /// Returns whether there are none, so that they need no address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address that they had before.
    pub fn former_address(&self) -> Option<IpAddr> {
        let address = |status: &Value| status.pointer("/loadBalancer/ingress/0/ip")?.as_str()?.parse().ok();
        self.0.iter().find_map(|(ingress, _)| address(&ingress.status.value()))
    }

    /// Writes the documents and the statuses.
    pub fn translate(
        self,
        objects: &'a Objects,
        address: Option<IpAddr>,
        backends: &mut Backends<'a>,
        out: &mut Translation,
    ) {
        let Some(address) = address else {
            for (ingress, _) in self.0 {
                let name = ingress.meta.object_name();
                out.note(reference(Kind::Ingress, &name), "the pool of addresses has no free address");
            }
            return;
        };
        let mut certificates = Certificates::default();
        for (ingress, spec) in &self.0 {
            certificates.read(objects, &ingress.meta, spec, out);
        }
        let owners: Vec<Reference> =
            self.0.iter().map(|(ingress, _)| reference(Kind::Ingress, &ingress.meta.object_name())).collect();
        let bind = |port| SocketAddr::new(address, port).to_string();
        out.put("listeners", HTTP, json!({ "bind": bind(80) }), owners.clone());
        if !certificates.all.is_empty() {
            let value = json!({ "bind": bind(443), "tls": { "certificates": certificates.all } });
            out.put("listeners", HTTPS, value, owners);
        }
        let mut taken = HashSet::new();
        for (ingress, spec) in self.0 {
            let name = ingress.meta.object_name();
            routes(objects, &ingress.meta, spec, &certificates, backends, &mut taken, out);
            let status = json!({ "loadBalancer": { "ingress": [{ "ip": address.to_string() }] } });
            out.statuses.insert(reference(Kind::Ingress, &name), status);
        }
    }
}

/// The certificates of all Ingresses.
#[derive(Default)]
struct Certificates {
    all: Vec<Value>,
    /// For each Ingress the hosts with TLS; an empty one is every host.
    hosts: BTreeMap<ObjectName, BTreeSet<String>>,
}

impl Certificates {
    fn read(&mut self, objects: &Objects, meta: &Meta, spec: &Ingress, out: &mut Translation) {
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
            let hosts = self.hosts.entry(ingress.clone()).or_default();
            match tls.hosts.as_slice() {
                [] => drop(hosts.insert(String::new())),
                named => hosts.extend(named.iter().map(|host| host.to_ascii_lowercase())),
            }
        }
    }

    /// Returns whether a host of an Ingress is served over TLS.
    fn covers(&self, ingress: &ObjectName, host: &str) -> bool {
        let hosts = self.hosts.get(ingress);
        !self.all.is_empty() && hosts.is_some_and(|hosts| hosts.contains("") || hosts.contains(host))
    }
}

/// Writes the documents of an Ingress: one for each path, and one for the default backend.
fn routes<'a>(
    objects: &'a Objects,
    meta: &Meta,
    spec: &'a Ingress,
    certificates: &Certificates,
    backends: &mut Backends<'a>,
    taken: &mut HashSet<(bool, String)>,
    out: &mut Translation,
) {
    let name = &meta.object_name();
    let owner = reference(Kind::Ingress, name);
    let mut number = 0;
    let mut emit = |host: &str, path: Value, backend: &IngressBackend, out: &mut Translation| {
        let target = target(objects, &owner, number, backend, backends, out);
        let mut one = Map::new();
        if !host.is_empty() {
            one.insert("host".to_owned(), host.into());
        }
        one.insert("path".to_owned(), path);
        let one = Value::Object(one);
        let mut listeners = Vec::new();
        for (listener, is_tls) in [(HTTP, false), (HTTPS, true)] {
            let serves = !is_tls || certificates.covers(name, host);
            if serves && taken.insert((is_tls, one.to_string())) {
                listeners.push(listener);
            }
        }
        if !listeners.is_empty() {
            let mut value = json!({ "match": [one], "listeners": listeners });
            if let Some(fields) = value.as_object_mut() {
                fields.extend(target);
            }
            add_age(&mut value, meta);
            out.put("routes", &names::route(Kind::Ingress.name(), name, number, 0), value, [owner.clone()]);
        }
        number += 1;
    };
    for rule in &spec.rules {
        let host = rule.host.as_deref().unwrap_or_default().to_ascii_lowercase();
        let paths = rule.http.as_ref().map(|http| http.paths.as_slice()).unwrap_or_default();
        for path in paths {
            emit(&host, path_match(path), &path.backend, out);
        }
        if let (true, Some(backend)) = (paths.is_empty(), &spec.default_backend) {
            emit(&host, json!({ "prefix": "/" }), backend, out);
        }
    }
    if let Some(backend) = &spec.default_backend {
        emit("", json!({ "prefix": "/" }), backend, out);
    }
}

fn path_match(path: &IngressPath) -> Value {
    let text = path.path.as_deref().filter(|text| !text.is_empty()).unwrap_or("/");
    match path.path_type.as_str() {
        "Exact" => json!({ "exact": text }),
        // `ImplementationSpecific` is a prefix here. A slash at the end has no meaning in a prefix.
        _ => json!({ "prefix": match text.trim_end_matches('/') { "" => "/", text => text } }),
    }
}

/// Returns the action of a backend: an upstream, or 503 if there is none.
fn target<'a>(
    objects: &'a Objects,
    owner: &Reference,
    number: usize,
    backend: &IngressBackend,
    backends: &mut Backends<'a>,
    out: &mut Translation,
) -> Map<String, Value> {
    let unavailable = || Map::from_iter([("respond".to_owned(), json!(503))]);
    let Some(service) = &backend.service else {
        out.note(owner.clone(), "a backend that is no Service is not supported");
        return unavailable();
    };
    let name = ObjectName::new(&owner.name.namespace, &service.name);
    let port = service.port.number.or_else(|| {
        let spec = objects.services.get(&name)?.spec.as_ref().ok()?;
        spec.ports.iter().find(|port| Some(&port.name) == service.port.name.as_ref()).map(|port| port.port)
    });
    let to = BackendReference { name: service.name.clone(), port, ..BackendReference::default() };
    let gateways = BTreeSet::new();
    let referrer = Referrer { route: owner, rule: number, gateways: &gateways };
    match backends.resolve(&referrer, &to, 0) {
        Ok(Backend::Upstream(upstream)) => {
            Map::from_iter([("to".to_owned(), json!([{ "upstream": upstream }]))])
        }
        Ok(Backend::Broken) => unavailable(),
        Err(condition) => {
            out.note(owner.clone(), condition.message);
            unavailable()
        }
    }
}
