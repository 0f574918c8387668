//! Listeners of Gateways and ListenerSets: what is wrong with them, their certificates, their documents.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::conditions::{Condition, to_json};
use super::{grants, reference, secrets};
use crate::object::{GATEWAY_GROUP, Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{AllowedRoutes, ClientValidation, Gateway, Listener, SecretReference};

/// The mode of client certificates in which every client is let in.
pub const INSECURE: &str = "AllowInsecureFallback";

/// A listener under translation.
pub struct ListenerState {
    /// The ListenerSet that it belongs to; `None`: the Gateway itself.
    pub set: Option<ObjectName>,
    pub spec: Listener,
    /// The port that it listens on. It differs from the Gateway's if a Service leads to it.
    pub bind_port: u16,
    /// The names of its documents, by which routes refer to it; empty if it does not serve.
    pub documents: Vec<String>,
    /// Whether it passes TLS through, and another listener with the same documents terminates it.
    pub is_passed: bool,
    /// The kinds of routes that may attach.
    pub kinds: Vec<Kind>,
    pub conditions: Vec<Condition>,
    /// Its certificates with their keys.
    pub certificates: Vec<Value>,
    /// The settings of client certificates in the gateway's form.
    client_certificates: Option<Value>,
}

/// The Gateway or the ListenerSet that listeners belong to.
pub struct Owner<'a> {
    pub kind: Kind,
    pub meta: &'a Meta,
    pub listeners: &'a [Listener],
}

/// Reads the listeners of a Gateway and its ListenerSets, which are given in the order of their precedence.
pub fn read(
    objects: &Objects,
    (meta, gateway): (&Meta, &Gateway),
    owners: &[Owner<'_>],
    references: &mut BTreeSet<Reference>,
) -> Vec<ListenerState> {
    let mut listeners = Vec::new();
    for owner in owners {
        for listener in owner.listeners {
            let mut state = ListenerState::new(owner, listener);
            if let Some(validation) = client_validation(gateway, listener) {
                let ca = authorities(objects, meta, validation, &mut state.conditions, references);
                state.client_certificates = (!ca.is_empty()).then(|| match validation.mode.as_deref() {
                    Some(INSECURE) => json!({ "ca": ca, "mode": "insecure_fallback" }),
                    _ => json!({ "ca": ca }),
                });
            }
            let is_passed = listener.protocol == "TLS" && !is_terminated(listener);
            if matches!(listener.protocol.as_str(), "HTTPS" | "TLS") && !is_passed {
                match certificates(objects, owner, listener, references) {
                    Ok(found) => state.certificates = found,
                    Err(condition) => state.conditions.push(condition),
                }
            }
            listeners.push(state);
        }
    }
    find_conflicts(&mut listeners);
    listeners
}

/// Finds listeners that exclude each other. Of a Gateway's own listeners none wins. The listener of a ListenerSet gives
/// way to the listeners before it.
fn find_conflicts(listeners: &mut [ListenerState]) {
    let mut conflicts: Vec<Option<&'static str>> = Vec::with_capacity(listeners.len());
    for (index, one) in listeners.iter().enumerate() {
        let others = listeners.iter().enumerate().filter(|(other, listener)| match one.set {
            None => *other != index && listener.set.is_none(),
            Some(_) => *other < index && conflicts[*other].is_none(),
        });
        let others = others.map(|(_, other)| &other.spec).filter(|other| other.port == one.spec.port);
        let found = conflict(&one.spec, others);
        conflicts.push(found);
    }
    for (listener, conflict) in listeners.iter_mut().zip(conflicts) {
        let Some(reason) = conflict else { continue };
        if reason == "ProtocolConflict" {
            listener.kinds.clear();
        }
        let message = format!("another listener has the port {} too", listener.spec.port);
        listener.conditions.push(Condition::no("Accepted", reason, message));
    }
}

/// Returns why a listener cannot share its port with others.
fn conflict<'a>(one: &Listener, others: impl Iterator<Item = &'a Listener> + Clone) -> Option<&'static str> {
    let differs = |other: &Listener| other.protocol != one.protocol && is_tcp(other) == is_tcp(one);
    if others.clone().any(differs) {
        return Some("ProtocolConflict");
    }
    let is_same = |other: &Listener| hostname(other) == hostname(one) && other.protocol == one.protocol;
    others.into_iter().any(is_same).then_some("HostnameConflict")
}

fn is_tcp(listener: &Listener) -> bool {
    listener.protocol != "UDP"
}

/// Returns whether a listener of TLS terminates it.
pub fn is_terminated(listener: &Listener) -> bool {
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref());
    listener.protocol == "TLS" && mode != Some("Passthrough")
}

/// Returns the host name of a listener in lower case; empty: all.
pub fn hostname(listener: &Listener) -> String {
    listener.hostname.as_deref().unwrap_or_default().to_ascii_lowercase()
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
pub fn client_validation<'a>(gateway: &'a Gateway, listener: &Listener) -> Option<&'a ClientValidation> {
    let frontend = &gateway.tls.frontend;
    let own = frontend.per_port.iter().find(|own| own.port == listener.port).map(|own| &own.tls);
    own.unwrap_or(&frontend.default).validation.as_ref().filter(|_| listener.protocol == "HTTPS")
}

