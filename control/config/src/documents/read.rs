//! From a document to the parts of a configuration.

use std::path::Path;

use serde_json::Value;

use super::mask::masked;
use super::{Document, Kind};
use crate::env::expand;
use crate::load::read_pem_files;
use crate::model::Discover;
use crate::parse::parse;
use crate::problem::{Problem, Severity};
use crate::read::{Draft, pem_files, too_long};
use crate::reader::Reader;
use crate::tree::{Entry, Kind as Tree, Node, Scalar};

/// A document that is not good, and its text as it may be shown.
pub(super) struct Refused {
    pub text: String,
    pub problems: Vec<Problem>,
}

/// The text of a document: JSON, which is YAML too, and has lines.
fn text(value: &Value) -> String {
    format!("{value:#}\n")
}

/// The same for people: its lines are the same ones, and no secret stands in them.
pub(super) fn shown(kind: &Kind, value: &Value) -> String {
    text(&masked(kind, value))
}

pub(super) fn document(
    kind: &'static Kind,
    name: &str,
    mut value: Value,
    place: u32,
    folder: &Path,
) -> Result<Document, Refused> {
    let whole = text(&value);
    let mut parsed = parse(place, &whole);
    let mut reader = Reader { problems: std::mem::take(&mut parsed.problems), complete: true };
    let Some(mut node) = parsed.root else {
        let at = crate::model::At { file: place, line: 1, column: 1, length: 1 };
        reader.problems.push(Problem::error(at, format!("the {} is empty", kind.noun)));
        return Err(Refused { text: shown(kind, &value), problems: reader.problems });
    };
    if kind.named_inside {
        say_name(&mut reader, &mut node, name);
    }
    // No variable is known: who may write a document need not be let to see the process's environment.
    expand(&mut node, &|_| None, &mut reader.problems);
    let mut draft = Draft::default();
    (kind.read)(&mut reader, name, &node, &mut draft);
    let mut problems = reader.problems;
    problems.extend(too_long(&draft.waits, draft.config.timeouts.total));
    for pem in pem_files(&mut draft.config) {
        pem.path = pem.path.as_ref().map(|path| folder.join(path));
    }
    for upstream in &mut draft.config.upstreams {
        if let Some(Discover::File(path)) = upstream.discover.as_mut().map(|discover| &mut discover.value) {
            *path = folder.join(&*path);
        }
    }
    read_pem_files(&mut draft.config, &mut problems);
    let files =
        pem_files(&mut draft.config).filter(|pem| pem.path.is_some()).map(|pem| pem.clone()).collect();
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(Refused { text: shown(kind, &value), problems });
    }
    if let (true, Value::Object(entries)) = (kind.named_inside, &mut value) {
        // The places of what follows are to be those in the text that is told later.
        let named = entries.shift_remove("name").is_some();
        if named {
            return document(kind, name, value, place, folder);
        }
    }
    Ok(Document {
        kind,
        name: name.to_owned(),
        value,
        place,
        routes: draft.config.routes,
        upstreams: draft.config.upstreams,
        consumers: draft.config.consumers,
        certificates: draft.config.certificates,
        policy_sets: draft.config.policy_sets,
        files,
        references: draft.references,
        warnings: problems,
    })
}

/// A route says its name in the file; here the document's name is it, and what is written inside must agree.
fn say_name(reader: &mut Reader, node: &mut Node, name: &str) {
    let at = node.at;
    let Tree::Map(entries) = &mut node.kind else { return };
    match entries.iter().find(|entry| entry.key == "name") {
        None => {
            let scalar = Scalar { text: name.to_owned(), quoted: true, written: None };
            let value = Node { at, kind: Tree::Scalar(scalar) };
            entries.insert(0, Entry { key: "name".to_owned(), at, value });
        }
        Some(entry) => {
            let said = entry.value.scalar().map(|scalar| scalar.text.as_str());
            if said != Some(name) {
                let problem = Problem::error(entry.value.at, "this is not the name that the path says");
                reader.problems.push(problem.help("write the same one, or leave the key away"));
            }
        }
    }
}
