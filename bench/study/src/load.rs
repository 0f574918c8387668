//! Reads studies from files. [`load`] parses the file and checks all names and numbers, so that a study that loads can be
//! run. A [`Problem`] has the position of the mistake and suggests the nearest known name.

use crate::check::{Names, check};
use crate::nearest::{hint, nearest};
use crate::position::{self, Position};
use crate::study::{Arm, Study};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the arm that the keys `target`, `cpu` and `certificate` of a study make.
const TARGET: &str = "target";

/// A problem of a study, for people.
#[derive(Debug)]
pub struct Problem {
    /// The file with the problem.
    pub file: PathBuf,
    /// Line and column in it, from 1; `None` if they are not known.
    pub position: Option<(u64, u64)>,
    /// The message: the value found and the value expected.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Problem {}

/// Returns the names of the studies in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Reads a study, by name from `folder` or from a file of the user's own, and checks its names against
/// `known`.
///
/// # Errors
/// A [`Problem`] that says what was expected and where, with the nearest name.
pub fn load(folder: &Path, name: &str, known: &Names) -> Result<Study, Problem> {
    let own = Path::new(name);
    let file = if own.extension().is_some() { own.to_owned() } else { folder.join(format!("{name}.yaml")) };
    let problem = |position: Option<Position>, text: String| Problem { file: file.clone(), position, text };
    let text = fs::read_to_string(&file).map_err(|error| {
        let known = names(folder);
        problem(None, format!("{error}{}; the studies are {}", nearest(name, &known), known.join(", ")))
    })?;
    let mut study: Study = serde_saphyr::from_str(&text).map_err(|error| {
        let (position, text) = position::of_error(&error, hint);
        problem(position, text)
    })?;
    if let Some(url) = study.target.clone() {
        let (cpu, certificate) = (study.cpu.clone(), study.certificate.clone());
        let arm = Arm { target: Some(url), cpu, certificate, ..Arm::default() };
        study.arms.entry(TARGET.to_owned()).or_insert(arm);
    }
    study.file.clone_from(&file);
    study.name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("study").to_owned();
    check(&study, known).map_err(|wrong| {
        problem(wrong.name.and_then(|(kind, name)| position::of_name(&text, kind, &name)), wrong.text)
    })?;
    Ok(study)
}
