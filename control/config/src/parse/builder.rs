//! Builds a tree with source positions from the events of the YAML parser: resolves aliases and merge keys, and drops
//! duplicate keys.
//!
//! The builder bounds what a hostile file could inflate: the nesting depth, and the values that aliases copy.

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

/// Position and reason of a syntax error.
pub(super) struct ParseError {
    pub(super) mark: TextPosition,
    pub(super) info: String,
}

/// An unfinished list or mapping.
pub(super) struct OpenNode {
    pub(super) at: At,
    /// Whether a bracket opened it.
    pub(super) bracket: bool,
    anchor: usize,
    pub(super) content: Content,
    height: usize,
    size: usize,
}

/// The values of an unfinished list or mapping so far.
pub(super) enum Content {
    List(Vec<Node>),
    Map { entries: Vec<MappingEntry>, key: PendingKey },
}

/// The key that the next value belongs to.
pub(super) enum PendingKey {
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

/// Builds the tree from the events of the parser.
pub(super) struct Builder<'t> {
    file: u32,
    text: &'t str,
    end: TextPosition,
    repaired: bool,
    pub(super) stack: Vec<OpenNode>,
    anchors: HashMap<usize, BuiltNode>,
    copies: usize,
    pub(super) root: Option<Node>,
    pub(super) problems: Vec<Problem>,
    /// Whether the rest was skipped on purpose (nested too deeply, a second document).
    pub(super) cut: bool,
    /// Whether a key and its value were dropped.
    pub(super) dropped: bool,
    dropped_entries: Vec<(At, MappingEntry)>,
    lost: Vec<Node>,
    /// Recorded when the first open list or mapping is closed by force.
    pending: Option<Vec<Option<String>>>,
    read_to: TextPosition,
    /// Whether no anchor, alias or tag has occurred so far.
    pub(super) plain: bool,
    /// Number that is added to every line of a position.
    pub(super) offset: u32,
}

impl<'t> Builder<'t> {
    pub(super) fn new(file: u32, text: &'t str, repaired: bool) -> Self {
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

    pub(super) fn run(&mut self) -> Result<(), ParseError> {
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

    pub(super) fn parsed(self, problems: Vec<Problem>, complete: bool, plain: bool) -> ParsedText {
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

    pub(super) fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseError> {
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
    pub(super) fn close_all(&mut self) {
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
