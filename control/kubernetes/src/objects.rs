//! The objects that the source has read, by kind and name.
//!
//! The watches put objects in ([`Objects::put`]); the translator takes the [`Changes`] since its last run. An object
//! whose relevant fields are unchanged causes no translation.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_documents::Compact;

use crate::object::{Contents, Kind, Meta, Object, ObjectName, RawObject, Reference};
use crate::resources::{
    BackendTlsPolicy, ConfigMap, EndpointSlice, Gateway, GatewayClass, GrpcRoute, HttpRoute, Ingress,
    IngressClass, ListenerSet, Namespace, ReferenceGrant, Secret, ServiceContents, StreamRoute,
    TollgatePolicy,
};

/// Objects of one kind, by name.
pub type Store<T> = BTreeMap<ObjectName, Object<T>>;

/// The label that names an EndpointSlice's Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The changes since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects with new contents, and objects that are gone. Those with a new status alone are not among them.
    pub objects: BTreeSet<Reference>,
    /// Services of which the endpoints changed.
    pub endpoints: BTreeSet<ObjectName>,
}

impl Changes {
    /// Returns whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.endpoints.is_empty()
    }
}

/// All objects that the translation reads.
#[derive(Debug, Default)]
pub struct Objects {
    /// GatewayClasses.
    pub gateway_classes: Store<GatewayClass>,
    /// Gateways.
    pub gateways: Store<Gateway>,
    /// HTTPRoutes.
    pub http_routes: Store<HttpRoute>,
    /// GRPCRoutes.
    pub grpc_routes: Store<GrpcRoute>,
    /// ReferenceGrants.
    pub reference_grants: Store<ReferenceGrant>,
    /// BackendTLSPolicies.
    pub backend_tls_policies: Store<BackendTlsPolicy>,
    /// Services.
    pub services: Store<ServiceContents>,
    /// EndpointSlices.
    pub endpoint_slices: Store<EndpointSlice>,
    /// Namespaces.
    pub namespaces: Store<Namespace>,
    /// The Secrets that are referred to.
    pub secrets: Store<Secret>,
    /// The ConfigMaps that are referred to.
    pub config_maps: Store<ConfigMap>,
    /// TLSRoutes.
    pub tls_routes: Store<StreamRoute>,
    /// TCPRoutes.
    pub tcp_routes: Store<StreamRoute>,
    /// UDPRoutes.
    pub udp_routes: Store<StreamRoute>,
    /// Ingresses.
    pub ingresses: Store<Ingress>,
    /// IngressClasses.
    pub ingress_classes: Store<IngressClass>,
    /// ListenerSets.
    pub listener_sets: Store<ListenerSet>,
    /// TollgatePolicies.
    pub tollgate_policies: Store<TollgatePolicy>,
    /// The names of the EndpointSlices of each Service.
    slices: BTreeMap<ObjectName, Vec<ObjectName>>,
    changes: Changes,
}

/// The changes that a new version of an object brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At most its status.
    Status,
    /// Something that the translation reads.
    Contents,
}

/// Calls a function with the store of a kind, which is borrowed as the second argument says.
macro_rules! with_store {
    ($objects:ident, [$($borrow:tt)+], $kind:expr, $function:ident $(, $argument:expr)*) => {
        match $kind {
            Kind::GatewayClass => $function($($borrow)+ $objects.gateway_classes $(, $argument)*),
            Kind::Gateway => $function($($borrow)+ $objects.gateways $(, $argument)*),
            Kind::HttpRoute => $function($($borrow)+ $objects.http_routes $(, $argument)*),
            Kind::GrpcRoute => $function($($borrow)+ $objects.grpc_routes $(, $argument)*),
            Kind::ReferenceGrant => $function($($borrow)+ $objects.reference_grants $(, $argument)*),
            Kind::BackendTlsPolicy => $function($($borrow)+ $objects.backend_tls_policies $(, $argument)*),
            Kind::Service => $function($($borrow)+ $objects.services $(, $argument)*),
            Kind::EndpointSlice => $function($($borrow)+ $objects.endpoint_slices $(, $argument)*),
            Kind::Namespace => $function($($borrow)+ $objects.namespaces $(, $argument)*),
            Kind::Secret => $function($($borrow)+ $objects.secrets $(, $argument)*),
            Kind::ConfigMap => $function($($borrow)+ $objects.config_maps $(, $argument)*),
            Kind::TlsRoute => $function($($borrow)+ $objects.tls_routes $(, $argument)*),
            Kind::TcpRoute => $function($($borrow)+ $objects.tcp_routes $(, $argument)*),
            Kind::UdpRoute => $function($($borrow)+ $objects.udp_routes $(, $argument)*),
            Kind::ListenerSet => $function($($borrow)+ $objects.listener_sets $(, $argument)*),
            Kind::TollgatePolicy => $function($($borrow)+ $objects.tollgate_policies $(, $argument)*),
            Kind::Ingress => $function($($borrow)+ $objects.ingresses $(, $argument)*),
            Kind::IngressClass => $function($($borrow)+ $objects.ingress_classes $(, $argument)*),
        }
    };
}

