//! Conditions of objects.

use serde_json::{Value, json};

use super::DocumentKey;
use crate::object::Kind;

/// The features that a GatewayClass reports, in the order of their names. A test suite runs the tests of
/// these.
pub const SUPPORTED_FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

/// The longest message of a condition.
const MESSAGE_MAX: usize = 32_768;

/// A condition of an object.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl Condition {
    /// Makes a condition that holds.
    pub fn yes(kind: &'static str, reason: &'static str) -> Self {
        Self { kind, holds: true, reason, message: String::new() }
    }

    /// Makes a condition that does not hold.
    pub fn no(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, holds: false, reason, message: message.into() }
    }

    /// Returns it as it stands in a status.
    pub fn to_json(&self, generation: i64) -> Value {
        json!({
            "type": self.kind,
            "status": if self.holds { "True" } else { "False" },
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
        })
    }
}

/// Returns conditions as they stand in a status.
pub fn to_json(conditions: &[Condition], generation: i64) -> Value {
    conditions.iter().map(|condition| condition.to_json(generation)).collect()
}

/// Changes the status of an object of which a document was refused.
pub fn refuse(kind: Kind, status: &mut Value, key: &DocumentKey, why: &str) {
    let mut message = format!("{}/{}: {}", key.kind, key.name, why.trim());
    if message.len() > MESSAGE_MAX {
        message = message.chars().take(MESSAGE_MAX / 4).collect();
    }
    let (condition, reason) = match kind {
        Kind::Gateway | Kind::ListenerSet => ("Programmed", "Invalid"),
        Kind::TollgatePolicy => ("Accepted", "Invalid"),
        _ => ("Accepted", "UnsupportedValue"),
    };
    let set = |conditions: &mut Value| {
        for one in conditions.as_array_mut().into_iter().flatten() {
            if one["type"] == condition {
                (one["status"], one["reason"]) = ("False".into(), reason.into());
                one["message"] = message.clone().into();
            }
        }
    };
    if let Some(conditions) = status.get_mut("conditions") {
        set(conditions);
    }
    for list in ["parents", "listeners", "ancestors"] {
        for item in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(conditions) = item.get_mut("conditions") {
                set(conditions);
            }
        }
    }
}
