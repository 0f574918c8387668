//! Building blocks of every section's reader: they turn tree nodes into typed values, and collect problems and
//! references.
//!
//! Each method takes a field and the entry for it in the `spec` table, which supplies bounds and the words of
//! messages. A reader continues after a problem with any value at hand, because a configuration with an error
//! is never used.

use crate::foreign;
use crate::position::{At, Spanned};
use crate::problem::{Problem, Severity};
use crate::scalar::ScalarError;
use crate::scalar::quantity;
use crate::spec::{Choice, KeySpec, ROOT_NAME, SectionSpec, Shape, any_of, names};
use crate::suggest;
use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};

mod pairs;
mod references;

pub(crate) use pairs::{misnamed, named};
pub(crate) use references::UpstreamReference;

/// Collects problems while a tree is read.
pub struct Reader {
    /// The problems found so far.
    pub problems: Vec<Problem>,
    /// Whether the text was parsed to its end; if not, missing keys are not reported.
    pub complete: bool,
    /// The upstreams that the values refer to.
    pub(crate) references: Vec<UpstreamReference>,
}

/// The entries of a mapping with known keys.
pub struct Fields<'t> {
    section: &'static SectionSpec,
    entries: &'t [MappingEntry],
    /// Source position of the mapping's key, or of the mapping if it has none.
    pub at: At,
    /// How many problems there were before the mapping.
    pub start: usize,
}

/// A key that is present, with its value.
#[derive(Clone, Copy)]
pub struct Field<'t> {
    /// Its row in the table of keys.
    pub key: &'static KeySpec,
    /// Source position of the key.
    pub at: At,
    /// The value.
    pub node: &'t Node,
}

impl Field<'_> {
    /// Returns whether the value is `off`.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.node.scalar().is_some_and(Scalar::is_off)
    }

    /// Returns whether the value is a mapping.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        matches!(self.node.kind, NodeKind::Map(_))
    }
}

/// The value of a key that accepts `on`, `off` or a mapping.
pub enum Setting<'t> {
    /// `off`.
    Off,
    /// `on`, with the defaults.
    On,
    /// A mapping: on, with overrides of the defaults.
    Fields(Fields<'t>),
}

impl<'t> Setting<'t> {
    /// Returns whether it is on, with or without overrides.
    pub fn on(&self) -> bool {
        !matches!(self, Setting::Off)
    }

    /// Returns the mapping's fields; `None` for `on` and `off`.
    pub fn fields(&self) -> Option<&Fields<'t>> {
        match self {
            Setting::Fields(fields) => Some(fields),
            Setting::On | Setting::Off => None,
        }
    }
}

impl<'t> Fields<'t> {
    /// Returns the table's entry for a key.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.section.keys.iter().find(|key| key.name == name)
    }

    /// Returns whether a key is given, or misspelt: it was reported then, so a report of the missing key would be
    /// redundant.
    #[must_use]
    pub fn is_meant(&self, name: &str) -> bool {
        self.is_written(name) || misspelt(self.entries, self.section, name)
    }

    /// Returns whether a key is written, with or without a valid value.
    #[must_use]
    pub fn is_written(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// Returns whether a value, or a part of one, has a problem that was reported before the reader ran.
    #[must_use]
    pub fn hold_invalid(&self) -> bool {
        self.entries.iter().any(|entry| entry.value.holds_invalid())
    }

    /// Returns whether the mapping has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the field with this name, if it has a valid value that is not null.
    pub fn get(&self, name: &str) -> Option<Field<'t>> {
        let key = self.key(name);
        debug_assert!(key.is_some(), "{name} is not in the table of {}", self.section.name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        if entry.value.is_null() || entry.value.is_invalid() {
            return None;
        }
        Some(Field { key: key?, at: entry.at, node: &entry.value })
    }
}

impl Reader {
    /// Makes a reader without problems, of a text that was parsed to its end if `complete`.
    #[must_use]
    pub fn new(complete: bool) -> Self {
        Self { problems: Vec::new(), complete, references: Vec::new() }
    }

