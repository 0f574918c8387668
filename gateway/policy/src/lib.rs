//! Policies: authentication, limits, routing decisions and message changes. Each policy has its own folder.
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
mod bandwidth;
mod basic;
mod cache;
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
mod counting;
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
mod policy_config;
mod policy_states;
mod query;
mod query_pairs;
mod quota;
mod rate_limit;
mod recent_map;
mod redis;
pub mod registry;
mod request;
mod request_copy;
mod response;
mod sampling;
mod security_headers;
mod service_authenticator;
mod template;
pub mod testing;
mod texts;
mod trace;

pub use authenticator::Authenticator;
pub use background::{BackgroundIo, BackgroundTask};
pub use bandwidth::limits::{Bandwidth, BodyLimit, TransferRate};
pub use bandwidth::{BandwidthRules, Share};
pub use basic::{hash_password, is_password_hash};
pub use cache::{
    ActiveCache, CacheIntent, CacheOutcome, CacheRules, CacheUse, KEY_SEPARATOR, StaleTimes, bypasses_cache,
};
pub use client::Trust;
pub use client_certificate::CertificateName;
pub use consumers::{ConsumerEntry, Consumers, HmacSecret};
pub use context::{Consumer, Context, ExchangeOutcome, HeadEdit};
pub(crate) use cost::{Cost, CostSource};
pub(crate) use count_key::CountKey;
pub(crate) use credential::CredentialSource;
pub(crate) use exempt::Exempt;
pub use identity::{Identity, Reserved, looks_like};
pub use ip::Block;
pub use otlp::{CollectorRule, LogExport, collector};
pub use percent::encode as percent_encode;
pub use plugin::{
    Installed, Plugin, PluginPolicies, PluginPolicy, PluginSettings, Plugins, SettingsProblem,
    SettingsProblems, Stage, settings as plugin_settings,
};
pub use policy::{
    Continuation, Dependency, OnBody, OnBodyStart, OnResponses, PendingVerdict, Planned, Policy,
    PolicyResponse, Refusal, UpstreamRequest, UpstreamResponse, Verdict,
};
pub use policy_config::{BuiltInPolicy, Compilation};
pub use policy_states::PolicyStates;
pub use query_pairs::without_parameters;
pub use registry::{REGISTRY, RegistryEntry, built_in, register};
pub use request::{ForwardingRule, Origin, Request};
pub use request_copy::{CopyMarks, CopyResult, CopyWatch, RequestCopy};
pub use response::{BodyKind, Response, StoredBody, Transform};
pub use template::{Template, TemplatePart};
