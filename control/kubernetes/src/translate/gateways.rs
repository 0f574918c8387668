//! GatewayClasses and Gateways: addresses, listeners and their certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::conditions::{Condition, SUPPORTED_FEATURES, to_json};
use super::ingress::Ingresses;
use super::{Translation, TranslationSettings, grants, names, reference, secrets};
use crate::object::{GATEWAY_GROUP, Kind, Meta, Object, ObjectName};
use crate::objects::Objects;
use crate::resources::{AllowedRoutes, ClientValidation, Gateway, Listener, SecretReference};

/// The Gateways of this controller.
pub struct Gateways<'a> {
    objects: &'a Objects,
    /// The address of all Ingresses.
    pub ingress_address: Option<IpAddr>,
    pub by_name: BTreeMap<ObjectName, GatewayState<'a>>,
}

/// A Gateway under translation.
pub struct GatewayState<'a> {
    meta: &'a Meta,
    spec: &'a Gateway,
    /// The addresses that it listens on.
    addresses: Vec<IpAddr>,
    /// Why it is not accepted or not programmed.
    refusal: Option<Condition>,
    pub listeners: Vec<ListenerState<'a>>,
}

/// A listener of a Gateway under translation.
pub struct ListenerState<'a> {
    pub spec: &'a Listener,
    /// The names of its documents, by which routes refer to it; empty if it does not serve.
    pub documents: Vec<String>,
    /// The kinds of routes that may attach.
    pub kinds: Vec<Kind>,
    /// How many routes are attached.
    pub attached: usize,
    conditions: Vec<Condition>,
    /// Its certificates with their keys.
    certificates: Vec<Value>,
    /// The CA certificates that verify clients.
    client_authorities: Option<String>,
}

impl<'a> Gateways<'a> {
    /// Collects the Gateways of this controller's classes, and writes the statuses of the classes.
    pub fn new(
        objects: &'a Objects,
        settings: &TranslationSettings,
        ingresses: &Ingresses<'_>,
        out: &mut Translation,
    ) -> Self {
        let classes = classes(objects, settings, out);
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
        let (addresses, ingress_address) = assign_addresses(&gateways, ingresses, settings);
        let by_name = gateways
            .into_iter()
            .zip(addresses)
            .map(|((gateway, spec), (addresses, refusal))| {
                let listeners = listeners(objects, &gateway.meta, spec, &mut out.references);
                let state = GatewayState { meta: &gateway.meta, spec, addresses, refusal, listeners };
                (gateway.meta.object_name(), state)
            })
            .collect();
        let mut gateways = Self { objects, ingress_address, by_name };
        gateways.name_listeners();
        gateways
    }

    /// Gives each listener that serves the names of its documents.
    fn name_listeners(&mut self) {
        for (name, gateway) in &mut self.by_name {
            let count = gateway.addresses.len();
            // Listeners of TLS on one port are one listener of the gateway: it has all server names.
            let mut by_port: BTreeMap<u16, &str> = BTreeMap::new();
            for listener in gateway.listeners.iter_mut().filter(|listener| listener.serves()) {
                let own = match listener.spec.protocol.as_str() {
                    "TLS" => *by_port.entry(listener.spec.port).or_insert(&listener.spec.name),
                    _ => &listener.spec.name,
                };
                let parts = [name.namespace.as_str(), &name.name, own];
                listener.documents = (0..count)
                    .map(|index| match index {
                        0 => names::join(&parts),
                        index => names::join(&[parts.as_slice(), &[&index.to_string()]].concat()),
                    })
                    .collect();
            }
        }
    }

    /// Returns whether routes of a namespace may attach to a listener.
    pub fn allows_namespace(&self, gateway: &ObjectName, allowed: &AllowedRoutes, namespace: &str) -> bool {
        match allowed.namespaces.from.as_deref() {
            None | Some("Same") => gateway.namespace == namespace,
            Some("All") => true,
            Some("Selector") => {
                let labels = self.objects.namespaces.get(&ObjectName::new("", namespace));
                let selector = allowed.namespaces.selector.as_ref();
                labels.zip(selector).is_some_and(|(object, selector)| selector.matches(&object.meta.labels))
            }
            Some(_) => false,
        }
    }

    /// Writes the documents and the statuses.
    pub fn finish(self, out: &mut Translation) {
        for (name, gateway) in self.by_name {
            let owner = reference(Kind::Gateway, &name);
            gateway.documents(&owner.name, out);
            out.statuses.insert(owner, gateway.status());
        }
    }
}

