//! The keys of policies. Each policy has a file of its own.

use super::{Choice, Key, Section, Shape, Text};

mod aggregate;
mod any_of;
mod api_key;
mod auth_body;
mod authorize;
mod basic;
mod by;
mod canary;
mod client_certificate;
mod compression;
mod concurrency;
mod cookies;
mod cors;
mod cost;
mod credential;
mod decompression;
mod ext_authz;
mod fault;
mod forward_auth;
mod headers;
mod hmac;
mod intercept;
mod ip;
mod jwt;
mod mirror;
mod plugins;
mod query;
mod quota;
mod rate_limit;
mod redis;
mod security_headers;
mod trace;

pub(crate) use aggregate::*;
pub(crate) use any_of::*;
pub(crate) use api_key::*;
pub(crate) use auth_body::*;
pub(crate) use authorize::*;
pub(crate) use basic::*;
pub(crate) use by::*;
pub(crate) use canary::*;
pub(crate) use client_certificate::*;
pub(crate) use compression::*;
pub(crate) use concurrency::*;
pub(crate) use cookies::*;
pub(crate) use cors::*;
pub(crate) use cost::*;
pub(crate) use credential::*;
pub(crate) use decompression::*;
pub(crate) use ext_authz::*;
pub(crate) use fault::*;
pub(crate) use forward_auth::*;
pub(crate) use headers::*;
pub(crate) use hmac::*;
pub(crate) use intercept::*;
pub(crate) use ip::*;
pub(crate) use jwt::*;
pub(crate) use mirror::*;
pub(crate) use plugins::*;
pub(crate) use query::*;
pub(crate) use quota::*;
pub(crate) use rate_limit::*;
pub(crate) use redis::*;
pub(crate) use security_headers::*;
pub(crate) use trace::*;

pub(crate) const POLICIES_DOC: &str = "Policies that apply to requests. The innermost policy of each kind \
    applies; `off` disables an inherited one.";

static SET_NAME: Text =
    Text { expected: "the name of a set under `policy_sets`", pattern: Some("."), loose: false };
static SET_NAME_SHAPE: Shape = Shape::Text(&SET_NAME);
pub(crate) static POLICY_SET_VALUE: Shape = Shape::Section(&POLICIES);

static IP_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&IP_POLICY)];
const IP: Key = Key::new("ip", "Admits or rejects client addresses (403).", Shape::AnyOf(&IP_FORMS)).also(&[
    "ip_filter",
    "whitelist",
    "ipAllowList",
    "allow",
    "deny",
]);

static CLIENT_CERTIFICATE_FORMS: [Shape; 2] = [Shape::Switch, Shape::Section(&CLIENT_CERTIFICATE_POLICY)];
const CLIENT_CERTIFICATE: Key = Key::new(
    "client_certificate",
    "Admits clients with a verified certificate (403).",
    Shape::AnyOf(&CLIENT_CERTIFICATE_FORMS),
)
.also(&["mtls", "mtls_auth", "mtls-auth", "certificate"]);

static HMAC_FORMS: [Shape; 2] = [Shape::Switch, Shape::Section(&HMAC_POLICY)];
const HMAC: Key = Key::new(
    "hmac",
    "Admits requests that are signed with a secret of one of the `consumers` (401).",
    Shape::AnyOf(&HMAC_FORMS),
)
.also(&["hmac_auth", "hmac-auth", "signature", "http_signature"]);

static API_KEY_FORMS: [Shape; 2] = [Shape::Switch, Shape::Section(&API_KEY_POLICY)];
const API_KEY: Key = Key::new(
    "api_key",
    "Admits requests with a key of one of the `consumers` (401).",
    Shape::AnyOf(&API_KEY_FORMS),
)
.also(&["key_auth", "key-auth", "api_keys", "apikey"]);

static BASIC_FORMS: [Shape; 2] = [Shape::Switch, Shape::Section(&BASIC_POLICY)];
const BASIC: Key = Key::new(
    "basic",
    "Admits requests with the name and password of one of the `consumers` (401).",
    Shape::AnyOf(&BASIC_FORMS),
)
.also(&["basic_auth", "basic-auth", "basicAuth", "auth_basic", "password"]);

static JWT_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&JWT_POLICY)];
const JWT: Key = Key::new(
    "jwt",
    "Admits requests with a token that a trusted issuer signed (401).",
    Shape::AnyOf(&JWT_FORMS),
)
.also(&["jwt_auth", "jwt-auth", "openid", "oidc", "bearer", "token", "jwt_authn"]);

static FORWARD_AUTH_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&FORWARD_AUTH_POLICY)];
const FORWARD_AUTH: Key =
    Key::new("forward_auth", "Asks an authorization service over HTTP.", Shape::AnyOf(&FORWARD_AUTH_FORMS))
        .also(&["auth_request", "forwardAuth", "forward-auth", "external_auth"]);

static EXT_AUTHZ_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&EXT_AUTHZ_POLICY)];
const EXT_AUTHZ: Key = Key::new(
    "ext_authz",
    "Asks an authorization service over Envoy's gRPC protocol.",
    Shape::AnyOf(&EXT_AUTHZ_FORMS),
)
.also(&["grpc_auth", "envoy.filters.http.ext_authz", "extAuth"]);

