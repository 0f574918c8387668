//! Paths as trees of segments, one tree per host.
//!
//! A step down is one comparison or one look-up of a segment in a hash map, so its cost depends neither on
//! the number of routes nor on the number of siblings. The walk ends at the first segment that no route has:
//! a client cannot make it deeper than the configuration does. Each byte of the path is read once. That one
//! walk finds the exact match, the regular expressions and the prefixes of a path, because every node knows
//! its nearest ancestor that has some.

use regex_syntax::hir::Hir;

use super::map::Map;
use super::pattern::{self, AnchoredRegexSet};

/// The trees of all hosts.
#[derive(Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    children: Children,
    /// Routes for exactly this path.
    exact: Vec<u32>,
    /// Routes for this path and all paths below it.
    prefix: Vec<u32>,
    regexes: Option<Box<Regexes>>,
    parent: Option<u32>,
    /// The nearest node, from this one upwards, with `prefix`.
    nearest_prefix: Option<u32>,
    /// The nearest node, from this one upwards, with `regexes`.
    nearest_regexes: Option<u32>,
}

/// The children of a node, by segment.
#[derive(Default)]
enum Children {
    #[default]
    None,
    /// A single child is compared rather than hashed: paths mostly start with a few segments that all routes
    /// share.
    One(Box<[u8]>, u32),
    Many(Map<u32>),
}

/// Expressions whose matches all start with one path, and their routes.
pub(crate) struct Regexes {
    /// Each distinct expression once.
    patterns: AnchoredRegexSet,
    /// Routes, most specific first, and the number of each one's expression.
    pub(crate) routes: Box<[(u32, u32)]>,
}

/// A route's expression, before it is placed in a tree.
pub(crate) struct RegexRoute<'s> {
    pub(crate) route: u32,
    pub(crate) text: &'s str,
    pub(crate) hir: &'s Hir,
}

/// The node at which a walk ended.
#[derive(Clone, Copy)]
pub(crate) struct WalkEnd {
    node: u32,
    /// Whether the walk consumed the whole path.
    complete: bool,
}

impl Trie {
    /// Adds an empty tree and returns its root.
    pub(crate) fn add_tree(&mut self) -> u32 {
        self.add(None)
    }

    /// Adds a route for exactly `path`. Among routes of one path, the first added is tried first.
    pub(crate) fn add_exact(&mut self, root: u32, path: &str, route: u32) {
        let node = self.node_at(root, path.as_bytes());
        self.nodes[node as usize].exact.push(route);
    }

    /// Adds a route for `path` and all paths below it. Among routes of one path, the first added is tried
    /// first.
    pub(crate) fn add_prefix(&mut self, root: u32, path: &str, route: u32) {
        let node = self.node_at(root, path.as_bytes());
        self.nodes[node as usize].prefix.push(route);
    }

    /// Returns the node that every path matching `hir` passes. Expressions are stored there, so that a
    /// request tries only the expressions that start like its path.
    pub(crate) fn node_for_regex(&mut self, root: u32, hir: &Hir) -> u32 {
        let literal = pattern::literal_prefix(hir);
        match memchr::memrchr(b'/', &literal) {
            // Only up to the last slash is a segment known to be complete.
            Some(end) if literal.starts_with(b"/") => self.node_at(root, &literal[..end]),
            _ => root,
        }
    }

