//! Converts a position in a document's text to a JSON pointer (RFC 6901).

use crate::parse::parse;
use crate::position::At;
use crate::tree::{Node, NodeKind};

/// Returns one step of a pointer, to the value under a key.
pub(crate) fn escape(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Returns the pointer to the value or key at a position; the empty pointer (whole document) if there is
/// none.
pub(super) fn pointer_at(text: &str, at: At) -> String {
    let mut best = String::new();
    if let Some(root) = parse(0, text).root {
        find_nearest(&root, &mut String::new(), (at.line, at.column), &mut best);
    }
    best
}

/// Visits the tree in the order of the text. The last node that starts at or before the position wins.
fn find_nearest(node: &Node, path: &mut String, at: (u32, u32), best: &mut String) {
    let begins = |place: At| (place.line, place.column) <= at;
    if !begins(node.at) {
        return;
    }
    best.clone_from(path);
    let length = path.len();
    match &node.kind {
        NodeKind::Map(entries) => {
            for entry in entries.iter().filter(|entry| begins(entry.at)) {
                path.push_str(&escape(&entry.key));
                best.clone_from(path);
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
        NodeKind::Scalar(_) | NodeKind::Invalid => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_parts_of_values_are_found() {
        let text = "{\n  \"match\": \"/x\",\n  \"to\": [\n    \"a:1\",\n    {\n      \"a/b~c\": \"d\"\n    }\n  ]\n}\n";
        let find = |line, column| pointer_at(text, At { file: 7, line, column, length: 1 });
        assert_eq!(find(1, 1), "");
        assert_eq!(find(2, 3), "/match");
        assert_eq!(find(2, 12), "/match");
        assert_eq!(find(2, 14), "/match", "within the text");
        assert_eq!(find(3, 9), "/to");
        assert_eq!(find(4, 5), "/to/0");
        assert_eq!(find(6, 16), "/to/1/a~1b~0c");
        assert_eq!(find(0, 0), "", "the document as a whole");
    }
}
