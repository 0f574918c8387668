//! `api_key`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{ApiKeyRules, Consumers};

use super::shared::identity;

pub(super) fn api_key(spec: &config::ApiKey, consumers: &Arc<Consumers>) -> ApiKeyRules {
    ApiKeyRules {
        header: spec.header.clone(),
        query: spec.query.clone(),
        forward: spec.forward,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}
