//! Policies, as they are attached to the gateway, a listener, a route or an upstream.

use std::sync::Arc;

use super::{At, Cidr, Spanned};

mod aggregate;
mod auth;
mod by;
mod canary;
mod compression;
mod concurrency;
mod cookies;
mod cors;
mod cost;
mod decompression;
mod fault;
mod headers;
mod hmac;
mod intercept;
mod jwt;
mod mirror;
mod plugins;
mod query;
mod quota;
mod rate_limit;
mod redis;
mod security_headers;
mod trace;

pub use aggregate::*;
pub use auth::*;
pub use by::*;
pub use canary::*;
pub use compression::*;
pub use concurrency::*;
pub use cookies::*;
pub use cors::*;
pub use cost::*;
pub use decompression::*;
pub use fault::*;
pub use headers::*;
pub use hmac::*;
pub use intercept::*;
pub use jwt::*;
pub use mirror::*;
pub use plugins::*;
pub use query::*;
pub use quota::*;
pub use rate_limit::*;
pub use redis::*;
pub use security_headers::*;
pub use trace::*;

/// The policies that are attached to one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// The sets that are used here, as written: what is in `list` counts over them, and a later one over an earlier.
    pub sets: Vec<UsedSet>,
    /// As written; at most one of a kind.
    pub list: Vec<Attached>,
}

impl Policies {
    /// Whether nothing is said here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.list.is_empty()
    }
}

/// A set of policies that is used somewhere. Whether there is one of the name is for the plan's compiler to say: it may be of
/// another source.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedSet {
    /// Its name.
    pub name: Spanned<String>,
    /// As it was written, when an environment variable was filled in: the name is then not to be shown.
    pub written: Option<String>,
}

/// Policies with a name, for several places.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySet {
    /// The name.
    pub name: Spanned<String>,
    /// The policies; it uses no other sets.
    pub policies: Policies,
}

/// A policy that is attached to something, or kept from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// Its kind.
    pub kind: PolicyKind,
    /// Where its key was written.
    pub at: At,
    /// What it says; `None`: `off`, what is attached further out does not hold here.
    pub spec: Option<Arc<PolicySpec>>,
}

/// The kinds of policies, in the order in which a request meets them. Each plugin says itself where it stands among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// Spans of requests, for a collector.
    Trace,
    /// Which addresses may come.
    Ip,
    /// Who has shown a certificate may come.
    ClientCertificate,
    /// Who signs requests may come.
    Hmac,
    /// Who shows a key may come.
    ApiKey,
    /// Who shows a password may come.
    Basic,
    /// Who shows a signed token may come.
    Jwt,
    /// A service says who may come.
    ForwardAuth,
    /// A service says in gRPC who may come.
    ExtAuthz,
    /// Alternatives of such policies.
    AnyOf,
    /// Which of those who are known may come.
    Authorize,
    /// How many requests may come in a time.
    RateLimit,
    /// How many requests may come in a day or a month.
    Quota,
    /// How many requests may be under way at once.
    Concurrency,
    /// Requests that are late or fail on purpose.
    Fault,
    /// Which web pages may read the answers.
    Cors,
    /// Requests that are answered before they go anywhere.
    Intercept,
    /// Which of its route's upstreams a request goes to.
    Canary,
    /// Copies of requests for another upstream.
    Mirror,
    /// Fields that messages gain and lose.
    Headers,
    /// Parameters that requests gain and lose.
    Query,
    /// What changes in the cookies that responses set.
    Cookies,
    /// Fields by which browsers are told to be careful.
    SecurityHeaders,
    /// Bodies of responses become smaller.
    Compression,
    /// Encoded bodies are decoded.
    Decompression,
    /// One document of what several upstreams say.
    Aggregate,
    /// What plugins do, each at a place of its own.
    Plugins,
}

impl PolicyKind {
    /// All kinds, in the order in which a request meets them; plugins last, since each has a place of its own.
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

    /// Its key in the configuration.
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

/// What a policy says.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySpec {
    /// Spans of requests, for a collector.
    Trace(Box<Trace>),
    /// Which addresses may come.
    Ip(Ip),
    /// Who has shown a certificate may come.
    ClientCertificate(ClientCertificate),
    /// Who signs requests may come.
    Hmac(Box<Hmac>),
    /// Who shows a key may come.
    ApiKey(ApiKey),
    /// Who shows a password may come.
    Basic(Basic),
    /// Who shows a signed token may come.
    Jwt(Box<Jwt>),
    /// A service says who may come.
    ForwardAuth(Box<ForwardAuth>),
    /// A service says in gRPC who may come.
    ExtAuthz(Box<ExtAuthz>),
    /// Alternatives of such policies.
    AnyOf(AnyOf),
    /// Which of those who are known may come.
    Authorize(Authorize),
    /// How many requests may come in a time.
    RateLimit(Vec<RateLimit>),
    /// How many requests may come in a day or a month.
    Quota(Vec<Quota>),
    /// How many requests may be under way at once.
    Concurrency(Vec<Concurrency>),
    /// Requests that are late or fail on purpose.
    Fault(Fault),
    /// Requests that are answered before they go anywhere.
    Intercept(Intercept),
    /// Which of its route's upstreams a request goes to.
    Canary(Canary),
    /// Which web pages may read the answers.
    Cors(Cors),
    /// Copies of requests for another upstream.
    Mirror(Mirror),
    /// Fields that messages gain and lose.
    Headers(Headers),
    /// Fields by which browsers are told to be careful.
    SecurityHeaders(SecurityHeaders),
    /// Bodies of responses become smaller.
    Compression(Compression),
    /// Encoded bodies are decoded.
    Decompression(Decompression),
    /// Parameters that requests gain and lose.
    Query(Query),
    /// What changes in the cookies that responses set.
    Cookies(Cookies),
    /// One document of what several upstreams say.
    Aggregate(Aggregate),
    /// What plugins do.
    Plugins(PluginPolicies),
}

/// `ip`: which addresses may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ip {
    /// Who may; empty: everybody whom `deny` does not have.
    pub allow: Vec<Cidr>,
    /// Who may not, whatever `allow` says.
    pub deny: Vec<Cidr>,
}
