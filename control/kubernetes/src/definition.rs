//! The definition of the resource TollgatePolicy, as the API server takes it (`CustomResourceDefinition`).
//!
//! What a policy may say comes from the declared sections of the configuration. This crate does not know them, so the
//! program passes the function that makes their schemas. A new policy of the gateway thus appears in the definition
//! without a second declaration. `tollgate crds` prints it, and a test compares it with the manifests under `deploy`.

use serde_json::{Value, json};

use crate::object::{Kind, OWN_GROUP};
use crate::translate::{SECRET_REFERENCE, SERVICE_REFERENCE};

/// The keys of a route that the route's own object says, or that name upstreams and files.
const NOT_OF_ROUTES: [&str; 13] = [
    "name",
    "match",
    "listeners",
    "created",
    "enabled",
    "to",
    "redirect",
    "respond",
    "files",
    "rewrite",
    "fallback",
    "policies",
    "access_log",
];
/// The keys of an upstream that come from the Service, its endpoints and its BackendTLSPolicy, and the key that names
/// an address of the machine.
const NOT_OF_UPSTREAMS: [&str; 6] = ["endpoints", "discover", "http2", "tls", "source_address", "policies"];
/// Maximum number of targets of a policy, and of entries in its status.
const TARGETS_MAX: usize = 16;

/// The parameters of a section's schema.
#[derive(Clone, Copy, Debug)]
pub struct SectionRequest<'a> {
    /// The section's name.
    pub section: &'a str,
    /// The keys that it does not have here.
    pub without: &'a [&'static str],
    /// The schema of a secret.
    pub secret: &'a Value,
    /// The schema of the name of an upstream.
    pub upstream: &'a Value,
}

/// Returns the definition. `schema` makes the structural schema of a section of the configuration.
#[must_use]
pub fn policy_definition(schema: impl Fn(SectionRequest<'_>) -> Value) -> Value {
    let (group, version, kind, plural) = Kind::TollgatePolicy.names();
    let secret = secret();
    let upstream = upstream();
    let section = |section: &str, without: &[&'static str], doc: &str| {
        let request = SectionRequest { section, without, secret: &secret, upstream: &upstream };
        let mut schema = schema(request);
        schema["description"] = doc.into();
        schema
    };
    let spec = json!({
        "type": "object",
        "required": ["targetRefs"],
        "properties": {
            "targetRefs": targets(),
            "policies": section(
                "policies", &[],
                "Policies of the gateway, as under `policies` of its configuration. Those of a Gateway are defaults of its \
                 routes; those of a Service apply behind those of routes.",
            ),
            "route": section(
                "route", &NOT_OF_ROUTES,
                "Settings of routes, as under `routes` of the configuration: for HTTPRoutes and GRPCRoutes.",
            ),
            "upstream": section(
                "upstream", &NOT_OF_UPSTREAMS,
                "Settings of upstreams, as under `upstreams` of the configuration: for Services.",
            ),
        },
        "x-kubernetes-validations": [
            {
                "rule": "has(self.policies) || has(self.route) || has(self.upstream)",
                "message": "a policy needs `policies`, `route` or `upstream`",
            },
            {
                "rule": "!has(self.upstream) || self.targetRefs.all(to, to.kind == 'Service')",
                "message": "`upstream` applies to Services only",
            },
            {
                "rule": "!has(self.route) || self.targetRefs.all(to, to.kind in ['HTTPRoute', 'GRPCRoute'])",
                "message": "`route` applies to HTTPRoutes and GRPCRoutes only",
            },
        ],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "labels": { "gateway.networking.k8s.io/policy": "Inherited" },
        },
        "spec": {
            "group": OWN_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": "tollgatepolicy",
                "shortNames": ["tgp"], "categories": ["gateway-api"],
            },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    { "name": "Kind", "type": "string", "jsonPath": ".spec.targetRefs[0].kind" },
                    { "name": "Target", "type": "string", "jsonPath": ".spec.targetRefs[0].name" },
                    {
                        "name": "Accepted", "type": "string",
                        "jsonPath": ".status.ancestors[0].conditions[?(@.type==\"Accepted\")].status",
                    },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "description": "Policies and settings of the gateway for Gateways, routes and Services.",
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": { "type": "string" },
                        "kind": { "type": "string" },
                        "metadata": { "type": "object" },
                        "spec": spec,
                        "status": status(),
                    },
                }},
            }],
        },
    })
}

