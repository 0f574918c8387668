//! GatewayClass, Gateway and ListenerSet.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::object::Contents;

/// A GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClass {
    /// The controller that implements it.
    pub controller_name: String,
    /// Parameters of the controller.
    pub parameters_ref: Option<Value>,
}

/// A Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gateway {
    /// Its class.
    pub gateway_class_name: String,
    /// Its listeners.
    pub listeners: Vec<Listener>,
    /// The addresses that it asks for.
    pub addresses: Vec<GatewayAddress>,
    /// Metadata for what a controller makes for it.
    pub infrastructure: Option<Infrastructure>,
    /// TLS for all its listeners.
    pub tls: GatewayTls,
    /// The ListenerSets that may add listeners; none: none may.
    pub allowed_listeners: Option<AllowedListeners>,
}

/// A ListenerSet: further listeners of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSet {
    /// The Gateway.
    pub parent_ref: GatewayReference,
    /// The listeners.
    pub listeners: Vec<Listener>,
}

/// A reference of a ListenerSet to its Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayReference {
    /// Group; none: the Gateway API's.
    pub group: Option<String>,
    /// Kind; none: `Gateway`.
    pub kind: Option<String>,
    /// Namespace; none: the ListenerSet's.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// The ListenerSets that may add listeners to a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllowedListeners {
    /// Their namespaces. Here the default of `from` is `None`.
    pub namespaces: RouteNamespaces,
}

/// TLS for all listeners of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayTls {
    /// TLS towards clients.
    pub frontend: Frontend,
    /// TLS towards backends.
    pub backend: GatewayBackendTls,
}

/// TLS of a Gateway towards backends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// The Secret with the certificate that backends get to see; none: no certificate.
    pub client_certificate_ref: Option<SecretReference>,
}

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Frontend {
    /// For ports without settings of their own.
    pub default: FrontendTls,
    /// For single ports.
    pub per_port: Vec<PortTls>,
}

/// TLS towards the clients of a port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PortTls {
    /// The port.
    pub port: u16,
    /// Its settings.
    pub tls: FrontendTls,
}

/// Settings of TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FrontendTls {
    /// How client certificates are verified; none: not requested.
    pub validation: Option<ClientValidation>,
}

/// How client certificates are verified.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientValidation {
    /// The ConfigMaps with the CA certificates.
    pub ca_certificate_refs: Vec<SecretReference>,
    /// `AllowValidOnly` (default) or `AllowInsecureFallback`.
    pub mode: Option<String>,
}

/// Metadata for what a controller makes for a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Infrastructure {
    /// Parameters of this Gateway.
    pub parameters_ref: Option<Value>,
    /// Labels of what is made for it.
    pub labels: BTreeMap<String, String>,
    /// Annotations of what is made for it.
    pub annotations: BTreeMap<String, String>,
}

/// An address that a Gateway asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayAddress {
    /// `IPAddress`, `Hostname`, or a name with a domain. Default `IPAddress`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The address; empty: any.
    pub value: String,
}

/// A listener of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique in the Gateway.
    pub name: String,
    /// The host names that it serves; none or empty: all.
    pub hostname: Option<String>,
    /// Its port.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP` or `UDP`.
    pub protocol: String,
    /// TLS.
    pub tls: Option<ListenerTls>,
    /// The routes that may attach.
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a listener.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate` (default) or `Passthrough`.
    pub mode: Option<String>,
    /// The Secrets with its certificates.
    pub certificate_refs: Vec<SecretReference>,
}

/// A reference to a Secret or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Group; none or empty: the core.
    pub group: Option<String>,
    /// Kind; none: `Secret`.
    pub kind: Option<String>,
    /// Name.
    pub name: String,
    /// Namespace; none: the referrer's.
    pub namespace: Option<String>,
}

/// The routes that may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// Their namespaces.
    pub namespaces: RouteNamespaces,
    /// The allowed kinds; empty: the kinds of the protocol.
    pub kinds: Vec<RouteKind>,
}

/// The namespaces of routes or ListenerSets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RouteNamespaces {
    /// `Same` (default), `All`, `Selector` or `None`.
    pub from: Option<String>,
    /// With `Selector`: their labels.
    pub selector: Option<LabelSelector>,
}

/// A kind of routes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RouteKind {
    /// Its group; none: the Gateway API's.
    pub group: Option<String>,
    /// Its name.
    pub kind: String,
}

/// Conditions on labels, which must all hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with exactly these values.
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions.
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A condition on a label.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// With `In` and `NotIn`: the values.
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Returns whether labels fulfil every condition. An unknown operator fulfils none.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let requirement = |one: &SelectorRequirement| {
            let value = labels.get(&one.key);
            match one.operator.as_str() {
                "In" => value.is_some_and(|value| one.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !one.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        };
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(requirement)
    }
}

impl Contents for GatewayClass {}
impl Contents for Gateway {}
impl Contents for ListenerSet {}
