//! `query`.

use super::canary::problem;
use crate::model::Query;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{Fault, value_template};
use crate::spec::{QUERY_POLICY, Shape};
use crate::tree::{Kind, shown};

pub(super) fn query(reader: &mut Reader, field: Field<'_>) -> Option<Query> {
    let fields = reader.fields(field.node, &QUERY_POLICY)?;
    let mut out = Query::default();
    if let Some(field) = fields.get("remove") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        let items = reader.few(field.node, "`remove`");
        out.remove = items.iter().filter_map(|item| reader.parsed(item, "a parameter", one, name)).collect();
    }
    out.set = values(reader, fields.get("set"));
    out.add = values(reader, fields.get("add"));
    if ["remove", "set", "add"].iter().all(|name| fields.get(name).is_none()) {
        let message = "`query` has none of `remove`, `set` and `add`";
        reader.problems.push(Problem::error(field.at, message).help("write `query: {remove: debug}`"));
    }
    Some(out)
}

fn values(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<(String, String)> {
    let Some(field) = field else { return Vec::new() };
    let one = if let Shape::MapOf(one) = field.key.shape { one } else { &field.key.shape };
    let Kind::Map(entries) = &field.node.kind else {
        let expected = "a mapping of names to values".to_owned();
        reader.mismatch(field.node, &format!("`{}`", field.key.name), expected);
        return Vec::new();
    };
    let mut out = Vec::new();
    for entry in entries {
        match name(&entry.key) {
            Ok(name) => {
                let value = |text: &str| value_template::pieces(text).map(|_| text.to_owned());
                let value = reader.parsed(&entry.value, &shown(&entry.key), one, value);
                out.extend(value.map(|value| (name, value)));
            }
            Err(fault) => reader.problems.push(problem(entry.at, &entry.key, fault)),
        }
    }
    out
}

fn name(text: &str) -> Result<String, Fault> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(Fault::new("{} is not the name of a parameter"));
    }
    Ok(text.to_owned())
}
