//! Reads `query`.

use crate::model::Query;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, value_template};
use crate::spec::{QUERY_POLICY, Shape};

pub(super) fn query(reader: &mut Reader, field: Field<'_>) -> Option<Query> {
    let fields = reader.fields(field.node, &QUERY_POLICY)?;
    let mut out = Query::default();
    if let Some(field) = fields.get("remove") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        let items = reader.bounded_items(field.node, "`remove`");
        out.remove = items
            .iter()
            .filter_map(|item| reader.parsed(item, "a parameter", one, removal_pattern))
            .collect();
    }
    let value = |text: &str| value_template::pieces(text).map(|_| text.to_owned());
    out.set = reader.pairs(fields.get("set"), name, value);
    out.add = reader.pairs(fields.get("add"), name, value);
    if ["remove", "set", "add"].iter().all(|name| fields.get(name).is_none()) {
        let message = "`query` has none of `remove`, `set` and `add`";
        reader.problems.push(Problem::error(field.at, message).help("write `query: {remove: debug}`"));
    }
    Some(out)
}

/// Parses a parameter to remove, or `PREFIX*` for every parameter whose name starts with the prefix.
fn removal_pattern(text: &str) -> Result<String, ScalarError> {
    match text.strip_suffix('*') {
        Some("") => {
            Err(ScalarError::new("{} would match every parameter")
                .help("write a prefix of the names: `utm_*`"))
        }
        Some(begin) => name(begin).map(|begin| format!("{begin}*")),
        None => name(text),
    }
}

fn name(text: &str) -> Result<String, ScalarError> {
    if let Some(star) = text.chars().position(|c| c == '*') {
        let fault =
            ScalarError::new("{} has a `*`, but this key takes the name of one parameter").part(star, 1);
        return Err(fault.help("`remove` takes a beginning of names: `utm_*`"));
    }
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(ScalarError::new("{} is not the name of a parameter"));
    }
    Ok(text.to_owned())
}
