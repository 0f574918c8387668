//! Reads the cost of a request in a limit, and the requests that a limit does not count.

use super::authorize::{method, word};
use crate::model::{Cost, CostBy, Exempt};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header, quantity};
use crate::sections::blocks;
use crate::sections::consumers::texts;
use crate::spec::{COST, EXEMPT, MOST_COST, Shape};
use crate::tree::{MappingEntry, NodeKind, shown};

/// Reads `cost` of a limit. `most` is what the limit admits at once, and `limit` names that setting in
/// messages.
pub(super) fn cost(reader: &mut Reader, fields: &Fields<'_>, most: u64, limit: &str) -> Cost {
    let Some(field) = fields.get("cost") else { return Cost::default() };
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        let default = reader.field(field, |text| quantity::count(text, 1, MOST_COST)).unwrap_or(1);
        check_affordable(reader, field, default, most, limit);
        return Cost { default, ..Cost::default() };
    }
    let mut out = Cost::default();
    let Some(fields) = reader.fields(field.node, &COST) else { return out };
    reader.number_into(fields.get("default"), &mut out.default);
    if let Some(default) = fields.get("default") {
        check_affordable(reader, default, out.default, most, limit);
    }
    if let Some(field) = fields.get("methods") {
        out.by = CostBy::Methods(methods(reader, field, most, limit));
    }
    let name = |text: &str| header::name(text).map(|name| name.to_ascii_lowercase());
    if let Some(name) = fields.get("header").and_then(|field| reader.field(field, name)) {
        out.by = CostBy::Header(name);
    }
    if let Some(name) = fields.get("response_header").and_then(|field| reader.field(field, name)) {
        out.by = CostBy::ResponseHeader(name);
    }
    if let Some(field) = fields.get("max") {
        out.max = reader.number(Some(field)).flatten();
        match (&out.by, out.max) {
            (CostBy::Header(_), Some(max)) => check_affordable(reader, field, max, most, limit),
            (CostBy::Methods(_), _) => {
                let problem = Problem::error(field.at, "`max` applies only to a cost from a header");
                reader.problems.push(problem.help("the cost of a method is fixed here"));
            }
            _ => {}
        }
        if let Some(max) = out.max.filter(|max| *max < out.default) {
            let message = format!("`max` is {max}, and `default` is {}", out.default);
            reader.problems.push(Problem::error(field.node.at, message));
        }
    }
    out
}

/// Reports a cost that exceeds the limit, so that no such request could ever be admitted.
fn check_affordable(reader: &mut Reader, field: Field<'_>, cost: u64, most: u64, limit: &str) {
    if cost > most && most > 0 {
        let message = format!("a request with cost {cost} can never be admitted: {limit} is {most}");
        reader.problems.push(Problem::error(field.node.at, message));
    }
}

/// Reads the cost of each method.
fn methods(reader: &mut Reader, field: Field<'_>, most: u64, limit: &str) -> Vec<(String, u64)> {
    let mut out = Vec::new();
    for (entry, one) in entries(reader, field) {
        if !named(reader, entry, method(&entry.key).map(drop), "a method such as `POST`") {
            continue;
        }
        let what = shown(&entry.key);
        let cost = reader.parsed(&entry.value, &what, one, |text| quantity::count(text, 0, MOST_COST));
        if let Some(cost) = cost {
            if cost > most && most > 0 {
                let message = format!("a request with cost {cost} can never be admitted: {limit} is {most}");
                reader.problems.push(Problem::error(entry.value.at, message));
            }
            out.push((entry.key.clone(), cost));
        }
    }
    out
}

/// Reads `exempt` of a limit.
pub(super) fn exempt(reader: &mut Reader, fields: &Fields<'_>) -> Exempt {
    let mut out = Exempt::default();
    let Some(field) = fields.get("exempt") else { return out };
    let Some(fields) = reader.fields(field.node, &EXEMPT) else { return out };
    if let Some(field) = fields.get("addresses") {
        out.addresses = blocks(reader, field, "an address");
    }
    out.consumers = texts(reader, fields.get("consumers"), word);
    out.groups = texts(reader, fields.get("groups"), word);
    out.methods = texts(reader, fields.get("methods"), method);
    if let Some(field) = fields.get("headers") {
        for (entry, one) in entries(reader, field) {
            if !named(reader, entry, header::name(&entry.key).map(drop), "the name of a header") {
                continue;
            }
            let value = reader.parsed(&entry.value, &shown(&entry.key), one, word);
            out.headers.extend(value.map(|value| (entry.key.to_ascii_lowercase(), value)));
        }
    }
    if matches!(&field.node.kind, NodeKind::Map(entries) if entries.is_empty()) {
        let problem = Problem::error(field.at, "`exempt` has no condition");
        let expected = "some of `addresses`, `consumers`, `groups`, `methods` and `headers`";
        reader.problems.push(problem.expected(expected));
    }
    out
}

/// Reads `scope` of a limit.
pub(super) fn scope(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    reader.field(fields.get("scope")?, |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        match !text.is_empty() && text.len() <= 128 && text.bytes().all(fits) {
            true => Ok(text.to_owned()),
            false => Err(ScalarError::new("{} is not a valid name")),
        }
    })
}

/// Returns the entries of a mapping whose keys the user chooses, each with the shape of its value.
fn entries<'t>(reader: &mut Reader, field: Field<'t>) -> Vec<(&'t MappingEntry, &'static Shape)> {
    let (NodeKind::Map(entries), Shape::MapOf(one)) = (&field.node.kind, &field.key.shape) else {
        reader.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
        return Vec::new();
    };
    entries.iter().map(|entry| (entry, *one)).collect()
}

/// Reports an invalid key. Returns whether the key is valid.
fn named(reader: &mut Reader, entry: &MappingEntry, read: Result<(), ScalarError>, expected: &str) -> bool {
    let Err(fault) = read else { return true };
    let message = fault.message.replacen("{}", &shown(&entry.key), 1);
    reader.problems.push(Problem::error(entry.at, message).expected(expected.to_owned()));
    false
}
