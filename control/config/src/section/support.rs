//! Functions of short forms, and of the code that the derives generate.

use super::traits::{Section, Value};
use crate::parse::parse;
use crate::position::At;
use crate::reader::{Field, Reader};
use crate::spec::{KeySpec, Shape};
use crate::tree::{MappingEntry, Node, NodeKind, Scalar};

/// Reads a value as the mapping that has only this key. A short form calls it after it has checked the value.
pub fn from_one_key<S: Section>(reader: &mut Reader, key: &str, node: &Node) -> Option<S> {
    let entry = MappingEntry { key: key.to_owned(), at: node.at, value: node.clone() };
    S::read_section(reader, &Node { at: node.at, kind: NodeKind::Map(vec![entry]) })
}

/// Reads a mapping without keys, for the short form `on`.
pub fn from_no_key<S: Section>(reader: &mut Reader, field: Field<'_>) -> Option<S> {
    S::read_section(reader, &Node { at: field.node.at, kind: NodeKind::Map(Vec::new()) })
}

/// Returns the default of a key, for a short form that does not have the key.
pub fn default<S: Section, T: Value>(name: &str) -> T {
    default_of(S::KEYS, name, T::read)
}

/// Returns the tree of a YAML text, as far as it can be parsed. For tests.
#[doc(hidden)]
#[must_use]
pub fn parsed(text: &str) -> Option<Node> {
    parse(0, text).root
}

/// Reads the default of a key by `read`. For generated code.
///
/// # Panics
/// If the default is not valid. A test reads every default.
#[doc(hidden)]
pub fn default_of<T>(
    keys: &'static [KeySpec],
    name: &str,
    read: impl FnOnce(&mut Reader, Field<'_>) -> Option<T>,
) -> T {
    let key = keys.iter().find(|key| key.name == name);
    let mut reader = Reader::new(true);
    let value = key.and_then(|key| {
        let text = key.default?;
        let is_flow = text.starts_with(['[', '{']) && !matches!(key.shape, Shape::Text(_));
        let node = match is_flow {
            true => parse(0, text).root?,
            false => {
                let scalar = Scalar { text: text.to_owned(), quoted: false, written: None };
                Node { at: At::default(), kind: NodeKind::Scalar(scalar) }
            }
        };
        read(&mut reader, Field { key, at: At::default(), node: &node })
    });
    match value {
        Some(value) if reader.problems.is_empty() => value,
        _ => panic!("the default of `{name}` is not valid: {:?}", reader.problems),
    }
}

/// Returns how many rows there are in all parts. For generated code.
#[doc(hidden)]
#[must_use]
pub const fn count(parts: &[&[KeySpec]]) -> usize {
    let (mut sum, mut i) = (0, 0);
    while i < parts.len() {
        sum += parts[i].len();
        i += 1;
    }
    sum
}

/// Concatenates the rows of all parts. For generated code.
#[doc(hidden)]
#[must_use]
pub const fn concatenated<const N: usize>(parts: &[&[KeySpec]]) -> [KeySpec; N] {
    let mut out = [KeySpec::new("", "", Shape::Anything); N];
    let (mut filled, mut i) = (0, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            out[filled] = parts[i][j];
            filled += 1;
            j += 1;
        }
        i += 1;
    }
    out
}
