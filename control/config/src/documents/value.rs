//! Converts between the configuration file's YAML and JSON.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::{DocumentProblem, KINDS, ResourceKind, kinds};
use crate::parse::parse;
use crate::position::SourceFile;
use crate::problem::{Problem, Severity};
use crate::problems::Problems;
use crate::read::{self, Draft};
use crate::reader::{Reader, one_or_many};
use crate::tree::{Node, NodeKind, Scalar};

/// A resource of the file as written there, with variables unexpanded.
#[derive(Clone, Debug)]
pub struct FileResource {
    /// Kind of the resource.
    pub kind: &'static ResourceKind,
    /// Its name; an unnamed route is called by its match, as in metrics.
    pub name: String,
    /// Its content.
    pub value: Value,
    /// Its source position: `file:line`.
    pub at: String,
}

/// Converts YAML to JSON.
///
/// # Errors
/// Returns all syntax errors.
pub fn from_yaml(text: &str) -> Result<Value, Vec<DocumentProblem>> {
    let parsed = parse(0, text);
    let file = SourceFile { name: "the request's body".to_owned(), text: text.to_owned() };
    let errors: Vec<_> =
        parsed.problems.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
    let empty = || vec![Problem::error(crate::model::At::default(), "the body is empty")];
    match parsed.root {
        Some(root) if errors.is_empty() => Ok(value_of(&root)),
        _ => {
            let errors = if errors.is_empty() { empty() } else { errors };
            let positions = Problems::new(vec![file]);
            Err(errors.iter().map(|problem| DocumentProblem::in_file(problem, &positions)).collect())
        }
    }
}

fn value_of(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Invalid => Value::Null,
        NodeKind::Scalar(scalar) => scalar_value(scalar),
        NodeKind::List(items) => Value::Array(items.iter().map(value_of).collect()),
        NodeKind::Map(entries) => Value::Object(
            entries.iter().map(|entry| (entry.key.clone(), value_of(&entry.value))).collect::<Map<_, _>>(),
        ),
    }
}

fn scalar_value(scalar: &Scalar) -> Value {
    let text = &scalar.text;
    if scalar.is_null() {
        return Value::Null;
    }
    if scalar.quoted {
        return Value::from(text.as_str());
    }
    match text.as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    // Only canonical numbers become numbers: `010` and `1e3` stay text.
    let number = text.parse::<Number>().ok().filter(|number| number.to_string() == *text);
    number.map_or_else(|| Value::from(text.as_str()), Value::Number)
}

/// Formats JSON as YAML in the style of configuration files, without unnecessary quotes.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write_block(&mut out, value, 0, false);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn write_block(out: &mut String, value: &Value, indent: usize, inline: bool) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (number, (key, value)) in entries.iter().enumerate() {
                if !(inline && number == 0) {
                    out.push_str(&" ".repeat(indent));
                }
                out.push_str(&quote_if_needed(key));
                out.push(':');
                write_nested(out, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{}- ", " ".repeat(indent));
                match item {
                    Value::Object(entries) if !entries.is_empty() => write_block(out, item, indent + 2, true),
                    other => {
                        out.push_str(&flow(other));
                        out.push('\n');
                    }
                }
            }
        }
        other => {
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

fn write_nested(out: &mut String, value: &Value, indent: usize) {
    let deep = match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_array()),
        _ => false,
    };
    if deep {
        out.push('\n');
        write_block(out, value, indent + 2, false);
    } else {
        let _ = writeln!(out, " {}", flow(value));
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => quote_if_needed(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries =
                entries.iter().map(|(key, value)| format!("{}: {}", quote_if_needed(key), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Formats a text: unquoted if it cannot be misread, otherwise quoted as in JSON, which YAML also accepts.
fn quote_if_needed(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let scalar = Scalar { text: text.to_owned(), quoted: false, written: None };
    let bare = text.chars().all(plain)
        && text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '/'))
        && text.trim() == text
        && !scalar.is_null()
        && scalar.switch().is_none();
    if bare { text.to_owned() } else { Value::from(text).to_string() }
}

/// Returns the resources as written in these files, which must have been read without an error.
#[must_use]
pub fn file_resources(files: &[SourceFile]) -> Vec<FileResource> {
    let mut out = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let index = u32::try_from(number).unwrap_or(u32::MAX);
        let Some(root) = parse(index, &file.text).root else { continue };
        let place = |node: &Node| format!("{}:{}", file.name, node.at.line);
        for kind in &KINDS {
            let of = |name: String, node: &Node| FileResource {
                kind,
                name,
                value: value_of(node),
                at: place(node),
            };
            let written = root.entry(kind.key).map(|entry| &entry.value);
            if kind.index == kinds::LISTENERS {
                let entries = written.into_iter().flat_map(one_or_many);
                let named = entries.filter_map(|node| Some((given_name(node)?, node)));
                out.extend(named.map(|(name, node)| of(name, node)));
                continue;
            }
            match written.map(|node| &node.kind) {
                Some(NodeKind::List(items)) => {
                    out.extend(items.iter().map(|item| of(route_name(item), item)));
                }
                Some(NodeKind::Map(entries)) => {
                    out.extend(entries.iter().map(|entry| of(entry.key.clone(), &entry.value)));
                }
                _ => {}
            }
        }
    }
    out
}

/// Returns the name that a resource contains.
fn given_name(node: &Node) -> Option<String> {
    node.entry("name").and_then(|entry| entry.value.scalar()).map(|name| name.text.clone())
}

fn route_name(node: &Node) -> String {
    if let Some(name) = given_name(node) {
        return name;
    }
    let mut draft = Draft::default();
    read::route(&mut Reader::new(true), node, &mut draft);
    draft.config.routes.first().map(crate::Route::display_name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back() {
        let value = json!({
            "match": {"host": "*.example.com", "path": "/x", "headers": {"x": "on"}},
            "to": [{"upstream": "a", "weight": 2}, "10.0.0.1:80"],
            "empty": [], "none": {}, "text": "5", "number": 5, "odd": "- \"x\": #\n",
            "deep": [[1, [2]], {"a": {"b": "c"}}], "no": "no", "nothing": null, "half": 1.5
        });
        let yaml = to_yaml(&value);
        assert_eq!(from_yaml(&yaml).expect("YAML"), value, "{yaml}");
        assert!(yaml.contains("  path: /x\n") && yaml.contains("host: \"*.example.com\""), "{yaml}");
    }

    #[test]
    fn invalid_yaml_is_reported() {
        assert!(from_yaml("a: [").is_err());
        assert!(from_yaml("").is_err());
    }
}
