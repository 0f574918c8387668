//! Where each item of `routes` stands in a text.

use crate::model::{At, Route};
use crate::tree::{Kind, Node};

/// The items of a block list of routes, in a text that holds nothing out of the ordinary.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Columns before the dash of each item.
    pub indent: usize,
    pub items: Vec<Item>,
    /// Where the line of the key behind the list begins, in bytes; `None`: the list is the last.
    pub after: Option<usize>,
}

/// One item: the lines from its dash to the next one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Where its first line begins, in bytes.
    pub start: usize,
    /// The number of that line.
    pub line: u32,
    /// How many routes stand before its own: a list of matches makes as many.
    pub routes: usize,
}

impl Layout {
    /// The layout of a text that was read to this tree; nothing if parts of it do not stand for themselves.
    pub fn of(root: &Node, text: &str) -> Option<Self> {
        // A mark at the begin, an end in the middle and line ends of other systems: not worth the thought.
        if text.contains(['\r', '\0', '\u{feff}']) || root.at.column != 1 {
            return None;
        }
        let Kind::Map(entries) = &root.kind else { return None };
        let position = entries.iter().position(|entry| entry.key == "routes")?;
        let Kind::List(nodes) = &entries[position].value.kind else { return None };
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

    /// The item of which the first line begins here, if it has its dash where all have it, and is a mapping.
    pub fn item(text: &str, start: usize, indent: usize, node: &Node) -> Option<Item> {
        let line = text.get(start..)?;
        let dash = line.get(indent..indent + 2)? == "- " && line[..indent].bytes().all(|byte| byte == b' ');
        let mapping = matches!(node.kind, Kind::Map(_));
        (dash && mapping).then_some(Item { start, line: node.at.line, routes: 0 })
    }

    /// Takes note of the routes that were made of the items.
    pub fn count(&mut self, routes: &[Route]) -> Option<()> {
        let mut number = 0;
        for item in &mut self.items {
            item.routes = number;
            let own = |route: &&Route| route.at.line == item.line;
            number += routes[number..].iter().take_while(own).count();
        }
        (number == routes.len()).then_some(())
    }

    /// The last item whose dash stands in the first so many bytes.
    pub fn last_before(&self, end: usize) -> Option<usize> {
        let dash = self.indent + 2;
        self.items.partition_point(|item| item.start + dash <= end).checked_sub(1)
    }

    /// The first item that begins after so many bytes.
    pub fn first_from(&self, start: usize) -> usize {
        self.items.partition_point(|item| item.start < start)
    }
}

/// The column of the dash that begins the item at this place.
fn dash(text: &str, at: At) -> Option<usize> {
    let line = text.get(Starts::new(text).of(at.line)?..)?;
    line.bytes().position(|byte| byte != b' ')
}

/// Finds the begins of lines, one after the other.
pub(crate) struct Starts<'t> {
    text: &'t str,
    line: u32,
    start: usize,
}

impl<'t> Starts<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, line: 1, start: 0 }
    }

    /// Where a line begins that is not above the one asked for last.
    pub fn of(&mut self, line: u32) -> Option<usize> {
        while self.line < line {
            self.start += self.text[self.start..].find('\n')? + 1;
            self.line += 1;
        }
        (self.line == line).then_some(self.start)
    }
}