    /// Returns the fields of a mapping. Reports unknown keys, keys without a value, missing keys and mutually
    /// exclusive keys.
    pub fn fields<'t>(&mut self, node: &'t Node, section: &'static SectionSpec) -> Option<Fields<'t>> {
        let NodeKind::Map(entries) = &node.kind else {
            if !node.is_invalid() {
                let message = if node.is_null() {
                    format!("{} is empty", section.noun)
                } else {
                    format!("{} must be a mapping, not {}", section.noun, node.noun())
                };
                self.problems.push(
                    Problem::error(node.at, message).expected(format!("a mapping with {}", names(section))),
                );
            }
            return None;
        };
        let start = self.problems.len();
        for entry in entries {
            self.entry(entry, section);
        }
        self.required(node.at, entries, section);
        Some(Fields { section, entries, at: node.at, start })
    }

    /// Works like [`fields`](Self::fields), for the value of a key.
    pub fn fields_of<'t>(&mut self, field: Field<'t>, section: &'static SectionSpec) -> Option<Fields<'t>> {
        Some(Fields { at: field.at, ..self.fields(field.node, section)? })
    }

    fn entry(&mut self, entry: &MappingEntry, section: &'static SectionSpec) {
        if let Some(key) = section.keys.iter().find(|key| key.name == entry.key) {
            if entry.value.is_null() && self.complete {
                let problem = Problem::error(entry.at, format!("`{}` has no value", key.name));
                self.problems
                    .push(problem.expected(key.shape.expected()).help("give it one, or remove the key"));
            }
            return;
        }
        if section.name == ROOT_NAME && entry.key.starts_with("x-") {
            return;
        }
        let problem =
            Problem::error(entry.at, format!("unknown key {} in {}", shown(&entry.key), section.noun));
        self.problems.push(match (foreign::hint(section, entry), suggest::key(&entry.key, section)) {
            (Some(hint), _) => problem.help(hint),
            (None, Some(near)) => problem.help(format!("did you mean `{near}`?")),
            (None, None) => problem.expected(names(section)),
        });
    }

    fn required(&mut self, at: At, entries: &[MappingEntry], section: &'static SectionSpec) {
        let given = |name: &str| entries.iter().any(|entry| entry.key == name);
        for key in section.keys.iter().filter(|key| key.required) {
            if !given(key.name) && !misspelt(entries, section, key.name) {
                self.missing(at, format!("{} has no `{}`", section.noun, key.name), &key.shape);
            }
        }
        let (choice, exactly) = match section.choice {
            Choice::Free => return,
            Choice::ExactlyOne(choice) => (choice, true),
            Choice::AtMostOne(choice) => (choice, false),
        };
        let mut present = entries.iter().filter(|entry| choice.contains(&entry.key.as_str()));
        match (present.next(), present.next()) {
            (Some(first), Some(second)) => self.problems.push(
                Problem::error(second.at, format!("`{}` and `{}` exclude each other", first.key, second.key))
                    .related(first.at, format!("`{}` is here", first.key)),
            ),
            (None, _)
                if exactly
                    && self.complete
                    && !choice.iter().any(|name| misspelt(entries, section, name)) =>
            {
                let words = any_of(choice.iter().map(|name| format!("`{name}`")));
                let message = format!("{} has none of {words}", section.noun);
                self.problems.push(Problem::error(at, message).expected("exactly one of them"));
            }
            _ => {}
        }
    }

    /// Returns whether an error was added after the first `start` problems.
    pub fn has_errors_since(&self, start: usize) -> bool {
        self.problems.iter().skip(start).any(|problem| problem.severity == Severity::Error)
    }

    /// Reports a missing key.
    pub fn missing(&mut self, at: At, message: String, shape: &Shape) {
        if self.complete {
            self.problems.push(Problem::error(at, message).expected(shape.expected()));
        }
    }

