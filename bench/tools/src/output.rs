//! What a tool left behind, and the error for output that is not understood.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;

/// What a tool printed and wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// [`crate::Program::version`].
    pub version: String,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code; `None` when a signal ended it.
    pub exit: Option<i32>,
    /// The directory it ran in, with the files it wrote.
    pub dir: PathBuf,
}

impl Output {
    /// Opens a file that the tool wrote.
    pub(crate) fn open(&self, name: &str) -> io::Result<BufReader<File>> {
        File::open(self.dir.join(name)).map(BufReader::new)
    }
}

/// A tool printed something else than expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misunderstood {
    /// The tool.
    pub tool: &'static str,
    /// What should have been there.
    pub expected: String,
    /// The end of what it printed.
    pub printed: String,
    /// Its exit code; `None` when a signal ended it.
    pub exit: Option<i32>,
}

impl Misunderstood {
    pub(crate) fn new(tool: &'static str, expected: impl Into<String>, output: &Output) -> Self {
        let errors = output.stderr.trim();
        let text = if errors.is_empty() { output.stdout.trim() } else { errors };
        Self { tool, expected: expected.into(), printed: tail(text), exit: output.exit }
    }
}

/// The last 400 characters, on one line: what went wrong usually stands at the end.
fn tail(text: &str) -> String {
    let from = text.char_indices().rev().nth(399).map_or(0, |(at, _)| at);
    text[from..].split_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Misunderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, expected, printed, .. } = self;
        write!(f, "{tool}: expected {expected}; ")?;
        match self.exit {
            None => write!(f, "a signal ended it")?,
            Some(code) => write!(f, "it ended with code {code}")?,
        }
        if printed.is_empty() {
            write!(f, " and printed nothing")
        } else {
            write!(f, " and printed: {printed:?}")
        }
    }
}

impl std::error::Error for Misunderstood {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_shows_what_was_expected_and_the_end_of_what_came() {
        let output = Output {
            version: String::new(),
            command: vec![],
            stdout: "ignored".into(),
            stderr: format!("{}\n\u{e9}nd", "x".repeat(1000)),
            exit: Some(1),
            dir: PathBuf::new(),
        };
        let text = Misunderstood::new("wrk", "a line 'Requests/sec:'", &output).to_string();
        assert!(text.starts_with("wrk: expected a line 'Requests/sec:'; it ended with code 1"), "{text}");
        assert!(text.ends_with("x \u{e9}nd\""), "{text}");
        assert!(text.len() < 500);
    }
}
