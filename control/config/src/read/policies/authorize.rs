//! Reads `authorize`.

use crate::model::{Authorize, AuthorizeRule};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header};
use crate::sections::consumers::texts;
use crate::spec::{AUTHORIZE_POLICY, AUTHORIZE_RULE, Shape};
use crate::tree::{Node, NodeKind, shown};

pub(super) fn authorize(reader: &mut Reader, field: Field<'_>) -> Option<Authorize> {
    let fields = reader.fields(field.node, &AUTHORIZE_POLICY)?;
    let mut rules = |name| {
        let field = fields.get(name)?;
        let rules: Vec<_> =
            one_or_many(field.node).iter().filter_map(|item| rule(reader, item, field)).collect();
        Some(rules)
    };
    let (allow, deny) = (rules("allow"), rules("deny"));
    if allow.is_none() && deny.is_none() {
        let problem = Problem::error(field.at, "`authorize` has neither `allow` nor `deny`");
        reader.problems.push(problem.help("write `authorize: {allow: {groups: admin}}`"));
    }
    Some(Authorize { allow, deny: deny.unwrap_or_default() })
}

fn rule(reader: &mut Reader, node: &Node, field: Field<'_>) -> Option<AuthorizeRule> {
    let fields = reader.fields(node, &AUTHORIZE_RULE)?;
    let out = AuthorizeRule {
        consumers: texts(reader, fields.get("consumers"), word),
        groups: texts(reader, fields.get("groups"), word),
        claims: fields.get("claims").map(|field| claims(reader, field)).unwrap_or_default(),
        methods: texts(reader, fields.get("methods"), method),
    };
    if out == AuthorizeRule::default() && reader.complete {
        let message = format!("a rule of `{}` has no condition: it matches every consumer", field.key.name);
        let problem = Problem::error(node.at, message);
        reader.problems.push(problem.expected("some of `consumers`, `groups`, `claims` and `methods`"));
    }
    Some(out)
}

/// Reads claims, each with its accepted values.
pub(super) fn claims(reader: &mut Reader, field: Field<'_>) -> Vec<(String, Vec<String>)> {
    let Shape::MapOf(Shape::OneOrMany(one)) = field.key.shape else { return Vec::new() };
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
        return Vec::new();
    };
    let mut out = Vec::new();
    for entry in entries {
        let what = shown(&entry.key);
        let items = one_or_many(&entry.value).iter();
        let values: Vec<_> = items.filter_map(|item| reader.parsed(item, &what, one, word)).collect();
        if values.is_empty() {
            reader.missing(entry.at, format!("{what} has no value"), one);
        }
        out.push((entry.key.clone(), values));
    }
    out
}

pub(super) fn word(text: &str) -> Result<String, ScalarError> {
    match text.is_empty() {
        true => Err(ScalarError::new("{} is empty")),
        false => Ok(text.to_owned()),
    }
}

pub(crate) fn method(text: &str) -> Result<String, ScalarError> {
    match header::is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a method")),
    }
}
