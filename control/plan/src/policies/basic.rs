//! Compiles `basic`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{BasicRules, Consumers};

use super::shared::identity;

pub(super) fn basic(spec: &config::Basic, consumers: &Arc<Consumers>) -> BasicRules {
    BasicRules {
        realm: spec.realm.clone(),
        forward: spec.forward,
        optional: spec.optional,
        cache: spec.cache,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}
