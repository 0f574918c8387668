//! Policies: authentication, limits, routing decisions and message changes. Each policy has its own file.
//!
//! A policy sees a [`Request`] and returns a [`Verdict`]: the request continues, ends here, or waits for an
//! external service. Work on the response is registered in the request's [`Context`]. A policy sees only the
//! message model, so it is written once for all versions of HTTP. It has no access to workers, sockets or
//! connections.
//!
//! A plan holds [`Planned`] policies, which are immutable and stateless. When the plan is rolled out, each of
//! them becomes a [`Policy`] that all workers share. The policy looks its state up in [`Shared`] under its
//! key, so counters and caches survive a change of plan.
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
mod basic;
mod by;
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
mod credential;
mod decompression;
mod exempt;
mod ext_authz;
mod fault;
mod forward_auth;
mod hashed;
mod headers;
mod hmac;
mod identity;
mod intercept;
mod ip;
mod jwt;
mod known_tags;
pub mod loops;
mod lot;
mod mirror;
mod otlp;
mod percent;
mod plugin;
mod policy;
mod query;
mod query_pairs;
mod quota;
mod rate_limit;
mod redis;
mod request;
mod response;
mod security_headers;
mod shadow;
mod shared;
mod side;
mod template;
pub mod testing;
mod told;
mod trace;

pub use aggregate::{AggregateRules, Need, Part as AggregatePart, Piece};
pub use any_of::AnyOfRules;
pub use api_key::ApiKeyRules;
pub use auth_body::AuthBody;
pub use authenticator::Authenticator;
pub use authorize::{AuthorizeRules, Rule};
pub use basic::{BasicRules, is_password_hash};
pub use by::By;
pub use canary::{CanaryBy, CanaryRule, CanaryRules, Wanted};
pub use client::Trust;
pub use client_certificate::{CertificateName, CertificateRules};
pub use compression::{CompressionRules, Encoding, Levels};
pub use concurrency::{Concurrency, ConcurrencyRules};
pub use consumers::{Consumers, HmacSecret, Known};
pub use context::{Consumer, Context, Edit, Ended};
pub use cookies::CookieRules;
pub use cors::{CorsRules, OriginPattern};
pub use cost::{Cost, CostBy};
pub use credential::CredentialPlace;
pub use decompression::{Bounds, Coding, DecompressionRules};
pub use exempt::Exempt;
pub use ext_authz::ExtAuthzRules;
pub use fault::FaultRules;
pub use forward_auth::ForwardAuthRules;
pub use headers::{Change, HeaderRules};
pub use hmac::HmacRules;
pub use identity::{Identity, Reserved, looks_like};
pub use intercept::{InterceptRules, Intercepted, Leads};
pub use ip::{Block, IpRules};
pub use jwt::{Algorithm, FixedKeys, IssuerRules, JwtRules, RemoteKeys};
pub use mirror::MirrorRules;
pub use otlp::{CollectorRule, LogExport};
pub use plugin::{
    Installed, Plugin, Plugins, SettingsProblem, SettingsProblems, Stage, settings as plugin_settings,
};
pub use policy::{
    After, Answer, Heard, Planned, Policy, Question, Read, ReadBegin, Refusal, Said, Shown, Verdict, Waiting,
};
pub use query::QueryRules;
pub use quota::{Period, Quota, QuotaRules};
pub use rate_limit::{RateLimit, RateLimitRules, SharedRate};
pub use redis::{OnFailure, RedisPlace, RedisRule};
pub use request::{Origin, Request, Word};
pub use response::{BodyKind, Response, Transform};
pub use security_headers::SecurityHeaders;
pub use shadow::{Marks, Shadow, ShadowEnd, Watch};
pub use shared::Shared;
pub use side::{Asked, Side};
pub use template::{Part, Template};
pub use trace::{Propagation, TraceRules};
