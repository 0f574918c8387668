//! One problem of a configuration, with its source position.

use crate::position::At;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but probably does not mean what was intended.
    Warning,
    /// The configuration is good. Only `check` shows it, for users who expect the rules of another gateway.
    Hint,
}

/// One problem. Text in backquotes is the user's own or must be typed as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Source position; line 0 means the file as a whole.
    pub at: At,
    /// Severity of the problem.
    pub severity: Severity,
    /// The problem, on one line without a full stop.
    pub message: String,
    /// A description of valid values.
    pub expected: Option<String>,
    /// Advice, one entry per suggestion.
    pub help: Vec<String>,
    /// Related source positions, each with its explanation.
    pub related: Vec<(At, String)>,
}

impl Problem {
    /// Makes an error, which prevents use of the configuration.
    #[must_use]
    pub fn error(at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, at, message.into())
    }

    /// Makes a warning, which does not.
    #[must_use]
    pub fn warning(at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, at, message.into())
    }

    /// Makes a hint.
    #[must_use]
    pub fn hint(at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Hint, at, message.into())
    }

    fn new(severity: Severity, at: At, message: String) -> Self {
        Self { at, severity, message, expected: None, help: Vec::new(), related: Vec::new() }
    }

    /// Sets what would be valid: "a size such as `10MiB`".
    #[must_use]
    pub fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// Adds advice; may be called more than once.
    #[must_use]
    pub fn help(mut self, what: impl Into<String>) -> Self {
        self.help.push(what.into());
        self
    }

    /// Adds a related position: `.related(first.at, "first written here")`.
    #[must_use]
    pub fn related(mut self, at: At, why: impl Into<String>) -> Self {
        self.related.push((at, why.into()));
        self
    }
}
