//! A problem in a description, with its position.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem in the data of a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file with the problem.
    pub file: PathBuf,
    /// Line and column, from 1. The column is 0 if only the line is known; `None` means the whole file.
    pub position: Option<(u64, u64)>,
    /// The expectation that was not met, and the remedy.
    pub message: String,
}

impl Problem {
    /// Creates a problem of a whole file.
    pub fn in_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, message: message.into() }
    }

    /// Creates a problem at a line and a column.
    pub fn at(file: &Path, line: u64, column: u64, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: Some((line, column)), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.position {
            Some((line, 0)) => write!(f, ":{line}")?,
            Some((line, column)) => write!(f, ":{line}:{column}")?,
            None => {}
        }
        write!(f, ": {}", self.message)
    }
}

/// All problems found; displayed one to a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Returns the known name nearest to a mistyped one, if any is near enough: at most 2 edits, or a third of
/// its length.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
        .min()
        .map(|(_, name)| name)
}

/// Returns a sentence that suggests the nearest known name or, without one, lists the known names.
pub fn known_names<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(written, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_gets_a_suggestion_and_nonsense_the_list() {
        assert_eq!(known_names("fiels", ["files", "start"]), "did you mean `files`?");
        assert_eq!(known_names("quux", ["files", "start"]), "known are files, start");
    }

    #[test]
    fn a_problem_is_printed_as_editors_read_it() {
        let file = Path::new("nginx/system.yaml");
        assert_eq!(Problem::at(file, 3, 5, "no").to_string(), "nginx/system.yaml:3:5: no");
        assert_eq!(Problem::at(file, 3, 0, "no").to_string(), "nginx/system.yaml:3: no");
        assert_eq!(Problem::in_file(file, "no").to_string(), "nginx/system.yaml: no");
    }
}
