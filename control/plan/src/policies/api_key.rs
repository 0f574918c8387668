//! `api_key`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{ApiKeyRules, Consumers, Identity};

pub(super) fn api_key(spec: &config::ApiKey, consumers: &Arc<Consumers>) -> ApiKeyRules {
    ApiKeyRules {
        header: spec.header.clone(),
        query: spec.query.clone(),
        forward: spec.forward,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}

/// The fields that tell who somebody is.
pub(super) fn identity(headers: &config::IdentityHeaders) -> Identity {
    Identity::new(headers.consumer.clone(), headers.groups.clone())
}
