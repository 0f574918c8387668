//! Reads mappings whose keys are names chosen by the user.

use super::{Field, Reader};
use crate::position::At;
use crate::problem::Problem;
use crate::scalar::ScalarError;
use crate::spec::Shape;
use crate::tree::{Node, NodeKind, shown};

impl Reader {
    /// Reads names and values of a mapping, each with its parser. Invalid entries are reported and left out.
    pub fn pairs<N, V>(
        &mut self,
        field: Option<Field<'_>>,
        name: impl Fn(&str) -> Result<N, ScalarError>,
        value: impl Fn(&str) -> Result<V, ScalarError>,
    ) -> Vec<(N, V)> {
        let Some(field) = field else { return Vec::new() };
        let one = if let Shape::MapOf(one) = field.key.shape { one } else { &field.key.shape };
        let NodeKind::Map(entries) = &field.node.kind else {
            self.mismatch(field.node, &format!("`{}`", field.key.name), field.key.shape.expected());
            return Vec::new();
        };
        let mut out = Vec::new();
        for entry in entries {
            match name(&entry.key) {
                Ok(name) => {
                    let value = self.parsed(&entry.value, &shown(&entry.key), one, &value);
                    out.extend(value.map(|value| (name, value)));
                }
                Err(fault) => self.problems.push(misnamed(entry.at, &entry.key, fault)),
            }
        }
        out
    }
}

/// Makes the problem for an invalid name.
pub(crate) fn misnamed(at: At, name: &str, fault: ScalarError) -> Problem {
    let problem = Problem::error(at, fault.message.replacen("{}", &shown(name), 1));
    match fault.help {
        Some(help) => problem.help(help),
        None => problem,
    }
}

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