    /// Reports that a value has the wrong form (a list instead of a text).
    pub fn mismatch(&mut self, node: &Node, what: &str, expected: String) {
        if !node.is_invalid() {
            let problem = Problem::error(node.at, format!("{what} cannot be {}", node.noun()));
            let bracket = matches!(node.kind, NodeKind::Map(_) | NodeKind::List(_)) && node.at.length == 1;
            let problem = problem.expected(expected);
            let quote = "a text that starts with `{` or `[` needs quotes";
            self.problems.push(if bracket { problem.help(quote) } else { problem });
        }
    }

    /// Reports a fault in a scalar without revealing the value of a variable.
    pub fn fault(&mut self, node: &Node, scalar: &Scalar, fault: ScalarError, expected: String) {
        let at = fault.part.map_or(node.at, |(start, length)| node.part(start, length));
        let mut problem =
            Problem::error(at, fault.message.replacen("{}", &scalar.shown(), 1)).expected(expected);
        if let Some(braces) = variable_with_braces(scalar) {
            self.problems.push(problem.help(format!("write `{braces}` for an environment variable")));
            return;
        }
        if let Some(help) = fault.help {
            problem = problem.help(help);
        }
        if let (Some(suggestion), None) = (fault.suggestion, &scalar.written) {
            problem = problem.help(suggestion);
        }
        self.problems.push(problem);
    }

