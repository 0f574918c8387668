//! Parses some items of a list, for a partial reread of a file.

use saphyr_parser::{Event, Parser};

use super::builder::{Builder, Content, OpenNode};
use crate::tree::{Node, NodeKind};

/// The end of a partial parse of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StopAt {
    /// Before the item, a mapping, that starts on this line.
    Item(usize),
    /// Before the key on this line, the first one after the list.
    Key(usize),
    /// At the end of the text.
    End,
}

/// Parses the items of the list that is the first value of a block mapping, up to `stop`.
///
/// Reaching `stop` proves that the parser is there in the same state as after any other text before it.
/// `offset` is added to the lines of positions. Returns `None` if the text does not reach `stop`, or contains
/// anything unusual: anchors, aliases, tags, or any problem.
pub(crate) fn items(file: u32, text: &str, offset: u32, stop: StopAt) -> Option<Vec<Node>> {
    let mut builder = Builder::new(file, text, false);
    builder.offset = offset;
    let mut parser = Parser::new_from_str(text);
    let mut stopped = matches!(stop, StopAt::End);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.ok()?;
        let here = match (&event, stop) {
            (Event::MappingStart(..), StopAt::Item(line)) => {
                builder.stack.len() == 2 && span.start.line() == line
            }
            (Event::Scalar(..), StopAt::Key(line)) => {
                builder.stack.len() == 1 && span.start.line() == line && span.start.col() == 0
            }
            _ => false,
        };
        if here {
            stopped = true;
            break;
        }
        builder.event(event, span).ok()?;
        if builder.cut || builder.dropped || !builder.plain || !builder.problems.is_empty() {
            return None;
        }
    }
    if !stopped {
        return None;
    }
    if matches!(stop, StopAt::Item(_))
        && let Some(OpenNode { content: Content::List(items), .. }) = builder.stack.pop()
    {
        // This must be the list itself, and not one under a key in between.
        let first =
            |open: &OpenNode| matches!(&open.content, Content::Map { entries, .. } if entries.is_empty());
        return builder.stack.last().is_some_and(first).then_some(items);
    }
    let entries = match (builder.stack.pop(), builder.root) {
        (Some(OpenNode { content: Content::Map { entries, .. }, .. }), None) => entries,
        (None, Some(Node { kind: NodeKind::Map(entries), .. })) => entries,
        _ => return None,
    };
    let mut entries = entries.into_iter();
    match (entries.next()?.value.kind, entries.next()) {
        (NodeKind::List(items), None) => Some(items),
        _ => None,
    }
}
