//! `canary`.

use crate::model::{At, Canary, CanaryBy, CanaryRule};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{Fault, address, field as header};
use crate::spec::{CANARY_POLICY, Shape};
use crate::tree::{Kind, Node, shown};

pub(super) fn canary(reader: &mut Reader, field: Field<'_>) -> Option<Canary> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.at, "`canary` is an empty list".to_owned(), &field.key.shape);
    }
    Some(Canary {
        rules: reader.few(field.node, "`canary`").iter().filter_map(|node| rule(reader, node)).collect(),
    })
}

fn rule(reader: &mut Reader, node: &Node) -> Option<CanaryRule> {
    let fields = reader.fields(node, &CANARY_POLICY)?;
    let headers = values(reader, fields.get("headers"), |name| {
        header::name(name).map(|name| name.to_ascii_lowercase())
    });
    let cookies = values(reader, fields.get("cookies"), cookie);
    let mut percent = 100;
    reader.number_into(fields.get("percent"), &mut percent);
    let by = fields.get("by").and_then(|field| reader.field(field, by)).unwrap_or_default();
    let to = reader.spanned(fields.get("to")?, address::upstream)?;
    Some(CanaryRule { to, headers, cookies, percent, by })
}

/// Names with the values that they must have.
fn values(
    reader: &mut Reader,
    field: Option<Field<'_>>,
    name: impl Fn(&str) -> Result<String, Fault>,
) -> Vec<(String, Option<String>)> {
    let Some(field) = field else { return Vec::new() };
    let one = if let Shape::MapOf(one) = field.key.shape { one } else { &field.key.shape };
    let Kind::Map(entries) = &field.node.kind else {
        let expected = field.key.shape.expected();
        reader.mismatch(field.node, &format!("`{}`", field.key.name), expected);
        return Vec::new();
    };
    let mut out = Vec::new();
    for entry in entries {
        match name(&entry.key) {
            Ok(name) => {
                let value = reader.parsed(&entry.value, &shown(&entry.key), one, header::value);
                out.extend(value.map(|value| (name, Some(value).filter(|value| value != "*"))));
            }
            Err(fault) => reader.problems.push(problem(entry.at, &entry.key, fault)),
        }
    }
    out
}

/// What is wrong with a key that people choose.
pub(super) fn problem(at: At, key: &str, fault: Fault) -> Problem {
    let problem = Problem::error(at, fault.message.replacen("{}", &shown(key), 1));
    match fault.help {
        Some(help) => problem.help(help),
        None => problem,
    }
}

/// The name of a cookie: a token (RFC 6265, 4.1.1).
pub(super) fn cookie(text: &str) -> Result<String, Fault> {
    if header::is_token(text) {
        Ok(text.to_owned())
    } else {
        Err(Fault::new("{} is not the name of a cookie"))
    }
}

fn by(text: &str) -> Result<CanaryBy, Fault> {
    let (word, name) = text.split_once(' ').map_or((text, None), |(word, name)| (word, Some(name.trim())));
    match (word, name) {
        ("random", None) => Ok(CanaryBy::Random),
        ("consumer", None) => Ok(CanaryBy::Consumer),
        ("address", None) => Ok(CanaryBy::Address),
        ("header", Some(name)) => header::name(name).map(|name| CanaryBy::Header(name.to_ascii_lowercase())),
        ("cookie", Some(name)) => cookie(name).map(CanaryBy::Cookie),
        _ => Err(Fault::new("{} says not by what")),
    }
}