    /// Returns the scalar of a node, or reports that it is none.
    pub fn scalar<'t>(&mut self, node: &'t Node, what: &str, shape: &Shape) -> Option<&'t Scalar> {
        match node.scalar() {
            Some(scalar) if !scalar.is_null() => Some(scalar),
            _ => {
                self.mismatch(node, what, shape.expected());
                None
            }
        }
    }

    /// Parses a scalar and reports a fault.
    pub fn parsed<T>(
        &mut self,
        node: &Node,
        what: &str,
        shape: &Shape,
        parse: impl FnOnce(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        let scalar = self.scalar(node, what, shape)?;
        match parse(&scalar.text) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault(node, scalar, fault, shape.expected_scalar());
                None
            }
        }
    }

    /// Parses the items of a list, or a single value, each with its position. `nouns` name the items together and one
    /// of them, for messages. Reports an empty list.
    pub fn parsed_list<T>(
        &mut self,
        node: &Node,
        nouns: (&str, &str),
        shape: &Shape,
        parse: impl Fn(&str) -> Result<T, ScalarError>,
    ) -> Vec<Spanned<T>> {
        let (all, one) = nouns;
        let items = one_or_many(node);
        if items.is_empty() {
            self.missing(node.at, format!("the list of {all} is empty"), shape);
        }
        let read = |node: &Node| {
            let value = self.parsed(node, one, shape, &parse)?;
            Some(Spanned { value, at: node.at })
        };
        items.iter().filter_map(read).collect()
    }

    /// Parses a field's scalar and reports a fault.
    pub fn field<T>(
        &mut self,
        field: Field<'_>,
        parse: impl FnOnce(&str) -> Result<T, ScalarError>,
    ) -> Option<T> {
        self.parsed(field.node, &format!("`{}`", field.key.name), &field.key.shape, parse)
    }

    /// Parses a field's scalar and adds its source position.
    pub fn spanned<T>(
        &mut self,
        field: Field<'_>,
        parse: impl FnOnce(&str) -> Result<T, ScalarError>,
    ) -> Option<Spanned<T>> {
        self.field(field, parse).map(|value| Spanned { value, at: field.node.at })
    }

    /// Reads `on` or `off` into `out`.
    pub fn switch(&mut self, field: Option<Field<'_>>, out: &mut bool) {
        if let Some(value) = field.and_then(|field| self.read_switch(field)) {
            *out = value;
        }
    }

    /// Reads `on` or `off`.
    pub fn read_switch(&mut self, field: Field<'_>) -> Option<bool> {
        let scalar = self.scalar(field.node, &format!("`{}`", field.key.name), &field.key.shape)?;
        let value = scalar.switch();
        if value.is_none() {
            let fault = ScalarError::new("{} is neither `on` nor `off`");
            self.fault(field.node, scalar, fault, field.key.shape.expected_scalar());
        }
        value
    }

    /// Reads a value that is `on`, `off` or a mapping with overrides.
    pub fn setting<'t>(&mut self, field: Field<'t>, section: &'static SectionSpec) -> Option<Setting<'t>> {
        if matches!(field.node.kind, NodeKind::Map(_)) {
            return self.fields_of(field, section).map(Setting::Fields);
        }
        let scalar = self.scalar(field.node, &format!("`{}`", field.key.name), &field.key.shape)?;
        match scalar.switch() {
            Some(true) => Some(Setting::On),
            Some(false) => Some(Setting::Off),
            None => {
                let fault = ScalarError::new(format!("{{}} is not a value of `{}`", field.key.name));
                self.fault(field.node, scalar, fault, field.key.shape.expected());
                None
            }
        }
    }

    /// Reads a size, count or percentage within the bounds of its table entry. A percentage is returned in
    /// trillionths. `Some(None)` is `off`.
    pub fn number(&mut self, field: Option<Field<'_>>) -> Option<Option<u64>> {
        let field = field?;
        let off = match field.key.shape {
            Shape::Size { off, .. } | Shape::Count { off, .. } | Shape::Percent { off, .. } => off,
            _ => false,
        };
        if off && field.node.scalar().is_some_and(Scalar::is_off) {
            return Some(None);
        }
        self.field(field, |text| match field.key.shape {
            Shape::Size { min, max, .. } => quantity::size(text, min, max),
            Shape::Count { min, max, .. } => quantity::count(text, min, max),
            Shape::Percent { min, max, .. } => quantity::percent(text, min, max, field.key.name != "percent"),
            _ => Err(ScalarError::new("{} is not a number")),
        })
        .map(Some)
    }

    /// Reads a number that cannot be `off` into any integer type that can hold its bounds.
    pub fn number_into<T: TryFrom<u64>>(&mut self, field: Option<Field<'_>>, out: &mut T) {
        if let Some(Some(value)) = self.number(field)
            && let Ok(value) = T::try_from(value)
        {
            *out = value;
        }
    }

    /// Reads a number or `off` into any integer type that can hold the bounds.
    pub fn optional_into<T: TryFrom<u64>>(&mut self, field: Option<Field<'_>>, out: &mut Option<T>) {
        match self.number(field) {
            None => {}
            Some(None) => *out = None,
            Some(Some(value)) => {
                if let Ok(value) = T::try_from(value) {
                    *out = Some(value);
                }
            }
        }
    }

    /// Reads a duration. `Some(None)` is `off`.
    pub fn duration(&mut self, field: Option<Field<'_>>) -> Option<Option<std::time::Duration>> {
        let field = field?;
        let off = !matches!(field.key.shape, Shape::Time { off: false, .. });
        if off && field.node.scalar().is_some_and(Scalar::is_off) {
            return Some(None);
        }
        self.field(field, |text| match field.key.shape {
            Shape::Time { min, max, .. } => quantity::time(text, min, max),
            _ => quantity::duration(text),
        })
        .map(Some)
    }

    /// Reads a duration that cannot be `off`.
    pub fn time_into(&mut self, field: Option<Field<'_>>, out: &mut std::time::Duration) {
        if let Some(Some(value)) = self.duration(field) {
            *out = value;
        }
    }

    /// Reads a duration or `off`, overwriting a default.
    pub fn duration_into(&mut self, field: Option<Field<'_>>, out: &mut Option<std::time::Duration>) {
        if let Some(value) = self.duration(field) {
            *out = value;
        }
    }

    /// Reads one of the words that the table lists.
    pub fn word(&mut self, field: Option<Field<'_>>) -> Option<&'static str> {
        let field = field?;
        let Shape::Word(words) = field.key.shape else { return None };
        self.field(field, |text| {
            words.iter().find(|word| **word == text).copied().ok_or_else(|| {
                let fault = ScalarError::new(format!("{{}} is not a value of `{}`", field.key.name));
                match suggest::nearest(text, words.iter().copied()) {
                    Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                    None => fault,
                }
            })
        })
    }
}

