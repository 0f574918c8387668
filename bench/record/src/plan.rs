//! What is to be measured, on what, and what others published about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ends the name of the second copy of a system in an A/A control.
pub const CONTROL: &str = "#2";

/// Ends the name of a system that is measured without a cell's feature, beside itself with it.
pub const PLAIN: &str = "#plain";

/// The machine that a run stands on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The CPU's name.
    pub cpu: String,
    /// Cores that this run may use, by affinity and quota.
    pub cores: f64,
    /// Memory.
    pub memory_kib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Open files allowed to a process.
    pub open_files: u64,
    /// Quota that the run itself stands under, in cores, when there is one.
    pub own_quota: Option<f64>,
    /// Who runs where, for people: "system under test on core 0; ...".
    pub placement: String,
}

/// The first line of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`crate::FORMAT`] of the writer.
    pub format: u32,
    /// The study's name, such as `toll`.
    pub study: String,
    /// Its title.
    pub title: String,
    /// What it asks and how; Markdown, a few paragraphs.
    pub about: String,
    /// Of the random order and of every random choice.
    pub seed: u64,
    /// The command that runs it again.
    pub command: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The laboratory's version.
    pub version: String,
    /// The machine.
    pub host: Host,
    /// What was made smaller than published or planned, and why.
    pub scaled: Vec<String>,
    /// The system that ratios are relative to, when the study names one.
    pub baseline: Option<String>,
    /// Expected length in seconds.
    pub planned_seconds: f64,
}

/// A file that a system was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderedFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Why a system has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What is lacking.
    pub reason: String,
    /// How a user gets it.
    pub get: String,
}

/// A system that the study names, measured or missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemUsed {
    /// Folder name under `bench/systems`, or an arm of it such as `envoy+stats`.
    pub name: String,
    /// As reports write it.
    pub title: String,
    /// As the program tells it; empty when missing.
    pub version: String,
    /// Set when it could not be measured.
    pub missing: Option<Missing>,
    /// What a reader must know, such as "Envoy with Contour's published settings".
    pub marked: Option<String>,
    /// Differences in terms that could not be removed.
    pub terms: Vec<String>,
    /// The command line that started it.
    pub command: Vec<String>,
    /// The files it was started with.
    pub files: Vec<RenderedFile>,
}

/// What the original printed for one system in one cell; every field as printed, `None` where it printed nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Published {
    /// The system's name in the original, when it is not ours ("kong").
    pub system: Option<String>,
    /// Requests a second, one number a run.
    pub rps: Vec<f64>,
    /// Mean latency.
    pub mean_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Largest.
    pub max_us: Option<f64>,
    /// CPU of the system in percent of one core.
    pub cpu_percent: Option<f64>,
    /// CPU of the origin in percent of one core.
    pub origin_cpu_percent: Option<f64>,
    /// Errors or time-outs it reported.
    pub errors: Option<u64>,
}

/// One point of a study: a load, at which every system takes its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Unique within the study: letters, digits, dashes.
    pub id: String,
    /// As tables write it: "64 connections, 2 B".
    pub title: String,
    /// The table it stands in.
    pub section: String,
    /// What varies along the section (`connections`, `rate`, `workers`, `quota`, `feature`...) with this cell's
    /// value, for charts.
    pub axis: Option<(String, f64)>,
    /// Everything that was set: `connections`, `body`, `rate`, `tool`, `workers`, `keep-alive`...
    pub settings: BTreeMap<String, String>,
    /// Systems in the order of the tables.
    pub systems: Vec<String>,
    /// What the original printed, by the name of our system.
    pub published: BTreeMap<String, Published>,
}
