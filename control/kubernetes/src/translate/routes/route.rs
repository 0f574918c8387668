//! A route of any kind, with the parts that all kinds have.

use tollgate_documents::Compact;

use super::rule::Rule;
use crate::object::{GATEWAY_GROUP, Kind, Meta, Object, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{ParentReference, StreamRule};
use crate::translate::{grpc, http, reference};

/// A route of any kind.
pub struct Route<'a> {
    pub kind: Kind,
    pub meta: &'a Meta,
    pub status: &'a Compact,
    pub parents: &'a [ParentReference],
    pub hostnames: &'a [String],
    pub rules: Rules<'a>,
}

/// The rules of a route.
pub enum Rules<'a> {
    /// The rules of an HTTPRoute or a GRPCRoute.
    Requests(Vec<Rule<'a>>),
    /// The rules of a route of layer 4.
    Streams(&'a [StreamRule]),
}

impl<'a> Route<'a> {
    /// Returns the route with this name; `None` if there is none, or it cannot be read.
    pub fn find(objects: &'a Objects, reference: &Reference) -> Option<Self> {
        let (kind, name) = (reference.kind, &reference.name);
        match kind {
            Kind::HttpRoute => {
                let object = objects.http_routes.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Requests(spec.rules.iter().map(http::rule).collect());
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
            Kind::GrpcRoute => {
                let object = objects.grpc_routes.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Requests(spec.rules.iter().map(grpc::rule).collect());
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
            _ => {
                let store = match kind {
                    Kind::TlsRoute => &objects.tls_routes,
                    Kind::TcpRoute => &objects.tcp_routes,
                    Kind::UdpRoute => &objects.udp_routes,
                    _ => return None,
                };
                let object = store.get(name)?;
                let spec = object.spec.as_ref().ok()?;
                let rules = Rules::Streams(&spec.rules);
                Some(Self::of(kind, object, (&spec.parent_refs, &spec.hostnames), rules))
            }
        }
    }

    fn of<T>(
        kind: Kind,
        object: &'a Object<T>,
        (parents, hostnames): (&'a [ParentReference], &'a [String]),
        rules: Rules<'a>,
    ) -> Self {
        Self { kind, meta: &object.meta, status: &object.status, parents, hostnames, rules }
    }

    /// Returns the parents that it refers to, whether they exist or not. `None` stands for a parent of a kind that this
    /// controller does not have.
    pub fn parent_references(&self) -> impl Iterator<Item = Option<Reference>> {
        self.parents.iter().map(|parent| parent_of(self.meta, parent))
    }
}

/// Returns the parent that a reference names; `None` if it is of another kind.
pub(super) fn parent_of(meta: &Meta, parent: &ParentReference) -> Option<Reference> {
    let kind = match parent.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        _ => return None,
    };
    let is_known = parent.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP;
    let namespace = parent.namespace.as_deref().unwrap_or(&meta.namespace);
    is_known.then(|| reference(kind, &ObjectName::new(namespace, &parent.name)))
}
