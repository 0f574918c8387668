//! Gateways and their ListenerSets: which ones this controller serves, with addresses, listeners and Services.
//!
//! The translator makes [`Gateways`] from the objects, and keeps it until an object that it depends on changes. It owns
//! everything that it needs, so the objects may change in the meantime. Its parts:
//!
//! | Module | Contents |
//! |---|---|
//! | `classes` | the GatewayClasses of this controller |
//! | `sets` | the ListenerSets of each Gateway |
//! | `addresses` | the address of each Gateway |
//! | `parent` | Gateways and ListenerSets as routes see them |
//! | `documents` | the documents of listeners |
//! | `statuses` | the statuses of Gateways and ListenerSets |

mod addresses;
mod classes;
mod documents;
mod parent;
mod sets;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use self::parent::ParentListener;
pub use self::parent::{Parent, Parents};
use self::sets::{allows_set, sets};
use super::conditions::Condition;
use super::ingress::Ingresses;
use super::listeners::{self, CertificateError, ListenerState, Owner};
use super::policies::{Policies, Settings};
use super::services::{self, Applied, GatewayPort, Targets};
use super::{Translation, TranslationSettings, reference};
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::Gateway;

/// The Gateways of this controller.
#[derive(Default)]
pub struct Gateways {
    /// The address of all Ingresses.
    pub ingress_address: Option<IpAddr>,
    /// The last free address that was assigned. The search continues after it, since the address of a removed
    /// Gateway may still be in use for a while.
    last_assigned: Option<IpAddr>,
    by_name: BTreeMap<ObjectName, GatewayState>,
    /// The ListenerSets of these Gateways.
    sets: BTreeMap<ObjectName, SetState>,
    /// The statuses of the classes.
    classes: BTreeMap<Reference, Value>,
    /// The Secrets and ConfigMaps that were referred to.
    pub references: BTreeSet<Reference>,
    /// The ports in the pod, if Services lead to them.
    targets: Targets,
    /// The Services of the Gateways, with their EndpointSlices.
    pub applied: Applied,
}

/// A Gateway under translation.
struct GatewayState {
    meta: Meta,
    spec: Gateway,
    /// The addresses that it listens on.
    addresses: Vec<IpAddr>,
    /// The addresses of its Service; `None`: clients use its own addresses.
    service_addresses: Option<Vec<Value>>,
    /// The reason why it is not accepted or not programmed.
    refusal: Option<Condition>,
    /// Its own listeners, then those of ListenerSets.
    listeners: Vec<ListenerState>,
    /// The certificate that the gateway presents to backends, or the reason why there is none.
    client_certificate: Option<Result<Value, Condition>>,
}

/// A ListenerSet under translation.
struct SetState {
    meta: Meta,
    gateway: ObjectName,
    /// Whether the Gateway allows it.
    is_allowed: bool,
}

/// A listener, by the Gateway or the ListenerSet that has it and by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerKey {
    pub owner: Reference,
    pub listener: String,
}

impl Gateways {
    /// Collects the Gateways of this controller's classes. A Gateway keeps the address that its status has, and before
    /// the status is written, the address that it has in `before`.
    pub fn new(
        objects: &Objects,
        settings: &TranslationSettings,
        ingresses: &Ingresses<'_>,
        before: &Self,
    ) -> Self {
        let mut all = Self::default();
        let classes = all.classes(objects, settings);
        let mut gateways = Vec::new();
        for gateway in objects.gateways.values() {
            match &gateway.spec {
                Ok(spec) if classes.contains(spec.gateway_class_name.as_str()) => {
                    gateways.push((gateway, spec));
                }
                _ => {}
            }
        }
        gateways.sort_by_key(|(gateway, _)| gateway.meta.precedence());
        let mut sets = sets(objects);
        let addresses = all.assign_addresses(&gateways, ingresses, settings, before);
        for ((gateway, spec), (addresses, refusal)) in gateways.into_iter().zip(addresses) {
            let name = gateway.meta.object_name();
            let mut owners =
                vec![Owner { kind: Kind::Gateway, meta: &gateway.meta, listeners: &spec.listeners }];
            for (set, set_spec) in sets.remove(&name).unwrap_or_default() {
                let is_allowed = allows_set(objects, &name, spec, &set.meta.namespace);
                let state = SetState { meta: set.meta.clone(), gateway: name.clone(), is_allowed };
                all.sets.insert(set.meta.object_name(), state);
                if is_allowed {
                    let listeners = set_spec.listeners.as_slice();
                    owners.push(Owner { kind: Kind::ListenerSet, meta: &set.meta, listeners });
                }
            }
            let listeners = listeners::read(objects, (&gateway.meta, spec), &owners, &mut all.references);
            let client_certificate = client_certificate(objects, &gateway.meta, spec, &mut all.references);
            let mut state = GatewayState {
                meta: gateway.meta.clone(),
                spec: spec.clone(),
                addresses,
                service_addresses: None,
                refusal,
                listeners,
                client_certificate,
            };
            state.name_listeners(&name);
            all.by_name.insert(name, state);
        }
        all.make_services(objects, settings, before);
        all
    }

