//! Expands `${NAME}` and `${NAME:-default}` in values.
//!
//! Expansion happens after parsing, so a variable's value cannot add a key, end a quote or become anything
//! but text. `$${` is a literal `${`. `${1}` is left unchanged: it is a capture group of a replacement, not a
//! variable.

use crate::problem::Problem;
use crate::tree::{Node, NodeKind, Scalar};

/// Looks up a variable.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands the variables in every value of a tree. A value with an error becomes [`NodeKind::Invalid`].
pub(crate) fn expand(node: &mut Node, lookup: Lookup<'_>, problems: &mut Vec<Problem>) {
    match &mut node.kind {
        NodeKind::Invalid => {}
        NodeKind::List(items) => items.iter_mut().for_each(|item| expand(item, lookup, problems)),
        NodeKind::Map(entries) => {
            entries.iter_mut().for_each(|entry| expand(&mut entry.value, lookup, problems));
        }
        NodeKind::Scalar(scalar) if !scalar.text.contains("${") => {}
        NodeKind::Scalar(scalar) => match expand_text(&scalar.text, lookup) {
            Ok(Expansion { text, variables: false }) => scalar.text = text,
            Ok(Expansion { text, variables: true }) => {
                let written = std::mem::take(&mut scalar.text);
                // Quoted: a variable's value is always text, never a boolean, number or null.
                node.kind = NodeKind::Scalar(Scalar { text, quoted: true, written: Some(written) });
            }
            Err(faults) => {
                for error in faults {
                    let at = node.part(error.start, error.length);
                    problems.push(Problem::error(at, error.message).help(error.help));
                }
                node.kind = NodeKind::Invalid;
            }
        },
    }
}

#[derive(Debug, PartialEq)]
struct Expansion {
    text: String,
    variables: bool,
}

#[derive(Debug, PartialEq)]
struct VariableError {
    /// In characters, from the start of the text.
    start: usize,
    length: usize,
    message: String,
    help: String,
}

fn expand_text(text: &str, lookup: Lookup<'_>) -> Result<Expansion, Vec<VariableError>> {
    let mut out = Expansion { text: String::with_capacity(text.len()), variables: false };
    let mut faults = Vec::new();
    let mut rest = text;
    let mut done = 0;
    while let Some(found) = rest.find("${") {
        let (before, from) = rest.split_at(found);
        if let Some(kept) = before.strip_suffix('$') {
            out.text.push_str(kept);
            out.text.push_str("${");
            done += before.chars().count() + 2;
            rest = &from[2..];
            continue;
        }
        out.text.push_str(before);
        done += before.chars().count();
        let Some(end) = from.find('}') else {
            faults.push(VariableError {
                start: done,
                length: from.chars().count(),
                message: "`${` is not closed".to_owned(),
                help: "variables are written `${NAME}` or `${NAME:-default}`; `$${` is a literal `${`"
                    .to_owned(),
            });
            rest = "";
            break;
        };
        let inside = &from[2..end];
        let length = inside.chars().count() + 3;
        match resolve(inside, lookup) {
            Ok(Some(value)) => {
                out.text.push_str(&value);
                out.variables = true;
            }
            Ok(None) => out.text.push_str(&from[..=end]),
            Err((message, help)) => faults.push(VariableError { start: done, length, message, help }),
        }
        done += length;
        rest = &from[end + 1..];
    }
    out.text.push_str(rest);
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

/// Returns the value for the text between the braces; `None` if it is the number of a capture group.
fn resolve(inside: &str, lookup: Lookup<'_>) -> Result<Option<String>, (String, String)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if default.is_none() && !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err((
            "`${...}` does not hold the name of a variable".to_owned(),
            "variables are written `${NAME}` or `${NAME:-default}`; `$${` is a literal `${`".to_owned(),
        ));
    }
    // As in a shell, `:-` also applies to a variable that is set but empty.
    match (lookup(name), default) {
        (Some(value), None) => Ok(Some(value)),
        (Some(value), Some(_)) if !value.is_empty() => Ok(Some(value)),
        (_, Some(default)) => Ok(Some(default.to_owned())),
        (None, None) => Err((
            format!("the environment variable `{name}` is not set"),
            format!(
                "set it, give a default with `${{{name}:-...}}`, or write `$${{{name}}}` for the literal text"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("db: {x}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn expansion(text: &str) -> String {
        expand_text(text, &lookup).unwrap().text
    }

    #[test]
    fn variables_defaults_and_escapes() {
        assert_eq!(expansion("a ${HOST} b"), "a db: {x} b");
        assert_eq!(expansion("${NONE:-d}${HOST:-d}"), "ddb: {x}");
        assert_eq!(expansion("${EMPTY:-d}|${EMPTY}|"), "d||");
        assert_eq!(expansion("$${HOST} $HOST $$ ${1}"), "${HOST} $HOST $$ ${1}");
        assert!(!expand_text("$${HOST}", &lookup).unwrap().variables);
    }

    #[test]
    fn mistakes_are_placed_in_characters() {
        let faults = expand_text("日 ${NONE} ${-} ${x", &lookup).unwrap_err();
        let places: Vec<_> = faults.iter().map(|error| (error.start, error.length)).collect();
        assert_eq!(places, [(2, 7), (10, 4), (15, 3)]);
    }
}
