//! The translation: objects of Kubernetes become documents of the gateway, and statuses of the objects.
//!
//! [`translate`] is a pure function, so that it is tested as a table: the same objects give the same documents and
//! statuses, whatever the order in which they arrived. Objects take precedence by age, then by name. If an object asks
//! for something that the gateway cannot do, the object gets a condition; the translation as a whole never fails. A
//! [`Translator`] keeps the result and translates only what depends on a change; a test compares its result with the
//! function's.
//!
//! | Module | Contents |
//! |---|---|
//! | `translator` | what depends on each change |
//! | `output` | the result, and the part of it that changed |
//! | `gateways` | GatewayClasses, Gateways and ListenerSets: addresses, statuses |
//! | `listeners` | their listeners: conflicts, certificates, documents |
//! | `routes` | routes in general: attachment to listeners, host names, statuses |
//! | `claims` | which route gets a match that several claim |
//! | `http` | the rules of an HTTPRoute |
//! | `grpc` | the rules of a GRPCRoute |
//! | `ingress` | Ingresses, which share one address, with annotations of ingress-nginx |
//! | `services` | the Services that are made for Gateways |
//! | `streams` | TLSRoutes, TCPRoutes and UDPRoutes |
//! | `filters` | filters of rules and of backends |
//! | `backends` | references to Services, their endpoints as upstreams, BackendTLSPolicy |
//! | `policies` | TollgatePolicies: the settings of their targets, conflicts, statuses |
//! | `shared` | values that many routes share |
//! | `grants`, `secrets` | ReferenceGrant, certificates from Secrets |
//! | `conditions` | conditions, and the features that the GatewayClass reports |

mod backends;
mod claims;
mod conditions;
mod filters;
mod gateways;
mod grants;
mod grpc;
mod http;
mod ingress;
mod listeners;
mod names;
mod output;
mod policies;
mod routes;
mod secrets;
mod services;
mod shared;
mod streams;
mod translator;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_documents::Compact;

use crate::addresses::AddressPool;
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;

pub use conditions::SUPPORTED_FEATURES;
pub use ingress::{AnnotationReport, Behaviour, Finding, annotations};
pub(crate) use names::fingerprint;
pub use output::Update;
pub(crate) use policies::{SECRET_REFERENCE, SERVICE_REFERENCE};
pub(crate) use services::{APPLIED, leftovers};
pub use services::{Applied, ServiceKind, ServiceSettings};
pub use tollgate_documents::DocumentKey;
pub use translator::Translator;

/// The settings that the translation depends on.
#[derive(Clone, Debug)]
pub struct TranslationSettings {
    /// The name of this controller, which GatewayClasses refer to.
    pub controller: String,
    /// The addresses that Gateways get: one each, unless their Services have the addresses.
    pub addresses: AddressPool,
    /// The Services that are made for Gateways; `None`: none are.
    pub services: Option<ServiceSettings>,
    /// The Service by which clients reach this gateway: statuses report its addresses. `None`: clients use the pool's.
    pub publish_service: Option<ObjectName>,
    /// The Secret with the certificate of Ingresses that ask for TLS and have none of their own.
    pub default_certificate: Option<ObjectName>,
    /// Whether a Service may be a host outside the cluster (`ExternalName`).
    pub external_names: bool,
}

/// A document of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its content, as the admin API takes it.
    pub content: Compact,
    /// The objects that it was made from, in order. They report it if the gateway refuses the document.
    pub owners: Vec<Reference>,
}

/// Statuses by object.
pub type Statuses = BTreeMap<Reference, Value>;

/// The result of a translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The documents.
    pub documents: BTreeMap<DocumentKey, Document>,
    /// For each object of this controller: the fields of its status that this controller decides. Conditions
    /// have no `lastTransitionTime`; the writer adds it.
    pub statuses: Statuses,
    /// The Secrets and ConfigMaps that were referred to, whether they exist or not.
    pub references: BTreeSet<Reference>,
    /// The parts that the gateway cannot serve, of objects whose statuses have no conditions.
    pub notes: BTreeMap<Reference, BTreeSet<String>>,
}

impl Translation {
    fn note(&mut self, object: Reference, text: impl Into<String>) {
        self.notes.entry(object).or_default().insert(text.into());
    }

    fn put(
        &mut self,
        kind: &'static str,
        name: &str,
        value: Value,
        owners: impl IntoIterator<Item = Reference>,
    ) {
        let key = DocumentKey { kind, name: name.to_owned() };
        let document = self
            .documents
            .entry(key)
            .or_insert_with(|| Document { content: Compact::from(&value), owners: Vec::new() });
        owners.into_iter().for_each(|owner| document.add_owner(owner));
    }
}

impl Document {
    fn add_owner(&mut self, owner: Reference) {
        if let Err(place) = self.owners.binary_search(&owner) {
            self.owners.insert(place, owner);
        }
    }

    fn remove_owner(&mut self, owner: &Reference) {
        if let Ok(place) = self.owners.binary_search(owner) {
            self.owners.remove(place);
        }
    }
}

/// Translates objects to documents and statuses.
#[must_use]
pub fn translate(objects: &Objects, settings: &TranslationSettings) -> Translation {
    let mut translator = Translator::new(settings.clone());
    let _ = translator.start(objects);
    translator.translation()
}

/// Adds the time of an object's creation to a route: of equally specific routes the older one takes a request.
fn add_age(route: &mut Value, meta: &Meta) {
    if !meta.creation_timestamp.is_empty() {
        route["created"] = meta.creation_timestamp.as_str().into();
    }
}

/// Returns a text of an object as documents write it: `${` begins a variable there.
fn plain(text: &str) -> String {
    text.replace("${", "$${")
}

/// Returns the value of a field as documents write it: braces are placeholders there.
fn plain_field(text: &str) -> String {
    plain(&text.replace('{', "{{").replace('}', "}}"))
}

fn reference(kind: Kind, name: &ObjectName) -> Reference {
    Reference { kind, name: name.clone() }
}