    /// Makes the Services of the Gateways.
    fn make_services(&mut self, objects: &Objects, settings: &TranslationSettings, before: &Self) {
        let published = settings.publish_service.as_ref();
        if let Some(service) = published.filter(|_| settings.services.is_none()) {
            // Until the Service has one, clients in the cluster reach a Gateway at its own.
            let addresses = Some(services::published(objects, service)).filter(|all| !all.is_empty());
            for gateway in self.by_name.values_mut() {
                gateway.service_addresses.clone_from(&addresses);
            }
        }
        let Some(wanted) = &settings.services else { return };
        let mut sorted: Vec<_> = self.by_name.iter().collect();
        sorted.sort_by_key(|(_, gateway)| gateway.meta.precedence());
        let ports = |gateway: &GatewayState| -> BTreeSet<GatewayPort> {
            let serving = gateway.listeners.iter().filter(|listener| listener.serves());
            serving.map(|listener| (listener.spec.port, listener.spec.protocol == "UDP")).collect()
        };
        if wanted.shares_address() {
            let sorted: Vec<_> = sorted
                .iter()
                .map(|(name, gateway)| (*name, gateway.spec.gateway_class_name.as_str(), ports(gateway)))
                .collect();
            self.targets = services::assign_targets(objects, &sorted, &before.targets);
        }
        for (name, gateway) in &mut self.by_name {
            let target =
                |port: GatewayPort| self.targets.get(&(name.clone(), port)).copied().unwrap_or(port.0);
            for listener in &mut gateway.listeners {
                listener.bind_port = target((listener.spec.port, listener.spec.protocol == "UDP"));
            }
            let class = &gateway.spec.gateway_class_name;
            if wanted.shares_address() {
                gateway.service_addresses = Some(services::addresses(objects, name, class, wanted));
            }
            let [accepted, _] = gateway.conditions();
            let owner = services::Owner {
                meta: &gateway.meta,
                spec: &gateway.spec,
                ports: ports(gateway).into_iter().map(|port| (port, target(port))).collect(),
                addresses: &gateway.addresses,
                controller: &settings.controller,
            };
            if accepted.holds {
                owner.write(objects, wanted, &mut self.applied);
            }
        }
    }

    /// Returns the Gateways and the ListenerSets as routes see them.
    pub fn parents(&self, policies: &Policies) -> Parents {
        let mut all = Parents::new();
        for (name, gateway) in &self.by_name {
            let client_certificate =
                gateway.client_certificate.as_ref().and_then(|found| found.as_ref().ok().cloned());
            let parent = |set: Option<&ObjectName>| Parent {
                gateway: name.clone(),
                listeners: gateway
                    .listeners
                    .iter()
                    .filter(|listener| listener.set.as_ref() == set)
                    .map(|listener| {
                        let is_broken = settings_of(policies, name, listener).is_broken;
                        ParentListener::of(listener, is_broken)
                    })
                    .collect(),
                client_certificate: client_certificate.clone(),
            };
            all.insert(reference(Kind::Gateway, name), parent(None));
            for (set, _) in self.sets.iter().filter(|(_, set)| set.gateway == *name) {
                all.insert(reference(Kind::ListenerSet, set), parent(Some(set)));
            }
        }
        all
    }

    /// Returns the certificates that the gateway presents to backends, by Gateway.
    pub fn client_certificates(&self) -> BTreeMap<ObjectName, Value> {
        let of = |gateway: &GatewayState| gateway.client_certificate.as_ref()?.as_ref().ok().cloned();
        self.by_name.iter().filter_map(|(name, gateway)| Some((name.clone(), of(gateway)?))).collect()
    }

    /// Writes the documents.
    pub fn documents(&self, policies: &Policies, out: &mut Translation) {
        for (name, gateway) in &self.by_name {
            gateway.documents(name, policies, out);
        }
    }

    /// Returns whether a Gateway is this controller's.
    pub fn contains(&self, name: &ObjectName) -> bool {
        self.by_name.contains_key(name)
    }
}

/// Returns the policies' settings for a listener. Only HTTP listeners have policies.
fn settings_of(policies: &Policies, gateway: &ObjectName, listener: &ListenerState) -> Settings {
    if !matches!(listener.spec.protocol.as_str(), "HTTP" | "HTTPS") {
        return Settings::default();
    }
    let section = Some(listener.spec.name.as_str()).filter(|_| listener.set.is_none());
    policies.at(&reference(Kind::Gateway, gateway), section)
}

/// Returns the certificate that a Gateway presents to backends; `None`: it presents none.
fn client_certificate(
    objects: &Objects,
    meta: &Meta,
    spec: &Gateway,
    references: &mut BTreeSet<Reference>,
) -> Option<Result<Value, Condition>> {
    let wanted = spec.tls.backend.client_certificate_ref.as_ref()?;
    let found = listeners::certificate(objects, (Kind::Gateway, meta), wanted, references);
    Some(found.map_err(|error| match error {
        CertificateError::NotPermitted(why) => Condition::no("ResolvedRefs", "RefNotPermitted", why),
        CertificateError::Invalid(why) => Condition::no("ResolvedRefs", "InvalidClientCertificateRef", why),
    }))
}

impl GatewayState {
    /// Returns the listeners of a ListenerSet, or the Gateway's own.
    fn of_set<'s>(&'s self, set: Option<&'s ObjectName>) -> impl Iterator<Item = &'s ListenerState> {
        self.listeners.iter().filter(move |listener| listener.set.as_ref() == set)
    }
}
