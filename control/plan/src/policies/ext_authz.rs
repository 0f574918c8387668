//! Compiles `ext_authz`. Files for the service's TLS are checked here.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::ExtAuthzRules;

use super::shared::{auth_body, identity, trust};

pub(super) fn ext_authz(spec: &config::ExtAuthz, problems: &mut Vec<Problem>) -> ExtAuthzRules {
    ExtAuthzRules {
        url: spec.url.clone(),
        trust: trust(&spec.url, spec.ca.as_ref(), problems),
        timeout: spec.timeout,
        fail_open: spec.fail_open,
        body: spec.body.map(auth_body),
        reserved: spec.reserved.clone(),
        context: spec.context.clone(),
        consumer: spec.consumer.clone(),
        groups: spec.groups.clone(),
        identity: identity(&spec.identity),
    }
}
