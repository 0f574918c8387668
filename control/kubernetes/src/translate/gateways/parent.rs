//! Gateways and ListenerSets as routes see them: the parents that routes attach to.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::{Kind, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{AllowedRoutes, RouteNamespaces};
use crate::translate::listeners::{self, ListenerState};

/// A Gateway or a ListenerSet as routes see it. While it stays the same, their translations stay the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The Gateway.
    pub gateway: ObjectName,
    pub listeners: Vec<ParentListener>,
    /// The certificate that the gateway presents to backends.
    pub(super) client_certificate: Option<Value>,
}

/// A listener as routes see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParentListener {
    pub name: String,
    pub port: u16,
    pub hostname: String,
    /// The kinds of routes that may attach.
    pub kinds: Vec<Kind>,
    pub allowed: AllowedRoutes,
    /// The names of its documents; empty if it does not serve.
    pub documents: Vec<String>,
    /// Whether it passes TLS through, although its documents terminate TLS.
    pub is_passed: bool,
    /// Whether a policy of it is not valid, so that no request may pass.
    pub is_broken: bool,
}

/// The parents of routes.
pub type Parents = BTreeMap<Reference, Parent>;

impl Parent {
    /// Returns whether its Gateway presents a certificate to backends.
    pub fn has_client_certificate(&self) -> bool {
        self.client_certificate.is_some()
    }
}

impl ParentListener {
    pub(super) fn of(listener: &ListenerState, is_broken: bool) -> Self {
        Self {
            name: listener.spec.name.clone(),
            port: listener.spec.port,
            hostname: listeners::hostname(&listener.spec),
            kinds: listener.kinds.clone(),
            allowed: listener.spec.allowed_routes.clone(),
            documents: listener.documents.clone(),
            is_passed: listener.is_passed,
            is_broken,
        }
    }

    /// Returns whether routes of a namespace may attach. `own` is the namespace of the Gateway or the ListenerSet.
    pub fn allows_namespace(&self, objects: &Objects, own: &str, namespace: &str) -> bool {
        allows_namespace(objects, &self.allowed.namespaces, "Same", (own, namespace))
    }
}

/// Returns whether objects of a namespace may attach to one of the namespace `own`. `default` stands for a missing
/// `from`.
pub(super) fn allows_namespace(
    objects: &Objects,
    allowed: &RouteNamespaces,
    default: &str,
    (own, namespace): (&str, &str),
) -> bool {
    match allowed.from.as_deref().unwrap_or(default) {
        "Same" => own == namespace,
        "All" => true,
        "Selector" => {
            let labels = objects.namespaces.get(&ObjectName::new("", namespace));
            let selector = allowed.selector.as_ref();
            labels.zip(selector).is_some_and(|(object, selector)| selector.matches(&object.meta.labels))
        }
        _ => false,
    }
}
