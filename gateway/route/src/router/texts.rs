//! Routes by the text that a path starts or ends with, not by whole segments.
//!
//! The texts are sorted, and each refers to the longest other text that is a prefix of it. One binary search then finds
//! all texts that are prefixes of a path: it finds the last text that does not sort after the path, and every prefix of
//! the path is a prefix of that text, or the text itself. Suffixes are stored backwards.

use std::collections::BTreeMap;

use super::trie::WalkEnd;
use super::{Router, Trie};
use crate::{PathSpec, Request};

/// The routes of one host whose paths begin or end with a text.
#[derive(Default)]
pub(crate) struct TextRoutes {
    prefixes: TextTable,
    suffixes: TextTable,
}

/// The texts of a [`TextRoutes`] before they are sorted, each with its routes, most specific first.
#[derive(Default)]
pub(crate) struct WrittenTexts {
    prefixes: BTreeMap<Box<[u8]>, Vec<u32>>,
    suffixes: BTreeMap<Box<[u8]>, Vec<u32>>,
}

#[derive(Default)]
struct TextTable(Box<[TextEntry]>);

struct TextEntry {
    text: Box<[u8]>,
    routes: Box<[u32]>,
    /// The longest other text that is a prefix of this one.
    shorter: Option<u32>,
}

impl WrittenTexts {
    pub fn add_prefix(&mut self, text: &str, route: u32) {
        self.prefixes.entry(text.as_bytes().into()).or_default().push(route);
    }

    pub fn add_suffix(&mut self, text: &str, route: u32) {
        self.suffixes.entry(text.bytes().rev().collect()).or_default().push(route);
    }

    pub fn build(self) -> TextRoutes {
        TextRoutes { prefixes: TextTable::new(self.prefixes), suffixes: TextTable::new(self.suffixes) }
    }
}

impl TextTable {
    fn new(texts: BTreeMap<Box<[u8]>, Vec<u32>>) -> Self {
        let mut entries: Vec<TextEntry> = Vec::with_capacity(texts.len());
        for (text, routes) in texts {
            // Every text that is a prefix of this one is also a prefix of the entry before, or is that entry.
            let mut shorter = entries.len().checked_sub(1).map(|last| last as u32);
            while let Some(at) = shorter.filter(|at| !text.starts_with(&entries[*at as usize].text)) {
                shorter = entries[at as usize].shorter;
            }
            entries.push(TextEntry { text, routes: routes.into(), shorter });
        }
        Self(entries.into())
    }

    /// Returns the routes of all texts that are prefixes of the bytes, the longest text first.
    fn find(&self, bytes: impl Iterator<Item = u8> + Clone) -> impl Iterator<Item = u32> {
        let after = self.0.partition_point(|entry| entry.text.iter().copied().cmp(bytes.clone()).is_le());
        let entry = |at: u32| &self.0[at as usize];
        let last = after.checked_sub(1).map(|last| last as u32);
        std::iter::successors(last, move |&at| entry(at).shorter)
            .map(entry)
            .filter(move |entry| {
                let mut bytes = bytes.clone();
                entry.text.iter().all(|byte| bytes.next() == Some(*byte))
            })
            .flat_map(|entry| entry.routes.iter().copied())
    }
}

impl Router {
    /// Returns the route of a path that no exact match and no expression takes, for a host with texts: the longest
    /// suffix, then the longest prefix of either kind. If two prefixes have the same length, the one of whole segments
    /// wins.
    #[inline(never)]
    pub(super) fn find_by_text<R: Request + ?Sized>(
        &self,
        texts: &TextRoutes,
        trie: &Trie,
        place: WalkEnd,
        request: &R,
    ) -> Option<u32> {
        let holds = |route: &u32| self.routes[*route as usize].conditions.hold(request);
        let path = request.path();
        if let Some(route) = texts.suffixes.find(path.iter().rev().copied()).find(holds) {
            return Some(route);
        }
        let by_segment = trie.prefixes(place).find(holds);
        let by_text = texts.prefixes.find(path.iter().copied()).find(holds);
        let length = |route: u32| match &self.conditions(route).path {
            PathSpec::Prefix(text) | PathSpec::RawPrefix(text) => text.len(),
            _ => 0,
        };
        match (by_segment, by_text) {
            (Some(segment), Some(text)) if length(segment) >= length(text) => Some(segment),
            (segment, text) => text.or(segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text_comes_first() {
        let mut written = WrittenTexts::default();
        for (route, text) in ["/", "/a", "/ab", "/abc", "/b", "/abd/x"].into_iter().enumerate() {
            written.add_prefix(text, route as u32);
        }
        for (route, text) in [".php", "p", "/index.php", ".p"].into_iter().enumerate() {
            written.add_suffix(text, route as u32);
        }
        let table = written.build();
        let prefixes = |path: &str| table.prefixes.find(path.bytes()).collect::<Vec<_>>();
        assert_eq!(prefixes("/abcd"), [3, 2, 1, 0]);
        assert_eq!(prefixes("/abd"), [2, 1, 0]);
        assert_eq!(prefixes("/abd/xy"), [5, 2, 1, 0]);
        assert_eq!(prefixes("/az"), [1, 0]);
        assert_eq!(prefixes("/c"), [0]);
        assert_eq!(prefixes("/"), [0]);
        assert_eq!(prefixes("*"), [0; 0]);
        let suffixes = |path: &str| table.suffixes.find(path.bytes().rev()).collect::<Vec<_>>();
        assert_eq!(suffixes("/index.php"), [2, 0, 1]);
        assert_eq!(suffixes("/x.php"), [0, 1]);
        assert_eq!(suffixes("/x.p"), [3, 1]);
        assert_eq!(suffixes("/"), [0; 0]);
    }
}
