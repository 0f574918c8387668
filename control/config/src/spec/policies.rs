//! The keys of policies. Each policy has a file of its own.

use crate::model::*;
use crate::section::{OrOff, Value};

use super::{Choice, KeySpec, SectionSpec, Shape, Text};

mod aggregate;
mod any_of;
mod api_key;
mod authorize;
mod by;
mod concurrency;
mod cost;
mod credential;
mod jwt;
mod plugins;
mod quota;
mod rate_limit;
mod redis;
mod trace;

pub(crate) use aggregate::*;
pub(crate) use any_of::*;
pub(crate) use api_key::*;
pub(crate) use authorize::*;
pub(crate) use by::*;
pub(crate) use concurrency::*;
pub(crate) use cost::*;
pub(crate) use credential::*;
pub(crate) use jwt::*;
pub(crate) use plugins::*;
pub(crate) use quota::*;
pub(crate) use rate_limit::*;
pub(crate) use redis::*;
pub(crate) use trace::*;

pub(crate) const POLICIES_DOC: &str = "Policies that apply to requests. The innermost policy of each kind \
    applies; `off` disables an inherited one.";

static SET_NAME: Text =
    Text { expected: "the name of a set under `policy_sets`", pattern: Some("."), loose: false };
static SET_NAME_SHAPE: Shape = Shape::Text(&SET_NAME);
pub(crate) static POLICY_SET_VALUE: Shape = Shape::Section(&POLICIES);

const IP: KeySpec = KeySpec::new("ip", "Admits or rejects client addresses (403).", Ip::OR_OFF).aliases(&[
    "ip_filter",
    "whitelist",
    "ipAllowList",
    "allow",
    "deny",
]);

const CLIENT_CERTIFICATE: KeySpec = KeySpec::new(
    "client_certificate",
    "Admits clients with a verified certificate (403).",
    <ClientCertificate as Value>::SHAPE,
)
.aliases(&["mtls", "mtls_auth", "mtls-auth", "certificate"]);

const HMAC: KeySpec = KeySpec::new(
    "hmac",
    "Admits requests that are signed with a secret of one of the `consumers` (401).",
    <Hmac as Value>::SHAPE,
)
.aliases(&["hmac_auth", "hmac-auth", "signature", "http_signature"]);

static API_KEY_FORMS: [Shape; 2] = [Shape::Switch, Shape::Section(&API_KEY_POLICY)];
const API_KEY: KeySpec = KeySpec::new(
    "api_key",
    "Admits requests with a key of one of the `consumers` (401).",
    Shape::AnyOf(&API_KEY_FORMS),
)
.aliases(&["key_auth", "key-auth", "api_keys", "apikey"]);

const BASIC: KeySpec = KeySpec::new(
    "basic",
    "Admits requests with the name and password of one of the `consumers` (401).",
    <Basic as Value>::SHAPE,
)
.aliases(&["basic_auth", "basic-auth", "basicAuth", "auth_basic", "password"]);

static JWT_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&JWT_POLICY)];
const JWT: KeySpec = KeySpec::new(
    "jwt",
    "Admits requests with a token that a trusted issuer signed (401).",
    Shape::AnyOf(&JWT_FORMS),
)
.aliases(&["jwt_auth", "jwt-auth", "openid", "oidc", "bearer", "token", "jwt_authn"]);

const FORWARD_AUTH: KeySpec =
    KeySpec::new("forward_auth", "Asks an authorization service over HTTP.", ForwardAuth::OR_OFF).aliases(&[
        "auth_request",
        "forwardAuth",
        "forward-auth",
        "external_auth",
    ]);

const EXT_AUTHZ: KeySpec =
    KeySpec::new("ext_authz", "Asks an authorization service over Envoy's gRPC protocol.", ExtAuthz::OR_OFF)
        .aliases(&["grpc_auth", "envoy.filters.http.ext_authz", "extAuth"]);

static AUTHORIZE_FORMS: [Shape; 2] = [Shape::Off, Shape::Section(&AUTHORIZE_POLICY)];
const AUTHORIZE: KeySpec = KeySpec::new(
    "authorize",
    "Restricts which authenticated consumers may proceed (403).",
    Shape::AnyOf(&AUTHORIZE_FORMS),
)
.aliases(&["acl", "rbac", "authorization", "groups", "require"]);

