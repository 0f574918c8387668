//! The tree between text and types: values with their source positions.

use zeroize::Zeroize;

use crate::position::At;

/// Maximum number of characters of a user's value that a message repeats.
const DISPLAY_CHARS_MAX: usize = 60;

/// A value and its source position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The source position.
    pub at: At,
    /// The value.
    pub kind: NodeKind,
}

/// The kind of a value, with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// A value whose problem was already reported; readers ignore it silently.
    Invalid,
    /// A single value.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Map(Vec<MappingEntry>),
}

/// One `key: value` entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingEntry {
    /// The key.
    pub key: String,
    /// Source position of the key.
    pub at: At,
    /// The value.
    pub value: Node,
}

/// A scalar of any style.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// The text with environment variables expanded.
    pub text: String,
    /// Whether it was quoted, or a block scalar (`|`): then it is text even where a number or `true` is
    /// allowed.
    pub quoted: bool,
    /// The original text, if an environment variable was expanded. Messages show this, because the value may
    /// be secret.
    pub written: Option<String>,
}

/// Wipes the text, which may be secret.
impl Drop for Scalar {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

impl Scalar {
    /// Returns whether this is YAML's null: empty, `~` or `null`.
    pub fn is_null(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Returns whether this is `off` in any spelling of YAML 1.1 or 1.2, quoted or not.
    pub fn is_off(&self) -> bool {
        self.switch() == Some(false)
    }

    /// Parses `on` or `off` in any of YAML's spellings, quoted or not.
    pub fn switch(&self) -> Option<bool> {
        Self::switch_of(&self.text)
    }

    /// Parses `on` or `off` like [`switch`](Self::switch), from a string.
    pub fn switch_of(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" => Some(true),
            "off" | "false" | "no" => Some(false),
            _ => None,
        }
    }

    /// Parses an unquoted, unsigned whole number.
    pub fn number(&self) -> Option<u64> {
        let digits = !self.quoted && self.text.bytes().all(|b| b.is_ascii_digit());
        if digits { self.text.parse().ok() } else { None }
    }

    /// Returns the original text for a message, in backquotes.
    pub fn shown(&self) -> String {
        shown(self.written.as_ref().unwrap_or(&self.text))
    }
}

/// Formats a user's text for a message: in backquotes, truncated if long.
pub fn shown(text: &str) -> String {
    if text.is_empty() {
        return "the empty text".to_owned();
    }
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == DISPLAY_CHARS_MAX {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('`');
    out
}

impl Node {
    /// Returns the single value; `None` for lists and mappings.
    #[must_use]
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            NodeKind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Returns the entry with this key, if this is a mapping and the entry has a valid value that is not
    /// null.
    pub fn entry(&self, key: &str) -> Option<&MappingEntry> {
        let NodeKind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key && !entry.value.is_null() && !entry.value.is_invalid())
    }

    /// Returns whether this is YAML's null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_null)
    }

    /// Returns whether its problem was already reported.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind == NodeKind::Invalid
    }

    /// Returns whether any part of it is invalid and was already reported.
    pub fn holds_invalid(&self) -> bool {
        match &self.kind {
            NodeKind::Invalid => true,
            NodeKind::Scalar(_) => false,
            NodeKind::List(items) => items.iter().any(Self::holds_invalid),
            NodeKind::Map(entries) => entries.iter().any(|entry| entry.value.holds_invalid()),
        }
    }

    /// Describes the value for a message, for example "a list".
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a mapping",
            NodeKind::Scalar(scalar) if scalar.is_null() => "empty",
            NodeKind::Scalar(_) | NodeKind::Invalid => "a single value",
        }
    }

    /// Returns the source position of a part of a scalar's text; `start` and `length` are in characters.
    /// Returns the position of the whole value if the part cannot be located: with escapes, several lines or
    /// an expanded variable.
    pub fn part(&self, start: usize, length: usize) -> At {
        let Some(scalar) = self.scalar() else { return self.at };
        let chars = scalar.text.chars().count();
        let quotes = match (self.at.length as usize).checked_sub(chars) {
            Some(0) => 0,
            Some(2) if scalar.quoted => 1,
            _ => return self.at,
        };
        if scalar.written.is_some() || start.saturating_add(length) > chars {
            return self.at;
        }
        let (Ok(offset), Ok(length)) = (u32::try_from(start + quotes), u32::try_from(length.max(1))) else {
            return self.at;
        };
        At { column: self.at.column + offset, length, ..self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str, quoted: bool, length: u32) -> Node {
        let at = At { file: 0, line: 1, column: 10, length };
        Node { at, kind: NodeKind::Scalar(Scalar { text: text.into(), quoted, written: None }) }
    }

    #[test]
    fn parts_are_found_where_the_text_is_as_written() {
        assert_eq!(node("abcd", false, 4).part(2, 1).column, 12);
        assert_eq!(node("abcd", true, 6).part(2, 1).column, 13);
        // An escape makes the source longer than the text, so the whole value is underlined.
        assert_eq!(node("abcd", true, 7).part(2, 1).length, 7);
    }

    #[test]
    fn a_filled_in_value_is_shown_as_written() {
        let scalar = Scalar { text: "hunter2".into(), quoted: true, written: Some("${PASS}".into()) };
        assert_eq!(scalar.shown(), "`${PASS}`");
    }

    #[test]
    fn long_values_are_cut() {
        assert!(shown(&"x".repeat(500)).chars().count() < 70);
    }
}