/// Writes the statuses of this controller's classes, and returns the names of the accepted ones.
fn classes<'a>(
    objects: &'a Objects,
    settings: &TranslationSettings,
    out: &mut Translation,
) -> BTreeSet<&'a str> {
    let mut accepted = BTreeSet::new();
    for (name, class) in &objects.gateway_classes {
        let Ok(spec) = &class.spec else { continue };
        if spec.controller_name != settings.controller {
            continue;
        }
        let condition = match &spec.parameters_ref {
            None => {
                accepted.insert(name.name.as_str());
                Condition::yes("Accepted", "Accepted")
            }
            Some(_) => Condition::no("Accepted", "InvalidParameters", "this controller has no parameters"),
        };
        let features: Vec<Value> = SUPPORTED_FEATURES.iter().map(|name| json!({ "name": name })).collect();
        let status = json!({
            "conditions": to_json(&[condition], class.meta.generation),
            "supportedFeatures": features,
        });
        out.statuses.insert(reference(Kind::GatewayClass, name), status);
    }
    accepted
}

/// The addresses of a Gateway, and why it does not have those that it asks for.
type AssignedAddresses = (Vec<IpAddr>, Option<Condition>);

/// Assigns addresses to Gateways and to the Ingresses: those that they ask for, else those that they have, else
/// free ones.
fn assign_addresses(
    gateways: &[(&Object<Gateway>, &Gateway)],
    ingresses: &Ingresses<'_>,
    settings: &TranslationSettings,
) -> (Vec<AssignedAddresses>, Option<IpAddr>) {
    let pool = &settings.addresses;
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
                    let message = format!("{} is not a free address of this controller's pool", asked.value);
                    refusal = Some(Condition::no("Programmed", "AddressNotUsable", message));
                }
            }
        }
        if refusal.as_ref().is_some_and(|condition| condition.kind == "Accepted") {
            addresses.clear();
        }
        assigned[index] = Some((addresses, refusal));
    }
    for (index, (gateway, _)) in gateways.iter().enumerate() {
        let Some(address) = assigned[index].is_none().then(|| status_address(&gateway.status)).flatten()
        else {
            continue;
        };
        if pool.contains(address) && used.insert(address) {
            assigned[index] = Some((vec![address], None));
        }
    }
    let former = ingresses.former_address().filter(|address| pool.contains(*address));
    let mut ingress_address = former.filter(|address| used.insert(*address));
    let mut free = pool.iter();
    if ingress_address.is_none() && !ingresses.is_empty() {
        ingress_address = free.find(|address| used.insert(*address));
    }
    let addresses = assigned
        .into_iter()
        .map(|assigned| {
            assigned.unwrap_or_else(|| match free.find(|address| used.insert(*address)) {
                Some(address) => (vec![address], None),
                None => {
                    let message = "this controller's pool has no free address";
                    (Vec::new(), Some(Condition::no("Programmed", "AddressNotAssigned", message)))
                }
            })
        })
        .collect();
    (addresses, ingress_address)
}

/// Returns the address that a Gateway had before.
fn status_address(status: &Value) -> Option<IpAddr> {
    status.get("addresses")?.get(0)?.get("value")?.as_str()?.parse().ok()
}

/// The kinds of routes that a protocol has.
fn kinds_of(protocol: &str) -> &'static [Kind] {
    match protocol {
        "HTTP" | "HTTPS" => &[Kind::HttpRoute, Kind::GrpcRoute],
        "TLS" => &[Kind::TlsRoute],
        "TCP" => &[Kind::TcpRoute],
        "UDP" => &[Kind::UdpRoute],
        _ => &[],
    }
}

