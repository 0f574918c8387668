//! Policies: authentication, limits, routing decisions and message changes. Each policy has its own file.
//!
//! A policy sees a [`Request`] and returns a [`Verdict`]: the request continues, ends here, or waits for an
//! external service. Work on the response is registered in the request's [`Context`]. A policy sees only the
//! message model, so it is written once for all versions of HTTP. It has no access to workers, sockets or
//! connections.
//!
//! A plan holds [`Planned`] policies, which are immutable and stateless. When the plan is rolled out, each of
//! them becomes a [`Policy`] that all workers share. The policy looks its state up in [`PolicyStates`] under
//! its key, so counters and caches survive a change of plan.
//!
//! A plugin implements these two traits and [`Plugin`], which gives it a name and settings. The binary
//! registers its plugins once, in [`Plugins`].

#![deny(clippy::print_stderr)]

mod aggregate;
mod any_of;
mod api_key;
mod auth_body;
mod authenticator;
mod authorize;
mod background;
mod basic;
mod canary;
mod client;
mod client_certificate;
mod compression;
mod concurrency;
mod consumers;
mod context;
mod cookies;
mod cors;
mod cost;
mod count_key;
mod credential;
mod decompression;
mod exempt;
mod ext_authz;
mod fault;
mod forward_auth;
mod headers;
mod hmac;
mod identity;
mod identity_hasher;
mod intercept;
mod ip;
mod jwt;
mod known_tags;
mod limit_fields;
pub mod loops;
mod mirror;
mod otlp;
mod percent;
mod plugin;
mod policy;
mod policy_states;
mod query;
mod query_pairs;
mod quota;
mod rate_limit;
mod redis;
mod request;
mod request_copy;
mod response;
mod sampling;
mod security_headers;
mod template;
pub mod testing;
mod trace;

pub use aggregate::{AggregatePart, AggregateRules, Requirement, ShapePiece};
pub use any_of::AnyOfRules;
pub use api_key::ApiKeyRules;
pub use auth_body::AuthBody;
pub use authenticator::Authenticator;
pub use authorize::{AuthorizeRule, AuthorizeRules};
pub use background::{BackgroundIo, BackgroundTask};
pub use basic::{BasicRules, is_password_hash};
pub use canary::{CanaryKey, CanaryRule, CanaryRules, FieldCondition};
pub use client::Trust;
pub use client_certificate::{CertificateName, CertificateRules};
pub use compression::{CompressionLevels, CompressionRules, Encoding};
pub use concurrency::{Concurrency, ConcurrencyRules};
pub use consumers::{ConsumerEntry, Consumers, HmacSecret};
pub use context::{Consumer, Context, ExchangeOutcome, HeadEdit};
pub use cookies::CookieRules;
pub use cors::{CorsRules, OriginPattern};
pub use cost::{Cost, CostSource};
pub use count_key::CountKey;
pub use credential::CredentialSource;
pub use decompression::{Coding, DecodeLimits, DecompressionRules};
pub use exempt::Exempt;
pub use ext_authz::ExtAuthzRules;
pub use fault::FaultRules;
pub use forward_auth::ForwardAuthRules;
pub use headers::{HeaderChange, HeaderRules};
pub use hmac::HmacRules;
pub use identity::{Identity, Reserved, looks_like};
pub use intercept::{InterceptRule, InterceptRules, Location};
pub use ip::{Block, IpRules};
pub use jwt::{Algorithm, FixedKeys, IssuerRules, JwtRules, RemoteKeyRules};
pub use mirror::MirrorRules;
pub use otlp::{CollectorRule, LogExport};
pub use plugin::{
    Installed, Plugin, Plugins, SettingsProblem, SettingsProblems, Stage, settings as plugin_settings,
};
pub use policy::{
    Continuation, Dependency, OnBody, OnBodyStart, OnResponses, PendingVerdict, Planned, Policy,
    PolicyResponse, Refusal, UpstreamRequest, UpstreamResponse, Verdict,
};
pub use policy_states::PolicyStates;
pub use query::QueryRules;
pub use quota::{Period, Quota, QuotaRules};
pub use rate_limit::{RateLimit, RateLimitRules, SharedRate};
pub use redis::{OnFailure, RedisRule, RedisServers};
pub use request::{ForwardingRule, Origin, Request};
pub use request_copy::{CopyMarks, CopyResult, CopyWatch, RequestCopy};
pub use response::{BodyKind, Response, Transform};
pub use security_headers::SecurityHeaders;
pub use template::{Template, TemplatePart};
pub use trace::{Propagation, TraceRules};
