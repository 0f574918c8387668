//! The settings of `aggregate`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{
    Field, Fields, KeySpec, MappingEntry, Node, NodeKind, Problem, Reader, ScalarError, Section, Shape,
    UPSTREAM_NAME, header, json, shown, upstream_name, value_template,
};
use tollgate_config::{Spanned, ValuePiece, nearest};
use tollgate_route::{Normalised, PathRules, normalise};

use super::{AggregatePart, AggregateRules, Requirement, ShapePiece};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::{Planned, Template};

/// Maximum number of parts of a document; all are requested at once.
const PARTS_MAX: usize = 16;
/// Placeholder for the list of parts that failed.
const FAILED: &str = "failed";

/// Answers the request with one JSON document that combines responses of several upstreams.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "aggregate_policy", noun = "`aggregate`", check = read_layout)]
pub(crate) struct AggregateSettings {
    /// The parts of the document by name, at most 16.
    #[key(shape = Shape::MapOf(PART), read = parts, required, also = ["backends", "requests", "calls"])]
    parts: Vec<(String, Part)>,
    /// Layout of the document: any JSON, in which `$NAME` is replaced by a part and `$failed` by the list of failed
    /// parts. Default: an object of all parts and `failed`.
    #[key(shape = Shape::Anything, read = with_the_parts, also = ["document", "body", "response"])]
    shape: Vec<ShapePiece>,
    /// Maximum time for each part without its own `timeout` (504).
    #[key(time = "1ms"..="10m", default = "5s")]
    timeout: Duration,
    /// Maximum bytes of all parts together (502).
    #[key(size = 1..="256MiB", default = "4MiB", also = ["total", "max_body"])]
    limit: usize,
}

/// A part of the document: the response of an upstream to a GET.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "aggregate_part", noun = "a part of `aggregate`", check = check_part)]
struct Part {
    /// Name of the upstream.
    #[key(
        text = UPSTREAM_NAME, parse = upstream_name, required,
        also = ["upstream", "cluster", "backend", "service"],
    )]
    to: Spanned<String>,
    /// Its path and query, a template of parts of the request.
    #[key(
        expected = "a path such as `/users/{consumer}?full=1`", pattern = r"^(/|\{path\})\S*$", parse = target,
        default = "{path}?{query}", also = ["url", "uri", "target"],
    )]
    path: Spanned<Target>,
    /// The `Host` of its request. Default: the host of the original request.
    #[key(expected = "a host such as `users.internal`", pattern = r"^\S+$", parse = header::value)]
    host: Option<String>,
    /// Maximum time to its last byte. Default: the policy's `timeout`.
    #[key(time = "1ms"..="10m")]
    timeout: Option<Duration>,
    /// Maximum bytes (502).
    #[key(size = 1..="64MiB", default = "1MiB", also = ["max_body"])]
    limit: usize,
    /// Whether the request fails without it.
    #[key(default = on)]
    required: bool,
    /// Any JSON that replaces the part if it fails. The part is then optional.
    #[key(shape = Shape::Anything, read = any_json, also = ["default", "otherwise"])]
    fallback: Option<String>,
}

/// The path and query of a part's request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// A template.
    path: String,
    /// A template; empty: none.
    query: String,
}

const PART: &Shape = &Shape::Section(Part::SPEC);

impl PolicyConfig for AggregateSettings {
    const KEY: KeySpec =
        policy_key::<Self>("aggregate", "Combines responses of several upstreams in one JSON document.")
            .aliases(&["aggregation", "fan_out", "merge", "compose", "api_composition"]);

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let parts = self.parts.iter().map(|(name, part)| {
            compilation.problems.extend(abnormal(part, compilation.paths));
            let optional = || Requirement::Optional("null".into());
            let need = match &part.fallback {
                Some(json) => Requirement::Optional(json.as_str().into()),
                None if part.required => Requirement::Required,
                None => optional(),
            };
            AggregatePart {
                name: name.clone(),
                to: part.to.value.as_str().into(),
                path: template(&part.path.value.path),
                query: template(&part.path.value.query),
                host: part.host.as_deref().map(Into::into),
                timeout: part.timeout.unwrap_or(self.timeout),
                most: part.limit,
                need,
            }
        });
        let parts = parts.collect();
        Arc::new(AggregateRules { parts, shape: self.shape.clone(), total: self.limit })
    }

    fn upstreams(&self) -> Vec<&Spanned<String>> {
        self.parts.iter().map(|(_, part)| &part.to).collect()
    }
}

/// Returns the template of a part's target, whose placeholders the reader has checked.
fn template(text: &str) -> Template {
    Template::parse(text).unwrap_or_else(|_| text.as_bytes().into())
}

