//! Reads `aggregate`.

use std::time::Duration;

use super::super::respond::json;
use crate::model::{Aggregate, AggregatePart, AggregatePiece, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, address, field as header, value_template};
use crate::spec::{AGGREGATE_PART, AGGREGATE_POLICY};
use crate::suggest;
use crate::tree::{MappingEntry, Node, NodeKind, shown};

/// Maximum number of parts of a document; all are requested at once.
const PARTS: usize = 16;
/// Placeholder for the list of parts that failed.
const FAILED: &str = "failed";

pub(super) fn aggregate(reader: &mut Reader, field: Field<'_>) -> Option<Aggregate> {
    let fields = reader.fields(field.node, &AGGREGATE_POLICY)?;
    let (mut timeout, mut limit) = (Duration::from_secs(5), 4 << 20);
    reader.time_into(fields.get("timeout"), &mut timeout);
    reader.number_into(fields.get("limit"), &mut limit);
    let parts = fields.get("parts")?;
    let NodeKind::Map(entries) = &parts.node.kind else {
        reader.mismatch(parts.node, "`parts`", parts.key.shape.expected());
        return None;
    };
    if entries.is_empty() {
        reader.missing(parts.at, "`parts` is empty".to_owned(), &parts.key.shape);
    }
    if let Some(extra) = entries.get(PARTS) {
        let message = format!("`parts` has more than {PARTS} entries");
        reader.problems.push(Problem::error(extra.at, message));
    }
    let parts: Vec<_> = entries.iter().take(PARTS).filter_map(|entry| part(reader, entry, timeout)).collect();
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let shape = match fields.get("shape") {
        Some(field) => shape(reader, field, &names),
        None => everything(&names),
    };
    Some(Aggregate { parts, shape, limit })
}

fn part(reader: &mut Reader, entry: &MappingEntry, timeout: Duration) -> Option<AggregatePart> {
    let name = &entry.key;
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name == FAILED || name.is_empty() || name.len() > 64 || !name.chars().all(known) {
        let problem = Problem::error(entry.at, format!("{} is not the name of a part", shown(name)));
        let expected = "1 to 64 letters, digits, `_` and `-`, and not `failed`";
        reader.problems.push(problem.expected(expected));
    }
    let fields = reader.fields(&entry.value, &AGGREGATE_PART)?;
    let (mut timeout, mut limit, mut required) = (timeout, 1 << 20, true);
    reader.time_into(fields.get("timeout"), &mut timeout);
    reader.number_into(fields.get("limit"), &mut limit);
    reader.switch(fields.get("required"), &mut required);
    let fallback = fields.get("fallback");
    if let (Some(field), Some(_), true) = (fields.get("required"), fallback, required) {
        let problem = Problem::error(field.at, "a required part cannot have a `fallback`");
        reader.problems.push(problem.help("remove one of them"));
    }
    let fallback = match fallback {
        Some(field) => Some(json(field.node).to_string()),
        None => (!required).then(|| "null".to_owned()),
    };
    let host = fields.get("host").and_then(|field| reader.field(field, header::value));
    let target = match fields.get("path") {
        Some(field) => reader.spanned(field, target)?,
        None => Spanned { value: ("{path}".to_owned(), "{query}".to_owned()), at: entry.at },
    };
    let Spanned { value: (path, query), at } = target;
    let to = reader.spanned(fields.get("to")?, address::upstream)?;
    let (name, path) = (name.clone(), Spanned { value: path, at });
    Some(AggregatePart { name, to, path, query, host, timeout, limit, fallback })
}

/// Splits a part's target into path and query, and checks their placeholders.
fn target(text: &str) -> Result<(String, String), ScalarError> {
    if !(text.starts_with('/') || text.starts_with("{path}")) {
        return Err(ScalarError::new("{} is not a path").help("it begins with `/` or `{path}`"));
    }
    if let Some(odd) = text.chars().position(|c| !c.is_ascii_graphic() || c == '#') {
        return Err(ScalarError::new("{} is not a path")
            .part(odd, 1)
            .help("write other characters as `%20`"));
    }
    value_template::pieces(text)?;
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    Ok((path.to_owned(), query.to_owned()))
}

/// Reads the document's layout. Every part must occur in it.
fn shape(reader: &mut Reader, field: Field<'_>, names: &[&str]) -> Vec<AggregatePiece> {
    let mut out = ResponseLayout { pieces: Vec::new(), used: vec![false; names.len()] };
    out.add(reader, field.node, names);
    for (name, used) in names.iter().zip(&out.used) {
        if !used {
            let problem = Problem::error(field.at, format!("`shape` does not contain the part `{name}`"));
            reader.problems.push(problem.help(format!("write `${name}` at its place in `shape`")));
        }
    }
    out.pieces
}

/// Returns the default layout: an object of all parts.
fn everything(names: &[&str]) -> Vec<AggregatePiece> {
    let mut out = ResponseLayout { pieces: Vec::new(), used: vec![false; names.len()] };
    out.text("{");
    for (number, name) in names.iter().enumerate() {
        out.text(&format!("\"{name}\":"));
        out.pieces.push(AggregatePiece::Part(number));
        out.text(",");
    }
    out.text(&format!("\"{FAILED}\":"));
    out.pieces.push(AggregatePiece::Failed);
    out.text("}");
    out.pieces
}

struct ResponseLayout {
    pieces: Vec<AggregatePiece>,
    /// Whether each part occurs in the layout.
    used: Vec<bool>,
}

impl ResponseLayout {
    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(AggregatePiece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(AggregatePiece::Text(text.to_owned())),
        }
    }

    fn add(&mut self, reader: &mut Reader, node: &Node, names: &[&str]) {
        match &node.kind {
            NodeKind::Map(entries) => {
                for (number, entry) in entries.iter().enumerate() {
                    self.text(if number == 0 { "{" } else { "," });
                    self.text(&serde_json::Value::from(entry.key.as_str()).to_string());
                    self.text(":");
                    self.add(reader, &entry.value, names);
                }
                self.text(if entries.is_empty() { "{}" } else { "}" });
            }
            NodeKind::List(items) => {
                self.text("[");
                for (number, item) in items.iter().enumerate() {
                    if number > 0 {
                        self.text(",");
                    }
                    self.add(reader, item, names);
                }
                self.text("]");
            }
            NodeKind::Scalar(scalar) => match scalar.text.strip_prefix('$') {
                Some(rest) if rest.starts_with('$') => {
                    self.text(&serde_json::Value::from(rest).to_string());
                }
                Some(FAILED) => self.pieces.push(AggregatePiece::Failed),
                Some(name) => match names.iter().position(|own| *own == name) {
                    Some(number) => {
                        self.used[number] = true;
                        self.pieces.push(AggregatePiece::Part(number));
                    }
                    None => unknown(reader, node, name, names),
                },
                None => self.text(&json(node).to_string()),
            },
            NodeKind::Invalid => {}
        }
    }
}

fn unknown(reader: &mut Reader, node: &Node, name: &str, names: &[&str]) {
    let problem = Problem::error(node.at, format!("there is no part {}", shown(name)));
    reader.problems.push(match suggest::nearest(name, names.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `${near}`?")),
        None => problem.expected("`$` and the name of a part, or `$failed`; `$$` is a `$`"),
    });
}
