//! Parses YAML (and therefore JSON) to a tree with source positions.
//!
//! The parser bounds what a hostile file could inflate: the nesting depth, and the values that aliases copy.
//! `parse` reads a whole file; [`items`] reads some items of a list for a partial reread.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::position::At;
use crate::problem::Problem;
use crate::syntax::{self, TextPosition};
use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};

/// Maximum nesting depth. A full configuration needs 8. The readers recurse, so there must be a limit.
const DEPTH_MAX: usize = 64;
/// Maximum of values that all aliases of a file may copy together. Ten aliases of ten, nested ten deep, would
/// be ten billion.
const ALIAS_NODES_MAX: usize = 100_000;
/// Maximum of traps repaired in one file; each costs another pass.
const REPAIRS_MAX: usize = 64;

/// The result of parsing a file.
pub(crate) struct ParsedText {
    /// The document's value; `None` if there is none.
    pub root: Option<Node>,
    pub problems: Vec<Problem>,
    /// Whether the parser reached the end of the text. If not, a key that seems missing may just not have
    /// been reached.
    pub complete: bool,
    /// Whether the tree holds everything in the text: it was read to the end, and no key was dropped.
    pub whole: bool,
    /// Whether every value is independent of others: no anchor, alias or tag, and no repaired trap.
    pub plain: bool,
    /// Entries that are not in the tree because another one of their mapping has the key, each with the
    /// position of that key.
    pub dropped: Vec<(At, MappingEntry)>,
    /// Values that are not in the tree because their key is unusable.
    pub lost: Vec<Node>,
    /// The keys of the open mappings and lists (`None`) around the position where parsing stopped.
    pub pending: Vec<Option<String>>,
    /// The end of what was parsed.
    pub read_to: TextPosition,
}

/// Parses a file's text. It reports known traps (an unquoted `*.example.com`) and repairs them, so that they
/// do not hide the problems after them.
pub(crate) fn parse(file: u32, text: &str) -> ParsedText {
    let mut problems = Vec::new();
    let mut repaired: Option<String> = None;
    for _ in 0..REPAIRS_MAX {
        let current = repaired.as_deref().unwrap_or(text);
        let mut builder = Builder::new(file, current, repaired.is_some());
        match builder.run() {
            Ok(()) => {
                problems.append(&mut builder.problems);
                let complete = !builder.cut;
                let plain = builder.plain && repaired.is_none();
                return builder.parsed(problems, complete, plain);
            }
            Err(failure) => {
                let fixed = syntax::repair(file, current, failure.mark, &failure.info);
                if let Some((next, problem)) = fixed {
                    problems.push(problem);
                    repaired = Some(next);
                    continue;
                }
                let open = builder.stack.iter().rev().find(|open| open.bracket);
                let open = open.map(|open| TextPosition {
                    line: open.at.line as usize,
                    column: open.at.column as usize - 1,
                });
                problems.push(syntax::explain(file, current, failure.mark, &failure.info, open));
                builder.close_all();
                problems.append(&mut builder.problems);
                return builder.parsed(problems, false, false);
            }
        }
    }
    Builder::new(file, "", true).parsed(problems, false, false)
}

/// Position and reason of a syntax error.
struct ParseError {
    mark: TextPosition,
    info: String,
}

/// An unfinished list or mapping.
struct OpenNode {
    at: At,
    /// Whether a bracket opened it.
    bracket: bool,
    anchor: usize,
    content: Content,
    height: usize,
    size: usize,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<MappingEntry>, key: PendingKey },
}

/// The key that the next value belongs to.
enum PendingKey {
    None,
    Named(String, At),
    /// A key that was already reported. Its value is dropped.
    Unusable,
}

/// A finished value with its nesting height and its number of values, for the bounds on aliases.
#[derive(Clone)]
struct BuiltNode {
    node: Node,
    height: usize,
    size: usize,
}

struct Builder<'t> {
    file: u32,
    text: &'t str,
    end: TextPosition,
    repaired: bool,
    stack: Vec<OpenNode>,
    anchors: HashMap<usize, BuiltNode>,
    copies: usize,
    root: Option<Node>,
    problems: Vec<Problem>,
    /// Whether the rest was skipped on purpose (nested too deeply, a second document).
    cut: bool,
    /// Whether a key and its value were dropped.
    dropped: bool,
    dropped_entries: Vec<(At, MappingEntry)>,
    lost: Vec<Node>,
    /// Recorded when the first open list or mapping is closed by force.
    pending: Option<Vec<Option<String>>>,
    read_to: TextPosition,
    /// Whether no anchor, alias or tag has occurred so far.
    plain: bool,
    /// Number that is added to every line of a position.
    offset: u32,
}

