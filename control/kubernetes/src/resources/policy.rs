//! ReferenceGrant, BackendTLSPolicy and TollgatePolicy.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::SecretReference;
use crate::object::Contents;

/// A ReferenceGrant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReferenceGrant {
    /// The referrers.
    pub from: Vec<GrantFrom>,
    /// The objects in the grant's namespace that they may refer to.
    pub to: Vec<GrantTo>,
}

/// Referrers of a grant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrantFrom {
    /// Their group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
}

/// Objects of a grant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrantTo {
    /// Their group.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// The name; none: all.
    pub name: Option<String>,
}

/// A BackendTLSPolicy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTlsPolicy {
    /// The Services that it applies to.
    pub target_refs: Vec<TargetReference>,
    /// How their certificates are verified.
    pub validation: Validation,
}

/// A TollgatePolicy. Its parts are written as in the gateway's documents, except for references to other objects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TollgatePolicy {
    /// The objects that it applies to.
    pub target_refs: Vec<TargetReference>,
    /// Policies of the gateway.
    pub policies: Map<String, Value>,
    /// Settings of routes.
    pub route: Map<String, Value>,
    /// Settings of upstreams.
    pub upstream: Map<String, Value>,
}

/// The target of a policy, in the policy's namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TargetReference {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// The name of a Service's port, a Gateway's listener or a route's rule; none: all of them.
    pub section_name: Option<String>,
}

/// How a backend's certificate is verified.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validation {
    /// The ConfigMaps with the CA certificates.
    pub ca_certificate_refs: Vec<SecretReference>,
    /// `System`: the trust store of the system.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<String>,
    /// The server name, which the certificate must contain unless there are `subject_alt_names`.
    pub hostname: String,
    /// Names, one of which the certificate must contain.
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A host name.
    pub hostname: String,
    /// A URI.
    pub uri: String,
}

impl Contents for ReferenceGrant {}
impl Contents for BackendTlsPolicy {}
impl Contents for TollgatePolicy {}
