//! Objects of the API server, reduced to the fields that the translation reads.
//!
//! Each object is read independently. Unknown fields are ignored, enumerations are texts until the translation
//! understands them, and an object whose spec cannot be read keeps the reason in its place. So an object of a newer
//! version of a resource never ends a watch, and never hides its neighbours.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tollgate_documents::Compact;

/// The namespace and name of an object. The namespace of a cluster-wide object is empty. Copies share the texts: a route's
/// name is kept in ten places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ObjectName {
    /// Makes a name.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The metadata that the translation reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// Namespace; empty for a cluster-wide object.
    #[serde(deserialize_with = "text")]
    pub namespace: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// An id that no other object ever has.
    pub uid: String,
    /// The number of the spec's version, which conditions repeat as `observedGeneration`.
    pub generation: i64,
    /// The version of the whole object, for writes that must not overtake another writer.
    pub resource_version: String,
    /// Time of creation in RFC 3339 with whole seconds in UTC, so that the order of the texts is the order of
    /// the times.
    pub creation_timestamp: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations of Ingresses and their classes.
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// Returns the object's name.
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        ObjectName { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Returns the key by which objects take precedence: the oldest first, then by name.
    #[must_use]
    pub fn precedence(&self) -> (&str, &str, &str) {
        (&self.creation_timestamp, &self.namespace, &self.name)
    }
}

/// Reads a text that copies share.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Into::into)
}

/// An object as the API server sends it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RawObject {
    /// Its metadata.
    #[serde(default)]
    pub metadata: Meta,
    /// Everything else.
    #[serde(flatten)]
    pub data: Value,
}

/// An object with its contents read as `T`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<T> {
    /// Its metadata.
    pub meta: Meta,
    /// Its contents, or the reason why they cannot be read.
    pub spec: Result<T, String>,
    /// Its status, as it was read.
    pub status: Compact,
}

/// The contents of a kind of object.
pub trait Contents: DeserializeOwned + PartialEq {
    /// The field that holds the contents; `None`: they are the object's own fields.
    const FIELD: Option<&'static str> = Some("spec");
    /// Whether the translation reads the status, too.
    const READS_STATUS: bool = false;
}

impl<T: Contents> Object<T> {
    /// Reads an object.
    #[must_use]
    pub fn read(raw: RawObject) -> Self {
        let RawObject { metadata, mut data } = raw;
        let status = data.get("status").map(Compact::from).unwrap_or_default();
        let contents = match T::FIELD {
            Some(field) => {
                data.get_mut(field).map(Value::take).unwrap_or_else(|| Value::Object(Default::default()))
            }
            None => data,
        };
        let spec = serde_json::from_value(contents).map_err(|error| error.to_string());
        Self { meta: metadata, spec, status }
    }

    /// Returns whether the translation of both is the same: they differ at most in version, and in a
    /// status that it does not read.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let (one, two) = (&self.meta, &other.meta);
        self.spec == other.spec
            && (!T::READS_STATUS || self.status == other.status)
            && one.generation == two.generation
            && one.labels == two.labels
            && one.annotations == two.annotations
            && one.creation_timestamp == two.creation_timestamp
    }
}

/// The kinds of objects that the source knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// `GatewayClass`
    GatewayClass,
    /// `Gateway`
    Gateway,
    /// `HTTPRoute`
    HttpRoute,
    /// `GRPCRoute`
    GrpcRoute,
    /// `ReferenceGrant`
    ReferenceGrant,
    /// `BackendTLSPolicy`
    BackendTlsPolicy,
    /// `Service`
    Service,
    /// `EndpointSlice`
    EndpointSlice,
    /// `Namespace`
    Namespace,
    /// `Secret`
    Secret,
    /// `ConfigMap`
    ConfigMap,
    /// `Ingress`
    Ingress,
    /// `IngressClass`
    IngressClass,
    /// `TLSRoute`
    TlsRoute,
    /// `TCPRoute`
    TcpRoute,
    /// `UDPRoute`
    UdpRoute,
    /// `ListenerSet`
    ListenerSet,
    /// `TollgatePolicy`
    TollgatePolicy,
}

/// The group of this project's own resources.
pub const OWN_GROUP: &str = "tollgate.dev";
/// The group of the Gateway API's resources.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

impl Kind {
    /// The kinds of which the source watches all objects. The others are watched by name.
    pub const WATCHED: [Self; 16] = [
        Self::GatewayClass,
        Self::Gateway,
        Self::HttpRoute,
        Self::GrpcRoute,
        Self::ReferenceGrant,
        Self::BackendTlsPolicy,
        Self::Service,
        Self::EndpointSlice,
        Self::Namespace,
        Self::Ingress,
        Self::IngressClass,
        Self::TlsRoute,
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ListenerSet,
        Self::TollgatePolicy,
    ];

    /// Returns its group, version, name, and name in paths.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::GatewayClass => (GATEWAY_GROUP, "v1", "GatewayClass", "gatewayclasses"),
            Self::Gateway => (GATEWAY_GROUP, "v1", "Gateway", "gateways"),
            Self::HttpRoute => (GATEWAY_GROUP, "v1", "HTTPRoute", "httproutes"),
            Self::GrpcRoute => (GATEWAY_GROUP, "v1", "GRPCRoute", "grpcroutes"),
            Self::ReferenceGrant => (GATEWAY_GROUP, "v1beta1", "ReferenceGrant", "referencegrants"),
            Self::BackendTlsPolicy => (GATEWAY_GROUP, "v1", "BackendTLSPolicy", "backendtlspolicies"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::EndpointSlice => ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::Secret => ("", "v1", "Secret", "secrets"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
            Self::TlsRoute => (GATEWAY_GROUP, "v1", "TLSRoute", "tlsroutes"),
            Self::TcpRoute => (GATEWAY_GROUP, "v1", "TCPRoute", "tcproutes"),
            Self::UdpRoute => (GATEWAY_GROUP, "v1", "UDPRoute", "udproutes"),
            Self::ListenerSet => (GATEWAY_GROUP, "v1", "ListenerSet", "listenersets"),
            Self::TollgatePolicy => (OWN_GROUP, "v1alpha1", "TollgatePolicy", "tollgatepolicies"),
            Self::Ingress => ("networking.k8s.io", "v1", "Ingress", "ingresses"),
            Self::IngressClass => ("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
        }
    }

    /// Returns the kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names().2
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::WATCHED.into_iter().chain([Self::Secret, Self::ConfigMap]);
        all.find(|kind| kind.name() == name)
    }

    /// Returns whether its objects belong to no namespace.
    #[must_use]
    pub fn is_cluster_wide(self) -> bool {
        matches!(self, Self::GatewayClass | Self::Namespace | Self::IngressClass)
    }
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: ObjectName,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Returns whether a resource version is older than another one. They are numbers of etcd's revisions, which
/// a client may compare since Kubernetes 1.35; other texts are never older.
pub fn is_older(one: &str, two: &str) -> bool {
    match (one.parse::<u64>(), two.parse::<u64>()) {
        (Ok(one), Ok(two)) => one < two,
        _ => false,
    }
}
