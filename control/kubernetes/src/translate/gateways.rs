//! GatewayClasses, Gateways and ListenerSets: their addresses, documents and statuses.
//!
//! [`Gateways`] owns what it needs of the objects, so that the translator keeps it until one of them changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::conditions::{Condition, SUPPORTED_FEATURES, to_json};
use super::ingress::Ingresses;
use super::listeners::{self, CertificateError, INSECURE, ListenerState, Owner};
use super::policies::{Policies, Settings};
use super::services::{self, Applied, GatewayPort, Targets};
use super::{Translation, TranslationSettings, names, reference};
use crate::object::{GATEWAY_GROUP, Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{AllowedRoutes, Gateway, ListenerSet, RouteNamespaces};

/// The Gateways of this controller.
#[derive(Default)]
pub struct Gateways {
    /// The address of all Ingresses.
    pub ingress_address: Option<IpAddr>,
    /// The last free address that was assigned. The next one is searched behind it, since the address of a Gateway that is
    /// gone may still be in use for a while.
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
    /// The addresses that its Service has; `None`: clients reach it at its own.
    service_addresses: Option<Vec<Value>>,
    /// Why it is not accepted or not programmed.
    refusal: Option<Condition>,
    /// Its own listeners, then those of ListenerSets.
    listeners: Vec<ListenerState>,
    /// The certificate that backends get to see, or why there is none.
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

/// A Gateway or a ListenerSet as routes see it. While it stays the same, their translations stay the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The Gateway.
    pub gateway: ObjectName,
    pub listeners: Vec<ParentListener>,
    /// The certificate that backends get to see.
    client_certificate: Option<Value>,
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

    /// Decides which Services the Gateways have.
    fn make_services(&mut self, objects: &Objects, settings: &TranslationSettings, before: &Self) {
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

    /// Adds the statuses of this controller's classes, and returns the names of the accepted ones.
    fn classes<'o>(&mut self, objects: &'o Objects, settings: &TranslationSettings) -> BTreeSet<&'o str> {
        let mut accepted = BTreeSet::new();
        for (name, class) in &objects.gateway_classes {
            let Ok(spec) = &class.spec else { continue };
            if spec.controller_name != settings.controller {
                continue;
            }
            let condition = match &spec.parameters_ref {
                None => {
                    accepted.insert(&*name.name);
                    Condition::yes("Accepted", "Accepted")
                }
                Some(_) => {
                    Condition::no("Accepted", "InvalidParameters", "this controller has no parameters")
                }
            };
            let features: Vec<Value> =
                features(settings).into_iter().map(|name| json!({ "name": name })).collect();
            let status = json!({
                "conditions": to_json(&[condition], class.meta.generation),
                "supportedFeatures": features,
            });
            self.classes.insert(reference(Kind::GatewayClass, name), status);
        }
        accepted
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

    /// Returns the certificates that the Gateways show to backends.
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

    /// Writes the statuses. `attached` has the number of routes of each listener that has any.
    pub fn statuses(&self, attached: &BTreeMap<ListenerKey, usize>, out: &mut Translation) {
        out.statuses.extend(self.classes.clone());
        for (name, gateway) in &self.by_name {
            let owner = reference(Kind::Gateway, name);
            let listeners = gateway.listener_statuses(&owner, &gateway.meta, attached);
            let sets = self.sets.iter().filter(|(_, set)| set.gateway == *name);
            let is_attached = |set: &ObjectName, state: &SetState| {
                state.is_allowed && gateway.of_set(Some(set)).any(ListenerState::serves)
            };
            let attached_sets = sets.clone().filter(|(set, state)| is_attached(set, state)).count();
            out.statuses.insert(owner, gateway.status(listeners, attached_sets));
            for (set, state) in sets {
                let owner = reference(Kind::ListenerSet, set);
                let listeners = gateway.listener_statuses(&owner, &state.meta, attached);
                out.statuses.insert(owner, gateway.set_status(set, state, listeners));
            }
        }
    }
}

impl Parent {
    /// Returns whether its Gateway shows a certificate to backends.
    pub fn has_client_certificate(&self) -> bool {
        self.client_certificate.is_some()
    }
}

impl ParentListener {
    fn of(listener: &ListenerState, is_broken: bool) -> Self {
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

/// Returns the features that a class reports.
fn features(settings: &TranslationSettings) -> BTreeSet<&'static str> {
    let mut features: BTreeSet<&str> = SUPPORTED_FEATURES.iter().copied().collect();
    if let Some(services) = &settings.services {
        features.insert("GatewayInfrastructure");
        if services.shares_address() {
            features.remove("GatewayStaticAddresses");
        }
    }
    features
}

/// Returns what policies ask for at a listener. Only listeners of HTTP have policies.
fn settings_of(policies: &Policies, gateway: &ObjectName, listener: &ListenerState) -> Settings {
    if !matches!(listener.spec.protocol.as_str(), "HTTP" | "HTTPS") {
        return Settings::default();
    }
    let section = Some(listener.spec.name.as_str()).filter(|_| listener.set.is_none());
    policies.at(&reference(Kind::Gateway, gateway), section)
}

/// Returns whether objects of a namespace may attach to one of the namespace `own`. `default` stands for a missing
/// `from`.
fn allows_namespace(
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

/// Returns whether a Gateway allows the ListenerSets of a namespace.
fn allows_set(objects: &Objects, gateway: &ObjectName, spec: &Gateway, namespace: &str) -> bool {
    let Some(allowed) = &spec.allowed_listeners else { return false };
    allows_namespace(objects, &allowed.namespaces, "None", (&gateway.namespace, namespace))
}

/// A ListenerSet with its contents.
type SetRead<'a> = (&'a Object<ListenerSet>, &'a ListenerSet);

/// Returns the ListenerSets by Gateway, in the order of their precedence.
fn sets(objects: &Objects) -> BTreeMap<ObjectName, Vec<SetRead<'_>>> {
    let mut all: BTreeMap<ObjectName, Vec<SetRead<'_>>> = BTreeMap::new();
    for set in objects.listener_sets.values() {
        let Ok(spec) = &set.spec else { continue };
        let parent = &spec.parent_ref;
        if parent.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP
            || parent.kind.as_deref().unwrap_or("Gateway") != "Gateway"
        {
            continue;
        }
        let namespace = parent.namespace.as_deref().unwrap_or(&set.meta.namespace);
        all.entry(ObjectName::new(namespace, &parent.name)).or_default().push((set, spec));
    }
    for sets in all.values_mut() {
        sets.sort_by_key(|(set, _)| set.meta.precedence());
    }
    all
}

/// Returns the certificate that a Gateway shows to backends; `None`: it shows none.
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

/// The addresses of a Gateway, and why it does not have those that it asks for.
type AssignedAddresses = (Vec<IpAddr>, Option<Condition>);

impl Gateways {
    /// Assigns addresses to Gateways and to the Ingresses: those that they ask for, else those in their statuses, else those
    /// that they had before, else free ones.
    fn assign_addresses(
        &mut self,
        gateways: &[(&Object<Gateway>, &Gateway)],
        ingresses: &Ingresses<'_>,
        settings: &TranslationSettings,
        before: &Self,
    ) -> Vec<AssignedAddresses> {
        let pool = &settings.addresses;
        if settings.services.as_ref().is_some_and(services::ServiceSettings::shares_address) {
            let own: Vec<IpAddr> = pool.iter().take(1).collect();
            self.ingress_address = own.first().copied().filter(|_| !ingresses.is_empty());
            let assigned = |(_, spec): &(&Object<Gateway>, &Gateway)| {
                let asks = spec.addresses.iter().any(|address| !address.value.is_empty());
                let why = "the address of a Gateway is its Service's";
                let refusal = asks.then(|| Condition::no("Accepted", "UnsupportedAddress", why));
                (if asks { Vec::new() } else { own.clone() }, refusal)
            };
            return gateways.iter().map(assigned).collect();
        }
        let mut used = BTreeSet::new();
        let mut assigned: Vec<Option<AssignedAddresses>> = vec![None; gateways.len()];
        for (index, (_, spec)) in gateways.iter().enumerate() {
            if spec.addresses.iter().all(|address| address.value.is_empty()) {
                continue;
            }
            let mut addresses = Vec::new();
            let mut refusal = None;
            for asked in &spec.addresses {
                if asked.kind.as_deref().unwrap_or("IPAddress") != "IPAddress" {
                    let kind = asked.kind.as_deref().unwrap_or_default();
                    let message = format!("addresses of the type {kind} are not supported");
                    refusal = Some(Condition::no("Accepted", "UnsupportedAddress", message));
                    break;
                }
                match asked.value.parse::<IpAddr>() {
                    _ if asked.value.is_empty() => {}
                    Ok(address) if pool.contains(address) && used.insert(address) => addresses.push(address),
                    _ => {
                        let message =
                            format!("{} is not a free address of this controller's pool", asked.value);
                        refusal = Some(Condition::no("Programmed", "AddressNotUsable", message));
                    }
                }
            }
            if refusal.as_ref().is_some_and(|condition| condition.kind == "Accepted") {
                addresses.clear();
            }
            assigned[index] = Some((addresses, refusal));
        }
        // A status may lag behind: the address that a new Gateway was given before counts, too.
        let of_before = |gateway: &Object<Gateway>| {
            let known = before.by_name.get(&gateway.meta.object_name());
            known.and_then(|state| state.addresses.first().copied())
        };
        let of_status = |gateway: &Object<Gateway>| status_address(&gateway.status.value());
        for is_written in [true, false] {
            for (index, (gateway, _)) in gateways.iter().enumerate() {
                if assigned[index].is_some() {
                    continue;
                }
                let address = if is_written { of_status(gateway) } else { of_before(gateway) };
                if let Some(address) = address.filter(|address| pool.contains(*address))
                    && used.insert(address)
                {
                    assigned[index] = Some((vec![address], None));
                }
            }
        }
        let former = [ingresses.former_address(), before.ingress_address.filter(|_| !ingresses.is_empty())];
        let mut former = former.into_iter().flatten().filter(|address| pool.contains(*address));
        self.ingress_address = former.find(|address| used.insert(*address));
        self.last_assigned = before.last_assigned;
        let behind = pool.iter().skip_while(|address| Some(*address) != before.last_assigned).skip(1);
        let mut free = behind.chain(pool.iter());
        let mut next = || {
            let address = free.find(|address| used.insert(*address));
            self.last_assigned = address.or(self.last_assigned);
            address
        };
        if self.ingress_address.is_none() && !ingresses.is_empty() {
            self.ingress_address = next();
        }
        assigned
            .into_iter()
            .map(|assigned| {
                assigned.unwrap_or_else(|| match next() {
                    Some(address) => (vec![address], None),
                    None => {
                        let message = "this controller's pool has no free address";
                        (Vec::new(), Some(Condition::no("Programmed", "AddressNotAssigned", message)))
                    }
                })
            })
            .collect()
    }
}

/// Returns the address that a Gateway had before.
fn status_address(status: &Value) -> Option<IpAddr> {
    status.get("addresses")?.get(0)?.get("value")?.as_str()?.parse().ok()
}

impl GatewayState {
    /// Gives each listener that serves the names of its documents.
    fn name_listeners(&mut self, name: &ObjectName) {
        let count = self.addresses.len();
        let is_tls = |listener: &ListenerState| listener.spec.protocol == "TLS" && listener.serves();
        let terminated = self.listeners.iter().filter(|listener| is_tls(listener));
        let terminated = terminated.filter(|listener| listeners::is_terminated(&listener.spec));
        let terminated: BTreeSet<u16> = terminated.map(|listener| listener.spec.port).collect();
        // Listeners of TLS on one port are one listener of the gateway: it has all server names.
        let mut by_port: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for listener in self.listeners.iter_mut().filter(|listener| listener.serves()) {
            let mut parts = vec![name.namespace.to_string(), name.name.to_string()];
            if let Some(set) = &listener.set {
                parts.extend([set.namespace.to_string(), set.name.to_string()]);
            }
            parts.push(listener.spec.name.clone());
            if listener.spec.protocol == "TLS" {
                let is_own = listeners::is_terminated(&listener.spec);
                listener.is_passed = !is_own && terminated.contains(&listener.spec.port);
                parts.clone_from(by_port.entry(listener.spec.port).or_insert(parts.clone()));
            }
            listener.documents = (0..count)
                .map(|index| {
                    let number = index.to_string();
                    let parts = parts.iter().map(String::as_str);
                    names::join(&parts.chain((index > 0).then_some(number.as_str())).collect::<Vec<_>>())
                })
                .collect();
        }
    }

    /// Returns the listeners of a ListenerSet, or the Gateway's own.
    fn of_set<'s>(&'s self, set: Option<&'s ObjectName>) -> impl Iterator<Item = &'s ListenerState> {
        self.listeners.iter().filter(move |listener| listener.set.as_ref() == set)
    }

    fn documents(&self, name: &ObjectName, policies: &Policies, out: &mut Translation) {
        for (index, address) in self.addresses.iter().enumerate() {
            for listener in self.listeners.iter().filter(|listener| listener.serves()) {
                let Some(document) = listener.documents.get(index) else { continue };
                let mut value = match listener.spec.protocol.as_str() {
                    "TLS" => self.tls_document(*address, document, index),
                    _ => listener.document(*address),
                };
                let settings = settings_of(policies, name, listener);
                if !settings.policies.is_empty() {
                    value["policies"] = settings.policies.clone().into();
                }
                let owner = match &listener.set {
                    Some(set) => reference(Kind::ListenerSet, set),
                    None => reference(Kind::Gateway, name),
                };
                out.put("listeners", document, value, settings.owners().chain([owner]));
            }
        }
    }

    /// Returns the document of all listeners of TLS that have this name for it.
    fn tls_document(&self, address: IpAddr, document: &str, index: usize) -> Value {
        let is_part =
            |listener: &&ListenerState| listener.documents.get(index).is_some_and(|name| name == document);
        let parts: Vec<_> = self.listeners.iter().filter(is_part).collect();
        let port = parts.first().map_or(0, |listener| listener.bind_port);
        let mut value = json!({ "bind": SocketAddr::new(address, port).to_string(), "protocol": "tcp" });
        let mut certificates: Vec<&Value> = Vec::new();
        for certificate in parts.iter().flat_map(|listener| &listener.certificates) {
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
        if !certificates.is_empty() {
            value["tls"] = json!({ "certificates": certificates });
        }
        value
    }

    /// Returns the statuses of the listeners that the Gateway or a ListenerSet has.
    fn listener_statuses(
        &self,
        owner: &Reference,
        meta: &Meta,
        attached: &BTreeMap<ListenerKey, usize>,
    ) -> Vec<Value> {
        let set = Some(&owner.name).filter(|_| owner.kind == Kind::ListenerSet);
        self.of_set(set)
            .map(|listener| {
                let key = ListenerKey { owner: owner.clone(), listener: listener.spec.name.clone() };
                let count = attached.get(&key).copied().unwrap_or_default();
                listener.status(!self.addresses.is_empty(), count, meta.generation)
            })
            .collect()
    }

    /// Returns the condition `Accepted` of a Gateway or a ListenerSet with these listeners.
    fn accepted<'s>(mut listeners: impl Iterator<Item = &'s ListenerState>, serves: bool) -> Condition {
        match serves {
            false => Condition::no("Accepted", "ListenersNotValid", "no listener is valid"),
            true if listeners.any(|listener| !listener.conditions.is_empty()) => Condition {
                message: "some listeners are not valid".to_owned(),
                ..Condition::yes("Accepted", "ListenersNotValid")
            },
            true => Condition::yes("Accepted", "Accepted"),
        }
    }

    fn conditions(&self) -> [Condition; 2] {
        let refused = |kind: &str| self.refusal.clone().filter(|condition| condition.kind == kind);
        let parameters =
            self.spec.infrastructure.as_ref().is_some_and(|given| given.parameters_ref.is_some());
        let serves = self.listeners.iter().any(ListenerState::serves);
        let accepted = match refused("Accepted") {
            Some(refusal) => refusal,
            None if parameters => {
                Condition::no("Accepted", "InvalidParameters", "this controller has no parameters")
            }
            None => Self::accepted(self.of_set(None), serves),
        };
        let programmed = match refused("Programmed") {
            Some(refusal) => refusal,
            None if !accepted.holds || self.addresses.is_empty() => {
                Condition::no("Programmed", "Invalid", "the Gateway is not accepted")
            }
            None if self.service_addresses.as_ref().is_some_and(Vec::is_empty) => {
                Condition::no("Programmed", "AddressNotAssigned", "its Service has no address yet")
            }
            None => Condition::yes("Programmed", "Programmed"),
        };
        [accepted, programmed]
    }

    fn status(&self, listeners: Vec<Value>, attached_sets: usize) -> Value {
        let generation = self.meta.generation;
        let mut conditions = Vec::from(self.conditions());
        conditions.push(match &self.client_certificate {
            Some(Err(condition)) => condition.clone(),
            _ => Condition::yes("ResolvedRefs", "ResolvedRefs"),
        });
        let is_insecure = |listener: &ListenerState| {
            let validation = listeners::client_validation(&self.spec, &listener.spec);
            validation.is_some_and(|validation| validation.mode.as_deref() == Some(INSECURE))
        };
        if self.listeners.iter().any(is_insecure) {
            conditions.push(Condition {
                message: "clients without a valid certificate are let in".to_owned(),
                ..Condition::yes("InsecureFrontendValidationMode", "ConfigurationChanged")
            });
        }
        let own = self.addresses.iter();
        let own = own.map(|address| json!({ "type": "IPAddress", "value": address.to_string() }));
        let addresses = self.service_addresses.clone().unwrap_or_else(|| own.collect());
        let mut status = json!({
            "addresses": addresses,
            "conditions": to_json(&conditions, generation),
            "listeners": listeners,
        });
        // Definitions from before ListenerSets do not know the field.
        if self.spec.allowed_listeners.is_some() {
            status["attachedListenerSets"] = attached_sets.into();
        }
        status
    }

    fn set_status(&self, name: &ObjectName, set: &SetState, listeners: Vec<Value>) -> Value {
        let [parent_accepted, parent_programmed] = self.conditions();
        let serves = self.of_set(Some(name)).any(ListenerState::serves);
        let accepted = match set.is_allowed {
            false => Condition::no("Accepted", "NotAllowed", "the Gateway does not allow this ListenerSet"),
            true if !parent_accepted.holds && parent_accepted.reason != "ListenersNotValid" => {
                Condition::no("Accepted", "ParentNotAccepted", "the Gateway is not accepted")
            }
            true => Self::accepted(self.of_set(Some(name)), serves),
        };
        let programmed = match (accepted.holds, parent_programmed.holds) {
            (false, _) => Condition { kind: "Programmed", ..accepted.clone() },
            (true, false) => {
                Condition::no("Programmed", "ParentNotProgrammed", "the Gateway is not programmed")
            }
            (true, true) => Condition::yes("Programmed", "Programmed"),
        };
        json!({
            "conditions": to_json(&[accepted, programmed], set.meta.generation),
            "listeners": listeners,
        })
    }
}
