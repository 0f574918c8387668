//! Compiles `hmac`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{Consumers, HmacRules};

use super::shared::identity;

pub(super) fn hmac(spec: &config::Hmac, consumers: &Arc<Consumers>) -> HmacRules {
    HmacRules {
        components: spec.components.clone(),
        label: spec.label.clone(),
        tag: spec.tag.clone(),
        max_age: spec.max_age,
        leeway: spec.leeway,
        nonces: spec.nonces,
        body: spec.body,
        forward: spec.forward,
        optional: spec.optional,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}