fn listeners<'a>(
    objects: &'a Objects,
    meta: &'a Meta,
    spec: &'a Gateway,
    references: &mut BTreeSet<crate::object::Reference>,
) -> Vec<ListenerState<'a>> {
    let mut listeners: Vec<ListenerState<'a>> = spec
        .listeners
        .iter()
        .map(|listener| {
            let mut conditions = Vec::new();
            let known = kinds_of(&listener.protocol);
            if known.is_empty() {
                let message = format!("the protocol {} is not supported", listener.protocol);
                conditions.push(Condition::no("Accepted", "UnsupportedProtocol", message));
            }
            let (kinds, unknown) = allowed_kinds(&listener.allowed_routes, known);
            if let Some(unknown) = unknown {
                let message =
                    format!("a listener of {} has no routes of the kind {unknown}", listener.protocol);
                conditions.push(Condition::no("ResolvedRefs", "InvalidRouteKinds", message));
            }
            let (mut certificates, mut client_authorities) = (Vec::new(), None);
            if let Some(validation) = client_validation(spec, listener) {
                match authorities(objects, meta, validation, &mut conditions, references) {
                    text if text.is_empty() => {}
                    text => client_authorities = Some(text),
                }
            }
            let is_passed = listener.protocol == "TLS" && !is_terminated(listener);
            if matches!(listener.protocol.as_str(), "HTTPS" | "TLS") && !is_passed {
                match listener_certificates(objects, meta, listener, references) {
                    Ok(found) => certificates = found,
                    Err(condition) => conditions.push(condition),
                }
            }
            ListenerState {
                spec: listener,
                documents: Vec::new(),
                kinds,
                attached: 0,
                conditions,
                certificates,
                client_authorities,
            }
        })
        .collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        let one = listener.spec;
        let others = || {
            let others = spec.listeners.iter().enumerate().filter(|(other, _)| *other != index);
            others.map(|(_, other)| other).filter(|other| other.port == one.port)
        };
        // On one port, TLS is terminated or passed through.
        let differs = |other: &Listener| {
            other.protocol != one.protocol && is_tcp(other) == is_tcp(one)
                || other.protocol == "TLS" && is_terminated(other) != is_terminated(one)
        };
        let conflict = if others().any(differs) {
            Some("ProtocolConflict")
        } else if others().any(|other| hostname(other) == hostname(one) && other.protocol == one.protocol) {
            Some("HostnameConflict")
        } else {
            None
        };
        if let Some(reason) = conflict {
            if reason == "ProtocolConflict" {
                listener.kinds.clear();
            }
            let message = format!("another listener has the port {} too", one.port);
            listener.conditions.push(Condition::no("Accepted", reason, message));
        }
    }
    listeners
}

fn is_tcp(listener: &Listener) -> bool {
    listener.protocol != "UDP"
}

/// Returns whether a listener of TLS terminates it.
fn is_terminated(listener: &Listener) -> bool {
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref());
    listener.protocol == "TLS" && mode != Some("Passthrough")
}

/// Returns the host name of a listener in lower case; empty: all.
pub fn hostname(listener: &Listener) -> String {
    listener.hostname.as_deref().unwrap_or_default().to_ascii_lowercase()
}

/// Returns the kinds of routes that a listener allows, and a kind that it names and its protocol does not
/// have.
fn allowed_kinds(allowed: &AllowedRoutes, known: &'static [Kind]) -> (Vec<Kind>, Option<String>) {
    if allowed.kinds.is_empty() {
        return (known.to_vec(), None);
    }
    let (mut kinds, mut unknown) = (Vec::new(), None);
    for wanted in &allowed.kinds {
        let group = wanted.group.as_deref().unwrap_or(GATEWAY_GROUP);
        match known.iter().find(|kind| group == GATEWAY_GROUP && kind.name() == wanted.kind) {
            Some(kind) if !kinds.contains(kind) => kinds.push(*kind),
            Some(_) => {}
            None => unknown = Some(wanted.kind.clone()),
        }
    }
    (kinds, unknown)
}

/// Returns how a listener verifies client certificates.
fn client_validation<'a>(gateway: &'a Gateway, listener: &Listener) -> Option<&'a ClientValidation> {
    let frontend = &gateway.tls.frontend;
    let own = frontend.per_port.iter().find(|own| own.port == listener.port).map(|own| &own.tls);
    own.unwrap_or(&frontend.default).validation.as_ref().filter(|_| listener.protocol == "HTTPS")
}

