//! References to Services, and their endpoints as upstreams.
//!
//! Each port of a Service that a route refers to is an upstream. Its endpoints come from EndpointSlices, so a
//! change of endpoints changes this one document and no route. A [`Source`] therefore is an upstream without its
//! endpoints, from which the document is made again when they change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::conditions::{Condition, to_json};
use super::filters::Filters;
use super::policies::Policies;
use super::{Statuses, TranslationSettings, grants, names, reference, secrets};
use crate::object::{GATEWAY_GROUP, Kind, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, BackendTlsPolicy, ServiceContents, ServicePort};

/// A rule that refers to backends.
pub struct Referrer<'a> {
    /// The route.
    pub route: &'a Reference,
    /// The rule's number.
    pub rule: usize,
    /// The Gateways that the route refers to. They all show the same certificate to backends, or none.
    pub gateways: &'a BTreeSet<ObjectName>,
    /// Settings of its upstreams, which are then not shared.
    pub own: Option<&'a OwnUpstream<'a>>,
}

/// Settings of an upstream that is not shared with other referrers.
pub struct OwnUpstream<'a> {
    /// The beginning of endpoints' addresses; `None`: the Service decides.
    pub scheme: Option<&'static str>,
    /// Keys of the upstream.
    pub keys: &'a Map<String, Value>,
    /// The end of its name.
    pub suffix: &'a [&'a str],
}

/// A backend that exists.
pub enum Backend {
    /// An upstream.
    Upstream(String),
    /// Its TLS policy is not valid, so no request may reach it.
    Broken,
}

/// The backends that routes refer to.
pub struct Backends<'a> {
    objects: &'a Objects,
    policies: HashMap<ObjectName, Vec<&'a Object<BackendTlsPolicy>>>,
    /// The certificates that Gateways show to backends.
    client_certificates: BTreeMap<ObjectName, Value>,
    /// The TollgatePolicies.
    attached: Arc<Policies>,
    /// Whether a Service may be a host outside the cluster.
    external_names: bool,
    found: Found,
}

/// The result of references to backends since it was last taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The upstreams, with the routes that refer to them.
    pub upstreams: BTreeMap<String, Wanted>,
    /// The Services that were looked up, whether they exist or not.
    pub services: BTreeSet<ObjectName>,
    /// The Gateways by which the Services of policies are reached: the ancestors in the policies' statuses.
    pub ancestors: Ancestors,
    /// The ConfigMaps that policies refer to.
    pub references: BTreeSet<Reference>,
}

/// Gateways by the name of a policy.
pub type Ancestors = BTreeMap<ObjectName, BTreeSet<ObjectName>>;

/// An upstream that a route refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub source: Source,
    pub owners: BTreeSet<Reference>,
}

/// An upstream without its endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its Service.
    pub service: ObjectName,
    /// The name of the Service's port.
    port: String,
    /// The host and the port of a Service outside the cluster.
    host: Option<String>,
    /// The beginning of its endpoints' addresses.
    scheme: &'static str,
    /// Everything but its endpoints.
    settings: Map<String, Value>,
    /// The TollgatePolicies that the settings come from.
    pub policies: BTreeSet<ObjectName>,
}

impl<'a> Backends<'a> {
    /// Makes an index of the policies by Service.
    pub fn new(
        objects: &'a Objects,
        client_certificates: BTreeMap<ObjectName, Value>,
        attached: Arc<Policies>,
        external_names: bool,
    ) -> Self {
        let mut policies: HashMap<ObjectName, Vec<_>> = HashMap::new();
        for policy in objects.backend_tls_policies.values() {
            let Ok(spec) = &policy.spec else { continue };
            for target in spec.target_refs.iter().filter(|to| to.group.is_empty() && to.kind == "Service") {
                policies
                    .entry(ObjectName::new(&policy.meta.namespace, &target.name))
                    .or_default()
                    .push(policy);
            }
        }
        for list in policies.values_mut() {
            list.sort_by_key(|policy| policy.meta.precedence());
            list.dedup_by_key(|policy| policy.meta.object_name());
        }
        Self { objects, policies, client_certificates, attached, external_names, found: Found::default() }
    }

