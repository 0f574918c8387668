//! The tree between text and types: what was written, and where.

use zeroize::Zeroize;

use crate::model::At;

/// Longest stretch of a user's value that a message repeats, in characters.
const SHOWN: usize = 60;

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub at: At,
    pub kind: Kind,
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Something that was reported already; readers pass over it in silence.
    Invalid,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One `key: value` of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// Where the key was written.
    pub at: At,
    pub value: Node,
}

/// Text, however it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    /// The text, environment variables filled in.
    pub text: String,
    /// Quoted, or of a block (`|`): text even where a number or `true` could stand.
    pub quoted: bool,
    /// As it was written, when an environment variable was filled in. Messages show this: the value may be secret.
    pub written: Option<String>,
}

/// It may be a secret.
impl Drop for Scalar {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

impl Scalar {
    /// YAML's null: nothing, `~` or `null`.
    pub fn is_null(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// `off`, as YAML 1.1 and 1.2 would have it, quoted or not.
    pub fn is_off(&self) -> bool {
        self.switch() == Some(false)
    }

    /// `on` or `off` in any of YAML's spellings, quoted or not.
    pub fn switch(&self) -> Option<bool> {
        Self::switch_of(&self.text)
    }

    /// The same of a text.
    pub fn switch_of(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" => Some(true),
            "off" | "false" | "no" => Some(false),
            _ => None,
        }
    }

    /// A whole number without a sign that was not quoted.
    pub fn number(&self) -> Option<u64> {
        let digits = !self.quoted && self.text.bytes().all(|b| b.is_ascii_digit());
        if digits { self.text.parse().ok() } else { None }
    }

    /// The value for a message, in backquotes, as it was written.
    pub fn shown(&self) -> String {
        shown(self.written.as_ref().unwrap_or(&self.text))
    }
}

/// A user's text for a message: in backquotes, cut when long.
pub(crate) fn shown(text: &str) -> String {
    if text.is_empty() {
        return "the empty text".to_owned();
    }
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == SHOWN {
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
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The entry of that key, if it is a mapping with one that has a value.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        let Kind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key && !entry.value.is_null() && !entry.value.is_invalid())
    }

    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_null)
    }

    pub fn is_invalid(&self) -> bool {
        self.kind == Kind::Invalid
    }

    /// Whether something in it was reported already and is missing.
    pub fn holds_invalid(&self) -> bool {
        match &self.kind {
            Kind::Invalid => true,
            Kind::Scalar(_) => false,
            Kind::List(items) => items.iter().any(Self::holds_invalid),
            Kind::Map(entries) => entries.iter().any(|entry| entry.value.holds_invalid()),
        }
    }

    /// What it is, for a message: "a list".
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
            Kind::Scalar(scalar) if scalar.is_null() => "empty",
            Kind::Scalar(_) | Kind::Invalid => "a single value",
        }
    }

    /// Where a stretch of a scalar's text (in characters) was written; the whole when that cannot be told, as with
    /// escapes, several lines or a filled-in variable.
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
        Node { at, kind: Kind::Scalar(Scalar { text: text.into(), quoted, written: None }) }
    }

    #[test]
    fn parts_are_found_where_the_text_is_as_written() {
        assert_eq!(node("abcd", false, 4).part(2, 1).column, 12);
        assert_eq!(node("abcd", true, 6).part(2, 1).column, 13);
        // An escape makes the source longer than the text: the whole is underlined.
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
