//! The input of a measurement: the machine, the systems, the cells, and what others published about them.

use crate::metric::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The suffix of the name of a system's second copy in an A/A control.
pub const CONTROL: &str = "#2";

/// The suffix of the name of a system's copy that runs without the cell's feature, next to the system with
/// it.
pub const PLAIN: &str = "#plain";

/// The machine of a run.
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
    /// The limit of open files of a process.
    pub open_files: u64,
    /// The CPU quota on the run itself, in cores, if there is one.
    pub own_quota: Option<f64>,
    /// The cores of each component, for people: "system under test on core 0; ...".
    pub placement: String,
    /// Whether the kernel counts the time of interrupts apart from the time of the tasks that they interrupt
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`). Otherwise CPU time per request includes interrupts that hit the
    /// system. `None` if the kernel's configuration cannot be read.
    #[serde(default)]
    pub irq_time_accounting: Option<bool>,
    /// The frequency governors of the cores that this run may use; empty if the kernel sets no frequency.
    #[serde(default)]
    pub governor: String,
    /// The hypervisor; empty on bare metal.
    #[serde(default)]
    pub hypervisor: String,
    /// The mitigations of CPU vulnerabilities that are in force, each as "name: what".
    #[serde(default)]
    pub mitigations: Vec<String>,
    /// Cores that other programs used before the first trial; `None` if it was not measured.
    #[serde(default)]
    pub busy_at_start: Option<f64>,
    /// The load average over one minute before the first trial.
    #[serde(default)]
    pub load_at_start: f64,
}

/// The cell and the metric that answer the study's question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decides {
    /// [`Cell::id`].
    pub cell: String,
    /// The metric; `None` means CPU time at an offered rate and throughput in a closed loop.
    pub by: Option<Metric>,
}

/// The first line of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`crate::FORMAT`] of the writer.
    pub format: u32,
    /// The study's name, such as `toll`.
    pub study: String,
    /// The study's title.
    pub title: String,
    /// The study's question and method, in a few paragraphs of Markdown.
    pub about: String,
    /// The seed of the random order and of every other random choice.
    pub seed: u64,
    /// The command that repeats the run.
    pub command: String,
    /// Start time, UTC, RFC 3339.
    pub started: String,
    /// The laboratory's version.
    pub version: String,
    /// The machine.
    pub host: Host,
    /// Settings that were made smaller than published or planned, with the reason.
    pub scaled: Vec<String>,
    /// The system to which ratios are relative, if the study names one.
    pub baseline: Option<String>,
    /// The cell that answers the study's question, if the study names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<Decides>,
    /// Expected duration in seconds.
    pub planned_seconds: f64,
}

/// A configuration file with which a system was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderedFile {
    /// The file's name.
    pub name: String,
    /// The file's content.
    pub text: String,
}

/// Why a system has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The reason.
    pub reason: String,
    /// How a user can get the system.
    pub get: String,
}

/// A system that the study names, measured or missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemUsed {
    /// The folder name under `bench/systems`, or an arm of it such as `envoy+stats`.
    pub name: String,
    /// The title in reports.
    pub title: String,
    /// The version as the program reports it; empty if the system is missing.
    pub version: String,
    /// Set if the system could not be measured.
    pub missing: Option<Missing>,
    /// A remark that every report prints, such as "Envoy with Contour's published settings".
    pub marked: Option<String>,
    /// Differences in terms that could not be removed.
    pub terms: Vec<String>,
    /// The command line with which it was started.
    pub command: Vec<String>,
    /// The configuration files with which it was started.
    pub files: Vec<RenderedFile>,
}

/// The figures that the original published for one system in one cell; `None` if it published none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Published {
    /// The system's name in the original, if it differs from ours ("kong").
    pub system: Option<String>,
    /// Requests per second, one number for each run.
    pub rps: Vec<f64>,
    /// Mean latency.
    pub mean_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Maximum.
    pub max_us: Option<f64>,
    /// CPU use of the system in percent of one core.
    pub cpu_percent: Option<f64>,
    /// CPU use of the origin in percent of one core.
    pub origin_cpu_percent: Option<f64>,
    /// Errors or timeouts that it reported.
    pub errors: Option<u64>,
}

/// One point of a study: a load at which every system is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Unique within the study: letters, digits, dashes.
    pub id: String,
    /// The title in tables: "64 connections, 2 B".
    pub title: String,
    /// The title of the section, which is one table.
    pub section: String,
    /// The setting that varies along the section (`connections`, `rate`, `workers`, `quota`, `feature`...)
    /// and this cell's value, for charts.
    pub axis: Option<(String, f64)>,
    /// All settings: `connections`, `body`, `rate`, `tool`, `workers`, `keep-alive`...
    pub settings: BTreeMap<String, String>,
    /// The systems in the order of the tables.
    pub systems: Vec<String>,
    /// The figures that the original published, by the name of our system.
    pub published: BTreeMap<String, Published>,
}
