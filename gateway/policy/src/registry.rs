//! The registry of the built-in policies: a policy exists because it is in this list.
//!
//! The order of the list is the order in which policies act on a request, and the order of the keys under
//! `policies` in the schema and the reference. Plugins act at the places of their stages. A program calls
//! [`register`] before it reads a configuration; the plan's compiler takes the order of its chains from
//! [`REGISTRY`].

use tollgate_config::PolicyKind;

use crate::policy_config::{BuiltIn, BuiltInPolicy};
use crate::{
    Stage, aggregate, any_of, api_key, authorize, bandwidth, basic, cache, canary, client_certificate,
    compression, concurrency, cookies, cors, decompression, ext_authz, fault, forward_auth, headers, hmac,
    intercept, ip, jwt, mirror, plugin, query, quota, rate_limit, security_headers, trace,
};

/// An entry of the registry.
#[derive(Clone, Copy)]
pub enum RegistryEntry {
    /// A built-in policy.
    Policy(&'static dyn BuiltInPolicy),
    /// The plugins of a stage.
    Plugins(Stage),
    /// The key of the plugins.
    PluginsKey(&'static dyn PolicyKind),
}

use RegistryEntry::{Plugins, PluginsKey, Policy};

/// The policies in the order in which they act on a request.
pub static REGISTRY: &[RegistryEntry] = &[
    Policy(&BuiltIn::<trace::TraceSettings>::KIND),
    Policy(&BuiltIn::<ip::IpSettings>::KIND),
    Policy(&BuiltIn::<cors::CorsSettings>::KIND),
    Policy(&BuiltIn::<intercept::InterceptSettings>::KIND),
    Plugins(Stage::Early),
    Policy(&BuiltIn::<client_certificate::ClientCertificateSettings>::KIND),
    Policy(&BuiltIn::<hmac::HmacSettings>::KIND),
    Policy(&BuiltIn::<api_key::ApiKeySettings>::KIND),
    Policy(&BuiltIn::<basic::BasicSettings>::KIND),
    Policy(&BuiltIn::<jwt::JwtSettings>::KIND),
    Policy(&BuiltIn::<forward_auth::ForwardAuthSettings>::KIND),
    Policy(&BuiltIn::<ext_authz::ExtAuthzSettings>::KIND),
    Policy(&BuiltIn::<any_of::AnyOfSettings>::KIND),
    Plugins(Stage::Authentication),
    Policy(&BuiltIn::<authorize::AuthorizeSettings>::KIND),
    Policy(&BuiltIn::<rate_limit::RateLimitSettings>::KIND),
    Policy(&BuiltIn::<quota::QuotaSettings>::KIND),
    Policy(&BuiltIn::<concurrency::ConcurrencySettings>::KIND),
    Policy(&BuiltIn::<bandwidth::BandwidthSettings>::KIND),
    Policy(&BuiltIn::<fault::FaultSettings>::KIND),
    Plugins(Stage::Request),
    Policy(&BuiltIn::<canary::CanarySettings>::KIND),
    Policy(&BuiltIn::<mirror::MirrorSettings>::KIND),
    Policy(&BuiltIn::<headers::HeaderSettings>::KIND),
    Policy(&BuiltIn::<query::QueryRules>::KIND),
    Policy(&BuiltIn::<cookies::CookieSettings>::KIND),
    Policy(&BuiltIn::<security_headers::SecurityHeaderSettings>::KIND),
    Policy(&BuiltIn::<compression::CompressionSettings>::KIND),
    Plugins(Stage::Response),
    Policy(&BuiltIn::<decompression::DecompressionSettings>::KIND),
    Policy(&BuiltIn::<aggregate::AggregateSettings>::KIND),
    Policy(&BuiltIn::<cache::CacheSettings>::KIND),
    PluginsKey(&plugin::PluginsKey),
];

impl RegistryEntry {
    /// Returns the kind of policies; `None` for the plugins of a stage.
    #[must_use]
    pub fn kind(self) -> Option<&'static dyn PolicyKind> {
        match self {
            Policy(policy) => Some(policy),
            PluginsKey(key) => Some(key),
            Plugins(_) => None,
        }
    }
}

/// Makes the built-in policies known to the reader of the configuration. To be called before anything is read;
/// further calls change nothing.
pub fn register() {
    tollgate_config::register_policies(|| REGISTRY.iter().filter_map(|entry| entry.kind()).collect());
}

/// Returns the kind with this key.
#[must_use]
pub fn built_in(key: &str) -> Option<&'static dyn BuiltInPolicy> {
    REGISTRY.iter().find_map(|entry| match entry {
        Policy(policy) => (policy.key().name == key).then_some(*policy),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    fn keys() -> Vec<&'static str> {
        REGISTRY.iter().filter_map(|entry| entry.kind()).map(|kind| kind.key().name).collect()
    }

    #[test]
    fn every_folder_with_a_configuration_is_registered_under_its_name() {
        let folders =
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the sources");
        let folders = folders.map(|entry| entry.expect("a folder").path());
        let homes: HashSet<String> = folders
            .filter(|folder| folder.join("config.rs").exists())
            .map(|folder| folder.file_name().expect("a name").to_string_lossy().into_owned())
            .collect();
        let listed =
            REGISTRY.iter().filter(|entry| matches!(entry, Policy(_))).filter_map(|entry| entry.kind());
        let listed: HashSet<String> = listed.map(|kind| kind.key().name.to_owned()).collect();
        assert_eq!(homes, listed);
    }

    #[test]
    fn no_two_policies_have_the_same_key() {
        let unique: HashSet<_> = keys().into_iter().collect();
        assert_eq!(unique.len(), keys().len());
    }

    #[test]
    fn each_stage_has_one_place_in_its_order() {
        let places = REGISTRY.iter().filter_map(|entry| match entry {
            Plugins(stage) => Some(*stage),
            _ => None,
        });
        assert_eq!(places.collect::<Vec<_>>(), Stage::ALL);
    }
}
