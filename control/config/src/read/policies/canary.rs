//! Reads `canary`.

use super::shared::cookie;
use crate::model::Percent;
use crate::model::{Canary, CanaryBy, CanaryRule};
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, address, field as header};
use crate::spec::CANARY_POLICY;
use crate::tree::Node;

pub(super) fn canary(reader: &mut Reader, field: Field<'_>) -> Option<Canary> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.at, "`canary` is an empty list".to_owned(), &field.key.shape);
    }
    Some(Canary {
        rules: reader
            .bounded_items(field.node, "`canary`")
            .iter()
            .filter_map(|node| rule(reader, node))
            .collect(),
    })
}

fn rule(reader: &mut Reader, node: &Node) -> Option<CanaryRule> {
    let fields = reader.fields(node, &CANARY_POLICY)?;
    let headers = reader.pairs(fields.get("headers"), lower, value);
    let cookies = reader.pairs(fields.get("cookies"), cookie, value);
    let mut percent = Percent::ALL;
    reader.number_into(fields.get("percent"), &mut percent);
    let by = fields.get("by").and_then(|field| reader.field(field, by)).unwrap_or_default();
    let to = reader.spanned(fields.get("to")?, address::upstream)?;
    Some(CanaryRule { to, headers, cookies, percent, by })
}

fn lower(name: &str) -> Result<String, ScalarError> {
    header::name(name).map(|name| name.to_ascii_lowercase())
}

/// Parses a required value; `None`: any.
fn value(text: &str) -> Result<Option<String>, ScalarError> {
    header::value(text).map(|value| Some(value).filter(|value| value != "*"))
}

fn by(text: &str) -> Result<CanaryBy, ScalarError> {
    let (word, name) = text.split_once(' ').map_or((text, None), |(word, name)| (word, Some(name.trim())));
    match (word, name) {
        ("random", None) => Ok(CanaryBy::Random),
        ("consumer", None) => Ok(CanaryBy::Consumer),
        ("address", None) => Ok(CanaryBy::Address),
        ("header", Some(name)) => lower(name).map(CanaryBy::Header),
        ("cookie", Some(name)) => cookie(name).map(CanaryBy::Cookie),
        _ => Err(ScalarError::new("{} is not a value of `by`")),
    }
}
