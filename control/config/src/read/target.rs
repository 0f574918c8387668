//! Reads `to` of a route.

use super::UpstreamReference;
use crate::model::{Target, TargetKind};
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::address;
use crate::sections::weights;
use crate::spec::{Shape, TARGET};
use crate::tree::{Node, NodeKind};

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
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let targets: Vec<Target> =
        items.iter().filter_map(|item| target(reader, item, one, references)).collect();
    if targets.len() == items.len() {
        weights(reader, field.node, targets.iter().map(|target| target.weight), "target");
    }
    Some(targets)
}

/// Reads the single target of a fallback.
pub(super) fn one(
    reader: &mut Reader,
    field: Field<'_>,
    references: &mut Vec<UpstreamReference>,
) -> Option<Target> {
    target(reader, field.node, &field.key.shape, references)
}

fn target(
    reader: &mut Reader,
    node: &Node,
    shape: &Shape,
    references: &mut Vec<UpstreamReference>,
) -> Option<Target> {
    // The target of a fallback is always a text.
    if !matches!(node.kind, NodeKind::Map(_)) || matches!(shape, Shape::Text(_)) {
        let to = reader.parsed(node, "`to`", shape, address::target)?;
        if let TargetKind::Upstream(name) = &to {
            references.push(reference(name, node));
        }
        return Some(Target { to, weight: 1, at: node.at });
    }
    let fields = reader.fields(node, &TARGET)?;
    let mut weight = 1;
    reader.number_into(fields.get("weight"), &mut weight);
    if let Some(field) = fields.get("address") {
        let endpoint = reader.field(field, address::endpoint)?;
        return Some(Target { to: TargetKind::Endpoint(endpoint), weight, at: field.node.at });
    }
    let field = fields.get("upstream")?;
    let name = reader.field(field, address::upstream)?;
    references.push(reference(&name, field.node));
    Some(Target { to: TargetKind::Upstream(name), weight, at: field.node.at })
}

fn reference(name: &str, node: &Node) -> UpstreamReference {
    let written = node.scalar().and_then(|scalar| scalar.written.clone());
    UpstreamReference { name: name.to_owned(), written, at: node.at }
}
