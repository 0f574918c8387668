//! The catalogue: all systems of a folder.

use crate::check;
use crate::error::SystemError;
use crate::problem::{Problem, Problems, known_names};
use crate::program_paths::ProgramPaths;
use crate::system::System;
use std::path::Path;

/// The described systems, sorted by name.
#[derive(Debug, Clone)]
pub struct Catalogue {
    systems: Vec<System>,
}

impl Catalogue {
    /// Reads every folder below `folder` that has a `system.yaml`.
    ///
    /// # Errors
    /// All problems of all systems.
    pub fn load(folder: &Path, paths: &ProgramPaths) -> Result<Self, Problems> {
        let unreadable = |error: std::io::Error| {
            Problems(vec![Problem::in_file(folder, format!("the folder of systems cannot be read: {error}"))])
        };
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.join("system.yaml").is_file() {
                folders.push(std::path::absolute(path).map_err(unreadable)?);
            }
        }
        folders.sort();
        let (mut systems, mut problems) = (Vec::new(), Vec::new());
        for folder in folders {
            match check::read(&folder) {
                Ok(description) => systems.push(System {
                    name: folder
                        .file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                    folder,
                    paths: paths.clone(),
                    description,
                }),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(Self { systems }) } else { Err(Problems(problems)) }
    }

    /// Returns the systems, sorted by name.
    pub fn systems(&self) -> &[System] {
        &self.systems
    }

    /// Returns the system with this name.
    ///
    /// # Errors
    /// If no system has this name; the message suggests the nearest name.
    pub fn get(&self, name: &str) -> Result<&System, SystemError> {
        self.systems.iter().find(|system| system.name == name).ok_or_else(|| {
            let hint = known_names(name, self.systems.iter().map(System::name));
            SystemError::new(name, format!("no such system: {hint}"))
        })
    }
}
