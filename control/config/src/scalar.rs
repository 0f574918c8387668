//! Single values: text to types. Each parser is a pure function of the text.

pub(crate) mod address;
mod braces;
pub(crate) mod cidr;
pub(crate) mod field;
pub(crate) mod file_path;
pub(crate) mod host;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod quantity;
pub(crate) mod replacement;
pub(crate) mod status;
pub(crate) mod template;
pub(crate) mod value_template;

/// Why a text is not such a value.
///
/// The text may hold a secret, so a fault does not repeat it: the reader puts the value, as it was written, in the
/// place of `{}`, and drops [`Fault::suggestion`] when a variable was filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Begins with `{}`, or has it somewhere.
    pub message: String,
    /// Fixed advice.
    pub help: Option<&'static str>,
    /// What to write instead, made from the value.
    pub suggestion: Option<String>,
    /// The part that is wrong: start and length in characters.
    pub part: Option<(usize, usize)>,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, suggestion: None, part: None }
    }

    pub fn help(mut self, text: &'static str) -> Self {
        self.help = Some(text);
        self
    }

    pub fn suggest(mut self, text: impl Into<String>) -> Self {
        self.suggestion = Some(text.into());
        self
    }

    pub fn part(mut self, start: usize, length: usize) -> Self {
        self.part = Some((start, length));
        self
    }

    /// Moves the part: the text was a stretch of a longer one that begins there.
    pub fn shifted(mut self, by: usize) -> Self {
        if let Some((start, _)) = &mut self.part {
            *start += by;
        }
        self
    }
}