    /// Returns what was found since the last call.
    pub fn take(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }

    /// Returns the upstream of a reference, which is the `index`-th of its rule.
    ///
    /// # Errors
    /// Returns the condition `ResolvedRefs` of the route.
    pub fn resolve(
        &mut self,
        referrer: &Referrer<'_>,
        backend: &BackendReference,
        index: usize,
    ) -> Result<Backend, Condition> {
        let route = referrer.route;
        let (name, service) = self.service(route, backend)?;
        let port = &self.port(route, backend, &name, service)?;
        if matches!(route.kind, Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute) {
            return Ok(self.resolve_for_stream(route, name, service, port));
        }
        let tls = match self.tls(&name, port, referrer.gateways) {
            None => None,
            Some(Ok(tls)) => Some(tls),
            Some(Err(_)) => return Ok(Backend::Broken),
        };
        let attached = self.attached.at(&reference(Kind::Service, &name), Some(&port.name));
        if attached.is_broken {
            return Ok(Backend::Broken);
        }
        let scheme = scheme(referrer, &name, port, tls.is_some())?;
        let number = port.port.to_string();
        let mut parts = vec![name.namespace.as_str(), name.name.as_str(), &number];
        if scheme == "h2c://" {
            parts.push("h2c");
        }
        let client = referrer.gateways.iter().find_map(|name| self.client_certificates.get_key_value(name));
        let client = client.map(|(name, certificate)| (name.clone(), certificate.clone()));
        let mut settings = attached.upstream;
        let mut policies = attached.policies;
        if let Some(own) = referrer.own {
            settings.extend(own.keys.clone());
            parts.extend(own.suffix);
        }
        if let Some(mut tls) = tls {
            if let Some((gateway, certificate)) = &client {
                // Another Gateway may have another certificate, so this upstream is for one Gateway.
                parts.extend(["client", &gateway.namespace, &gateway.name]);
                for key in ["certificate", "key"] {
                    tls[key] = certificate[key].clone();
                }
            }
            settings.insert("tls".to_owned(), tls);
            if route.kind == Kind::GrpcRoute {
                parts.push("h2");
                settings.insert("http2".to_owned(), true.into());
            }
        }
        // Changes of requests for this backend alone are policies of a separate upstream.
        let place = format!("{}-{}-{index}", route.kind.name().to_ascii_lowercase(), referrer.rule);
        if !backend.filters.is_empty() {
            let filters = Filters::new(&backend.filters, referrer, self);
            let own = filters.policies();
            if let Some(why) = filters.unsupported {
                return Err(unresolved("InvalidKind", why));
            }
            if !own.is_empty() {
                policies.extend(own);
                parts.extend([place.as_str(), &route.name.namespace, &route.name.name]);
            }
        }
        if !policies.is_empty() {
            settings.insert("policies".to_owned(), policies.into());
        }
        let upstream = names::join(&parts);
        let source = Source::new(name, port, scheme, settings, attached.sources);
        self.want(&upstream, source.outside(service, port.port), route);
        Ok(Backend::Upstream(upstream))
    }

    /// Returns the Service that a route refers to, if a grant permits it.
    fn service(
        &mut self,
        route: &Reference,
        backend: &BackendReference,
    ) -> Result<(ObjectName, &'a ServiceContents), Condition> {
        let group = backend.group.as_deref().unwrap_or_default();
        let kind = backend.kind.as_deref().unwrap_or("Service");
        if !group.is_empty() || kind != "Service" {
            return Err(unresolved("InvalidKind", format!("a backend of the kind {kind} is not supported")));
        }
        let namespace = backend.namespace.as_deref().unwrap_or(&route.name.namespace);
        let name = ObjectName::new(namespace, &backend.name);
        if !grants::is_granted(self.objects, (route.kind, &route.name.namespace), (Kind::Service, &name)) {
            let why = format!("no ReferenceGrant permits the Service {name}");
            return Err(unresolved("RefNotPermitted", why));
        }
        self.found.services.insert(name.clone());
        match self.objects.services.get(&name).and_then(|service| service.spec.as_ref().ok()) {
            Some(service) => Ok((name, service)),
            None => Err(unresolved("BackendNotFound", format!("there is no Service {name}"))),
        }
    }

