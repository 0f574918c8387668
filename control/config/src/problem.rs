//! What is wrong with a configuration, and where.

use crate::model::{At, SourceFile};
use crate::render;
use crate::source::Lines;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can be used, but hardly means what was intended.
    Warning,
}

/// One thing that is wrong. Text in backquotes is the user's or is to be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; a line of 0 means the file as a whole.
    pub at: At,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// What would have been right.
    pub expected: Option<String>,
    /// What to do about it.
    pub help: Vec<String>,
    /// Other places that have to do with it, and how.
    pub related: Vec<(At, String)>,
}

impl Problem {
    /// A problem that keeps the configuration from being used.
    #[must_use]
    pub fn error(at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, at, message.into())
    }

    /// A problem that does not.
    #[must_use]
    pub fn warning(at: At, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, at, message.into())
    }

    fn new(severity: Severity, at: At, message: String) -> Self {
        Self { at, severity, message, expected: None, help: Vec::new(), related: Vec::new() }
    }

    /// Says what would have been right: "a size such as `10MiB`".
    #[must_use]
    pub fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// Says what to do about it; may be called more than once.
    #[must_use]
    pub fn help(mut self, what: impl Into<String>) -> Self {
        self.help.push(what.into());
        self
    }

    /// Points to another place: `.see(first.at, "first written here")`.
    #[must_use]
    pub fn see(mut self, at: At, why: impl Into<String>) -> Self {
        self.related.push((at, why.into()));
        self
    }
}

/// Problems and the files they are about.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    files: Vec<SourceFile>,
    list: Vec<Problem>,
    /// What the lines of places are now.
    lines: Lines,
}

impl Problems {
    /// No problems yet, about these files (see [`Config::files`](crate::Config::files)).
    #[must_use]
    pub fn new(files: Vec<SourceFile>) -> Self {
        Self { files, ..Self::default() }
    }

    /// No problems yet, of a file of which parts were read before other parts of it moved.
    pub(crate) fn moved(files: Vec<SourceFile>, lines: Lines) -> Self {
        Self { files, list: Vec::new(), lines }
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The same files, and no problem.
    #[must_use]
    pub fn without(&self) -> Self {
        Self { files: self.files.clone(), list: Vec::new(), lines: self.lines.clone() }
    }

    /// Brings a problem's places to where they are now.
    pub fn settle(&self, problem: &mut Problem) {
        self.lines.settle(problem);
    }

    /// Brings places of files that are not among these to files that are added.
    pub(crate) fn adopt(&mut self, mut file: impl FnMut(u32) -> Option<SourceFile>) {
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

    /// Adds one. Its [`At::file`] indexes the files given to [`Problems::new`].
    pub fn push(&mut self, mut problem: Problem) {
        self.lines.settle(&mut problem);
        self.list.push(problem);
    }

    /// Adds many.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// The problems, by file, line and column once [`Problems::sort`] was called.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// The files they are about.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// How many there are, of either severity.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many have this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|problem| problem.severity == severity).count()
    }

    /// Whether one of them keeps the configuration from being used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Orders them by place and drops repetitions (an alias is read once for each use).
    pub fn sort(&mut self) {
        self.list.sort_by(|a, b| key(a).cmp(&key(b)));
        self.list.dedup();
    }

    /// The problems as text, for people: each with its line and a caret, and a final line that counts them. The
    /// empty string when there are none. `colour` adds ANSI colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render::render(&self.files, &self.list, colour)
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
