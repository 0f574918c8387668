//! A system as a study uses it: with features, options and settings of its own.

use std::collections::BTreeMap;
use tollgate_lab_record::{CONTROL, PLAIN};
use tollgate_lab_study::{PlannedCell, Settings, Study};

/// A row of a study.
#[derive(Debug, Clone)]
pub struct Arm {
    /// As the study calls it; the control's copy ends in [`CONTROL`], one without the cell's feature in [`PLAIN`].
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
    /// What is set in place of the cell's settings.
    pub instead: Option<Settings>,
}

impl Arm {
    /// The arm of that name: one of the study's, or the system itself.
    pub fn of(study: &Study, name: &str) -> Self {
        let plain = original(name);
        let arm = study.arms.get(plain);
        Self {
            name: name.to_owned(),
            system: arm.map_or(plain, |arm| &arm.system).to_owned(),
            title: arm.and_then(|arm| arm.title.clone()),
            features: arm.map(|arm| arm.features.clone()).unwrap_or_default(),
            options: arm.map(|arm| arm.options.clone()).unwrap_or_default(),
            settings: arm.map(|arm| arm.settings.clone()).unwrap_or_default(),
            instead: None,
        }
    }

    /// The rows of a cell that follow one another in each round, in any order: every system, beside itself without the cell's
    /// feature where the difference is asked for, and the control's copy.
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

    /// Whether it is a copy of a row rather than a row of the report.
    pub fn is_copy(&self) -> bool {
        original(&self.name) != self.name
    }

    /// The cell's settings with this arm's.
    pub fn settings(&self, cell: &Settings) -> Settings {
        let mut settings = self.instead.as_ref().unwrap_or(cell).with(&self.settings);
        let mut features: Vec<String> = settings.features().to_vec();
        features.extend(self.features.iter().filter(|name| !settings.features().contains(name)).cloned());
        settings.features = Some(features);
        settings
    }
}

/// The name without what marks a copy.
pub(crate) fn original(name: &str) -> &str {
    name.strip_suffix(CONTROL).or_else(|| name.strip_suffix(PLAIN)).unwrap_or(name)
}
