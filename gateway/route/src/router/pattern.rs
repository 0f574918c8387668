//! Regular expressions: parsed once, anchored at both ends, compiled separately or as a set.
//!
//! All of them match bytes, with Unicode classes off. A path in normal form is ASCII, and `\w` or `(?i)` over
//! Unicode would compile to automata of a hundred times the size, for characters that cannot occur.

use std::cell::Cell;

use regex_automata::meta::{self, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, MatchKind, PatternID, PatternSet};
use regex_syntax::hir::{Hir, HirKind, Look};

/// Bound of the automaton that one expression compiles to, in bytes: the `regex` crate's default. It turns an
/// expression such as `(.{1000}){1000}` into an error instead of exhausting memory.
const SIZE_LIMIT: usize = 10 << 20;

/// Parses an expression. The syntax tree is anchored later, not the text, so no text can escape the anchors.
pub(crate) fn parse(text: &str) -> Result<Hir, String> {
    let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text);
    parsed.map_err(|error| match error {
        regex_syntax::Error::Parse(error) => {
            format!("{} (at character {})", error.kind(), error.span().start.column)
        }
        regex_syntax::Error::Translate(error) => {
            format!("{} (at character {})", error.kind(), error.span().start.column)
        }
        other => other.to_string(),
    })
}

/// Compiles an expression that must match a whole text.
pub(crate) fn one(hir: &Hir) -> Result<Regex, String> {
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(SIZE_LIMIT));
    Regex::builder().configure(config).build_from_hir(&whole(hir)).map_err(|error| describe(&error))
}

fn whole(hir: &Hir) -> Hir {
    Hir::concat(vec![Hir::look(Look::Start), hir.clone(), Hir::look(Look::End)])
}

fn describe(error: &meta::BuildError) -> String {
    match error.size_limit() {
        Some(limit) => format!("it compiles to more than {limit} bytes"),
        None => error.to_string(),
    }
}

/// Returns the literal prefix of every text that the expression matches; may be empty.
pub(crate) fn literal_prefix(hir: &Hir) -> Vec<u8> {
    let mut literal = Vec::new();
    collect_literal_prefix(hir, &mut literal);
    literal
}

/// Appends the literal prefix of `hir`. Returns false if the text after `hir` must not be appended.
fn collect_literal_prefix(hir: &Hir, literal: &mut Vec<u8>) -> bool {
    match hir.kind() {
        HirKind::Empty => true,
        HirKind::Look(_) => true,
        HirKind::Literal(text) => {
            literal.extend_from_slice(&text.0);
            true
        }
        HirKind::Capture(capture) => collect_literal_prefix(&capture.sub, literal),
        HirKind::Concat(parts) => parts.iter().all(|part| collect_literal_prefix(part, literal)),
        HirKind::Class(_) | HirKind::Repetition(_) | HirKind::Alternation(_) => false,
    }
}

/// Expressions that are tried together, in one pass over the text.
pub(crate) struct AnchoredRegexSet {
    regex: Regex,
}

impl AnchoredRegexSet {
    /// Compiles the set; an expression's index is its number.
    pub(crate) fn new(hirs: &[&Hir]) -> Result<Self, String> {
        let regex = match hirs {
            [hir] => one(hir)?,
            _ => {
                let limit = SIZE_LIMIT.saturating_mul(hirs.len());
                let config = meta::Config::new()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(limit))
                    // All matching expressions are needed, not only the first one.
                    .match_kind(MatchKind::All);
                let hirs: Vec<Hir> = hirs.iter().map(|hir| whole(hir)).collect();
                let built = Regex::builder().configure(config).build_many_from_hir(&hirs);
                built.map_err(|error| describe(&error))?
            }
        };
        Ok(Self { regex })
    }

    /// Calls `pick` with a test of which expressions match `text`.
    ///
    /// The set of matches is stored in a thread-local buffer, which grows to the largest set and then
    /// allocates no more. The engine keeps a per-thread cache in the same way.
    pub(crate) fn matching<T>(&self, text: &[u8], pick: impl FnOnce(&dyn Fn(u32) -> bool) -> T) -> T {
        thread_local!(static MATCHES: Cell<Option<PatternSet>> = const { Cell::new(None) });
        if self.regex.pattern_len() == 1 {
            let matches = self.regex.is_match(text);
            return pick(&|_| matches);
        }
        let set = MATCHES.take().filter(|set| set.capacity() >= self.regex.pattern_len());
        let mut set = set.unwrap_or_else(|| PatternSet::new(self.regex.pattern_len()));
        set.clear();
        self.regex.which_overlapping_matches(&Input::new(text).anchored(Anchored::Yes), &mut set);
        let result = pick(&|number| PatternID::new(number as usize).is_ok_and(|id| set.contains(id)));
        MATCHES.set(Some(set));
        result
    }
}

