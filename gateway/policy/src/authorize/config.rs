//! The settings of `authorize`.

use std::sync::Arc;

use tollgate_config::section::{
    Field, Fields, KeySpec, Node, NodeKind, Problem, Reader, Section, Shape, Text, one_or_many, shown,
};

use super::AuthorizeRules;
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::{method, word};

/// Restricts which authenticated consumers may proceed.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "authorize_policy", noun = "`authorize`", check = check)]
pub(crate) struct AuthorizeSettings {
    /// Consumers that are admitted: they match one of the rules. Default: every authenticated consumer.
    #[key(shape = Shape::OneOrMany(RULE), read = rules)]
    allow: Option<Vec<AuthorizeRule>>,
    /// Consumers that are rejected even if `allow` admits them: they match one of the rules.
    #[key(shape = Shape::OneOrMany(RULE), read = rules)]
    deny: Option<Vec<AuthorizeRule>>,
}

/// A rule. A consumer matches it if every condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "a rule")]
pub(crate) struct AuthorizeRule {
    /// The consumer is one of these.
    #[key(expected = "a name", pattern = ".", loose, each = word, also = ["consumer", "users", "user"])]
    pub consumers: Vec<String>,
    /// The consumer is in one of these groups.
    #[key(expected = "a name", pattern = ".", loose, each = word, also = ["group", "roles", "role"])]
    pub groups: Vec<String>,
    /// Claims of its token, each with its accepted values. `a.b` is `b` in `a`.
    #[key(shape = CLAIMS, read = claims, also = ["claim"])]
    pub claims: Vec<(String, Vec<String>)>,
    /// The request has one of these methods.
    #[key(expected = "a method such as `GET`", pattern = "^[!-~]+$", each = method, also = ["method"])]
    pub methods: Vec<String>,
}

const RULE: &Shape = &Shape::Section(AuthorizeRule::SPEC);
static VALUE_TEXT: Text = Text { expected: "a name", pattern: Some("."), loose: true };
const VALUE: &Shape = &Shape::Text(&VALUE_TEXT);
const VALUES: &Shape = &Shape::OneOrMany(VALUE);
/// Claims, each with its accepted values.
pub(crate) const CLAIMS: Shape = Shape::MapOf(VALUES);

impl PolicyConfig for AuthorizeSettings {
    const KEY: KeySpec =
        policy_key::<Self>("authorize", "Restricts which authenticated consumers may proceed (403).")
            .aliases(&["acl", "rbac", "authorization", "groups", "require"]);
    const IS_GUARD: bool = true;

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(AuthorizeRules { allow: self.allow.clone(), deny: self.deny.clone().unwrap_or_default() })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut AuthorizeSettings) {
    if settings.allow.is_none() && settings.deny.is_none() {
        let problem = Problem::error(fields.at, "`authorize` has neither `allow` nor `deny`");
        reader.problems.push(problem.help("write `authorize: {allow: {groups: admin}}`"));
    }
}

fn rules(reader: &mut Reader, field: Field<'_>) -> Option<Vec<AuthorizeRule>> {
    Some(one_or_many(field.node).iter().filter_map(|item| rule(reader, item, field)).collect())
}

fn rule(reader: &mut Reader, node: &Node, field: Field<'_>) -> Option<AuthorizeRule> {
    let rule = AuthorizeRule::read_section(reader, node)?;
    if rule == AuthorizeRule::default() && reader.complete {
        let message = format!("a rule of `{}` has no condition: it matches every consumer", field.key.name);
        let problem = Problem::error(node.at, message);
        reader.problems.push(problem.expected("some of `consumers`, `groups`, `claims` and `methods`"));
    }
    Some(rule)
}

/// Reads claims, each with its accepted values.
pub(crate) fn claims(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, Vec<String>)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
        return None;
    };
    let mut out = Vec::new();
    for entry in entries {
        let what = shown(&entry.key);
        let items = one_or_many(&entry.value).iter();
        let values: Vec<_> = items.filter_map(|item| reader.parsed(item, &what, VALUE, word)).collect();
        if values.is_empty() {
            reader.missing(entry.at, format!("{what} has no value"), VALUE);
        }
        out.push((entry.key.clone(), values));
    }
    Some(out)
}