    /// Returns the port of a Service that a route refers to.
    fn port(
        &self,
        route: &Reference,
        backend: &BackendReference,
        name: &ObjectName,
        service: &ServiceContents,
    ) -> Result<ServicePort, Condition> {
        let protocol = protocol(route);
        let fits = |port: &&ServicePort| match port.protocol.as_str() {
            "" => protocol == "TCP",
            own => own == protocol,
        };
        let is_external = service.kind == "ExternalName";
        if is_external && !self.external_names {
            let why = format!("the Service {name} is an ExternalName: `external_names` does not permit it");
            return Err(unresolved("BackendNotFound", why));
        }
        let mut ports = service.ports.iter().filter(fits);
        // An ExternalName may have no ports, and then has all of them.
        let other = backend.port.filter(|_| is_external && service.ports.is_empty());
        let other = other.map(|port| ServicePort { port, ..ServicePort::default() });
        ports.find(|port| Some(port.port) == backend.port).cloned().or(other).ok_or_else(|| {
            let port = backend.port.map_or("none".to_owned(), |port| port.to_string());
            unresolved("BackendNotFound", format!("the Service {name} has no {protocol} port {port}"))
        })
    }

    /// Returns the upstream of a stream. Streams have separate upstreams, because the gateway speaks no protocol over
    /// their connections.
    fn resolve_for_stream(
        &mut self,
        route: &Reference,
        name: ObjectName,
        service: &ServiceContents,
        port: &ServicePort,
    ) -> Backend {
        let (number, protocol) = (port.port.to_string(), protocol(route).to_ascii_lowercase());
        let upstream = names::join(&[&name.namespace, &name.name, &number, &protocol]);
        let source = Source::new(name, port, "", Map::new(), BTreeSet::new());
        self.want(&upstream, source.outside(service, port.port), route);
        Backend::Upstream(upstream)
    }

    fn want(&mut self, upstream: &str, source: Source, route: &Reference) {
        let wanted = self
            .found
            .upstreams
            .entry(upstream.to_owned())
            .or_insert_with(|| Wanted { source, owners: BTreeSet::new() });
        wanted.owners.insert(route.clone());
    }

    /// Returns the TLS settings of a Service's port, or why they are not valid; `None`: no policy applies.
    fn tls(
        &mut self,
        service: &ObjectName,
        port: &ServicePort,
        gateways: &BTreeSet<ObjectName>,
    ) -> Option<Result<Value, Condition>> {
        let policies = self.policies.get(service)?.clone();
        for policy in &policies {
            let ancestors = self.found.ancestors.entry(policy.meta.object_name()).or_default();
            ancestors.extend(gateways.iter().cloned());
        }
        let policy = effective(&policies, service, port)?;
        let spec = policy.spec.as_ref().ok()?;
        Some(self.validation(&policy.meta.namespace, spec))
    }