impl<'t> Builder<'t> {
    fn new(file: u32, text: &'t str, repaired: bool) -> Self {
        Self {
            file,
            text,
            end: syntax::end(text),
            repaired,
            stack: Vec::new(),
            anchors: HashMap::new(),
            copies: 0,
            root: None,
            problems: Vec::new(),
            cut: false,
            dropped: false,
            dropped_entries: Vec::new(),
            lost: Vec::new(),
            pending: None,
            read_to: TextPosition { line: 0, column: 0 },
            plain: true,
            offset: 0,
        }
    }

    fn run(&mut self) -> Result<(), ParseError> {
        let mut parser = Parser::new_from_str(self.text);
        while let Some(event) = parser.next_event() {
            match event {
                Ok((event, span)) => self.event(event, span)?,
                Err(error) => {
                    let mark = TextPosition { line: error.marker().line(), column: error.marker().col() };
                    return Err(ParseError { mark, info: error.info().to_owned() });
                }
            }
            if self.cut {
                self.close_all();
                break;
            }
        }
        Ok(())
    }

    fn parsed(self, problems: Vec<Problem>, complete: bool, plain: bool) -> ParsedText {
        ParsedText {
            root: self.root,
            problems,
            complete,
            whole: complete && !self.dropped,
            plain,
            dropped: self.dropped_entries,
            lost: self.lost,
            pending: self.pending.unwrap_or_default(),
            read_to: self.read_to,
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseError> {
        self.read_to = TextPosition { line: span.end.line(), column: span.end.col() };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = self.tag(tag.as_deref(), span);
                let plain = style == ScalarStyle::Plain;
                let kind = if self.repaired { syntax::restore(&text) } else { Some(text.into_owned()) };
                let kind = match kind {
                    Some(text) => NodeKind::Scalar(Scalar { text, quoted: !plain || tagged, written: None }),
                    None => NodeKind::Invalid,
                };
                let built = BuiltNode { node: Node { at: self.at(span), kind }, height: 1, size: 1 };
                self.anchor(anchor, &built);
                self.add(built, plain)
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag(tag.as_deref(), span);
                self.open(span, anchor, Content::List(Vec::new()));
                Ok(())
            }
            Event::MappingStart(anchor, tag) => {
                self.tag(tag.as_deref(), span);
                self.open(span, anchor, Content::Map { entries: Vec::new(), key: PendingKey::None });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(id, span),
            Event::DocumentStart(_) if self.root.is_some() => {
                self.problems.push(
                    Problem::error(self.at(span), "a second document starts here")
                        .expected("one document per file")
                        .help("use `include` to read several files"),
                );
                self.cut = true;
                Ok(())
            }
            Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::StreamStart
            | Event::StreamEnd
            | Event::Nothing => Ok(()),
        }
    }

    fn at(&self, span: Span) -> At {
        let to = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1);
        // For a multi-line value the renderer cuts the caret at the end of the first line.
        let length = to(span.end.index().saturating_sub(span.start.index())).max(1);
        let mark = TextPosition { line: span.start.line(), column: span.start.col() }.min(self.end);
        At {
            file: self.file,
            line: to(mark.line).saturating_add(self.offset),
            column: to(mark.column) + 1,
            length,
        }
    }

    /// Checks a tag and returns whether it turns its value into a string.
    fn tag(&mut self, tag: Option<&Tag>, span: Span) -> bool {
        let Some(tag) = tag else { return false };
        self.plain = false;
        if !tag.is_yaml_core_schema() {
            let at = self.at(span);
            self.problems.push(
                Problem::error(at, format!("the tag {} is not supported", shown(&tag.to_string())))
                    .help("remove it; a text that starts with `!` needs quotes"),
            );
        }
        tag.is_yaml_core_schema() && tag.suffix == "str"
    }

    fn anchor(&mut self, id: usize, built: &BuiltNode) {
        if id != 0 {
            self.plain = false;
            self.anchors.insert(id, built.clone());
        }
    }

    fn open(&mut self, span: Span, anchor: usize, content: Content) {
        let at = At { length: 1, ..self.at(span) };
        // A collection opened by indentation has no text of its own.
        let bracket = span.end.index() > span.start.index();
        if self.stack.len() >= DEPTH_MAX {
            self.problems.push(Problem::error(at, format!("nested more than {DEPTH_MAX} levels deep")));
            self.cut = true;
            return;
        }
        self.stack.push(OpenNode { at, bracket, anchor, content, height: 0, size: 0 });
    }

