//! Whether a system is installed, and in which version.

use crate::capture;
use crate::description::Source;
use crate::system::System;
use crate::template::{self, Installed};
use regex::Regex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of a command that prints a version; a JVM on a busy machine needs seconds.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Whether a system can run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It can run.
    Ready {
        /// The version; `None` for the direct run.
        version: Option<String>,
        /// The paths of its programs by key.
        programs: BTreeMap<String, PathBuf>,
    },
    /// It is not installed, but `install` can do it.
    Installable {
        /// The package registry it comes from.
        with: Source,
        /// Approximate duration of the installation.
        takes: String,
    },
    /// It is missing and cannot be installed automatically.
    Missing {
        /// Why it is missing.
        reason: String,
        /// How a user can install it.
        get: String,
    },
    /// Its programs were found but do not work.
    Broken {
        /// The failure.
        reason: String,
    },
}

impl Status {
    /// Returns whether it can be started.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

impl System {
    /// Looks for its programs and determines its version.
    pub fn status(&self) -> Status {
        match self.programs() {
            Ok(programs) => match self.version(&programs) {
                Ok(version) => Status::Ready { version, programs },
                Err(reason) => Status::Broken { reason },
            },
            Err(lacking) => self.absent(&lacking),
        }
    }

    fn absent(&self, lacking: &[String]) -> Status {
        if let Some(key) = lacking.iter().find(|key| self.paths.given.contains_key(*key)) {
            let path = self.paths.given[key].display();
            return Status::Missing {
                reason: format!("the given program {path} is not a file"),
                get: format!("give the path of `{key}`"),
            };
        }
        match (&self.description.install, &self.description.missing) {
            (Some(install), _) => Status::Installable { with: install.with, takes: install.takes.clone() },
            (None, Some(missing)) => {
                Status::Missing { reason: missing.reason.clone(), get: missing.get.clone() }
            }
            (None, None) => Status::Missing {
                reason: format!("{} was not found", lacking.join(", ")),
                get: self.description.homepage.as_ref().map(|page| format!("see {page}")).unwrap_or_default(),
            },
        }
    }

    fn version(&self, programs: &BTreeMap<String, PathBuf>) -> Result<Option<String>, String> {
        let Some(rule) = &self.description.version else { return Ok(None) };
        let installed = Installed { home: &self.paths.home, system: &self.folder, programs };
        let (text, source) = match &rule.file {
            Some(file) => {
                let path = template::short(&file.value, &installed)?;
                let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
                (text, path)
            }
            None => {
                let command = rule
                    .command
                    .iter()
                    .map(|part| template::short(&part.value, &installed))
                    .collect::<Result<Vec<_>, _>>()?;
                let (text, status) = capture::run(&command, std::env::temp_dir(), VERSION_LIMIT)?;
                if !status.success() {
                    let first = text.lines().next().unwrap_or("it said nothing").to_owned();
                    return Err(format!("`{}` failed ({status}): {first}", command.join(" ")));
                }
                (text, format!("what `{}` prints", command.join(" ")))
            }
        };
        let found = Regex::new(&rule.pattern.value)
            .ok()
            .and_then(|pattern| Some(pattern.captures(&text)?.get(1)?.as_str().trim().to_owned()));
        found
            .map(Some)
            .ok_or_else(|| format!("no version in {source}: nothing matches `{}`", rule.pattern.value))
    }
}
