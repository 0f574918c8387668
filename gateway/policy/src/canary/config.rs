//! The settings of `canary`.

use std::sync::Arc;

use tollgate_config::section::{
    Field, KeySpec, Reader, ScalarError, Section, Shape, UPSTREAM_NAME, Value, header, one_or_many,
    upstream_name,
};
use tollgate_config::{Percent, Spanned};

use super::{CanaryKey, CanaryRule, CanaryRules};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::cookie;

/// The rules, in the order tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CanarySettings(Vec<CanaryRuleSettings>);

/// A rule that sends requests to one of the route's upstreams, regardless of weights. All of its conditions must
/// hold.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "canary_rule", noun = "a rule of `canary`")]
struct CanaryRuleSettings {
    /// One of the route's upstreams, by name; its weight may be 0.
    #[key(
        text = UPSTREAM_NAME, parse = upstream_name, required,
        also = ["upstream", "backend", "service", "target"],
    )]
    to: Spanned<String>,
    /// Headers that a request must have, with these values.
    #[key(expected = "a value, or `*` for any", loose, pairs = (lower_name, value), also = ["header"])]
    headers: Vec<(String, Option<String>)>,
    /// Cookies that a request must have, with these values.
    #[key(expected = "a value, or `*` for any", loose, pairs = (cookie, value), also = ["cookie"])]
    cookies: Vec<(String, Option<String>)>,
    /// Percentage of these requests.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "share", "weight"])]
    percent: Percent,
    /// The key that keeps a client in the same sample; `random`: each request is sampled independently.
    #[key(
        expected = "`random`, `consumer`, `address`, `header NAME` or `cookie NAME`",
        pattern = r"^(random|consumer|address|(header|cookie) \S+)$",
        parse = key, default = random, also = ["sticky", "hash", "key"],
    )]
    by: CanaryKey,
}

impl Value for CanarySettings {
    const SHAPE: Shape = {
        const RULE: Shape = Shape::Section(CanaryRuleSettings::SPEC);
        Shape::AnyOf(&[Shape::Off, RULE, Shape::ListOf(&RULE)])
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if one_or_many(field.node).is_empty() {
            reader.missing(field.at, "`canary` is an empty list".to_owned(), &field.key.shape);
        }
        let rules = reader.bounded_items(field.node, "`canary`");
        Some(Self(rules.iter().filter_map(|rule| CanaryRuleSettings::read_section(reader, rule)).collect()))
    }
}

impl PolicyConfig for CanarySettings {
    const KEY: KeySpec = policy_key::<Self>(
        "canary",
        "Sends matching requests to one of the route's upstreams, regardless of weights.",
    )
    .aliases(&["traffic_split", "split", "blue_green", "gray", "experiment"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let values = |values: &[(String, Option<String>)]| {
            let values = values.iter();
            values.map(|(name, value)| (name.as_str().into(), value.as_deref().map(Into::into))).collect()
        };
        let rule = |rule: &CanaryRuleSettings| CanaryRule {
            to: rule.to.value.as_str().into(),
            headers: values(&rule.headers),
            cookies: values(&rule.cookies),
            percent: rule.percent,
            by: rule.by.clone(),
        };
        Arc::new(CanaryRules { rules: self.0.iter().map(rule).collect() })
    }

    fn upstreams(&self) -> Vec<&Spanned<String>> {
        self.0.iter().map(|rule| &rule.to).collect()
    }
}

fn lower_name(name: &str) -> Result<String, ScalarError> {
    header::name(name).map(|name| name.to_ascii_lowercase())
}

/// Parses a required value; `None`: any.
fn value(text: &str) -> Result<Option<String>, ScalarError> {
    header::value(text).map(|value| Some(value).filter(|value| value != "*"))
}

fn key(text: &str) -> Result<CanaryKey, ScalarError> {
    let (word, name) = text.split_once(' ').map_or((text, None), |(word, name)| (word, Some(name.trim())));
    match (word, name) {
        ("random", None) => Ok(CanaryKey::Random),
        ("consumer", None) => Ok(CanaryKey::Consumer),
        ("address", None) => Ok(CanaryKey::Address),
        ("header", Some(name)) => lower_name(name).map(|name| CanaryKey::Header(name.into())),
        ("cookie", Some(name)) => cookie(name).map(|name| CanaryKey::Cookie(name.into())),
        _ => Err(ScalarError::new("{} is not a value of `by`")),
    }
}
