//! Names of methods, as a match, `retry` and `hedge` list them.

use crate::scalar::field as header;
use crate::section::{Field, Problem, Reader, ScalarError, Shape};
use crate::suggest;

/// Standard methods, used to detect misspellings (RFC 9110, section 9, and RFC 5789).
pub(crate) const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Reads one or more methods. Warns of a name that is probably misspelt.
pub(crate) fn methods(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let mut out: Vec<String> = Vec::new();
    let what = format!("`{}`", field.key.name);
    let items = reader.bounded_items(field.node, &what);
    if items.is_empty() {
        reader.missing(field.node.at, format!("{what} is an empty list"), &field.key.shape);
    }
    for item in items {
        let method = reader.parsed(item, "a method", one, |text| {
            if header::is_token(text) && text.len() <= 32 {
                return Ok(text.to_ascii_uppercase());
            }
            Err(ScalarError::new("{} is not a method").help("several methods are a list: `[GET, HEAD]`"))
        });
        let Some(method) = method else { continue };
        let near = suggest::nearest(&method, METHODS.into_iter());
        let open = item.scalar().filter(|scalar| scalar.written.is_none());
        if let (false, Some(near), Some(scalar)) = (METHODS.contains(&method.as_str()), near, open) {
            let problem = Problem::warning(item.at, format!("{} is not a known method", scalar.shown()));
            reader.problems.push(problem.help(format!("did you mean `{near}`?")));
        }
        if !out.contains(&method) {
            out.push(method);
        }
    }
    Some(out)
}
