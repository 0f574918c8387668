//! Reads `to` of a route.

use super::UpstreamReference;
use crate::model::{Target, TargetKind};
use crate::reader::{Field, Reader, one_or_many};
use crate::section::Value;
use crate::sections::weights;
use crate::tree::Node;

/// Reads the targets of a route.
pub(super) fn targets(
    reader: &mut Reader,
    field: Field<'_>,
    references: &mut Vec<UpstreamReference>,
) -> Option<Vec<Target>> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "`to` is an empty list".to_owned(), &field.key.shape);
    }
    let targets: Vec<Target> =
        items.iter().filter_map(|node| target(reader, Field { node, ..field }, references)).collect();
    if targets.len() == items.len() {
        weights(reader, field.node, targets.iter().map(|target| target.weight), "target");
    }
    Some(targets)
}

/// Reads one target, and notes the upstream that it names.
pub(super) fn target(
    reader: &mut Reader,
    field: Field<'_>,
    references: &mut Vec<UpstreamReference>,
) -> Option<Target> {
    let target = Target::read(reader, field)?;
    if let TargetKind::Upstream(name) = &target.to {
        let node = field.node.entry("upstream").map_or(field.node, |entry| &entry.value);
        references.push(reference(name, node));
    }
    Some(target)
}

fn reference(name: &str, node: &Node) -> UpstreamReference {
    let written = node.scalar().and_then(|scalar| scalar.written.clone());
    UpstreamReference { name: name.to_owned(), written, at: node.at }
}