/// Returns the CA certificates that verify clients, and adds the conditions about those that are missing.
fn authorities(
    objects: &Objects,
    meta: &Meta,
    validation: &ClientValidation,
    conditions: &mut Vec<Condition>,
    references: &mut BTreeSet<crate::object::Reference>,
) -> String {
    let (mut all, mut refusal) = (String::new(), None);
    for wanted in &validation.ca_certificate_refs {
        let group = wanted.group.as_deref().unwrap_or_default();
        let kind = wanted.kind.as_deref().unwrap_or("ConfigMap");
        let name = ObjectName::new(wanted.namespace.as_deref().unwrap_or(&meta.namespace), &wanted.name);
        if !group.is_empty() || kind != "ConfigMap" {
            refusal = Some(("InvalidCACertificateKind", format!("{kind} {name} is not a ConfigMap")));
            continue;
        }
        if !grants::is_granted(objects, (Kind::Gateway, &meta.namespace), (Kind::ConfigMap, &name)) {
            refusal = Some(("RefNotPermitted", format!("no ReferenceGrant permits the ConfigMap {name}")));
            continue;
        }
        references.insert(reference(Kind::ConfigMap, &name));
        match secrets::authorities(objects, &name) {
            Some(text) => {
                all.push_str(text);
                all.push('\n');
            }
            None => {
                let message = format!("there is no ConfigMap {name} with a certificate in `ca.crt`");
                refusal = Some(("InvalidCACertificateRef", message));
            }
        }
    }
    if let Some((reason, message)) = refusal {
        let reason = if all.is_empty() { reason } else { "InvalidCACertificateRef" };
        conditions.push(Condition::no("ResolvedRefs", reason, message));
    }
    if all.is_empty() {
        conditions.push(Condition::no("Accepted", "NoValidCACertificate", "no CA certificate is valid"));
    }
    if let Some(mode) = validation.mode.as_deref().filter(|mode| *mode != "AllowValidOnly") {
        let message = format!("the mode {mode} of the verification of clients is not supported");
        conditions.push(Condition::no("Accepted", "UnsupportedValue", message));
    }
    all
}

/// Returns the certificates of a listener.
fn listener_certificates(
    objects: &Objects,
    meta: &Meta,
    listener: &Listener,
    references: &mut BTreeSet<crate::object::Reference>,
) -> Result<Vec<Value>, Condition> {
    let refused = |reason, message: String| Err(Condition::no("ResolvedRefs", reason, message));
    let tls = listener.tls.as_ref();
    if let Some(mode) = tls.and_then(|tls| tls.mode.as_deref()).filter(|mode| *mode != "Terminate") {
        let message = format!("the TLS mode {mode} is not supported here");
        return Err(Condition::no("Accepted", "UnsupportedValue", message));
    }
    let wanted: &[SecretReference] = tls.map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
    if wanted.is_empty() {
        return refused("InvalidCertificateRef", "the listener names no certificate".to_owned());
    }
    let mut certificates = Vec::new();
    for wanted in wanted {
        let group = wanted.group.as_deref().unwrap_or_default();
        let kind = wanted.kind.as_deref().unwrap_or("Secret");
        if !group.is_empty() || kind != "Secret" {
            return refused("InvalidCertificateRef", format!("{kind} {} is not a Secret", wanted.name));
        }
        let name = ObjectName::new(wanted.namespace.as_deref().unwrap_or(&meta.namespace), &wanted.name);
        if !grants::is_granted(objects, (Kind::Gateway, &meta.namespace), (Kind::Secret, &name)) {
            return refused("RefNotPermitted", format!("no ReferenceGrant permits the Secret {name}"));
        }
        references.insert(reference(Kind::Secret, &name));
        match secrets::certificate(objects, &name) {
            Ok(certificate) => certificates.push(certificate),
            Err(why) => return refused("InvalidCertificateRef", why),
        }
    }
    Ok(certificates)
}

