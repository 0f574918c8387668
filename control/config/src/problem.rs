//! Problems of a configuration, with their source positions.

use crate::position::{At, SourceFile, lines};
use crate::render;
use crate::secrets::Masks;
use crate::source::LineMap;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but probably does not mean what was intended.
    Warning,
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

/// Problems and the files that they refer to.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    files: Vec<SourceFile>,
    list: Vec<Problem>,
    /// Maps the lines under which parts were read to the present lines.
    lines: LineMap,
    /// The secrets of the files, which are not shown.
    masks: Box<Masks>,
}

impl Problems {
    /// Makes an empty list of problems for these files (see [`Config::files`](crate::Config::files)).
    #[must_use]
    pub fn new(files: Vec<SourceFile>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Makes an empty list for a file whose parts may have moved since they were read.
    pub(crate) fn with_line_map(files: Vec<SourceFile>, lines: LineMap) -> Self {
        Self { files, lines, ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> &LineMap {
        &self.lines
    }

    /// Returns an empty list for the same files.
    #[must_use]
    pub fn empty_copy(&self) -> Self {
        Self { files: self.files.clone(), lines: self.lines.clone(), ..Self::default() }
    }

    /// Converts a problem's positions to the present lines.
    pub fn update_positions(&self, problem: &mut Problem) {
        self.lines.update_positions(problem);
    }

    /// Adds the files that `file` returns and redirects positions to them. `file` gets a position's file
    /// index, and returns `None` for files that are already in the list.
    pub(crate) fn add_files(&mut self, mut file: impl FnMut(u32) -> Option<SourceFile>) {
        let mut known = std::collections::HashMap::new();
        for problem in &mut self.list {
            let places = problem.related.iter_mut().map(|(at, _)| at).chain([&mut problem.at]);
            for at in places {
                let index = *known.entry(at.file).or_insert_with(|| match file(at.file) {
                    Some(added) => {
                        self.files.push(added);
                        u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
                    }
                    None => at.file,
                });
                at.file = index;
            }
        }
    }

    /// Adds a problem. Its [`At::file`] indexes the files given to [`Problems::new`].
    pub fn push(&mut self, mut problem: Problem) {
        self.lines.update_positions(&mut problem);
        self.list.push(problem);
    }

    /// Adds several problems.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Iterates over the problems, in order of file, line and column if [`Problems::sort`] was called.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// Returns the files that the problems refer to.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the number of problems of both severities.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of problems with this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|problem| problem.severity == severity).count()
    }

    /// Returns whether any problem is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Sorts by position and removes duplicates (an alias is read once per use).
    pub fn sort(&mut self) {
        self.list.sort_by(|a, b| key(a).cmp(&key(b)));
        self.list.dedup();
    }

    /// Renders the problems for people: each with its line and a caret, and a final line with the counts.
    /// Returns the empty string if there are none. `colour` adds ANSI colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render::render(&self.files, &self.list, &self.masks, colour)
    }

    /// Renders one problem, which need not be in the list.
    pub(crate) fn render_one(&self, problem: &Problem) -> String {
        render::render(&self.files, std::slice::from_ref(problem), &self.masks, false)
    }

    /// Removes a secret of a file from the words of a problem.
    pub fn conceal(&self, problem: &mut Problem) {
        if problem.at.line == 0 {
            return;
        }
        let Some(file) = self.files.get(problem.at.file as usize) else { return };
        if let Some(secrets) = self.masks.of(&self.files, problem.at.file) {
            let page = lines(&file.text);
            if let Some(masked) = secrets.mask(&page, problem.at.line) {
                secrets.conceal(&masked, page[problem.at.line as usize - 1], problem);
            }
        }
    }
}

fn key(problem: &Problem) -> (u32, u32, u32, &str) {
    (problem.at.file, problem.at.line, problem.at.column, &problem.message)
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
