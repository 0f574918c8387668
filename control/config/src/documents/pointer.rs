//! Converts a position in a document's text to a JSON pointer (RFC 6901).

use crate::parse::parse;
use crate::position::At;
use crate::tree::{Node, NodeKind};

/// Returns one step of a pointer, to the value under a key.
pub(crate) fn escape(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The part of an entry that a problem concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Spot {
    /// The value at the pointer.
    #[default]
    Value,
    /// The key at the end of the pointer.
    Key,
    /// Characters of the text at the pointer, by start and length.
    Part(usize, usize),
}

/// Returns the pointer to the value or key at a position; the empty pointer (whole document) if there is
/// none.
pub(super) fn pointer_at(text: &str, at: At) -> (String, Spot) {
    let mut best = (String::new(), Spot::Value);
    if let Some(root) = parse(0, text).root {
        find_nearest(&root, &mut String::new(), at, &mut best);
    }
    best
}

/// Visits the tree in the order of the text. The last node that starts at or before the position wins.
fn find_nearest(node: &Node, path: &mut String, at: At, best: &mut (String, Spot)) {
    let begins = |place: At| (place.line, place.column) <= (at.line, at.column);
    if !begins(node.at) {
        return;
    }
    *best = (path.clone(), Spot::Value);
    let length = path.len();
    match &node.kind {
        NodeKind::Map(entries) => {
            for entry in entries.iter().filter(|entry| begins(entry.at)) {
                path.push_str(&escape(&entry.key));
                *best = (path.clone(), Spot::Key);
                find_nearest(&entry.value, path, at, best);
                path.truncate(length);
            }
        }
        NodeKind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                find_nearest(item, path, at, best);
                path.truncate(length);
            }
        }
        NodeKind::Scalar(_) => {
            // A text of a document is in quotes.
            let start = at.column.saturating_sub(node.at.column).checked_sub(1);
            if let (Some(start), true) = (start, at.line == node.at.line) {
                best.1 = Spot::Part(start as usize, at.length as usize);
            }
        }
        NodeKind::Invalid => {}
    }
}

/// Returns the position of a part in the tree of another text; `None` if the text does not have it.
pub(super) fn position_of(root: &Node, pointer: &str, spot: Spot) -> Option<At> {
    let mut node = root;
    let mut key = None;
    for step in pointer.split('/').skip(1) {
        match &node.kind {
            NodeKind::Map(entries) => {
                let name = step.replace("~1", "/").replace("~0", "~");
                let entry = entries.iter().find(|entry| entry.key == name)?;
                (node, key) = (&entry.value, Some(entry.at));
            }
            NodeKind::List(items) => (node, key) = (items.get(step.parse::<usize>().ok()?)?, None),
            NodeKind::Scalar(_) | NodeKind::Invalid => return None,
        }
    }
    Some(match spot {
        Spot::Value => node.at,
        Spot::Key => key.unwrap_or(node.at),
        Spot::Part(start, length) => node.part(start, length),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_parts_of_values_are_found() {
        let text = "{\n  \"match\": \"/x\",\n  \"to\": [\n    \"a:1\",\n    {\n      \"a/b~c\": \"d\"\n    }\n  ]\n}\n";
        let find = |line, column| pointer_at(text, At { file: 7, line, column, length: 1 }).0;
        assert_eq!(find(1, 1), "");
        assert_eq!(find(2, 3), "/match");
        assert_eq!(find(2, 12), "/match");
        assert_eq!(find(2, 14), "/match", "within the text");
        assert_eq!(find(3, 9), "/to");
        assert_eq!(find(4, 5), "/to/0");
        assert_eq!(find(6, 16), "/to/1/a~1b~0c");
        assert_eq!(find(0, 0), "", "the document as a whole");
    }

    #[test]
    fn a_part_is_found_again_in_another_form_of_the_document() {
        let json = "{\n  \"match\": \"/x\",\n  \"to\": [\n    \"a:1\",\n    \"b:99999\"\n  ]\n}\n";
        let yaml = parse(0, "{match: /x, to: [\"a:1\", b:99999]}").root.expect("YAML");
        let find = |line, column, length| {
            let (pointer, spot) = pointer_at(json, At { file: 0, line, column, length });
            position_of(&yaml, &pointer, spot).map(|at| (at.line, at.column, at.length))
        };
        assert_eq!(find(2, 3, 7), Some((1, 2, 5)), "a key");
        assert_eq!(find(2, 12, 4), Some((1, 9, 2)), "a value");
        assert_eq!(find(5, 8, 5), Some((1, 27, 5)), "a part of a text");
        assert_eq!(position_of(&yaml, "/respond", Spot::Value), None);
    }
}
