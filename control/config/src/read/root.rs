//! Reads the top level of a file.

use super::draft::{Draft, Include};
use super::{route, streams, upstreams};
use crate::problem::Problem;
use crate::reader::{Reader, misspelt, one_or_many};
use crate::scalar::file_path::file_path;
use crate::section::Section;
use crate::sections::root::RootKeys;
use crate::spec::{ROOT, Shape};
use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};

/// Keys that an included file may contain.
const INCLUDED: [&str; 4] = ["include", "routes", "streams", "upstreams"];

/// Reads a file's tree and returns the patterns of its `include`.
pub(crate) fn root(reader: &mut Reader, node: &Node, main: bool, draft: &mut Draft) -> Vec<Include> {
    let NodeKind::Map(entries) = &node.kind else {
        draft.upstreams_may_be_missing = true;
        if !node.is_invalid() {
            let problem = Problem::error(node.at, format!("the file must be a mapping, not {}", node.noun()));
            reader
                .problems
                .push(problem.expected("keys such as `listen:` and `routes:`, each with its value"));
        }
        return Vec::new();
    };
    let Some(fields) = reader.fields(node, ROOT) else { return Vec::new() };
    if main {
        if let Some(keys) = RootKeys::read_keys(reader, &fields) {
            draft.paths_unreliable = keys.fill(&mut draft.config, &fields);
        }
        let unread = |entry: &MappingEntry| entry.key == "paths" && entry.value.holds_invalid();
        draft.paths_unreliable |= misspelt(entries, ROOT, "paths") || entries.iter().any(unread);
    } else {
        for entry in entries {
            let known = ROOT.keys.iter().any(|key| key.name == entry.key);
            if known && !INCLUDED.contains(&entry.key.as_str()) {
                let message = format!("{} is allowed only in the main file", shown(&entry.key));
                let expected = "`routes`, `streams`, `upstreams` or `include` in an included file";
                reader.problems.push(Problem::error(entry.at, message).expected(expected));
            }
        }
    }
    if entries.iter().any(|entry| entry.key == "routes") || misspelt(entries, ROOT, "routes") {
        draft.routes.get_or_insert(node.at);
    }
    if let Some(field) = fields.get("routes") {
        draft.routes = Some(field.at);
        route::routes(reader, field, draft);
    }
    if let Some(field) = fields.get("streams") {
        streams::streams(reader, field, draft);
    }
    let given = |name: &str| entries.iter().any(|entry| entry.key == name) || misspelt(entries, ROOT, name);
    match fields.get("upstreams") {
        Some(field) => upstreams::upstreams(reader, field, draft),
        None => draft.upstreams_may_be_missing |= given("upstreams"),
    }
    draft.references.append(&mut reader.references);
    let Some(field) = fields.get("include") else {
        draft.upstreams_may_be_missing |= given("include");
        return Vec::new();
    };
    let one = if let Shape::OneOrMany(inner) = field.key.shape { inner } else { &field.key.shape };
    let mut patterns = Vec::new();
    for item in one_or_many(field.node) {
        let text = reader.parsed(item, "`include`", one, |text| file_path(text).map(|_| text.to_owned()));
        draft.upstreams_may_be_missing |= text.is_none();
        let shown = item.scalar().map(Scalar::shown).unwrap_or_default();
        patterns.extend(text.map(|pattern| Include { pattern, shown, at: item.at }));
    }
    patterns
}
