//! The problems of a configuration, together with the files that they refer to.
//!
//! The loader, the documents and the plan's compiler add to a [`Problems`]. It converts positions to present lines,
//! and renders the problems with the secrets of the files masked.

use crate::position::{SourceFile, lines};
use crate::problem::{Problem, Severity};
use crate::render;
use crate::secrets::Masks;
use crate::source::LineMap;

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

    /// Adds a problem. Its [`At::file`](crate::At::file) indexes the files given to [`Problems::new`].
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
    #[must_use]
    pub fn render_one(&self, problem: &Problem) -> String {
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
