//! Positions of the items of `routes` in a text.

use crate::model::Route;
use crate::position::At;
use crate::tree::{Node, NodeKind};

/// Positions of the items of a block list of routes. It exists only for texts without unusual features.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Columns before each item's dash.
    pub indent: usize,
    pub items: Vec<RouteItem>,
    /// Byte offset of the line with the key after the list; `None`: the list is last.
    pub after: Option<usize>,
}

/// One item: the lines from its dash to the next dash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteItem {
    /// Byte offset of its first line.
    pub start: usize,
    /// Number of that line.
    pub line: u32,
    /// Number of routes before its own. An item with a list of matches makes one route for each.
    pub routes: usize,
}

impl Layout {
    /// Returns the layout of a text that was parsed to this tree; `None` if the text has features that a
    /// partial read does not support.
    pub fn of(root: &Node, text: &str) -> Option<Self> {
        // A byte order mark, a NUL and foreign line ends are not worth supporting.
        if text.contains(['\r', '\0', '\u{feff}']) || root.at.column != 1 {
            return None;
        }
        let NodeKind::Map(entries) = &root.kind else { return None };
        let position = entries.iter().position(|entry| entry.key == "routes")?;
        let NodeKind::List(nodes) = &entries[position].value.kind else { return None };
        let indent = dash(text, nodes.first()?.at)?;
        let mut starts = Starts::new(text);
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            items.push(Self::item(text, starts.of(node.at.line)?, indent, node)?);
        }
        let after = match entries.get(position + 1) {
            Some(entry) if entry.at.column == 1 => Some(starts.of(entry.at.line)?),
            Some(_) => return None,
            None => None,
        };
        Some(Self { indent, items, after })
    }

    /// Returns the item whose first line starts at `start`, if its dash is in the common column and it is a
    /// mapping.
    pub fn item(text: &str, start: usize, indent: usize, node: &Node) -> Option<RouteItem> {
        let line = text.get(start..)?;
        let dash = line.get(indent..indent + 2)? == "- " && line[..indent].bytes().all(|byte| byte == b' ');
        let mapping = matches!(node.kind, NodeKind::Map(_));
        (dash && mapping).then_some(RouteItem { start, line: node.at.line, routes: 0 })
    }

    /// Records the index of each item's first route; `None` if the routes do not belong to the items.
    pub fn count(&mut self, routes: &[Route]) -> Option<()> {
        let mut number = 0;
        for item in &mut self.items {
            item.routes = number;
            let own = |route: &&Route| route.at.line == item.line;
            number += routes[number..].iter().take_while(own).count();
        }
        (number == routes.len()).then_some(())
    }

    /// Returns the last item whose dash lies within the first `end` bytes.
    pub fn last_before(&self, end: usize) -> Option<usize> {
        let dash = self.indent + 2;
        self.items.partition_point(|item| item.start + dash <= end).checked_sub(1)
    }

    /// Returns the first item that starts at or after byte `start`.
    pub fn first_at_or_after(&self, start: usize) -> usize {
        self.items.partition_point(|item| item.start < start)
    }
}

/// Returns the column of the dash that starts the item at this position.
fn dash(text: &str, at: At) -> Option<usize> {
    let line = text.get(Starts::new(text).of(at.line)?..)?;
    line.bytes().position(|byte| byte != b' ')
}

/// Finds the starts of lines in ascending order.
pub(crate) struct Starts<'t> {
    text: &'t str,
    line: u32,
    start: usize,
}

impl<'t> Starts<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, line: 1, start: 0 }
    }

    /// Returns the byte offset of a line, which must not be above the previously requested one.
    pub fn of(&mut self, line: u32) -> Option<usize> {
        while self.line < line {
            self.start += self.text[self.start..].find('\n')? + 1;
            self.line += 1;
        }
        (self.line == line).then_some(self.start)
    }
}
