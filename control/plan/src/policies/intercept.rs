//! Compiles `intercept`, which answers requests that match a rule. `rules` are the path rules that a replaced
//! path must obey.

use regex::bytes::Regex;
use tollgate_config as config;
use tollgate_policy::{InterceptRule, InterceptRules, Location};
use tollgate_route::PathRules;

use super::template::template;

pub(super) fn intercept(intercept: &config::Intercept, rules: &PathRules) -> InterceptRules {
    let rule = |rule: &config::InterceptRule| {
        // The reader has checked them.
        let regex = |text: &Option<String>| text.as_deref().and_then(|text| Regex::new(text).ok());
        let leads = match (&rule.location, &rule.replace) {
            (Some(location), _) => Some(Location::To(template(location))),
            (None, Some(replace)) => Some(Location::Replaced(replace.as_bytes().into(), *rules)),
            (None, None) => None,
        };
        InterceptRule {
            uri: regex(&rule.uri),
            path: regex(&rule.path),
            secure: rule.secure,
            methods: rule.methods.iter().map(|method| method.as_bytes().into()).collect(),
            status: rule.status,
            location: leads,
            keep_query: rule.keep_query,
            body: rule.body.as_slice().into(),
            content_type: rule.content_type.as_str().into(),
        }
    };
    InterceptRules { rules: intercept.rules.iter().map(rule).collect() }
}
