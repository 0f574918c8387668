//! Source positions, and the files that they refer to.
//!
//! Every stage from the parser to the plan's compiler passes an [`At`] on, so that a problem found late can still
//! show the line at fault. This module uses no other module of the crate.

use zeroize::Zeroize;

/// Source position of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// Index into [`Config::files`](crate::Config::files).
    pub file: u32,
    /// Line, from 1; 0 is the file as a whole.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters of the text that the caret underlines, at least 1.
    pub length: u32,
}

/// A value and its source position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its source position.
    pub at: At,
}

/// A file that was read, kept so that a problem can show the offending line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// The name as given on the command line or found by an include.
    pub name: String,
    /// The content. It may hold secrets, so it is wiped from memory on drop.
    pub text: String,
}

impl Drop for SourceFile {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

/// Splits a text into lines as YAML does: at LF, CR LF or CR. A byte order mark is not part of the first
/// line.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'\n' || bytes[i] == b'\r' {
            lines.push(&text[start..i]);
            if bytes[i] == b'\r' && bytes.get(i + 1) == Some(&b'\n') {
                i += 1;
            }
            start = i + 1;
        }
        i += 1;
    }
    lines.push(&text[start..]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_yaml() {
        assert_eq!(lines("\u{feff}a\r\nb\rc\n"), ["a", "b", "c", ""]);
    }
}