    /// Compiles the expressions of one node, most specific route first.
    ///
    /// # Errors
    /// Returns the engine's message if they do not compile.
    pub(crate) fn set_regexes(&mut self, node: u32, routes: &[RegexRoute<'_>]) -> Result<(), String> {
        let mut hirs: Vec<&Hir> = Vec::new();
        let mut numbers = std::collections::HashMap::new();
        let numbered = routes.iter().map(|route| {
            let number = *numbers.entry(route.text).or_insert_with(|| {
                hirs.push(route.hir);
                hirs.len() as u32 - 1
            });
            (route.route, number)
        });
        let routes = numbered.collect();
        let regexes = Regexes { patterns: AnchoredRegexSet::new(&hirs)?, routes };
        self.nodes[node as usize].regexes = Some(Box::new(regexes));
        Ok(())
    }

    /// Links every node to its nearest ancestors with routes to match. Call it after everything is added.
    pub(crate) fn link(&mut self) {
        // A parent always precedes its children.
        for at in 0..self.nodes.len() {
            let above = self.nodes[at].parent.map(|parent| &self.nodes[parent as usize]);
            let (prefix, regexes) =
                above.map_or((None, None), |node| (node.nearest_prefix, node.nearest_regexes));
            let node = &mut self.nodes[at];
            node.nearest_prefix = if node.prefix.is_empty() { prefix } else { Some(at as u32) };
            node.nearest_regexes = if node.regexes.is_none() { regexes } else { Some(at as u32) };
        }
    }

    /// Walks down from `root` along `path` as far as there are nodes. A path without a leading slash stays at
    /// the root, which holds only the routes for every path.
    #[inline]
    pub(crate) fn walk(&self, root: u32, path: &[u8]) -> WalkEnd {
        let mut node = root;
        let Some((b'/', mut rest)) = path.split_first() else { return WalkEnd { node, complete: false } };
        loop {
            let step = match &self.nodes[node as usize].children {
                Children::None => None,
                Children::One(segment, child) => match rest.strip_prefix(&**segment) {
                    Some(after) if after.is_empty() || after[0] == b'/' => Some((*child, after)),
                    _ => None,
                },
                Children::Many(children) => {
                    let (segment, after) = rest.split_at(memchr::memchr(b'/', rest).unwrap_or(rest.len()));
                    children.get(segment).map(|&child| (child, after))
                }
            };
            let Some((child, after)) = step else { return WalkEnd { node, complete: false } };
            node = child;
            // A segment is followed by a slash or by nothing.
            match after.split_first() {
                Some((_, next)) => rest = next,
                None => return WalkEnd { node, complete: true },
            }
        }
    }

    /// Returns the routes for exactly the walked path, most specific first.
    #[inline]
    pub(crate) fn exact(&self, place: WalkEnd) -> &[u32] {
        if place.complete { &self.nodes[place.node as usize].exact } else { &[] }
    }

    /// Returns the expressions that may match the path, by node from the deepest upwards.
    #[inline]
    pub(crate) fn regexes(&self, place: WalkEnd) -> impl Iterator<Item = &Regexes> {
        self.upwards(place, |node| node.nearest_regexes).filter_map(|node| node.regexes.as_deref())
    }

    /// Returns the routes for the path and paths above it, longest prefix first, then most specific first.
    #[inline]
    pub(crate) fn prefixes(&self, place: WalkEnd) -> impl Iterator<Item = u32> {
        self.upwards(place, |node| node.nearest_prefix).flat_map(|node| node.prefix.iter().copied())
    }

    fn upwards(&self, place: WalkEnd, nearest: fn(&Node) -> Option<u32>) -> impl Iterator<Item = &Node> {
        let first = nearest(&self.nodes[place.node as usize]);
        std::iter::successors(first, move |&at| {
            self.nodes[at as usize].parent.and_then(|parent| nearest(&self.nodes[parent as usize]))
        })
        .map(|at| &self.nodes[at as usize])
    }

    fn add(&mut self, parent: Option<u32>) -> u32 {
        self.nodes.push(Node { parent, ..Node::default() });
        self.nodes.len() as u32 - 1
    }

    /// Returns the node of `path`, creating missing ones; the empty path is the root.
    fn node_at(&mut self, root: u32, path: &[u8]) -> u32 {
        path.split(|&byte| byte == b'/').skip(1).fold(root, |node, segment| {
            if let Some(child) = self.nodes[node as usize].children.get(segment) {
                return child;
            }
            let child = self.add(Some(node));
            self.nodes[node as usize].children.insert(segment.into(), child);
            child
        })
    }
}

impl Children {
    fn get(&self, segment: &[u8]) -> Option<u32> {
        match self {
            Self::None => None,
            Self::One(only, child) => (**only == *segment).then_some(*child),
            Self::Many(children) => children.get(segment).copied(),
        }
    }

    fn insert(&mut self, segment: Box<[u8]>, child: u32) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(segment, child),
            Self::One(only, first) => Self::Many(Map::from_iter([(only, first), (segment, child)])),
            Self::Many(mut children) => {
                children.insert(segment, child);
                Self::Many(children)
            }
        };
    }
}

impl Regexes {
    /// Returns the first route whose expression matches the path and for which `holds` returns true.
    pub(crate) fn first(&self, path: &[u8], holds: impl Fn(u32) -> bool) -> Option<u32> {
        self.patterns.matching(path, |matches| {
            let hit = self.routes.iter().find(|(route, pattern)| matches(*pattern) && holds(*route));
            hit.map(|&(route, _)| route)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_segments() {
        let mut trie = Trie::default();
        let root = trie.add_tree();
        for (route, prefix) in ["", "/a", "/a/b", "/ab", "/a/b/c/d"].iter().enumerate() {
            trie.add_prefix(root, prefix, route as u32);
        }
        trie.link();
        let prefixes = |path: &str| trie.prefixes(trie.walk(root, path.as_bytes())).collect::<Vec<_>>();
        assert_eq!(prefixes("/a/b"), [2, 1, 0]);
        assert_eq!(prefixes("/a/b/"), [2, 1, 0]);
        assert_eq!(prefixes("/a/b/c"), [2, 1, 0]);
        assert_eq!(prefixes("/a/b/c/d/e"), [4, 2, 1, 0]);
        assert_eq!(prefixes("/a/bc"), [1, 0]);
        assert_eq!(prefixes("/abc"), [0]);
        assert_eq!(prefixes("/"), [0]);
        assert_eq!(prefixes("*"), [0]);
        assert_eq!(prefixes(""), [0]);
    }

    #[test]
    fn exact_is_exact() {
        let mut trie = Trie::default();
        let root = trie.add_tree();
        for (route, path) in ["/", "/a", "/a/", "/a//b"].iter().enumerate() {
            trie.add_exact(root, path, route as u32);
        }
        trie.link();
        let exact = |path: &str| trie.exact(trie.walk(root, path.as_bytes())).to_vec();
        for (route, path) in ["/", "/a", "/a/", "/a//b"].iter().enumerate() {
            assert_eq!(exact(path), [route as u32]);
        }
        for path in ["", "a", "//", "/a//", "/a/b", "/a//b/"] {
            assert_eq!(exact(path), [], "{path}");
        }
    }

    #[test]
    fn expressions_wait_where_they_begin() {
        let mut trie = Trie::default();
        let root = trie.add_tree();
        let mut node = |text: &str| trie.node_for_regex(root, &pattern::parse(text).unwrap());
        let users = node("/users/[0-9]+");
        assert_ne!(users, root);
        assert_eq!(node("/users/x[0-9]*"), users);
        assert_eq!(node("/users[0-9]*"), root);
        assert_eq!(node(".*/users/"), root);
        assert_eq!(node("users/x"), root);
        assert_eq!(node("(?i)/users/.*"), root);
    }
}