static AUTHORIZE_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&AUTHORIZE_POLICY)];
const AUTHORIZE: Key = Key::new(
    "authorize",
    "Restricts which authenticated consumers may proceed (403).",
    Shape::AnyOf(&AUTHORIZE_FORMS),
)
.also(&["acl", "rbac", "authorization", "groups", "require"]);

/// The used sets first, then the policies in the order in which they act on a request.
pub(crate) static POLICIES: Section = Section {
    name: "policies",
    noun: "`policies`",
    doc: "Policies of the gateway, a listener, a route or an upstream, or a set of them.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "use",
            "Policy sets, under `policy_sets`, that also apply here. Policies next to `use` override the \
            sets, and a later set overrides an earlier one. Not allowed inside a set.",
            Shape::OneOrMany(&SET_NAME_SHAPE),
        )
        .also(&["uses", "set", "sets", "policy_set", "policy_sets", "plugin_config_id", "middlewares_from"]),
        Key::new(
            "trace",
            "Sends spans of requests to an OpenTelemetry collector.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&TRACE_POLICY)]),
        )
        .also(&["tracing", "opentelemetry", "otel", "otlp", "zipkin", "jaeger"]),
        IP,
        Key::new(
            "cors",
            "Controls which web origins may read responses.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&CORS_POLICY)]),
        )
        .also(&["cross_origin"]),
        Key::new(
            "intercept",
            "Answers requests before they are forwarded, by path, query, method or scheme.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&INTERCEPT), Shape::ListOf(&INTERCEPT_RULE)]),
        )
        .also(&["uri_blocker", "uri-blocker", "block", "deny_uris", "http_to_https"]),
        CLIENT_CERTIFICATE,
        HMAC,
        API_KEY,
        BASIC,
        JWT,
        FORWARD_AUTH,
        EXT_AUTHZ,
        Key::new(
            "any_of",
            "Alternatives, each with policies. A request must pass all policies of one alternative. The first one that it passes identifies the client.",
            Shape::AnyOf(&[Shape::Off, Shape::ListOf(&ALTERNATIVE_SHAPE)]),
        )
        .also(&["multi_auth", "multi-auth", "satisfy", "requires_any", "one_of", "any"]),
        AUTHORIZE,
        Key::new(
            "rate_limit",
            "Limits requests per period (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&RATE_LIMIT_SHAPE)]),
        )
        .also(&[
            "ratelimit",
            "rate_limits",
            "limit_req",
            "rate-limiting",
            "throttle",
            "local_rate_limit",
            "limits",
        ]),
        Key::new(
            "quota",
            "Limits requests per calendar day or month (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&QUOTA_SHAPE)]),
        )
        .also(&["quotas", "limit_count"]),
        Key::new(
            "concurrency",
            "Limits concurrent requests (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&CONCURRENCY_SHAPE)]),
        )
        .also(&[
            "in_flight_req",
            "inFlightReq",
            "limit_conn",
            "limit-conn",
            "max_concurrent_requests",
        ]),
        Key::new(
            "fault",
            "Delays or fails requests on purpose.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&FAULT)]),
        )
        .also(&["fault_injection", "fault-injection", "faults", "chaos"]),
        Key::new(
            "canary",
            "Sends matching requests to one of the route's upstreams, regardless of weights.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&CANARY_POLICY), Shape::ListOf(&CANARY_RULE)]),
        )
        .also(&["traffic_split", "split", "blue_green", "gray", "experiment"]),
        Key::new(
            "mirror",
            "Sends copies of requests to another upstream.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&MIRROR_POLICY)]),
        )
        .also(&["shadow", "mirroring", "request_mirror_policies", "tee"]),
        Key::new(
            "headers",
            "Adds, replaces and removes fields of requests and responses.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&HEADERS_POLICY)]),
        )
        .also(&["header", "add_header", "proxy_set_header", "request_headers", "response_headers"]),
        Key::new(
            "query",
            "Adds, replaces and removes query parameters of requests.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&QUERY_POLICY)]),
        )
        .also(&["args", "parameters", "query_parameters"]),
        Key::new(
            "cookies",
            "Changes the cookies that responses set.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&COOKIES_POLICY)]),
        )
        .also(&["cookie", "set_cookie", "proxy_cookie_flags"]),
        Key::new(
            "security_headers",
            "Adds response fields that restrict browsers.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&SECURITY_HEADERS_POLICY)]),
        )
        .also(&["secure_headers", "helmet"]),
        Key::new(
            "compression",
            "Compresses response bodies for clients that accept it.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&COMPRESSION_POLICY)]),
        )
        .also(&["compress", "gzip", "brotli", "compressor", "encode"]),
        Key::new(
            "decompression",
            "Decodes request bodies, and response bodies for clients that do not accept their encoding.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&DECOMPRESSION_POLICY)]),
        )
        .also(&["decompress", "gunzip", "inflate", "decompressor", "decode"]),
        Key::new(
            "aggregate",
            "Combines responses of several upstreams in one JSON document.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&AGGREGATE_POLICY)]),
        )
        .also(&["aggregation", "fan_out", "merge", "compose", "api_composition"]),
        Key::new(
            "plugins",
            "Plugins that are built into this program: each name with its settings, `on` or `off`.",
            Shape::AnyOf(&[Shape::Off, Shape::MapOf(&PLUGIN_SHAPE)]),
        )
        .also(&["plugin", "extensions", "wasm", "filters", "middlewares", "http_filters"]),
    ],
};
