//! Reads `streams`.

use super::Draft;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::section::Section;
use crate::sections::Stream;
use crate::tree::{Node, NodeKind, shown};

pub(super) fn streams(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) {
    let NodeKind::List(items) = &field.node.kind else {
        let problem = format!("`streams` cannot be {}", field.node.noun());
        reader.problems.push(
            Problem::error(field.node.at, problem)
                .expected("a list of streams")
                .help("start each stream with `- `: `- {listeners: db, to: \"10.0.0.1:5432\"}`"),
        );
        return;
    };
    for item in items {
        stream(reader, item, draft);
    }
}

/// Reads one item of `streams`.
pub(crate) fn stream(reader: &mut Reader, node: &Node, draft: &mut Draft) {
    let Some(fields) = reader.fields(node, Stream::SPEC) else { return };
    let read = Stream::read_keys(reader, &fields);
    draft.references.append(&mut reader.references);
    let Some(stream) = read else { return };
    if let Some(name) = &stream.name {
        match draft.stream_names.get(&name.value) {
            Some(first) => {
                let message = format!("two streams are named {}", shown(&name.value));
                let problem = Problem::error(name.at, message);
                reader.problems.push(problem.related(*first, "first written here"));
            }
            None => {
                draft.stream_names.insert(name.value.clone(), name.at);
            }
        }
    }
    draft.config.streams.push(stream);
}