/// Returns a text such as `http://$HOST:80` with braces around the names of its variables, as a file needs them.
/// `None` if it has no `$` before a name in capital letters.
fn variable_with_braces(scalar: &Scalar) -> Option<String> {
    let text = scalar.written.as_ref().unwrap_or(&scalar.text);
    let (first, parts) = text.split_once('$')?;
    let mut out = first.to_owned();
    let mut found = false;
    for part in parts.split('$') {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let is_variable = name.len() > 1
            && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && !name.contains(|c: char| c.is_ascii_lowercase());
        found |= is_variable;
        match is_variable {
            true => out.push_str(&format!("${{{name}}}{rest}")),
            false => out.push_str(&format!("${part}")),
        }
    }
    found.then_some(out)
}

/// Returns whether an unknown key is a misspelling of `name`. It was reported with that suggestion, so a
/// report of the missing key would be redundant.
pub(crate) fn misspelt(entries: &[MappingEntry], section: &SectionSpec, name: &str) -> bool {
    let unknown = |key: &str| section.keys.iter().all(|known| known.name != key);
    entries.iter().any(|entry| unknown(&entry.key) && suggest::key(&entry.key, section) == Some(name))
}

/// Maximum number of entries in a list whose entries are compared pairwise (quadratic cost).
const ITEMS_MAX: usize = 1000;

impl Reader {
    /// Works like [`one_or_many`], for lists that need not be long. Reports entries beyond the limit.
    pub fn bounded_items<'t>(&mut self, node: &'t Node, what: &str) -> &'t [Node] {
        let items = one_or_many(node);
        if let Some(extra) = items.get(ITEMS_MAX) {
            self.problems.push(Problem::error(extra.at, format!("{what} has more than {ITEMS_MAX} entries")));
        }
        &items[..items.len().min(ITEMS_MAX)]
    }
}

/// Lists of values.
impl Reader {
    /// Returns the items of a list, or the single value as a list of one. With `nonempty`, an empty list is
    /// an error.
    pub fn list_items<'t>(&mut self, field: Field<'t>, bounded: bool, nonempty: bool) -> &'t [Node] {
        let items = match bounded {
            true => self.bounded_items(field.node, &format!("`{}`", field.key.name)),
            false => one_or_many(field.node),
        };
        if nonempty && items.is_empty() {
            let message = format!("`{}` is an empty list", field.key.name);
            self.missing(field.node.at, message, &field.key.shape);
        }
        items
    }

    /// Parses each item of a list. `what` names an item in messages.
    pub fn each<T>(
        &mut self,
        items: &[Node],
        field: Field<'_>,
        what: &str,
        parse: impl Fn(&str) -> Result<T, ScalarError>,
    ) -> Vec<T> {
        items.iter().filter_map(|item| self.parsed(item, what, field.key.shape.one(), &parse)).collect()
    }

    /// Works like [`each`](Self::each), and keeps the source positions.
    pub fn spanned_each<T>(
        &mut self,
        items: &[Node],
        field: Field<'_>,
        what: &str,
        parse: impl Fn(&str) -> Result<T, ScalarError>,
    ) -> Vec<Spanned<T>> {
        let mut one = |item: &Node| {
            let value = self.parsed(item, what, field.key.shape.one(), &parse)?;
            Some(Spanned { value, at: item.at })
        };
        items.iter().filter_map(&mut one).collect()
    }
}

/// Returns the items of a list, or the single value as a list of one. The caller reports an empty list.
pub fn one_or_many(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}
