//! Policies as attached to the gateway, a listener, a route or an upstream.

use std::sync::Arc;

use super::{At, Spanned};
use crate::sections::*;

mod aggregate;
mod auth;
mod by;
mod concurrency;
mod cost;
mod jwt;
mod plugins;
mod quota;
mod rate_limit;
mod redis;
mod trace;

pub use aggregate::*;
pub use auth::*;
pub use by::*;
pub use concurrency::*;
pub use cost::*;
pub use jwt::*;
pub use plugins::*;
pub use quota::*;
pub use rate_limit::*;
pub use redis::*;
pub use trace::*;

/// The policies attached in one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// The sets used here, in the order written. A policy in `list` overrides the sets, and a later set
    /// overrides an earlier one.
    pub sets: Vec<UsedSet>,
    /// Policies in the order written; at most one of a kind.
    pub list: Vec<Attached>,
}

impl Policies {
    /// Returns whether nothing is attached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.list.is_empty()
    }
}

/// A use of a policy set. The plan's compiler checks that the set exists, because another source may define
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedSet {
    /// Name of the set.
    pub name: Spanned<String>,
    /// The original text, if it contained an environment variable: messages must then not show `name`.
    pub written: Option<String>,
}

/// A named set of policies.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySet {
    /// Unique name of the set.
    pub name: Spanned<String>,
    /// The policies; they use no other sets.
    pub policies: Policies,
}

/// A policy that is attached or switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// Kind of the policy.
    pub kind: PolicyKind,
    /// Source position of its key.
    pub at: At,
    /// Its settings. `None` is `off`: a policy inherited from an outer level does not apply here.
    pub spec: Option<Arc<PolicySpec>>,
}

/// The kinds of policies, in the order in which they act on a request. Each plugin declares its own position
/// in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// Sends spans of requests to a collector.
    Trace,
    /// Admits or rejects client addresses.
    Ip,
    /// Admits clients with a verified certificate.
    ClientCertificate,
    /// Admits signed requests.
    Hmac,
    /// Admits requests that carry a consumer's API key.
    ApiKey,
    /// Admits requests with a consumer's name and password.
    Basic,
    /// Admits requests with a signed token.
    Jwt,
    /// Asks an authorization service over HTTP.
    ForwardAuth,
    /// Asks an authorization service over gRPC.
    ExtAuthz,
    /// Admits a request if one of several alternatives does.
    AnyOf,
    /// Restricts which identified consumers may proceed.
    Authorize,
    /// Limits requests per period.
    RateLimit,
    /// Limits requests per day or month.
    Quota,
    /// Limits concurrent requests.
    Concurrency,
    /// Delays or fails requests on purpose.
    Fault,
    /// Controls which web origins may read responses.
    Cors,
    /// Answers requests before they are forwarded.
    Intercept,
    /// Chooses one of the route's upstreams.
    Canary,
    /// Sends copies of requests to another upstream.
    Mirror,
    /// Changes header fields of requests and responses.
    Headers,
    /// Changes query parameters of requests.
    Query,
    /// Changes the cookies that responses set.
    Cookies,
    /// Adds response fields that restrict browsers.
    SecurityHeaders,
    /// Compresses response bodies.
    Compression,
    /// Decodes encoded bodies.
    Decompression,
    /// Combines responses of several upstreams in one document.
    Aggregate,
    /// Runs plugins, each at its own position.
    Plugins,
}

impl PolicyKind {
    /// All kinds, in the order in which they act on a request. Plugins come last because each has its own
    /// position.
    pub const ALL: [Self; 27] = [
        Self::Trace,
        Self::Ip,
        Self::Cors,
        Self::Intercept,
        Self::ClientCertificate,
        Self::Hmac,
        Self::ApiKey,
        Self::Basic,
        Self::Jwt,
        Self::ForwardAuth,
        Self::ExtAuthz,
        Self::AnyOf,
        Self::Authorize,
        Self::RateLimit,
        Self::Quota,
        Self::Concurrency,
        Self::Fault,
        Self::Canary,
        Self::Mirror,
        Self::Headers,
        Self::Query,
        Self::Cookies,
        Self::SecurityHeaders,
        Self::Compression,
        Self::Decompression,
        Self::Aggregate,
        Self::Plugins,
    ];

    /// Returns the kind's key in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Ip => "ip",
            Self::Intercept => "intercept",
            Self::ClientCertificate => "client_certificate",
            Self::Hmac => "hmac",
            Self::ApiKey => "api_key",
            Self::Basic => "basic",
            Self::Jwt => "jwt",
            Self::ForwardAuth => "forward_auth",
            Self::ExtAuthz => "ext_authz",
            Self::AnyOf => "any_of",
            Self::Authorize => "authorize",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Concurrency => "concurrency",
            Self::Fault => "fault",
            Self::Cors => "cors",
            Self::Canary => "canary",
            Self::Mirror => "mirror",
            Self::Headers => "headers",
            Self::Query => "query",
            Self::Cookies => "cookies",
            Self::SecurityHeaders => "security_headers",
            Self::Compression => "compression",
            Self::Decompression => "decompression",
            Self::Aggregate => "aggregate",
            Self::Plugins => "plugins",
        }
    }
}

/// The settings of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySpec {
    /// Sends spans of requests to a collector.
    Trace(Box<Trace>),
    /// Admits or rejects client addresses.
    Ip(Ip),
    /// Admits clients with a verified certificate.
    ClientCertificate(ClientCertificate),
    /// Admits signed requests.
    Hmac(Box<Hmac>),
    /// Admits requests that carry a consumer's API key.
    ApiKey(ApiKey),
    /// Admits requests with a consumer's name and password.
    Basic(Basic),
    /// Admits requests with a signed token.
    Jwt(Box<Jwt>),
    /// Asks an authorization service over HTTP.
    ForwardAuth(Box<ForwardAuth>),
    /// Asks an authorization service over gRPC.
    ExtAuthz(Box<ExtAuthz>),
    /// Admits a request if one of several alternatives does.
    AnyOf(AnyOf),
    /// Restricts which identified consumers may proceed.
    Authorize(Authorize),
    /// Limits requests per period.
    RateLimit(Vec<RateLimit>),
    /// Limits requests per day or month.
    Quota(Vec<Quota>),
    /// Limits concurrent requests.
    Concurrency(Vec<Concurrency>),
    /// Delays or fails requests on purpose.
    Fault(Fault),
    /// Answers requests before they are forwarded.
    Intercept(Intercept),
    /// Chooses one of the route's upstreams.
    Canary(Canary),
    /// Controls which web origins may read responses.
    Cors(Cors),
    /// Sends copies of requests to another upstream.
    Mirror(Mirror),
    /// Changes header fields of requests and responses.
    Headers(Headers),
    /// Adds response fields that restrict browsers.
    SecurityHeaders(SecurityHeaders),
    /// Compresses response bodies.
    Compression(Compression),
    /// Decodes encoded bodies.
    Decompression(Decompression),
    /// Changes query parameters of requests.
    Query(Query),
    /// Changes the cookies that responses set.
    Cookies(Cookies),
    /// Combines responses of several upstreams in one document.
    Aggregate(Aggregate),
    /// Runs plugins.
    Plugins(PluginPolicies),
}
