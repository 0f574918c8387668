//! Compiles `forward_auth`. Files for the service's TLS are checked here.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::ForwardAuthRules;

use super::shared::{auth_body, identity, trust};

pub(super) fn forward_auth(spec: &config::ForwardAuth, problems: &mut Vec<Problem>) -> ForwardAuthRules {
    ForwardAuthRules {
        url: spec.url.clone(),
        trust: trust(&spec.url, spec.ca.as_ref(), problems),
        timeout: spec.timeout,
        request_headers: spec.request_headers.clone(),
        body: spec.body.map(auth_body),
        response_headers: spec.response_headers.clone(),
        consumer: spec.consumer.clone(),
        groups: spec.groups.clone(),
        identity: identity(&spec.identity),
    }
}
