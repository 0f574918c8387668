//! A problem of a document, as the API reports it: with a JSON pointer, and with the line that `check` would show.

use super::kinds::ResourceKind;
use super::pointer;
use crate::parse::parse;
use crate::position::SourceFile;
use crate::problem::{Problem, Severity};
use crate::problems::Problems;

/// A problem in the API's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// Severity of the problem.
    pub severity: Severity,
    /// The document, as `kind/name`, or the name of the file.
    pub place: String,
    /// JSON pointer into the document (RFC 6901); for a file, line and column, as in `12:5`.
    pub pointer: String,
    /// The problem, in one line.
    pub message: String,
    /// A description of valid values.
    pub expected: Option<String>,
    /// Advice, one entry per suggestion.
    pub help: Vec<String>,
    /// The rendered problem with its line and a caret, as `check` prints it.
    pub text: String,
    /// The part that it concerns of the entry at the pointer.
    spot: pointer::Spot,
}

impl DocumentProblem {
    pub(super) fn in_text(
        kind: &ResourceKind,
        name: &str,
        title: &str,
        text: &str,
        problem: &Problem,
    ) -> Self {
        let (pointer, spot) = pointer::pointer_at(text, problem.at);
        let mut there = problem.clone();
        // Related positions refer to other texts.
        there.related = Vec::new();
        there.at.file = 0;
        let file = SourceFile { name: title.to_owned(), text: text.to_owned() };
        let place = format!("{}/{name}", kind.name);
        Self { spot, ..Self::new(place, pointer, there, &Problems::new(vec![file])) }
    }

    /// Shows the problem in the text that a client sent, JSON or YAML, instead of in the document that was made from
    /// it. `within` is the pointer to the document in the text. Nothing changes if the text does not have the place,
    /// for example because it is a patch.
    pub fn show_in(&mut self, text: &str, within: &str) {
        let pointer = format!("{within}{}", self.pointer);
        let Some(root) = parse(0, text).root else { return };
        let Some(at) = pointer::position_of(&root, &pointer, self.spot) else { return };
        let file = SourceFile { name: self.place.clone(), text: text.to_owned() };
        let problem = Problem {
            at,
            severity: self.severity,
            message: self.message.clone(),
            expected: self.expected.clone(),
            help: self.help.clone(),
            related: Vec::new(),
        };
        self.text = Problems::new(vec![file]).render_one(&problem);
    }

    /// Makes an error that no reader found.
    #[must_use]
    pub fn plain(place: &str, pointer: &str, message: &str) -> Self {
        Self {
            severity: Severity::Error,
            place: place.to_owned(),
            pointer: pointer.to_owned(),
            message: message.to_owned(),
            expected: None,
            help: Vec::new(),
            text: format!("error: {message}\n --> {place}{pointer}\n\n"),
            spot: pointer::Spot::default(),
        }
    }

    /// Makes a warning that no reader found.
    #[must_use]
    pub fn warning(place: &str, pointer: &str, message: &str) -> Self {
        let text = format!("warning: {message}\n --> {place}{pointer}\n\n");
        Self { severity: Severity::Warning, text, ..Self::plain(place, pointer, message) }
    }

    /// Converts a problem of a file, or of a text that is not yet a document.
    #[must_use]
    pub(super) fn in_file(problem: &Problem, positions: &Problems) -> Self {
        let place =
            positions.files().get(problem.at.file as usize).map(|file| file.name.clone()).unwrap_or_default();
        let pointer = match problem.at.line {
            0 => String::new(),
            line => format!("{line}:{}", problem.at.column),
        };
        Self::new(place, pointer, problem.clone(), positions)
    }

    fn new(place: String, pointer: String, mut problem: Problem, positions: &Problems) -> Self {
        let text = positions.render_one(&problem);
        positions.conceal(&mut problem);
        let Problem { severity, message, expected, help, .. } = problem;
        let spot = pointer::Spot::default();
        Self { severity, place, pointer, message, expected, help, text, spot }
    }
}