fn targets() -> Value {
    json!({
        "description": "The objects that it applies to, in its own namespace.",
        "type": "array",
        "minItems": 1,
        "maxItems": TARGETS_MAX,
        "items": {
            "type": "object",
            "required": ["group", "kind", "name"],
            "properties": {
                "group": {
                    "description": "`gateway.networking.k8s.io`, or empty for a Service.",
                    "type": "string", "maxLength": 253,
                },
                "kind": { "description": "`Gateway`, `HTTPRoute`, `GRPCRoute` or `Service`.", "type": "string", "maxLength": 63 },
                "name": { "description": "Its name.", "type": "string", "minLength": 1, "maxLength": 253 },
                "sectionName": {
                    "description": "A listener of the Gateway, a rule of the route or a port of the Service. Default: all.",
                    "type": "string", "minLength": 1, "maxLength": 253,
                },
            },
            "x-kubernetes-validations": [{
                "rule": "self.group == 'gateway.networking.k8s.io' ? self.kind in ['Gateway', 'HTTPRoute', 'GRPCRoute'] \
                         : self.group == '' && self.kind == 'Service'",
                "message": "a policy applies to a Gateway, an HTTPRoute or a GRPCRoute of the group \
                            `gateway.networking.k8s.io`, or to a Service of the group \"\"",
            }],
        },
    })
}

/// Returns the schema of a text that a Secret holds.
fn secret() -> Value {
    reference(
        SECRET_REFERENCE,
        "An entry of a Secret, whose value counts.",
        &json!({
            "name": { "description": "The name of the Secret.", "type": "string", "minLength": 1, "maxLength": 253 },
            "key": { "description": "The entry.", "type": "string", "minLength": 1, "maxLength": 253 },
            "namespace": granted_namespace(),
        }),
        &["name", "key"],
    )
}

/// Returns the schema of an upstream, which is a port of a Service.
fn upstream() -> Value {
    reference(
        SERVICE_REFERENCE,
        "A port of a Service.",
        &json!({
            "name": { "description": "The name of the Service.", "type": "string", "minLength": 1, "maxLength": 253 },
            "port": { "description": "Its port.", "type": "integer", "minimum": 1, "maximum": 65_535 },
            "namespace": granted_namespace(),
        }),
        &["name", "port"],
    )
}

/// Returns the schema of the namespace of an object that a policy refers to.
fn granted_namespace() -> Value {
    json!({
        "description": "Its namespace, if a ReferenceGrant permits it. Default: the policy's.",
        "type": "string", "minLength": 1, "maxLength": 63,
    })
}

fn reference(key: &str, doc: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "required": [key],
        "properties": {
            key: { "description": doc, "type": "object", "required": required, "properties": properties },
        },
    })
}

fn status() -> Value {
    let text = || json!({ "type": "string" });
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(), "status": text(), "reason": text(), "message": text(),
            "observedGeneration": { "type": "integer", "format": "int64" },
            "lastTransitionTime": { "type": "string", "format": "date-time" },
        },
    });
    json!({
        "description": "Whether it is in force, by the Gateways that serve its targets.",
        "type": "object",
        "properties": {
            "ancestors": {
                "type": "array",
                "maxItems": TARGETS_MAX,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["ancestorRef", "controllerName", "conditions"],
                    "properties": {
                        "ancestorRef": {
                            "type": "object",
                            "required": ["group", "kind", "name"],
                            "properties": { "group": text(), "kind": text(), "namespace": text(), "name": text() },
                        },
                        "controllerName": text(),
                        "conditions": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": condition,
                        },
                    },
                },
            },
        },
    })
}