impl Objects {
    /// Stores an object in place of its earlier version.
    pub fn put(&mut self, kind: Kind, raw: RawObject) -> Change {
        let name = raw.metadata.object_name();
        let before = self.service_of(kind, &name);
        let change = with_store!(self, [&mut], kind, put, raw);
        if change == Change::Contents {
            self.record(kind, &name, before);
        }
        change
    }

    /// Removes an object. Returns whether there was one.
    pub fn remove(&mut self, kind: Kind, name: &ObjectName) -> bool {
        let before = self.service_of(kind, name);
        let is_known = with_store!(self, [&mut], kind, remove, name);
        if is_known {
            self.record(kind, name, before);
        }
        is_known
    }

    /// Returns whether anything changed since the changes were last taken.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns what changed since the last call.
    #[must_use]
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Returns the EndpointSlices of a Service.
    pub fn slices_of(&self, service: &ObjectName) -> impl Iterator<Item = &EndpointSlice> {
        let names = self.slices.get(service).into_iter().flatten();
        names.filter_map(|name| self.endpoint_slices.get(name)?.spec.as_ref().ok())
    }

    /// Records that an object has other contents. `before` is the Service that it had, if it is a slice.
    fn record(&mut self, kind: Kind, name: &ObjectName, before: Option<ObjectName>) {
        if kind != Kind::EndpointSlice {
            self.changes.objects.insert(Reference { kind, name: name.clone() });
            return;
        }
        let after = self.service_of(kind, name);
        if before != after {
            if let Some(service) = &before
                && let Some(slices) = self.slices.get_mut(service)
            {
                slices.retain(|slice| slice != name);
                if slices.is_empty() {
                    self.slices.remove(service);
                }
            }
            if let Some(service) = &after {
                self.slices.entry(service.clone()).or_default().push(name.clone());
            }
        }
        self.changes.endpoints.extend(before.into_iter().chain(after));
    }

    /// Returns the Service of an EndpointSlice; `None` for other kinds.
    fn service_of(&self, kind: Kind, name: &ObjectName) -> Option<ObjectName> {
        let slice = self.endpoint_slices.get(name).filter(|_| kind == Kind::EndpointSlice)?;
        let service = slice.meta.labels.get(SERVICE_LABEL)?;
        Some(ObjectName::new(&slice.meta.namespace, service))
    }

    /// Returns the names of the objects of a kind.
    #[must_use]
    pub fn names(&self, kind: Kind) -> Vec<ObjectName> {
        with_store!(self, [&], kind, names)
    }

    /// Returns the metadata and the status of an object.
    #[must_use]
    pub fn status(&self, reference: &Reference) -> Option<(&Meta, &Compact)> {
        with_store!(self, [&], reference.kind, status, &reference.name)
    }
}

fn put<T: Contents>(store: &mut Store<T>, raw: RawObject) -> Change {
    let mut object = Object::read(raw);
    let mut name = object.meta.object_name();
    let mut change = Change::Contents;
    if let Some((known, before)) = store.get_key_value(&name) {
        // Everything else that remembers the object shares these texts.
        name.clone_from(known);
        (object.meta.namespace, object.meta.name) = (name.namespace.clone(), name.name.clone());
        if before.is_equivalent(&object) {
            change = Change::Status;
        }
    }
    store.insert(name, object);
    change
}

