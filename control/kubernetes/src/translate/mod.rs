//! The translation: objects of Kubernetes become documents of the gateway, and statuses of the objects.
//!
//! [`translate`] is a pure function, so that it is tested as a table: the same objects give the same documents
//! and statuses, whatever the order in which they arrived. Objects take precedence by age, then by name. What
//! an object asks for and the gateway cannot do becomes a condition of the object, never an error of the
//! whole.
//!
//! | Module | Contents |
//! |---|---|
//! | `gateways` | GatewayClasses and Gateways: addresses, listeners, certificates |
//! | `routes` | routes in general: attachment to listeners, host names, statuses |
//! | `http` | the rules of an HTTPRoute |
//! | `grpc` | the rules of a GRPCRoute |
//! | `ingress` | Ingresses, which share one address, with annotations of ingress-nginx |
//! | `streams` | TLSRoutes, TCPRoutes and UDPRoutes |
//! | `filters` | filters of rules and of backends |
//! | `backends` | references to Services, their endpoints as upstreams, BackendTLSPolicy |
//! | `grants`, `secrets` | ReferenceGrant, certificates from Secrets |
//! | `conditions` | conditions, and the features that the GatewayClass reports |

mod backends;
mod conditions;
mod filters;
mod gateways;
mod grants;
mod grpc;
mod http;
mod ingress;
mod names;
mod routes;
mod secrets;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::addresses::AddressPool;
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;

pub use conditions::SUPPORTED_FEATURES;
pub use ingress::{AnnotationReport, Behaviour, Finding, annotations};
pub(crate) use names::fingerprint;

/// The settings that the translation depends on.
#[derive(Clone, Debug)]
pub struct TranslationSettings {
    /// The name of this controller, which GatewayClasses refer to.
    pub controller: String,
    /// The addresses that Gateways get, one each.
    pub addresses: AddressPool,
}

/// The key of a document: its kind, such as `routes`, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The kind of resource.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

/// A document of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its content, as the admin API takes it.
    pub value: Value,
    /// The objects that it was made from. They report it if the gateway refuses the document.
    pub owners: BTreeSet<Reference>,
}

/// The result of a translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The documents.
    pub documents: BTreeMap<DocumentKey, Document>,
    /// For each object of this controller: the fields of its status that this controller decides. Conditions
    /// have no `lastTransitionTime`; the writer adds it.
    pub statuses: BTreeMap<Reference, Value>,
    /// The Secrets and ConfigMaps that were referred to, whether they exist or not.
    pub references: BTreeSet<Reference>,
    /// What the gateway cannot do for objects whose statuses have no conditions.
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
        let document =
            self.documents.entry(key).or_insert_with(|| Document { value, owners: BTreeSet::new() });
        document.owners.extend(owners);
    }
}

/// Translates objects to documents and statuses.
#[must_use]
pub fn translate(objects: &Objects, settings: &TranslationSettings) -> Translation {
    let mut out = Translation::default();
    let ingresses = ingress::Ingresses::new(objects, settings);
    let mut gateways = gateways::Gateways::new(objects, settings, &ingresses, &mut out);
    let mut backends = backends::Backends::new(objects);
    routes::translate_all(objects, settings, &mut gateways, &mut backends, &mut out);
    streams::translate_all(objects, settings, &mut gateways, &mut backends, &mut out);
    ingresses.translate(objects, gateways.ingress_address, &mut backends, &mut out);
    gateways.finish(&mut out);
    backends.finish(settings, &mut out);
    out
}

impl Translation {
    /// Reports that the gateway refused documents: the objects that they were made from are not programmed.
    /// `refused` has the reason for each.
    pub fn refuse(&mut self, refused: &BTreeMap<DocumentKey, String>) {
        for (key, why) in refused {
            let Some(document) = self.documents.get(key) else { continue };
            for owner in document.owners.clone() {
                if let Some(status) = self.statuses.get_mut(&owner) {
                    conditions::refuse(owner.kind, status, key, why);
                }
            }
        }
    }
}

/// Adds the time of an object's creation to a route: of equally specific routes the older one takes a request.
fn add_age(route: &mut Value, meta: &Meta) {
    if !meta.creation_timestamp.is_empty() {
        route["created"] = meta.creation_timestamp.as_str().into();
    }
}

fn reference(kind: Kind, name: &ObjectName) -> Reference {
    Reference { kind, name: name.clone() }
}
