//! Compiles `canary`. Percentages become millionths.

use tollgate_config as config;
use tollgate_policy::{CanaryKey, CanaryRule, CanaryRules};

pub(super) fn canary(canary: &config::Canary) -> CanaryRules {
    let values = |values: &[(String, Option<String>)]| {
        values.iter().map(|(name, value)| (name.as_str().into(), value.as_deref().map(Into::into))).collect()
    };
    let rule = |rule: &config::CanaryRule| CanaryRule {
        to: rule.to.value.as_str().into(),
        headers: values(&rule.headers),
        cookies: values(&rule.cookies),
        percent: rule.percent.millionths(),
        by: match &rule.by {
            config::CanaryBy::Random => CanaryKey::Random,
            config::CanaryBy::Consumer => CanaryKey::Consumer,
            config::CanaryBy::Address => CanaryKey::Address,
            config::CanaryBy::Header(name) => CanaryKey::Header(name.as_str().into()),
            config::CanaryBy::Cookie(name) => CanaryKey::Cookie(name.as_str().into()),
        },
    };
    CanaryRules { rules: canary.rules.iter().map(rule).collect() }
}