/// A route's path expression with its capture groups, for rewrites and redirects. The router and this type
/// interpret an expression in the same way, so a path that the route matches always has its groups here.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// Compiles an expression that must match a whole path.
    ///
    /// # Errors
    /// Returns a description of the problem.
    pub fn new(text: &str) -> Result<Self, String> {
        one(&parse(text)?).map(Self)
    }

    /// Returns the index of the group with this number or name. `0` is the whole path.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<usize> {
        let groups = self.0.group_info();
        match name.parse() {
            Ok(number) => (number < groups.group_len(PatternID::ZERO)).then_some(number),
            Err(_) => groups.to_index(PatternID::ZERO, name),
        }
    }

    /// Returns the groups of a path; `None` if the expression does not match all of it.
    #[must_use]
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<PathCaptures<'p>> {
        let mut captures = self.0.create_captures();
        self.0.captures(path, &mut captures);
        captures.is_match().then_some(PathCaptures { path, captures })
    }
}

/// The groups that an expression captured in a path.
#[derive(Debug)]
pub struct PathCaptures<'p> {
    path: &'p [u8],
    captures: Captures,
}

impl<'p> PathCaptures<'p> {
    /// Returns the text of a group, by its index; empty if the group took no part in the match.
    #[must_use]
    pub fn get(&self, group: usize) -> &'p [u8] {
        self.captures.get_group(group).map_or(b"", |span| &self.path[span.range()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_path() {
        assert!(PathPattern::new("/(a").is_err());
        let pattern = PathPattern::new("/(?<first>[a-z]+)/(x)?(.*)").unwrap();
        assert_eq!(
            ["0", "1", "first", "3", "4", "other", "1x"].map(|name| pattern.group(name)),
            [Some(0), Some(1), Some(1), Some(3), None, None, None]
        );
        let captures = pattern.captures(b"/ab/c/d").unwrap();
        assert_eq!([0, 1, 2, 3].map(|group| captures.get(group)), [&b"/ab/c/d"[..], b"ab", b"", b"c/d"]);
        // The whole path must match, as in the router.
        assert!(PathPattern::new("/a|/ab").unwrap().captures(b"/abc").is_none());
        let captures = PathPattern::new("/(a|ab)").unwrap();
        assert_eq!(captures.captures(b"/ab").unwrap().get(1), b"ab");
    }

    #[test]
    fn the_whole_text_must_match() {
        let matches = |pattern, text: &str| one(&parse(pattern).unwrap()).unwrap().is_match(text);
        assert!(matches("/a|/b", "/a") && matches("/a|/b", "/b"));
        assert!(!matches("/a|/b", "/ax") && !matches("/a|/b", "x/b"));
        assert!(matches("(?x) /a # comment", "/a"));
        assert!(!matches("(?m)^/a$", "/a\n/a"));
        assert!(matches("é", "é"));
    }

    #[test]
    fn messages_say_where() {
        assert_eq!(parse("/a(b").unwrap_err(), "unclosed group (at character 3)");
        assert!(parse(r"\p{Greek}").is_err());
        assert!(parse("a)|(b").is_err());
        assert!(one(&parse("(.{1000}){1000}").unwrap()).unwrap_err().contains("more than"));
    }

    #[test]
    fn literal_beginnings() {
        for (pattern, literal) in [
            ("/users/[0-9]+", "/users/"),
            ("/users/[0-9]+/x", "/users/"),
            ("^/a/b$", "/a/b"),
            ("(/a)/b.*", "/a/b"),
            ("(/a)?/b", ""),
            ("/a|/b", "/"),
            ("/ab|/ac", "/a"),
            ("(?i)/a", "/"),
            (".*", ""),
            ("/a+", "/"),
            ("/v1\\.0/.*", "/v1.0/"),
        ] {
            let found = String::from_utf8(literal_prefix(&parse(pattern).unwrap())).unwrap();
            assert!(found.len() <= literal.len() && literal.starts_with(&found), "{pattern}: {found}");
            if !pattern.contains('|') {
                assert_eq!(found, literal, "{pattern}");
            }
        }
    }

    #[test]
    fn sets_report_every_match() {
        let hirs: Vec<Hir> = ["/a.*", "/b.*", "/ab"].iter().map(|text| parse(text).unwrap()).collect();
        let set = AnchoredRegexSet::new(&hirs.iter().collect::<Vec<_>>()).unwrap();
        let matches = |text: &str| set.matching(text.as_bytes(), |test| [test(0), test(1), test(2)]);
        assert_eq!(matches("/ab"), [true, false, true]);
        assert_eq!(matches("/abc"), [true, false, false]);
        assert_eq!(matches("/bab"), [false, true, false]);
        assert_eq!(matches("x/ab"), [false; 3]);
    }
}
