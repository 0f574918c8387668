//! Ingress: all Ingresses of this controller's classes share one address, with a listener of HTTP on port 80 and
//! one of HTTPS on port 443.
//!
//! | Module | Contents |
//! |---|---|
//! | `certificates` | the certificates, and the hosts that are served over TLS |
//! | `hosts` | properties of whole hosts, which come from all their Ingresses |
//! | `routes` | the documents of an Ingress |
//! | `nginx` | annotations of ingress-nginx |

mod certificates;
mod hosts;
mod nginx;
mod routes;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::backends::Backends;
use super::{Translation, TranslationSettings, reference};
use crate::object::{Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::Ingress;
use certificates::Certificates;
use hosts::Hosts;
use nginx::Wanted;
use routes::Routes;

pub use nginx::{Behaviour, Finding};

/// The names of the listeners. Those of Gateways have two separators more.
const HTTP: &str = "ingress_http";
const HTTPS: &str = "ingress_https";
/// The annotation of an IngressClass for Ingresses without a class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation of an Ingress from before there was `ingressClassName`.
const CLASS: &str = "kubernetes.io/ingress.class";

/// The Ingresses of this controller, the oldest first.
pub struct Ingresses<'a>(Vec<(&'a Object<Ingress>, &'a Ingress)>);

/// An Ingress with what its annotations ask for.
pub struct Served<'a> {
    meta: &'a Meta,
    spec: &'a Ingress,
    wanted: Wanted,
}

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
        let mut all = Vec::new();
        for (ingress, spec) in self.0 {
            certificates.read(objects, &ingress.meta, spec, out);
            all.push(Served::new(objects, &ingress.meta, spec, out));
        }
        let hosts = Hosts::new(&all, out);
        let owners: Vec<Reference> =
            all.iter().map(|one| reference(Kind::Ingress, &one.meta.object_name())).collect();
        let bind = |port| SocketAddr::new(address, port).to_string();
        out.put("listeners", HTTP, json!({ "bind": bind(80) }), owners.clone());
        if !certificates.all.is_empty() {
            let value = json!({ "bind": bind(443), "tls": { "certificates": certificates.all } });
            out.put("listeners", HTTPS, value, owners);
        } else if hosts.any_passes_tls() {
            out.put("listeners", HTTPS, json!({ "bind": bind(443), "protocol": "tcp" }), owners);
        }
        let mut routes = Routes::new(objects, &certificates, &hosts, backends, out);
        all.iter().for_each(|one| routes.write(one));
        for one in &all {
            let status = json!({ "loadBalancer": { "ingress": [{ "ip": address.to_string() }] } });
            out.statuses.insert(reference(Kind::Ingress, &one.meta.object_name()), status);
        }
    }
}

/// How the annotations of an Ingress are served.
#[derive(Clone, Debug)]
pub struct AnnotationReport {
    /// The Ingress.
    pub ingress: ObjectName,
    /// Its annotations, each with a behaviour and a remark.
    pub findings: Vec<Finding>,
}

/// Returns how the annotations of each Ingress of this controller are served.
#[must_use]
pub fn annotations(objects: &Objects, settings: &TranslationSettings) -> Vec<AnnotationReport> {
    let all = Ingresses::new(objects, settings).0.into_iter();
    all.map(|(ingress, _)| AnnotationReport {
        ingress: ingress.meta.object_name(),
        findings: nginx::read(objects, &ingress.meta).findings,
    })
    .collect()
}

impl<'a> Served<'a> {
    /// Reads the annotations of an Ingress, and notes what is not served.
    fn new(objects: &Objects, meta: &'a Meta, spec: &'a Ingress, out: &mut Translation) -> Self {
        let reading = nginx::read(objects, meta);
        let owner = reference(Kind::Ingress, &meta.object_name());
        for finding in reading.findings {
            if matches!(finding.behaviour, Behaviour::Unsupported | Behaviour::Invalid) {
                out.note(owner.clone(), format!("{}{}: {}", nginx::PREFIX, finding.annotation, finding.text));
            }
        }
        out.references.extend(reading.references);
        Self { meta, spec, wanted: reading.wanted }
    }
}