fn remove<T>(store: &mut Store<T>, name: &ObjectName) -> bool {
    store.remove(name).is_some()
}

fn names<T>(store: &Store<T>) -> Vec<ObjectName> {
    store.keys().cloned().collect()
}

fn status<'a, T>(store: &'a Store<T>, name: &ObjectName) -> Option<(&'a Meta, &'a Compact)> {
    store.get(name).map(|object| (&object.meta, &object.status))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn route(version: &str, spec: Value, status: Value) -> RawObject {
        let metadata = json!({"namespace": "a", "name": "b", "generation": 1, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
            .expect("an object")
    }

    #[test]
    fn a_change_of_the_status_alone_is_no_change_of_contents() {
        let mut objects = Objects::default();
        let spec = json!({"hostnames": ["a.example"]});
        assert_eq!(objects.put(Kind::HttpRoute, route("1", spec.clone(), json!({}))), Change::Contents);
        assert_eq!(objects.put(Kind::HttpRoute, route("2", spec, json!({"parents": []}))), Change::Status);
        let changed = json!({"hostnames": ["b.example"]});
        assert_eq!(objects.put(Kind::HttpRoute, route("3", changed, json!({}))), Change::Contents);
        let reference = Reference { kind: Kind::HttpRoute, name: ObjectName::new("a", "b") };
        assert_eq!(objects.status(&reference).map(|(meta, _)| meta.resource_version.as_str()), Some("3"));
        assert!(objects.remove(Kind::HttpRoute, &reference.name) && objects.status(&reference).is_none());
    }

    #[test]
    fn changes_name_objects_and_the_services_of_endpoints() {
        let slice = |service: &str| -> RawObject {
            let labels = json!({ SERVICE_LABEL: service });
            let metadata = json!({"namespace": "a", "name": "s-1", "labels": labels});
            serde_json::from_value(json!({ "metadata": metadata, "endpoints": [] })).expect("an object")
        };
        let service = |name: &str| ObjectName::new("a", name);
        let mut objects = Objects::default();
        objects.put(Kind::HttpRoute, route("1", json!({}), json!({})));
        objects.put(Kind::EndpointSlice, slice("one"));
        let changes = objects.take_changes();
        assert_eq!((changes.objects.len(), changes.endpoints), (1, BTreeSet::from([service("one")])));
        objects.put(Kind::HttpRoute, route("2", json!({}), json!({"parents": []})));
        objects.put(Kind::EndpointSlice, slice("one"));
        assert!(!objects.has_changes());
        objects.put(Kind::EndpointSlice, slice("two"));
        assert_eq!(objects.take_changes().endpoints, BTreeSet::from([service("one"), service("two")]));
        assert_eq!([1, 0], ["two", "one"].map(|name| objects.slices_of(&service(name)).count()));
        assert!(objects.remove(Kind::EndpointSlice, &service("s-1")));
        assert_eq!(objects.take_changes().endpoints, BTreeSet::from([service("two")]));
        assert!(objects.slices.is_empty());
    }

    #[test]
    fn what_a_newer_version_adds_is_read_or_reported_in_its_place() {
        let mut objects = Objects::default();
        let spec = json!({"rules": [{"filters": [{"type": "NewFilter", "newFilter": {"x": 1}}]}], "new": 1});
        objects.put(Kind::HttpRoute, route("1", spec, json!({})));
        let read = &objects.http_routes[&ObjectName::new("a", "b")];
        assert_eq!(read.spec.as_ref().map(|spec| spec.rules[0].filters[0].kind.as_str()), Ok("NewFilter"));
        objects.put(Kind::HttpRoute, route("2", json!({"rules": "none"}), json!({})));
        let read = &objects.http_routes[&ObjectName::new("a", "b")];
        assert!(read.spec.as_ref().is_err_and(|reason| reason.contains("invalid type")), "{:?}", read.spec);
    }
}
