//! HTTPRoute, GRPCRoute, and the routes of layer 4.

use serde::Deserialize;

use crate::object::Contents;

/// An HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRoute {
    /// The parents that it attaches to.
    pub parent_refs: Vec<ParentReference>,
    /// The host names that it serves; empty: the listeners'.
    pub hostnames: Vec<String>,
    /// Its rules.
    pub rules: Vec<HttpRule>,
}

/// A GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcRoute {
    /// The parents that it attaches to.
    pub parent_refs: Vec<ParentReference>,
    /// The host names that it serves; empty: the listeners'.
    pub hostnames: Vec<String>,
    /// Its rules.
    pub rules: Vec<GrpcRule>,
}

/// A TLSRoute, TCPRoute or UDPRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StreamRoute {
    /// The parents that it attaches to.
    pub parent_refs: Vec<ParentReference>,
    /// The server names that a TLSRoute serves.
    pub hostnames: Vec<String>,
    /// Its rules.
    pub rules: Vec<StreamRule>,
}

/// A rule of a TLSRoute, TCPRoute or UDPRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StreamRule {
    /// The backends of connections or datagrams.
    pub backend_refs: Vec<BackendReference>,
}

/// A reference of a route to a parent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentReference {
    /// Group; none: the Gateway API's.
    pub group: Option<String>,
    /// Kind; none: `Gateway`.
    pub kind: Option<String>,
    /// Namespace; none: the route's.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// A listener's name; none: all listeners.
    pub section_name: Option<String>,
    /// A listener's port; none: all ports.
    pub port: Option<u16>,
}

/// A rule of an HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRule {
    /// Its name, which the `sectionName` of a policy refers to.
    pub name: Option<String>,
    /// Alternatives; empty: every request.
    pub matches: Vec<HttpMatch>,
    /// The filters of requests and responses.
    pub filters: Vec<Filter>,
    /// The backends of requests.
    pub backend_refs: Vec<BackendReference>,
    /// Timeouts.
    pub timeouts: Option<RouteTimeouts>,
    /// Retries.
    pub retry: Option<Retry>,
}

/// A rule of a GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcRule {
    /// Its name, which the `sectionName` of a policy refers to.
    pub name: Option<String>,
    /// Alternatives; empty: every call.
    pub matches: Vec<GrpcMatch>,
    /// The filters of calls and their responses.
    pub filters: Vec<Filter>,
    /// The backends of calls.
    pub backend_refs: Vec<BackendReference>,
}

/// Conditions on a request, which must all hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpMatch {
    /// The path; none: the prefix `/`.
    pub path: Option<PathMatch>,
    /// Header fields.
    pub headers: Vec<ValueMatch>,
    /// Query parameters.
    pub query_params: Vec<ValueMatch>,
    /// The method.
    pub method: Option<String>,
}

/// Conditions on a call, which must all hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrpcMatch {
    /// The method.
    pub method: Option<GrpcMethod>,
    /// Header fields.
    pub headers: Vec<ValueMatch>,
}

/// A condition on the method of a call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrpcMethod {
    /// `Exact` (default) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The service with its package.
    pub service: Option<String>,
    /// The method.
    pub method: Option<String>,
}

/// A condition on the path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PathMatch {
    /// `Exact`, `PathPrefix` (default) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The path; none: `/`.
    pub value: Option<String>,
}

/// A condition on a header field or a query parameter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ValueMatch {
    /// `Exact` (default) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A change to a request or its response.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Filter {
    /// The name of the field below that applies.
    #[serde(rename = "type")]
    pub kind: String,
    /// Changes of the request's fields.
    pub request_header_modifier: Option<HeaderModifier>,
    /// Changes of the response's fields.
    pub response_header_modifier: Option<HeaderModifier>,
    /// A copy of the request.
    pub request_mirror: Option<Mirror>,
    /// A redirect.
    pub request_redirect: Option<Redirect>,
    /// Changes of host and path.
    pub url_rewrite: Option<UrlRewrite>,
    /// Which web origins may read responses.
    pub cors: Option<Cors>,
}

/// Changes of header fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HeaderModifier {
    /// Fields that replace fields of the same name.
    pub set: Vec<HttpHeader>,
    /// Fields that are added.
    pub add: Vec<HttpHeader>,
    /// Fields that are removed.
    pub remove: Vec<String>,
}

/// A header field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HttpHeader {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A copy of requests to another backend.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mirror {
    /// The backend.
    pub backend_ref: BackendReference,
    /// The percentage of requests; none: all.
    pub percent: Option<u32>,
    /// The fraction of requests.
    pub fraction: Option<Fraction>,
}

/// A fraction.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Fraction {
    /// Numerator.
    pub numerator: u32,
    /// Denominator; none: 100.
    pub denominator: Option<u32>,
}

/// A redirect.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Redirect {
    /// The scheme; none: the request's.
    pub scheme: Option<String>,
    /// The host; none: the request's.
    pub hostname: Option<String>,
    /// The path; none: the request's.
    pub path: Option<PathModifier>,
    /// The port.
    pub port: Option<u16>,
    /// The status; none: 302.
    pub status_code: Option<u16>,
}

/// Changes of host and path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct UrlRewrite {
    /// The host; none: the request's.
    pub hostname: Option<String>,
    /// The path; none: the request's.
    pub path: Option<PathModifier>,
}

/// A change of the path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The whole new path.
    pub replace_full_path: Option<String>,
    /// The replacement of the matched prefix.
    pub replace_prefix_match: Option<String>,
}

/// Which web origins may read responses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cors {
    /// Origins.
    pub allow_origins: Vec<String>,
    /// Whether requests may carry credentials.
    pub allow_credentials: Option<bool>,
    /// Methods.
    pub allow_methods: Vec<String>,
    /// Fields of requests.
    pub allow_headers: Vec<String>,
    /// Fields of responses.
    pub expose_headers: Vec<String>,
    /// Seconds for which a preflight's response may be cached.
    pub max_age: Option<u64>,
}

/// Timeouts of a rule, as durations of the Gateway API (`1h2m3s4ms`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteTimeouts {
    /// The whole exchange.
    pub request: Option<String>,
    /// One attempt.
    pub backend_request: Option<String>,
}

/// Retries of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Statuses that are retried.
    pub codes: Vec<u16>,
    /// The number of retries.
    pub attempts: Option<u32>,
    /// The wait before a retry.
    pub backoff: Option<String>,
}

/// A reference to a backend.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BackendReference {
    /// Group; none: the core.
    pub group: Option<String>,
    /// Kind; none: `Service`.
    pub kind: Option<String>,
    /// Name.
    pub name: String,
    /// Namespace; none: the route's.
    pub namespace: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Share of the requests; none: 1.
    pub weight: Option<u32>,
    /// Filters for requests to this backend.
    pub filters: Vec<Filter>,
}

impl Contents for HttpRoute {}
impl Contents for GrpcRoute {}
impl Contents for StreamRoute {}
