//! Parsers for single values. Each is a pure function of the text.

pub(crate) mod address;
mod braces;
pub(crate) mod cidr;
pub mod field;
pub(crate) mod file_path;
pub(crate) mod gateway_name;
pub(crate) mod host;
pub(crate) mod name;
pub(crate) mod path;
pub mod pattern;
pub mod quantity;
pub mod replacement;
pub(crate) mod status;
pub(crate) mod template;
pub(crate) mod time;
pub mod value_template;

/// The reason why a text is not a valid value.
///
/// The text may be a secret, so a fault does not contain it. The reader replaces `{}` by the value as
/// written, and drops [`ScalarError::suggestion`] if a variable was expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarError {
    /// The message; it contains `{}`, usually at the start.
    pub message: String,
    /// Fixed advice.
    pub help: Option<&'static str>,
    /// A replacement to suggest, derived from the value.
    pub suggestion: Option<String>,
    /// The invalid part: start and length in characters.
    pub part: Option<(usize, usize)>,
}

impl ScalarError {
    /// Makes an error. The reader replaces `{}` by the value.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, suggestion: None, part: None }
    }

    /// Adds fixed advice.
    #[must_use]
    pub fn help(mut self, text: &'static str) -> Self {
        self.help = Some(text);
        self
    }

    /// Adds a replacement that is derived from the value.
    #[must_use]
    pub fn suggest(mut self, text: impl Into<String>) -> Self {
        self.suggestion = Some(text.into());
        self
    }

    /// Sets the invalid part: start and length in characters.
    #[must_use]
    pub fn part(mut self, start: usize, length: usize) -> Self {
        self.part = Some((start, length));
        self
    }

    /// Moves the invalid part by `by` characters, for a text that was part of a longer one.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        if let Some((start, _)) = &mut self.part {
            *start += by;
        }
        self
    }
}
