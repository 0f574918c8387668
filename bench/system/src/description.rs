//! The types of `system.yaml`. `bench/systems/README.md` documents the keys.

use crate::feature::Feature;
use crate::workers::WorkerMetrics;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// A template string with its position in the file.
pub(crate) type Text = Spanned<String>;

/// The content of one `system.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The name in reports.
    pub title: String,
    /// A description in one line.
    pub about: String,
    /// The web page of the system, if it has one.
    #[serde(default)]
    pub homepage: Option<String>,
    /// A remark that every report must print with its figures.
    #[serde(default)]
    pub marked: Option<String>,
    /// Whether it runs on a JVM, so that cold and warm runs must be kept apart.
    #[serde(default)]
    pub jvm: bool,
    /// Seconds from the start to the first correct answer, at most.
    #[serde(default = "fifteen")]
    pub ready_within_seconds: u32,
    /// The highest number of workers that it can be configured for; `None` means no limit.
    #[serde(default)]
    pub max_workers: Option<u32>,
    #[serde(default)]
    pub(crate) programs: BTreeMap<String, ProgramNames>,
    #[serde(default)]
    pub(crate) version: Option<VersionRule>,
    #[serde(default)]
    pub(crate) files: Vec<FileRule>,
    #[serde(default)]
    pub(crate) start: Option<StartRule>,
    /// Features that the template switches on and off.
    #[serde(default)]
    pub features: Vec<Feature>,
    /// Features that the system always has.
    #[serde(default)]
    pub always: Vec<Feature>,
    /// Options of this system only, by name.
    #[serde(default)]
    pub options: BTreeMap<String, Choice>,
    /// Remarks on what it cannot do, or could do better with another configuration.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Remarks on how it differs from other systems although the settings are alike.
    #[serde(default)]
    pub equal_terms: Vec<String>,
    /// How it reloads its files; `None` if it must be restarted.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// How it accepts a route at run time; `None` if it cannot.
    #[serde(default)]
    pub add_route: Option<AddRoute>,
    /// The counters of its workers; `None` if it has none.
    #[serde(default)]
    pub workers: Option<WorkerMetrics>,
    #[serde(default)]
    pub(crate) install: Option<InstallRule>,
    #[serde(default)]
    pub(crate) missing: Option<MissingRule>,
}

fn fifteen() -> u32 {
    15
}

/// The candidates for a program, or for another file that the system needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramNames {
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub paths: Vec<Text>,
}

/// How its version is determined.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionRule {
    #[serde(default)]
    pub command: Vec<Text>,
    #[serde(default)]
    pub file: Option<Text>,
    pub pattern: Spanned<String>,
}

/// A file that is written before the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRule {
    pub template: Spanned<String>,
    pub to: Text,
    /// The file is written only if these options have these values.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// How it is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRule {
    pub command: Vec<Text>,
    #[serde(default)]
    pub env: BTreeMap<String, Text>,
    #[serde(default)]
    pub directory: Option<Text>,
}

/// How a system reloads its files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// The signal to the system's first process; `None` means that the system watches its files.
    #[serde(default)]
    pub signal: Option<ReloadSignal>,
    /// The options with which the system must be started for this.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// The HTTP request that adds a route to a running system. The request is rendered for a setting and adds the
/// setting's last route, which leads to the last upstream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRoute {
    /// `PUT`, `POST`...
    pub method: String,
    /// The path on `admin_port`.
    pub path: String,
    /// Header fields besides `Host` and `Content-Length`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub(crate) body: Text,
    /// The options with which the system must be started for this.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// A signal that makes a system reload its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ReloadSignal {
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

/// An option of one system. The first value is the default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The allowed values.
    pub values: Vec<String>,
    /// The effect of the option, for people.
    pub about: String,
}

/// The package registry that a system comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Packages of the distribution.
    Apt,
    /// A Python package.
    Pip,
    /// A Go module.
    Go,
    /// A crate.
    Cargo,
    /// Java artefacts.
    Maven,
    /// A JavaScript package.
    Npm,
}

impl Source {
    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Pip => "pip",
            Self::Go => "go",
            Self::Cargo => "cargo",
            Self::Maven => "maven",
            Self::Npm => "npm",
        }
    }
}

/// How it is installed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstallRule {
    pub with: Source,
    pub script: Spanned<String>,
    pub takes: String,
    #[serde(default)]
    pub needs: Vec<String>,
}

/// Why it cannot be installed automatically, and how a user can install it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissingRule {
    pub reason: String,
    pub get: String,
}
