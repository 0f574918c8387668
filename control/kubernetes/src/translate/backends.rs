//! References to Services, and their ports as upstreams.
//!
//! Each port of a Service that a route refers to is an upstream. Its endpoints come from EndpointSlices, so a change of
//! endpoints changes this one document and no route. [`Backends::resolve`] therefore returns the name of the upstream, and
//! collects its [`Source`], which is the upstream without its endpoints. `tls_policies` has the BackendTLSPolicies.

mod source;
mod tls_policies;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::source::Source;
use super::conditions::Condition;
use super::filters::Filters;
use super::policies::Policies;
use super::{grants, names, reference};
use crate::object::{Kind, Object, ObjectName, Reference};
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
    /// The Gateways and Ingresses by which the Services of policies are reached: the ancestors in the policies' statuses.
    pub ancestors: Ancestors,
    /// The ConfigMaps that policies refer to.
    pub references: BTreeSet<Reference>,
}

/// Gateways and Ingresses by the name of a policy.
pub type Ancestors = BTreeMap<ObjectName, BTreeSet<Reference>>;

/// An upstream that a route refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub source: Source,
    pub owners: BTreeSet<Reference>,
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

    /// Returns the objects that references are looked up in.
    pub fn objects(&self) -> &'a Objects {
        self.objects
    }

    /// Returns the source of an upstream that was found since the last call of [`take`](Self::take).
    pub fn source(&self, upstream: &str) -> Option<&Source> {
        self.found.upstreams.get(upstream).map(|wanted| &wanted.source)
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
        let tls = match self.tls(&name, port, referrer) {
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
        let mut parts = vec![&*name.namespace, &*name.name, &number];
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
