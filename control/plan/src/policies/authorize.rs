//! Compiles `authorize`.

use tollgate_config as config;
use tollgate_policy::{AuthorizeRule, AuthorizeRules};

pub(super) fn authorize(spec: &config::Authorize) -> AuthorizeRules {
    AuthorizeRules { allow: spec.allow.as_deref().map(rules), deny: rules(&spec.deny) }
}

fn rules(rules: &[config::AuthorizeRule]) -> Vec<AuthorizeRule> {
    let rule = |rule: &config::AuthorizeRule| AuthorizeRule {
        consumers: rule.consumers.clone(),
        groups: rule.groups.clone(),
        claims: rule.claims.clone(),
        methods: rule.methods.clone(),
    };
    rules.iter().map(rule).collect()
}