    fn close(&mut self) -> Result<(), ParseError> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let mut at = open.at;
        let kind = match open.content {
            Content::List(items) => NodeKind::List(items),
            Content::Map { mut entries, .. } => {
                if let Some(first) = entries.first()
                    && first.at.line == at.line
                    && first.at.column == at.column
                {
                    at.length = first.at.length;
                }
                self.duplicates(&mut entries);
                self.merge(&mut entries);
                NodeKind::Map(entries)
            }
        };
        let built = BuiltNode { node: Node { at, kind }, height: open.height + 1, size: open.size + 1 };
        self.anchor(open.anchor, &built);
        self.add(built, false)
    }

    /// Closes everything that is open, so that the values before a syntax error are still checked.
    fn close_all(&mut self) {
        let key = |open: &OpenNode| match &open.content {
            Content::Map { key: PendingKey::Named(key, _), .. } => Some(key.clone()),
            _ => None,
        };
        let pending = self.stack.iter().map(key).collect();
        self.pending.get_or_insert(pending);
        while !self.stack.is_empty() {
            // A non-scalar key can fail here; only the first failure is reported.
            let _ = self.close();
        }
    }

    fn add(&mut self, built: BuiltNode, plain: bool) -> Result<(), ParseError> {
        let Some(parent) = self.stack.last_mut() else {
            self.root.get_or_insert(built.node);
            return Ok(());
        };
        parent.height = parent.height.max(built.height);
        parent.size = parent.size.saturating_add(built.size);
        match &mut parent.content {
            Content::List(items) => items.push(built.node),
            Content::Map { entries, key } => match std::mem::replace(key, PendingKey::None) {
                PendingKey::Named(key, at) => entries.push(MappingEntry { key, at, value: built.node }),
                PendingKey::Unusable => self.lost.push(built.node),
                PendingKey::None => {
                    let at = built.node.at;
                    *key = match built.node.kind {
                        // A quoted `<<` is an ordinary name; the quotes in the stored key distinguish it from
                        // a merge.
                        NodeKind::Scalar(scalar) if scalar.text == "<<" && !plain => {
                            PendingKey::Named("\"<<\"".to_owned(), at)
                        }
                        NodeKind::Scalar(mut scalar) => {
                            PendingKey::Named(std::mem::take(&mut scalar.text), at)
                        }
                        NodeKind::Invalid => {
                            self.dropped = true;
                            PendingKey::Unusable
                        }
                        NodeKind::List(_) | NodeKind::Map(_) => return self.unusable(at),
                    };
                }
            },
        }
        Ok(())
    }

    /// Reports a list or mapping in the place of a key. Usually it is an unquoted `[::]:8080`.
    fn unusable(&mut self, at: At) -> Result<(), ParseError> {
        let mark = TextPosition { line: at.line as usize, column: at.column as usize - 1 };
        if syntax::bracket(self.text, mark).is_some() {
            return Err(ParseError { mark, info: String::new() });
        }
        if let Some(OpenNode { content: Content::Map { key, .. }, .. }) = self.stack.last_mut() {
            *key = PendingKey::Unusable;
        }
        self.dropped = true;
        self.problems.push(
            Problem::error(at, "a key cannot be a list or a mapping")
                .help("quote a text that starts with `[` or `{`"),
        );
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ParseError> {
        self.plain = false;
        let at = self.at(span);
        let depth = self.stack.len();
        let invalid = BuiltNode { node: Node { at, kind: NodeKind::Invalid }, height: 1, size: 1 };
        let built = match self.anchors.get(&id) {
            None => {
                self.problems.push(Problem::error(at, "this alias is inside the value that it refers to"));
                invalid
            }
            Some(built) if built.height + depth > DEPTH_MAX => {
                let message = format!("with this alias, values are nested more than {DEPTH_MAX} levels deep");
                self.problems.push(Problem::error(at, message));
                invalid
            }
            Some(built) if self.copies.saturating_add(built.size) > ALIAS_NODES_MAX => {
                let message =
                    format!("the aliases of this file expand to more than {ALIAS_NODES_MAX} values");
                self.problems.push(Problem::error(at, message));
                self.cut = true;
                invalid
            }
            Some(built) => {
                self.copies += built.size;
                built.clone()
            }
        };
        self.add(built, false)
    }

    fn duplicates(&mut self, entries: &mut Vec<MappingEntry>) {
        let mut seen: HashMap<String, At> = HashMap::new();
        let small = entries.len() <= 16;
        let mut kept: Vec<MappingEntry> = Vec::with_capacity(entries.len());
        for entry in entries.drain(..) {
            let first = if small {
                kept.iter().find(|other| other.key == entry.key).map(|other| other.at)
            } else {
                seen.get(&entry.key).copied()
            };
            if let Some(first) = first {
                self.problems.push(
                    Problem::error(entry.at, format!("the key {} is given twice", shown(&entry.key)))
                        .related(first, "first written here"),
                );
                self.dropped = true;
                self.dropped_entries.push((first, entry));
                continue;
            }
            if !small {
                seen.insert(entry.key.clone(), entry.at);
            }
            kept.push(entry);
        }
        *entries = kept;
    }

    /// Merges `<<: *other` (YAML 1.1's merge key): keys that the mapping lacks are copied from the other one.
    fn merge(&mut self, entries: &mut Vec<MappingEntry>) {
        let Some(position) = entries.iter().position(|entry| entry.key == "<<") else { return };
        let merge = entries.remove(position);
        let sources = match merge.value.kind {
            NodeKind::List(items) => items,
            kind => vec![Node { at: merge.value.at, kind }],
        };
        let mut own: HashMap<String, At> =
            entries.iter().map(|entry| (entry.key.clone(), entry.at)).collect();
        for source in sources {
            match source.kind {
                NodeKind::Map(inherited) => {
                    for entry in inherited {
                        match own.get(&entry.key) {
                            Some(first) => self.dropped_entries.push((*first, entry)),
                            None => {
                                own.insert(entry.key.clone(), entry.at);
                                entries.push(entry);
                            }
                        }
                    }
                }
                NodeKind::Invalid => self.dropped = true,
                NodeKind::Scalar(_) | NodeKind::List(_) => {
                    self.dropped = true;
                    self.problems.push(
                        Problem::error(merge.at, "`<<` takes a mapping or a list of mappings")
                            .help("it is written `<<: *name`, where `&name` marks a mapping"),
                    );
                }
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        parse(0, text).problems.into_iter().map(|problem| problem.message).collect()
    }

    fn show(node: &Node) -> String {
        match &node.kind {
            NodeKind::Invalid => "!".into(),
            NodeKind::Scalar(scalar) => scalar.text.clone(),
            NodeKind::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            NodeKind::Map(entries) => {
                let inner: Vec<_> = entries.iter().map(|e| format!("{}={}", e.key, show(&e.value))).collect();
                format!("{{{}}}", inner.join(" "))
            }
        }
    }

    #[test]
    fn json_is_read_with_tabs_and_all() {
        let parsed = parse(0, "{\n\t\"a\":1,\n\t\"b\": [true,\t\"x\\u0041\"]\n}");
        assert!(parsed.problems.is_empty());
        assert_eq!(show(&parsed.root.unwrap()), "{a=1 b=[true xA]}");
    }

    #[test]
    fn merge_keys_give_way_to_own_keys() {
        let parsed = parse(0, "a: &x {q: 1, r: 2}\nb: {<<: *x, q: 3}\nc: {<<: [*x, {s: 4, q: 5}]}\n");
        assert!(parsed.problems.is_empty());
        assert_eq!(show(&parsed.root.unwrap()), "{a={q=1 r=2} b={q=3 r=2} c={q=1 r=2 s=4}}");
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let list = vec![format!("*a{}", i - 1); 10].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{list}]\n"));
        }
        let problems = texts(&text);
        assert_eq!(problems, ["the aliases of this file expand to more than 100000 values"]);
    }

    #[test]
    fn a_chain_of_aliases_cannot_get_deeper_than_plain_nesting() {
        let mut text = String::from("a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n");
        for i in 1..100 {
            text.push_str(&format!("a{i}: &a{i} [[[[[[[[[[*a{}]]]]]]]]]]\n", i - 1));
        }
        assert!(texts(&text)[0].contains("64 levels"));
        assert_eq!(texts(&"[".repeat(100_000)), ["nested too deeply"]);
        assert!(texts(&"- ".repeat(10_000))[0].contains("64 levels"));
    }

    #[test]
    fn an_alias_inside_its_own_anchor_is_refused() {
        assert_eq!(texts("a: &a [*a]\n"), ["this alias is inside the value that it refers to"]);
    }

    #[test]
    fn duplicates_are_found_in_small_and_large_mappings() {
        assert_eq!(texts("a: 1\nb: 2\na: 3\n"), ["the key `a` is given twice"]);
        let mut text = String::new();
        for i in 0..50 {
            text.push_str(&format!("k{i}: x\n"));
        }
        text.push_str("k7: y\n");
        assert_eq!(texts(&text), ["the key `k7` is given twice"]);
    }

    #[test]
    fn text_before_an_error_is_kept() {
        let parsed = parse(0, "a: 1\nb: {c: 2\nd: 3\n");
        assert!(!parsed.complete);
        assert_eq!(parsed.problems.len(), 1);
        assert!(show(&parsed.root.unwrap()).starts_with("{a=1"));
    }
}
