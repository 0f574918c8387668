//! The output of a tool, and the error for output that cannot be parsed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;

/// The output of a tool.
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
    /// The exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// The directory in which it ran, with the files that it wrote.
    pub dir: PathBuf,
}

impl Output {
    /// Opens a file that the tool wrote.
    pub(crate) fn open(&self, name: &str) -> io::Result<BufReader<File>> {
        File::open(self.dir.join(name)).map(BufReader::new)
    }
}

/// The tool's output is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misunderstood {
    /// The tool's name.
    pub tool: &'static str,
    /// The expected output, in words.
    pub expected: String,
    /// The end of the real output.
    pub printed: String,
    /// The exit code; `None` if a signal ended the tool.
    pub exit: Option<i32>,
}

impl Misunderstood {
    pub(crate) fn new(tool: &'static str, expected: impl Into<String>, output: &Output) -> Self {
        let errors = output.stderr.trim();
        let text = if errors.is_empty() { output.stdout.trim() } else { errors };
        Self { tool, expected: expected.into(), printed: tail(text), exit: output.exit }
    }
}

/// Returns the last 400 characters, on one line. Errors are usually at the end.
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