    /// Returns the TLS settings of a policy.
    fn validation(&mut self, namespace: &str, policy: &BackendTlsPolicy) -> Result<Value, Condition> {
        let validation = &policy.validation;
        let mut tls = json!({ "server_name": validation.hostname });
        let mut names: Vec<&str> = Vec::new();
        for name in &validation.subject_alt_names {
            match name.kind.as_str() {
                "Hostname" => names.push(&name.hostname),
                "URI" => names.push(&name.uri),
                kind => {
                    let message = format!("names of the type {kind} in `subjectAltNames` are not supported");
                    return Err(Condition::no("Accepted", "Invalid", message));
                }
            }
        }
        if !names.is_empty() {
            tls["subject_alt_names"] = json!(names);
        }
        if validation.ca_certificate_refs.is_empty() {
            return match validation.well_known_ca_certificates.as_deref() {
                Some("System") => Ok(tls),
                _ => {
                    let message = "the policy names no CA certificates";
                    Err(Condition::no("Accepted", "NoValidCACertificate", message))
                }
            };
        }
        let (mut authorities, mut refusal) = (String::new(), None);
        for wanted in &validation.ca_certificate_refs {
            let group = wanted.group.as_deref().unwrap_or_default();
            let kind = wanted.kind.as_deref().unwrap_or("ConfigMap");
            if !group.is_empty() || kind != "ConfigMap" {
                let message = format!("{kind} {} is not a ConfigMap", wanted.name);
                refusal = Some(Condition::no("ResolvedRefs", "InvalidKind", message));
                continue;
            }
            let name = ObjectName::new(namespace, &wanted.name);
            self.found.references.insert(reference(Kind::ConfigMap, &name));
            match secrets::authorities(self.objects, &name) {
                Some(text) => {
                    authorities.push_str(text);
                    authorities.push('\n');
                }
                None => {
                    let message = format!("there is no ConfigMap {name} with a certificate in `ca.crt`");
                    refusal = Some(Condition::no("ResolvedRefs", "InvalidCACertificateRef", message));
                }
            }
        }
        match refusal {
            Some(refusal) if authorities.is_empty() => Err(refusal),
            _ => {
                tls["ca"] = authorities.into();
                Ok(tls)
            }
        }
    }

    /// Returns the statuses of the policies that have ancestors.
    pub fn policy_statuses(&mut self, settings: &TranslationSettings, ancestors: &Ancestors) -> Statuses {
        let mut statuses = Statuses::new();
        for (name, ancestors) in ancestors {
            let Some(policy) = self.objects.backend_tls_policies.get(name) else { continue };
            let Ok(spec) = &policy.spec else { continue };
            let (mut accepted, mut resolved) =
                (Condition::yes("Accepted", "Accepted"), Condition::yes("ResolvedRefs", "ResolvedRefs"));
            if self.is_superseded(policy, spec) {
                accepted = Condition::no("Accepted", "Conflicted", "an older policy has the same target");
            }
            match self.validation(&name.namespace, spec) {
                Ok(_) => {}
                Err(condition) if condition.kind == "ResolvedRefs" => {
                    let message = "no CA certificate is valid";
                    accepted = Condition::no("Accepted", "NoValidCACertificate", message);
                    resolved = condition;
                }
                Err(condition) => accepted = condition,
            }
            let generation = policy.meta.generation;
            let ancestors: Vec<Value> = ancestors
                .iter()
                .map(|gateway| {
                    json!({
                        "ancestorRef": {
                            "group": GATEWAY_GROUP, "kind": "Gateway",
                            "namespace": gateway.namespace, "name": gateway.name,
                        },
                        "controllerName": settings.controller,
                        "conditions": to_json(&[accepted.clone(), resolved.clone()], generation),
                    })
                })
                .collect();
            statuses.insert(reference(Kind::BackendTlsPolicy, name), json!({ "ancestors": ancestors }));
        }
        statuses
    }

    /// Returns whether an older policy has each target of a policy.
    fn is_superseded(&self, policy: &Object<BackendTlsPolicy>, spec: &BackendTlsPolicy) -> bool {
        let mut targets = spec.target_refs.iter().filter(|to| to.kind == "Service").peekable();
        targets.peek().is_some()
            && targets.all(|target| {
                let service = ObjectName::new(&policy.meta.namespace, &target.name);
                let others = self.policies.get(&service).into_iter().flatten();
                others.take_while(|other| other.meta != policy.meta).any(|older| {
                    let older =
                        older.spec.as_ref().map(|spec| spec.target_refs.as_slice()).unwrap_or_default();
                    older.iter().any(|to| to.name == target.name && to.section_name == target.section_name)
                })
            })
    }
}

/// Returns the condition of a route with an unresolved reference.
fn unresolved(reason: &'static str, message: String) -> Condition {
    Condition::no("ResolvedRefs", reason, message)
}

/// Returns the protocol of the ports that a route may refer to.
fn protocol(route: &Reference) -> &'static str {
    match route.kind {
        Kind::UdpRoute => "UDP",
        _ => "TCP",
    }
}

