//! Reads a document into the parts of a configuration.

use std::path::Path;

use serde_json::Value;

use super::files::restrict_files;
use super::mask::masked;
use super::{Document, ResourceKind, kinds};
use crate::env::expand;
use crate::file_access::Scope;
use crate::load::read_pem_files;
use crate::model::LogTarget;
use crate::parse::parse;
use crate::pem_files::pem_files;
use crate::problem::{Problem, Severity};
use crate::read::{Draft, check_per_try};
use crate::reader::Reader;
use crate::tree::{MappingEntry, Node, NodeKind, Scalar};

/// An invalid document: its text with secrets masked, and its problems.
pub(super) struct InvalidDocument {
    pub text: String,
    pub problems: Vec<Problem>,
}

/// Formats a document as indented JSON, which is also YAML, so that problems have lines.
fn text(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Formats a document like [`text`] with secrets masked. The lines stay the same.
pub(super) fn masked_yaml(kind: &ResourceKind, value: &Value) -> String {
    text(&masked(kind, value))
}

pub(super) fn document(
    kind: &'static ResourceKind,
    name: &str,
    mut value: Value,
    file_id: u32,
    folder: &Path,
    scope: &Scope,
) -> Result<Document, InvalidDocument> {
    let whole = text(&value);
    let mut parsed = parse(file_id, &whole);
    let mut reader = Reader::new(true);
    reader.problems.append(&mut parsed.problems);
    let Some(mut node) = parsed.root else {
        let at = crate::model::At { file: file_id, line: 1, column: 1, length: 1 };
        reader.problems.push(Problem::error(at, format!("the {} is empty", kind.noun)));
        return Err(InvalidDocument { text: masked_yaml(kind, &value), problems: reader.problems });
    };
    if kind.named_inside {
        set_name(&mut reader, &mut node, name);
    }
    // No variable is available: a client that may write documents need not be allowed to read the process's
    // environment. In an object of the APISIX front, `${host}` is a variable of APISIX.
    if kind.index != kinds::APISIX {
        expand(&mut node, &|_| None, &mut reader.problems);
    }
    let mut draft = Draft::default();
    (kind.read)(&mut reader, name, &node, &mut draft);
    let mut problems = reader.problems;
    problems.extend(check_per_try(&draft.per_try_timeouts, draft.config.timeouts.total));
    for route in &draft.config.routes {
        let mut logs = route.access_log.iter().flatten();
        if logs.any(|log| matches!(log.to, LogTarget::File(_))) {
            // A client that may write documents need not be allowed to write files of this machine.
            let problem = Problem::error(route.at, "an access log of a document cannot write to a file");
            problems.push(problem.help(
                "write `stdout`, a syslog server or `otlp`, or define the route in the \
                    configuration file",
            ));
        }
    }
    let (names_files, outside) = restrict_files(&mut draft.config, folder, scope);
    // A file outside the scope must not be read.
    if outside.is_empty() {
        read_pem_files(&mut draft.config, &mut problems);
    }
    problems.extend(outside);
    let files =
        pem_files(&mut draft.config).filter(|pem| pem.path.is_some()).map(|pem| pem.clone()).collect();
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(InvalidDocument { text: masked_yaml(kind, &value), problems });
    }
    // Problems are later shown in the text without the name, so positions must refer to that text.
    if kind.named_inside
        && value.get("name").is_some()
        && let Value::Object(entries) = &mut value
    {
        entries.shift_remove("name");
        return document(kind, name, value, file_id, folder, scope);
    }
    Ok(Document {
        kind,
        name: name.to_owned(),
        content: value.to_string().into(),
        file_id,
        listeners: fitted(draft.config.listen),
        routes: fitted(draft.config.routes),
        streams: fitted(draft.config.streams),
        upstreams: fitted(draft.config.upstreams),
        consumers: fitted(draft.config.consumers),
        certificates: fitted(draft.config.certificates),
        policy_sets: fitted(draft.config.policy_sets),
        files,
        names_files,
        scope: scope.clone(),
        references: fitted(draft.references),
        warnings: problems,
    })
}

/// Gives back the room for further items. A document usually has one, and a vector grows to four at first: the parts
/// of a route would take 3 KiB more.
fn fitted<T>(mut items: Vec<T>) -> Vec<T> {
    items.shrink_to_fit();
    items
}

/// Inserts the document's name into a route, because routes in the file contain theirs. A name inside the
/// document must be the same.
fn set_name(reader: &mut Reader, node: &mut Node, name: &str) {
    let at = node.at;
    let NodeKind::Map(entries) = &mut node.kind else { return };
    match entries.iter().find(|entry| entry.key == "name") {
        None => {
            let scalar = Scalar { text: name.to_owned(), quoted: true, written: None };
            let value = Node { at, kind: NodeKind::Scalar(scalar) };
            entries.insert(0, MappingEntry { key: "name".to_owned(), at, value });
        }
        Some(entry) => {
            let written = entry.value.scalar().map(|scalar| scalar.text.as_str());
            if written != Some(name) {
                let problem = Problem::error(entry.value.at, "this differs from the name in the path");
                reader.problems.push(problem.help("write the same name, or remove the key"));
            }
        }
    }
}
