//! One system: its description, its folder, and the queries on them.

use crate::description::Description;
use crate::error::SystemError;
use crate::feature::{Feature, Support};
use crate::problem::known_names;
use crate::program_paths::ProgramPaths;
use crate::setting::Setting;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A system of the catalogue.
#[derive(Debug, Clone)]
pub struct System {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) paths: ProgramPaths,
    pub(crate) description: Description,
}

impl System {
    /// Returns the name of its folder, which is its name in studies.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the folder of its data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns its `system.yaml`.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns whether this is the direct run without a gateway: no process is started, and the load goes to
    /// the origin's port.
    pub fn is_direct(&self) -> bool {
        self.description.start.is_none()
    }

    /// Returns how it supports a feature. The direct run supports none.
    pub fn support(&self, feature: Feature) -> Support {
        if self.description.features.contains(&feature) {
            Support::Switched
        } else if self.description.always.contains(&feature) {
            Support::Always
        } else {
            Support::No
        }
    }

    /// Returns the features that a setting asks for and this system lacks.
    pub fn unsupported(&self, setting: &Setting) -> BTreeSet<Feature> {
        setting.wanted().into_iter().filter(|feature| self.support(*feature) == Support::No).collect()
    }

    /// Returns the features that the system has although the setting does not ask for them. In these the
    /// terms are not equal.
    pub fn unasked(&self, setting: &Setting) -> BTreeSet<Feature> {
        let wanted = setting.wanted();
        self.description.always.iter().copied().filter(|feature| !wanted.contains(feature)).collect()
    }

    /// Returns the keys of its programs, as used in [`ProgramPaths::given`].
    pub fn program_keys(&self) -> impl Iterator<Item = &str> {
        self.description.programs.keys().map(String::as_str)
    }

    /// Returns its programs, or the keys of the missing ones.
    pub(crate) fn programs(&self) -> Result<BTreeMap<String, PathBuf>, Vec<String>> {
        let mut found = BTreeMap::new();
        let mut lacking = Vec::new();
        for (key, rule) in &self.description.programs {
            match self.paths.find(key, rule, &self.folder) {
                Some(path) => {
                    found.insert(key.clone(), path);
                }
                None => lacking.push(key.clone()),
            }
        }
        if lacking.is_empty() { Ok(found) } else { Err(lacking) }
    }

    /// Returns the value of each option: the setting's or the default.
    ///
    /// # Errors
    /// If an option or its value is unknown.
    pub(crate) fn options(&self, setting: &Setting) -> Result<BTreeMap<String, String>, SystemError> {
        let known = &self.description.options;
        for (name, value) in &setting.options {
            let Some(choice) = known.get(name) else {
                let hint = if known.is_empty() {
                    "it has none".to_owned()
                } else {
                    known_names(name, known.keys().map(String::as_str))
                };
                return Err(self.error(format!("unknown option `{name}`: {hint}")));
            };
            if !choice.values.contains(value) {
                let hint = known_names(value, choice.values.iter().map(String::as_str));
                return Err(self.error(format!("option `{name}` cannot be `{value}`: {hint}")));
            }
        }
        Ok(known
            .iter()
            .map(|(name, choice)| {
                let default = choice.values.first().cloned().unwrap_or_default();
                (name.clone(), setting.options.get(name).cloned().unwrap_or(default))
            })
            .collect())
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> SystemError {
        SystemError::new(&self.name, message)
    }
}
