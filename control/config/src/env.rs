//! Expands `${NAME}` and `${NAME:-default}` in values.
//!
//! Expansion happens after parsing, so a variable's value cannot add a key, end a quote or become anything
//! but text. `$${` is a literal `${`. `${1}` is left unchanged: it is a capture group of a replacement, not a
//! variable.

use crate::problem::Problem;
use crate::tree::{Kind, Node, Scalar};

/// Looks up a variable.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands the variables in every value of a tree. A value with an error becomes [`Kind::Invalid`].
pub(crate) fn expand(node: &mut Node, lookup: Lookup<'_>, problems: &mut Vec<Problem>) {
    match &mut node.kind {
        Kind::Invalid => {}
        Kind::List(items) => items.iter_mut().for_each(|item| expand(item, lookup, problems)),
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| expand(&mut entry.value, lookup, problems)),
        Kind::Scalar(scalar) if !scalar.text.contains("${") => {}
        Kind::Scalar(scalar) => match fill(&scalar.text, lookup) {
            Ok(Filled { text, variables: false }) => scalar.text = text,
            Ok(Filled { text, variables: true }) => {
                let written = std::mem::take(&mut scalar.text);
                // Quoted: a variable's value is always text, never a boolean, number or null.
                node.kind = Kind::Scalar(Scalar { text, quoted: true, written: Some(written) });
            }
            Err(faults) => {
                for fault in faults {
                    let at = node.part(fault.start, fault.length);
                    problems.push(Problem::error(at, fault.message).help(fault.help));
                }
                node.kind = Kind::Invalid;
            }
        },
    }
}

#[derive(Debug, PartialEq)]
struct Filled {
    text: String,
    variables: bool,
}

#[derive(Debug, PartialEq)]
struct Fault {
    /// In characters, from the start of the text.
    start: usize,
    length: usize,
    message: String,
    help: String,
}

fn fill(text: &str, lookup: Lookup<'_>) -> Result<Filled, Vec<Fault>> {
    let mut out = Filled { text: String::with_capacity(text.len()), variables: false };
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
            faults.push(Fault {
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
        match one(inside, lookup) {
            Ok(Some(value)) => {
                out.text.push_str(&value);
                out.variables = true;
            }
            Ok(None) => out.text.push_str(&from[..=end]),
            Err((message, help)) => faults.push(Fault { start: done, length, message, help }),
        }
        done += length;
        rest = &from[end + 1..];
    }
    out.text.push_str(rest);
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

/// Returns the value for the text between the braces; `None` if it is the number of a capture group.
fn one(inside: &str, lookup: Lookup<'_>) -> Result<Option<String>, (String, String)> {
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

    fn filled(text: &str) -> String {
        fill(text, &lookup).unwrap().text
    }

    #[test]
    fn variables_defaults_and_escapes() {
        assert_eq!(filled("a ${HOST} b"), "a db: {x} b");
        assert_eq!(filled("${NONE:-d}${HOST:-d}"), "ddb: {x}");
        assert_eq!(filled("${EMPTY:-d}|${EMPTY}|"), "d||");
        assert_eq!(filled("$${HOST} $HOST $$ ${1}"), "${HOST} $HOST $$ ${1}");
        assert!(!fill("$${HOST}", &lookup).unwrap().variables);
    }

    #[test]
    fn mistakes_are_placed_in_characters() {
        let faults = fill("日 ${NONE} ${-} ${x", &lookup).unwrap_err();
        let places: Vec<_> = faults.iter().map(|fault| (fault.start, fault.length)).collect();
        assert_eq!(places, [(2, 7), (10, 4), (15, 3)]);
    }
}
