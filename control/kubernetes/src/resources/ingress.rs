//! Ingress and IngressClass.

use serde::Deserialize;

use crate::object::Contents;

/// An IngressClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressClass {
    /// The controller that implements it.
    pub controller: String,
}

/// An Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// Its class; none: the default class.
    pub ingress_class_name: Option<String>,
    /// The backend of requests that no rule takes.
    pub default_backend: Option<IngressBackend>,
    /// Certificates.
    pub tls: Vec<IngressTls>,
    /// Rules.
    pub rules: Vec<IngressRule>,
}

/// A certificate of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressTls {
    /// The hosts that are served over TLS; empty: all hosts of the Ingress.
    pub hosts: Vec<String>,
    /// The Secret with the certificate.
    pub secret_name: String,
}

/// A rule of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressRule {
    /// The host; none or empty: every host.
    pub host: Option<String>,
    /// Its paths; none: the default backend takes all requests of the host.
    pub http: Option<IngressPaths>,
}

/// The paths of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressPaths {
    /// The paths.
    pub paths: Vec<IngressPath>,
}

/// A path of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressPath {
    /// The path; none or empty: `/`.
    pub path: Option<String>,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: String,
    /// Its backend.
    pub backend: IngressBackend,
}

/// A backend of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressBackend {
    /// A Service.
    pub service: Option<IngressService>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressService {
    /// The Service.
    pub name: String,
    /// The port.
    pub port: IngressPort,
}

/// A port, by its name or number.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressPort {
    /// Its name.
    pub name: Option<String>,
    /// Its number.
    pub number: Option<u16>,
}

impl Contents for Ingress {}
impl Contents for IngressClass {}
