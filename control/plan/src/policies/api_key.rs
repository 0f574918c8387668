//! Compiles `api_key`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{ApiKeyRules, Consumers};

use super::shared::{credential_places, identity};

pub(super) fn api_key(spec: &config::ApiKey, consumers: &Arc<Consumers>) -> ApiKeyRules {
    ApiKeyRules {
        from: credential_places(&spec.from),
        forward: spec.forward,
        optional: spec.optional,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}