/// Returns the CA certificates that verify clients, and adds the conditions about missing ones.
fn authorities(
    objects: &Objects,
    meta: &Meta,
    validation: &ClientValidation,
    conditions: &mut Vec<Condition>,
    references: &mut BTreeSet<Reference>,
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
    let is_known = |mode: &&str| matches!(*mode, "AllowValidOnly" | INSECURE);
    if let Some(mode) = validation.mode.as_deref().filter(|mode| !is_known(mode)) {
        let message = format!("the mode {mode} of the verification of clients is not supported");
        conditions.push(Condition::no("Accepted", "UnsupportedValue", message));
    }
    all
}

/// Returns the certificates of a listener.
fn certificates(
    objects: &Objects,
    owner: &Owner<'_>,
    listener: &Listener,
    references: &mut BTreeSet<Reference>,
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
        match certificate(objects, (owner.kind, owner.meta), wanted, references) {
            Ok(certificate) => certificates.push(certificate),
            Err(CertificateError::NotPermitted(why)) => return refused("RefNotPermitted", why),
            Err(CertificateError::Invalid(why)) => return refused("InvalidCertificateRef", why),
        }
    }
    Ok(certificates)
}

/// Why a reference leads to no certificate.
pub enum CertificateError {
    NotPermitted(String),
    Invalid(String),
}

/// Returns the certificate that an object refers to.
pub fn certificate(
    objects: &Objects,
    (kind, meta): (Kind, &Meta),
    wanted: &SecretReference,
    references: &mut BTreeSet<Reference>,
) -> Result<Value, CertificateError> {
    let group = wanted.group.as_deref().unwrap_or_default();
    let wanted_kind = wanted.kind.as_deref().unwrap_or("Secret");
    if !group.is_empty() || wanted_kind != "Secret" {
        let why = format!("{wanted_kind} {} is not a Secret", wanted.name);
        return Err(CertificateError::Invalid(why));
    }
    let name = ObjectName::new(wanted.namespace.as_deref().unwrap_or(&meta.namespace), &wanted.name);
    if !grants::is_granted(objects, (kind, &meta.namespace), (Kind::Secret, &name)) {
        let why = format!("no ReferenceGrant permits the Secret {name}");
        return Err(CertificateError::NotPermitted(why));
    }
    references.insert(reference(Kind::Secret, &name));
    secrets::certificate(objects, &name).map_err(CertificateError::Invalid)
}

impl ListenerState {
    fn new(owner: &Owner<'_>, spec: &Listener) -> Self {
        let mut conditions = Vec::new();
        let known = kinds_of(&spec.protocol);
        if known.is_empty() {
            let message = format!("the protocol {} is not supported", spec.protocol);
            conditions.push(Condition::no("Accepted", "UnsupportedProtocol", message));
        }
        let (kinds, unknown) = allowed_kinds(&spec.allowed_routes, known);
        if let Some(unknown) = unknown {
            let message = format!("a listener of {} has no routes of the kind {unknown}", spec.protocol);
            conditions.push(Condition::no("ResolvedRefs", "InvalidRouteKinds", message));
        }
        Self {
            set: (owner.kind == Kind::ListenerSet).then(|| owner.meta.object_name()),
            spec: spec.clone(),
            bind_port: spec.port,
            documents: Vec::new(),
            is_passed: false,
            kinds,
            conditions,
            certificates: Vec::new(),
            client_certificates: None,
        }
    }

    /// Returns whether it serves requests: nothing is wrong with it but some kinds of routes or CA certificates.
    pub fn serves(&self) -> bool {
        let is_partial = |reason: &str| matches!(reason, "InvalidRouteKinds" | "InvalidCACertificateRef");
        self.conditions
            .iter()
            .all(|condition| condition.kind == "ResolvedRefs" && is_partial(condition.reason))
    }

    /// Returns the document of a listener that has a port and host names of its own.
    pub fn document(&self, address: IpAddr) -> Value {
        let mut value = json!({ "bind": SocketAddr::new(address, self.bind_port).to_string() });
        match self.spec.protocol.as_str() {
            "TCP" => value["protocol"] = "tcp".into(),
            "UDP" => value["protocol"] = "udp".into(),
            protocol => {
                let hostname = hostname(&self.spec);
                if !hostname.is_empty() {
                    value["hosts"] = json!([hostname]);
                }
                if protocol == "HTTPS" {
                    value["tls"] = json!({ "certificates": self.certificates });
                    if let Some(settings) = &self.client_certificates {
                        value["tls"]["client_certificates"] = settings.clone();
                    }
                }
            }
        }
        value
    }

    /// Returns its entry in the status of the Gateway or the ListenerSet, to which `attached` routes are attached.
    pub fn status(&self, is_programmed: bool, attached: usize, generation: i64) -> Value {
        let find = |kind: &str| self.conditions.iter().find(|condition| condition.kind == kind).cloned();
        let accepted = find("Accepted");
        let conflict = accepted.as_ref().filter(|condition| condition.reason.ends_with("Conflict"));
        let programmed = match (is_programmed && self.serves(), conflict) {
            (true, _) => Condition::yes("Programmed", "Programmed"),
            (false, Some(conflict)) => Condition { kind: "Programmed", ..conflict.clone() },
            (false, None) => Condition::no("Programmed", "Invalid", "the other conditions say why"),
        };
        let conflicted = match conflict {
            Some(conflict) => Condition { kind: "Conflicted", holds: true, ..conflict.clone() },
            None => Condition::no("Conflicted", "NoConflicts", ""),
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
            "attachedRoutes": attached,
            "conditions": to_json(&conditions, generation),
        })
    }
}