impl ListenerState<'_> {
    /// Returns whether it serves requests: nothing is wrong with it but some kinds of routes or CA certificates.
    fn serves(&self) -> bool {
        let is_partial = |reason: &str| matches!(reason, "InvalidRouteKinds" | "InvalidCACertificateRef");
        self.conditions
            .iter()
            .all(|condition| condition.kind == "ResolvedRefs" && is_partial(condition.reason))
    }

    /// Returns the document of a listener that has a port and host names of its own.
    fn document(&self, address: IpAddr, protocol: &str) -> Value {
        let bind = SocketAddr::new(address, self.spec.port).to_string();
        let mut value = json!({ "bind": bind });
        match protocol {
            "TCP" => value["protocol"] = "tcp".into(),
            "UDP" => value["protocol"] = "udp".into(),
            _ => {
                let hostname = hostname(self.spec);
                if !hostname.is_empty() {
                    value["hosts"] = json!([hostname]);
                }
                if protocol == "HTTPS" {
                    value["tls"] = json!({ "certificates": self.certificates });
                    if let Some(text) = &self.client_authorities {
                        value["tls"]["client_certificates"] = json!({ "ca": text });
                    }
                }
            }
        }
        value
    }

    fn status(&self, programmed: bool, generation: i64) -> Value {
        let find = |kind: &str| self.conditions.iter().find(|condition| condition.kind == kind).cloned();
        let accepted = find("Accepted");
        let conflict = accepted.as_ref().filter(|condition| condition.reason.ends_with("Conflict"));
        let conflicted = match conflict {
            Some(conflict) => Condition { kind: "Conflicted", holds: true, ..conflict.clone() },
            None => Condition::no("Conflicted", "NoConflicts", ""),
        };
        let programmed = match programmed && self.serves() {
            true => Condition::yes("Programmed", "Programmed"),
            false => Condition::no("Programmed", "Invalid", "the other conditions say why"),
        };
        let conditions = [
            accepted.unwrap_or_else(|| Condition::yes("Accepted", "Accepted")),
            programmed,
            find("ResolvedRefs").unwrap_or_else(|| Condition::yes("ResolvedRefs", "ResolvedRefs")),
            conflicted,
        ];
        let kinds: Vec<Value> =
            self.kinds.iter().map(|kind| json!({ "group": GATEWAY_GROUP, "kind": kind.name() })).collect();
        json!({
            "name": self.spec.name,
            "supportedKinds": kinds,
            "attachedRoutes": self.attached,
            "conditions": to_json(&conditions, generation),
        })
    }
}

impl GatewayState<'_> {
    fn documents(&self, name: &ObjectName, out: &mut Translation) {
        let owner = reference(Kind::Gateway, name);
        for (index, address) in self.addresses.iter().enumerate() {
            for listener in self.listeners.iter().filter(|listener| listener.serves()) {
                let Some(document) = listener.documents.get(index) else { continue };
                let value = match listener.spec.protocol.as_str() {
                    "TLS" => self.tls_document(*address, document, index),
                    protocol => listener.document(*address, protocol),
                };
                out.put("listeners", document, value, [owner.clone()]);
            }
        }
    }

    /// Returns the document of all listeners of TLS that have this name for it.
    fn tls_document(&self, address: IpAddr, document: &str, index: usize) -> Value {
        let is_part = |listener: &&ListenerState<'_>| {
            listener.documents.get(index).is_some_and(|name| name == document)
        };
        let parts: Vec<_> = self.listeners.iter().filter(is_part).collect();
        let port = parts.first().map_or(0, |listener| listener.spec.port);
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

    fn status(&self) -> Value {
        let generation = self.meta.generation;
        let serving = self.listeners.iter().any(ListenerState::serves);
        let faulty = self.listeners.iter().any(|listener| !listener.conditions.is_empty());
        let refused = |kind: &str| self.refusal.clone().filter(|condition| condition.kind == kind);
        let parameters =
            self.spec.infrastructure.as_ref().is_some_and(|given| given.parameters_ref.is_some());
        let accepted = match refused("Accepted") {
            Some(refusal) => refusal,
            None if parameters => {
                Condition::no("Accepted", "InvalidParameters", "this controller has no parameters")
            }
            None if !serving => Condition::no("Accepted", "ListenersNotValid", "no listener is valid"),
            None if faulty => Condition {
                message: "some listeners are not valid".to_owned(),
                ..Condition::yes("Accepted", "ListenersNotValid")
            },
            None => Condition::yes("Accepted", "Accepted"),
        };
        let programmed = match refused("Programmed") {
            Some(refusal) => refusal,
            None if !accepted.holds || self.addresses.is_empty() => {
                Condition::no("Programmed", "Invalid", "the Gateway is not accepted")
            }
            None => Condition::yes("Programmed", "Programmed"),
        };
        let addresses: Vec<Value> = self
            .addresses
            .iter()
            .map(|address| json!({ "type": "IPAddress", "value": address.to_string() }))
            .collect();
        let listeners: Vec<Value> = self
            .listeners
            .iter()
            .map(|listener| listener.status(!self.addresses.is_empty(), generation))
            .collect();
        json!({
            "addresses": addresses,
            "conditions": to_json(&[accepted, programmed], generation),
            "listeners": listeners,
        })
    }
}
