//! Ingress: all Ingresses of this controller's classes share one address, with a listener of HTTP on port 80 and
//! one of HTTPS on port 443.
//!
//! | Module | Contents |
//! |---|---|
//! | `certificates` | the certificates, and the hosts that are served over TLS |
//! | `hosts` | properties of whole hosts, which come from all their Ingresses |
//! | `routes` | the documents of an Ingress |
//! | `state` | the translation of all of them, which follows changes |
//! | `nginx` | annotations of ingress-nginx |

mod certificates;
mod hosts;
mod nginx;
mod routes;
mod state;

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Translation, TranslationSettings, reference};
use crate::object::{Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::Ingress;
use nginx::Wanted;

pub use nginx::{Behaviour, Finding};
pub use state::{IngressChanges, IngressState, IngressUpdate};

/// The names of the listeners. Those of Gateways have two separators more.
const HTTP: &str = "ingress_http";
const HTTPS: &str = "ingress_https";
/// The annotation of an IngressClass for Ingresses without a class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation of an Ingress from before there was `ingressClassName`.
const CLASS: &str = "kubernetes.io/ingress.class";

/// The Ingresses of this controller.
pub struct Ingresses<'a>(Vec<(&'a Object<Ingress>, &'a Ingress)>);

/// An Ingress, with the settings of its annotations.
pub struct Served<'a> {
    meta: &'a Meta,
    spec: &'a Ingress,
    wanted: Wanted,
    findings: Vec<Finding>,
    /// The Secrets and ConfigMaps that its annotations refer to.
    references: BTreeSet<Reference>,
}

/// The classes of this controller.
struct Classes<'a> {
    names: BTreeSet<&'a str>,
    /// Whether one of them is for Ingresses without a class.
    has_default: bool,
}

impl<'a> Classes<'a> {
    fn new(objects: &'a Objects, settings: &TranslationSettings) -> Self {
        let (mut names, mut has_default) = (BTreeSet::new(), false);
        for (name, class) in &objects.ingress_classes {
            if class.spec.as_ref().is_ok_and(|spec| spec.controller == settings.controller) {
                has_default |= class.meta.annotations.get(IS_DEFAULT).is_some_and(|value| value == "true");
                names.insert(&*name.name);
            }
        }
        Self { names, has_default }
    }

    /// Returns the contents of an Ingress, if it can be read and is of one of the classes.
    fn own<'o>(&self, ingress: &'o Object<Ingress>) -> Option<(&'o Object<Ingress>, &'o Ingress)> {
        let spec = ingress.spec.as_ref().ok()?;
        let named = spec.ingress_class_name.as_ref().or_else(|| ingress.meta.annotations.get(CLASS));
        let is_own = named.map_or(self.has_default, |class| self.names.contains(class.as_str()));
        is_own.then_some((ingress, spec))
    }

    fn find<'o>(
        &self,
        objects: &'o Objects,
        name: &ObjectName,
    ) -> Option<(&'o Object<Ingress>, &'o Ingress)> {
        self.own(objects.ingresses.get(name)?)
    }

    /// Returns all Ingresses of the classes, the oldest first.
    fn all<'o>(&self, objects: &'o Objects) -> Vec<(&'o Object<Ingress>, &'o Ingress)> {
        let mut all: Vec<_> = objects.ingresses.values().filter_map(|ingress| self.own(ingress)).collect();
        all.sort_by_key(|(ingress, _)| ingress.meta.precedence());
        all
    }
}

impl<'a> Ingresses<'a> {
    /// Collects the Ingresses of this controller's classes.
    pub fn new(objects: &'a Objects, settings: &TranslationSettings) -> Self {
        let classes = Classes::new(objects, settings);
        Self(objects.ingresses.values().filter_map(|ingress| classes.own(ingress)).collect())
    }

    /// Returns whether there are none, so that they need no address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address that the Ingresses had before, from the status of the oldest one with an address.
    pub fn former_address(&self) -> Option<IpAddr> {
        let address = |(ingress, _): &(&Object<Ingress>, &Ingress)| {
            let status = ingress.status.value();
            status.pointer("/loadBalancer/ingress/0/ip")?.as_str()?.parse().ok()
        };
        // Nearly always the oldest one has it, and sorting all would cost more than the rest of a change.
        let oldest = self.0.iter().min_by_key(|(ingress, _)| ingress.meta.precedence())?;
        address(oldest).or_else(|| {
            let mut sorted = self.0.clone();
            sorted.sort_by_key(|(ingress, _)| ingress.meta.precedence());
            sorted.iter().find_map(address)
        })
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
    let all = Classes::new(objects, settings).all(objects).into_iter();
    all.map(|(ingress, _)| AnnotationReport {
        ingress: ingress.meta.object_name(),
        findings: nginx::read(objects, &ingress.meta).findings,
    })
    .collect()
}

impl<'a> Served<'a> {
    /// Reads the annotations of an Ingress.
    fn new(objects: &Objects, meta: &'a Meta, spec: &'a Ingress) -> Self {
        let nginx::Reading { wanted, findings, references } = nginx::read(objects, meta);
        Self { meta, spec, wanted, findings, references }
    }

    /// Notes the parts that are not served, and adds the Secrets and ConfigMaps that annotations refer to.
    fn report(&mut self, out: &mut Translation) {
        let owner = reference(Kind::Ingress, &self.meta.object_name());
        for finding in std::mem::take(&mut self.findings) {
            if matches!(finding.behaviour, Behaviour::Unsupported | Behaviour::Invalid) {
                out.note(owner.clone(), format!("{}{}: {}", nginx::PREFIX, finding.annotation, finding.text));
            }
        }
        out.references.append(&mut self.references);
    }

    /// Returns the hosts by which it may concern other Ingresses; an empty one is every host.
    fn hosts(&self) -> BTreeSet<String> {
        let rules = self.spec.rules.iter().map(|rule| rule.host.as_deref().unwrap_or_default());
        let rules: BTreeSet<String> = rules.map(str::to_ascii_lowercase).collect();
        let tls = self.spec.tls.iter().flat_map(|tls| &tls.hosts).map(|host| host.to_ascii_lowercase());
        let mut hosts: BTreeSet<String> = self.wanted.aliases.iter().cloned().chain(tls).collect();
        if self.spec.default_backend.is_some() || self.spec.tls.iter().any(|tls| tls.hosts.is_empty()) {
            hosts.insert(String::new());
        }
        if self.wanted.redirects_www {
            hosts.extend(rules.iter().filter_map(|host| nginx::www_counterpart(host)));
        }
        hosts.extend(rules);
        hosts
    }

    /// Returns whether TLS connections to one of its hosts pass through.
    fn passes_tls(&self) -> bool {
        let has_host = |host: Option<&str>| host.is_some_and(|host| !host.is_empty());
        self.wanted.passes_tls
            && self.wanted.canary.is_none()
            && self.spec.rules.iter().any(|rule| has_host(rule.host.as_deref()))
    }
}
