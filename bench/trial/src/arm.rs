//! An arm: one system with the features, options and settings that a study gives it. Each arm is a row of the
//! report, or a copy of such a row.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tollgate_lab_record::{CONTROL, PLAIN};
use tollgate_lab_study::{External, PlannedCell, Settings, Study};

/// One system in one configuration, as a study compares it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arm {
    /// The study's name for it. The control's copy ends in [`CONTROL`], the copy without the cell's feature
    /// in [`PLAIN`].
    pub name: String,
    /// Folder under `bench/systems`; empty for a gateway that already runs.
    pub system: String,
    /// The gateway that already runs, if the arm is one.
    pub external: Option<External>,
    /// The title in reports; `None` means the system's own title.
    pub title: Option<String>,
    /// Features in addition to the cell's.
    pub features: Vec<String>,
    /// Options that the system's own description defines.
    pub options: BTreeMap<String, String>,
    /// Settings that differ from the cell's.
    pub settings: Settings,
    /// Settings that replace the cell's; set only on a copy without the cell's feature.
    pub instead: Option<Settings>,
}

impl Arm {
    /// Returns the study's arm of this name. A name that is no arm is taken as a system's name. A copy has
    /// the arm of its original.
    pub fn of(study: &Study, name: &str) -> Self {
        let plain = original(name);
        let arm = study.arms.get(plain);
        Self {
            name: name.to_owned(),
            system: arm.map_or(plain, |arm| &arm.system).to_owned(),
            external: arm.and_then(|arm| arm.external()),
            title: arm.and_then(|arm| arm.title.clone()),
            features: arm.map(|arm| arm.features.clone()).unwrap_or_default(),
            options: arm.map(|arm| arm.options.clone()).unwrap_or_default(),
            settings: arm.map(|arm| arm.settings.clone()).unwrap_or_default(),
            instead: None,
        }
    }

    /// Returns the arms of a cell in groups. The arms of one group run next to each other in each round, in
    /// random order. A group holds a system and, if the cell asks for the price of a feature, its copy
    /// without the feature. The copy of the control is a group of its own.
    pub fn groups(study: &Study, planned: &PlannedCell) -> Vec<Vec<Self>> {
        let beside = |name: &String| {
            let instead = Some(planned.plain.clone()?);
            Some(Self { instead, ..Self::of(study, &format!("{name}{PLAIN}")) })
        };
        let systems = &planned.cell.systems;
        let mut groups: Vec<Vec<Self>> = systems
            .iter()
            .map(|name| std::iter::once(Self::of(study, name)).chain(beside(name)).collect())
            .collect();
        if let Some(control) = study.control.as_ref().filter(|name| systems.contains(name)) {
            groups.push(vec![Self::of(study, &format!("{control}{CONTROL}"))]);
        }
        groups
    }

    /// Returns whether this is a copy, which is measured but has no row in the report.
    pub fn is_copy(&self) -> bool {
        original(&self.name) != self.name
    }

    /// Returns the cell's settings (or their replacement) overridden by this arm's, with the features of
    /// both.
    pub fn settings(&self, cell: &Settings) -> Settings {
        let mut settings = self.instead.as_ref().unwrap_or(cell).with(&self.settings);
        let mut features: Vec<String> = settings.features().to_vec();
        features.extend(self.features.iter().filter(|name| !settings.features().contains(name)).cloned());
        settings.features = Some(features);
        settings
    }
}

/// Returns the name without the suffix of a copy.
pub(crate) fn original(name: &str) -> &str {
    name.strip_suffix(CONTROL).or_else(|| name.strip_suffix(PLAIN)).unwrap_or(name)
}
