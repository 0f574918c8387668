//! A system as a study uses it: with features, options and settings of its own.

use std::collections::BTreeMap;
use tollgate_lab_study::{Settings, Study};

/// What ends the name of the second copy of a system in an A/A control.
pub const CONTROL: &str = "#2";

/// A row of a study.
#[derive(Debug, Clone)]
pub struct Arm {
    /// As the study calls it; the control's copy ends in [`CONTROL`].
    pub name: String,
    /// Folder under `bench/systems`.
    pub system: String,
    /// As reports write it, when not the system's own title.
    pub title: Option<String>,
    /// Features beside the cell's.
    pub features: Vec<String>,
    /// The system's own options.
    pub options: BTreeMap<String, String>,
    /// Settings that differ from the cell's.
    pub settings: Settings,
}

impl Arm {
    /// The arm of that name: one of the study's, or the system itself.
    pub fn of(study: &Study, name: &str) -> Self {
        let plain = name.strip_suffix(CONTROL).unwrap_or(name);
        let arm = study.arms.get(plain);
        Self {
            name: name.to_owned(),
            system: arm.map_or(plain, |arm| &arm.system).to_owned(),
            title: arm.and_then(|arm| arm.title.clone()),
            features: arm.map(|arm| arm.features.clone()).unwrap_or_default(),
            options: arm.map(|arm| arm.options.clone()).unwrap_or_default(),
            settings: arm.map(|arm| arm.settings.clone()).unwrap_or_default(),
        }
    }

    /// The cell's settings with this arm's.
    pub fn settings(&self, cell: &Settings) -> Settings {
        let mut settings = cell.with(&self.settings);
        let mut features: Vec<String> = settings.features().to_vec();
        features.extend(self.features.iter().filter(|name| !settings.features().contains(name)).cloned());
        settings.features = Some(features);
        settings
    }
}