/// Returns the beginning of endpoints' addresses for requests.
fn scheme(
    referrer: &Referrer<'_>,
    name: &ObjectName,
    port: &ServicePort,
    has_tls: bool,
) -> Result<&'static str, Condition> {
    if has_tls {
        return Ok("https://");
    }
    if let Some(asked) = referrer.own.and_then(|own| own.scheme) {
        return Ok(asked);
    }
    match port.app_protocol.as_deref() {
        Some("kubernetes.io/h2c") => Ok("h2c://"),
        Some("kubernetes.io/ws") => Ok(""),
        Some(other) if other == "kubernetes.io/wss" || other == "https" => {
            let message = format!("the protocol {other} of the Service {name} needs a BackendTLSPolicy");
            Err(unresolved("UnsupportedProtocol", message))
        }
        _ if referrer.route.kind == Kind::GrpcRoute => Ok("h2c://"),
        _ => Ok(""),
    }
}

impl Source {
    fn new(
        service: ObjectName,
        port: &ServicePort,
        scheme: &'static str,
        settings: Map<String, Value>,
        policies: BTreeSet<ObjectName>,
    ) -> Self {
        Self { service, port: port.name.clone(), host: None, scheme, settings, policies }
    }

    /// Makes it the upstream of a host outside the cluster, if the Service is one.
    fn outside(mut self, service: &ServiceContents, port: u16) -> Self {
        let is_external = service.kind == "ExternalName";
        let host = service.external_name.trim_end_matches('.');
        self.host = is_external.then(|| format!("{host}:{port}"));
        self
    }

    /// Returns the upstream's document.
    pub fn document(&self, objects: &Objects) -> Value {
        let mut value = json!({ "endpoints": self.endpoints(objects) });
        if let Some(fields) = value.as_object_mut() {
            fields.extend(self.settings.clone());
        }
        value
    }

    /// Returns the endpoints of the Service's port. Endpoints that are about to end get no new requests, unless
    /// there are no others.
    fn endpoints(&self, objects: &Objects) -> Vec<Value> {
        if let Some(host) = &self.host {
            return vec![json!({ "address": format!("{}{host}", self.scheme) })];
        }
        let mut endpoints: BTreeMap<(IpAddr, u16), bool> = BTreeMap::new();
        for slice in objects.slices_of(&self.service) {
            let ports = slice.ports.iter().filter(|own| own.name.as_deref().unwrap_or_default() == self.port);
            for number in ports.filter_map(|own| own.port) {
                for endpoint in &slice.endpoints {
                    let Some(Ok(address)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>())
                    else {
                        continue;
                    };
                    let conditions = &endpoint.conditions;
                    let ready = conditions.ready.unwrap_or(true);
                    let serving = conditions.serving.unwrap_or(ready);
                    if ready {
                        endpoints.insert((address, number), true);
                    } else if serving && conditions.terminating == Some(true) {
                        endpoints.entry((address, number)).or_insert(false);
                    }
                }
            }
        }
        let any_ready = endpoints.values().any(|ready| *ready);
        endpoints
            .into_iter()
            .map(|((address, port), ready)| {
                let address = format!("{}{}", self.scheme, std::net::SocketAddr::new(address, port));
                match ready || !any_ready {
                    true => json!({ "address": address }),
                    false => json!({ "address": address, "drain": true }),
                }
            })
            .collect()
    }
}

/// Returns the policy that applies to a port: a policy that names the port wins, then the oldest.
fn effective<'a>(
    policies: &[&'a Object<BackendTlsPolicy>],
    service: &ObjectName,
    port: &ServicePort,
) -> Option<&'a Object<BackendTlsPolicy>> {
    let with = |section: Option<&str>| {
        policies.iter().copied().find(|policy| {
            let targets = policy.spec.as_ref().map(|spec| spec.target_refs.as_slice()).unwrap_or_default();
            targets.iter().any(|to| to.name == service.name && to.section_name.as_deref() == section)
        })
    };
    with(Some(&port.name)).or_else(|| with(None))
}