/// Reports a path that is not in its normal form: no request could ask for it.
fn abnormal(part: &Part, rules: &PathRules) -> Option<Problem> {
    let pieces = value_template::pieces(&part.path.value.path).ok()?;
    let filled: String = pieces
        .into_iter()
        .enumerate()
        .map(|(at, piece)| match piece {
            ValuePiece::Text(text) => text,
            ValuePiece::Field("path") if at == 0 => "/x".to_owned(),
            _ => "x".to_owned(),
        })
        .collect();
    let mut normal = Vec::new();
    match normalise(filled.as_bytes(), rules, &mut normal) {
        Ok(Normalised::Unchanged) => None,
        _ => {
            let problem = Problem::error(part.path.at, "this path is not in its normal form");
            Some(problem.help("write it without dot segments, empty segments and needless `%XX`"))
        }
    }
}

fn parts(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, Part)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`parts`", field.key.shape.expected());
        return None;
    };
    if entries.is_empty() {
        reader.missing(field.at, "`parts` is empty".to_owned(), &field.key.shape);
    }
    if let Some(extra) = entries.get(PARTS_MAX) {
        let message = format!("`parts` has more than {PARTS_MAX} entries");
        reader.problems.push(Problem::error(extra.at, message));
    }
    Some(entries.iter().take(PARTS_MAX).filter_map(|entry| part(reader, entry)).collect())
}

fn part(reader: &mut Reader, entry: &MappingEntry) -> Option<(String, Part)> {
    let name = &entry.key;
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name == FAILED || name.is_empty() || name.len() > 64 || !name.chars().all(known) {
        let problem = Problem::error(entry.at, format!("{} is not the name of a part", shown(name)));
        let expected = "1 to 64 letters, digits, `_` and `-`, and not `failed`";
        reader.problems.push(problem.expected(expected));
    }
    Part::read_section(reader, &entry.value).map(|part| (name.clone(), part))
}

fn check_part(reader: &mut Reader, fields: &Fields<'_>, part: &mut Part) {
    if let (Some(field), Some(_), true) = (fields.get("required"), fields.get("fallback"), part.required) {
        let problem = Problem::error(field.at, "a required part cannot have a `fallback`");
        reader.problems.push(problem.help("remove one of them"));
    }
}

fn any_json(_: &mut Reader, field: Field<'_>) -> Option<String> {
    Some(json(field.node).to_string())
}

/// Splits a part's target into path and query, and checks their placeholders.
fn target(text: &str) -> Result<Target, ScalarError> {
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
    Ok(Target { path: path.to_owned(), query: query.to_owned() })
}

/// Leaves `shape` to [`read_layout`], which knows the parts.
fn with_the_parts(_: &mut Reader, _: Field<'_>) -> Option<Vec<ShapePiece>> {
    Some(Vec::new())
}

/// Reads the document's layout. Every part must occur in it.
fn read_layout(reader: &mut Reader, fields: &Fields<'_>, settings: &mut AggregateSettings) {
    let Some(NodeKind::Map(entries)) = fields.get("parts").map(|field| &field.node.kind) else { return };
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let Some(field) = fields.get("shape") else {
        settings.shape = everything(&names);
        return;
    };
    let mut out = ResponseLayout { pieces: Vec::new(), used: vec![false; names.len()] };
    out.add(reader, field.node, &names);
    for (name, used) in names.iter().zip(&out.used) {
        if !used {
            let problem = Problem::error(field.at, format!("`shape` does not contain the part `{name}`"));
            reader.problems.push(problem.help(format!("write `${name}` at its place in `shape`")));
        }
    }
    settings.shape = out.finish();
}

/// Returns the default layout: an object of all parts.
fn everything(names: &[&str]) -> Vec<ShapePiece> {
    let mut out = ResponseLayout { pieces: Vec::new(), used: vec![false; names.len()] };
    out.text("{");
    for (number, name) in names.iter().enumerate() {
        out.text(&format!("\"{name}\":"));
        out.pieces.push(Piece::Part(number));
        out.text(",");
    }
    out.text(&format!("\"{FAILED}\":"));
    out.pieces.push(Piece::Failed);
    out.text("}");
    out.finish()
}

/// A piece of the layout while it is read.
enum Piece {
    Text(String),
    Part(usize),
    Failed,
}

struct ResponseLayout {
    pieces: Vec<Piece>,
    /// Whether each part occurs in the layout.
    used: Vec<bool>,
}

impl ResponseLayout {
    fn finish(self) -> Vec<ShapePiece> {
        let piece = |piece| match piece {
            Piece::Text(text) => ShapePiece::Text(text.into()),
            Piece::Part(number) => ShapePiece::Part(number),
            Piece::Failed => ShapePiece::Failed,
        };
        self.pieces.into_iter().map(piece).collect()
    }

    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
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
                Some(FAILED) => self.pieces.push(Piece::Failed),
                Some(name) => match names.iter().position(|own| *own == name) {
                    Some(number) => {
                        self.used[number] = true;
                        self.pieces.push(Piece::Part(number));
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
    reader.problems.push(match nearest(name, names.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `${near}`?")),
        None => problem.expected("`$` and the name of a part, or `$failed`; `$$` is a `$`"),
    });
}
