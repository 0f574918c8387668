//! Reads mappings by name.

use crate::model::At;
use crate::reader::{Field, Reader};
use crate::tree::{Node, NodeKind};

/// Reads each entry of a mapping by `one`, which gets the name, the name's source position and the value.
pub(crate) fn named<T>(
    reader: &mut Reader,
    field: Option<Field<'_>>,
    one: impl Fn(&mut Reader, &str, At, &Node) -> Option<T>,
) -> Vec<T> {
    let Some(field) = field else { return Vec::new() };
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
        return Vec::new();
    };
    entries.iter().filter_map(|entry| one(reader, &entry.key, entry.at, &entry.value)).collect()
}