/// The used sets first, then the policies in the order in which they act on a request.
pub(crate) static POLICIES: SectionSpec = SectionSpec {
    name: "policies",
    noun: "`policies`",
    doc: "Policies of the gateway, a listener, a route or an upstream, or a set of them.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "use",
            "Policy sets, under `policy_sets`, that also apply here. Policies next to `use` override the \
            sets, and a later set overrides an earlier one. Not allowed inside a set.",
            Shape::OneOrMany(&SET_NAME_SHAPE),
        )
        .aliases(&["uses", "set", "sets", "policy_set", "policy_sets", "plugin_config_id", "middlewares_from"]),
        KeySpec::new(
            "trace",
            "Sends spans of requests to an OpenTelemetry collector.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&TRACE_POLICY)]),
        )
        .aliases(&["tracing", "opentelemetry", "otel", "otlp", "zipkin", "jaeger"]),
        IP,
        KeySpec::new(
            "cors",
            "Controls which web origins may read responses.",
            Cors::OR_OFF,
        )
        .aliases(&["cross_origin"]),
        KeySpec::new(
            "intercept",
            "Answers requests before they are forwarded, by path, query, method or scheme.",
            <Intercept as Value>::SHAPE,
        )
        .aliases(&["uri_blocker", "uri-blocker", "block", "deny_uris", "http_to_https"]),
        CLIENT_CERTIFICATE,
        HMAC,
        API_KEY,
        BASIC,
        JWT,
        FORWARD_AUTH,
        EXT_AUTHZ,
        KeySpec::new(
            "any_of",
            "Alternatives, each with policies. A request must pass all policies of one alternative. The first one that it passes identifies the client.",
            Shape::AnyOf(&[Shape::Off, Shape::ListOf(&ALTERNATIVE_SHAPE)]),
        )
        .aliases(&["multi_auth", "multi-auth", "satisfy", "requires_any", "one_of", "any"]),
        AUTHORIZE,
        KeySpec::new(
            "rate_limit",
            "Limits requests per period (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&RATE_LIMIT_SHAPE)]),
        )
        .aliases(&[
            "ratelimit",
            "rate_limits",
            "limit_req",
            "rate-limiting",
            "throttle",
            "local_rate_limit",
            "limits",
        ]),
        KeySpec::new(
            "quota",
            "Limits requests per calendar day or month (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&QUOTA_SHAPE)]),
        )
        .aliases(&["quotas", "limit_count"]),
        KeySpec::new(
            "concurrency",
            "Limits concurrent requests (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&CONCURRENCY_SHAPE)]),
        )
        .aliases(&[
            "in_flight_req",
            "inFlightReq",
            "limit_conn",
            "limit-conn",
            "max_concurrent_requests",
        ]),
        KeySpec::new(
            "fault",
            "Delays or fails requests on purpose.",
            Fault::OR_OFF,
        )
        .aliases(&["fault_injection", "fault-injection", "faults", "chaos"]),
        KeySpec::new(
            "canary",
            "Sends matching requests to one of the route's upstreams, regardless of weights.",
            <Canary as Value>::SHAPE,
        )
        .aliases(&["traffic_split", "split", "blue_green", "gray", "experiment"]),
        KeySpec::new(
            "mirror",
            "Sends copies of requests to another upstream.",
            Mirror::OR_OFF,
        )
        .aliases(&["shadow", "mirroring", "request_mirror_policies", "tee"]),
        KeySpec::new(
            "headers",
            "Adds, replaces and removes fields of requests and responses.",
            Headers::OR_OFF,
        )
        .aliases(&["header", "add_header", "proxy_set_header", "request_headers", "response_headers"]),
        KeySpec::new(
            "query",
            "Adds, replaces and removes query parameters of requests.",
            Query::OR_OFF,
        )
        .aliases(&["args", "parameters", "query_parameters"]),
        KeySpec::new(
            "cookies",
            "Changes the cookies that responses set.",
            Cookies::OR_OFF,
        )
        .aliases(&["cookie", "set_cookie", "proxy_cookie_flags"]),
        KeySpec::new(
            "security_headers",
            "Adds response fields that restrict browsers.",
            <SecurityHeaders as Value>::SHAPE,
        )
        .aliases(&["secure_headers", "helmet"]),
        KeySpec::new(
            "compression",
            "Compresses response bodies for clients that accept it.",
            <Compression as Value>::SHAPE,
        )
        .aliases(&["compress", "gzip", "brotli", "compressor", "encode"]),
        KeySpec::new(
            "decompression",
            "Decodes request bodies, and response bodies for clients that do not accept their encoding.",
            <Decompression as Value>::SHAPE,
        )
        .aliases(&["decompress", "gunzip", "inflate", "decompressor", "decode"]),
        KeySpec::new(
            "aggregate",
            "Combines responses of several upstreams in one JSON document.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&AGGREGATE_POLICY)]),
        )
        .aliases(&["aggregation", "fan_out", "merge", "compose", "api_composition"]),
        KeySpec::new(
            "plugins",
            "Plugins that are built into this program: each name with its settings, `on` or `off`.",
            Shape::AnyOf(&[Shape::Off, Shape::MapOf(&PLUGIN_SHAPE)]),
        )
        .aliases(&["plugin", "extensions", "wasm", "filters", "middlewares", "http_filters"]),
    ],
};
