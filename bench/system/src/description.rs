//! `system.yaml` as types. What the keys mean is said in `bench/systems/README.md`.

use crate::feature::Feature;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// A value that is a template, with its place in the file.
pub(crate) type Text = Spanned<String>;

/// Everything that one `system.yaml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The name in reports.
    pub title: String,
    /// What it is, on one line.
    pub about: String,
    /// Its own page, where it has one.
    #[serde(default)]
    pub homepage: Option<String>,
    /// What every report must say beside its figures.
    #[serde(default)]
    pub marked: Option<String>,
    /// Whether cold and warm runs must be kept apart.
    #[serde(default)]
    pub jvm: bool,
    /// How long it may take from start to the first answer.
    #[serde(default = "fifteen")]
    pub ready_within_seconds: u32,
    /// The most workers it can be told to use.
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
    /// What the template switches on and off.
    #[serde(default)]
    pub features: Vec<Feature>,
    /// What it does in any case.
    #[serde(default)]
    pub always: Vec<Feature>,
    /// Choices of this system alone.
    #[serde(default)]
    pub options: BTreeMap<String, Choice>,
    /// What it cannot do, or could do better otherwise.
    #[serde(default)]
    pub limits: Vec<String>,
    /// What differs from the others although the settings are alike.
    #[serde(default)]
    pub equal_terms: Vec<String>,
    /// How it reads its files again; `None` when it has to be started anew.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// How it is asked for a route while it runs; `None` when it cannot be.
    #[serde(default)]
    pub add_route: Option<AddRoute>,
    #[serde(default)]
    pub(crate) install: Option<InstallRule>,
    #[serde(default)]
    pub(crate) missing: Option<MissingRule>,
}

fn fifteen() -> u32 {
    15
}

/// Where to look for a program or another file that it needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramNames {
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub paths: Vec<Text>,
}

/// How its version is found.
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
    /// Written only when it is started with these options.
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

/// How a system reads its files again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Upon this signal to its first process; without one it watches its files itself.
    #[serde(default)]
    pub signal: Option<ReloadSignal>,
    /// Only when it was started with these options.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// The HTTP request that adds a route while a system runs: the last one of the setting it is rendered for, which goes to
/// the last upstream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRoute {
    /// `PUT`, `POST`...
    pub method: String,
    /// The path, on `admin_port`.
    pub path: String,
    /// Fields of its head besides `Host` and `Content-Length`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub(crate) body: Text,
    /// Only when it was started with these options.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// A signal that makes a system read its files again.
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

/// A choice of one system: the first value is the default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The values that it may take.
    pub values: Vec<String>,
    /// What it decides.
    pub about: String,
}

/// Where a system comes from.
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
    /// The name in files.
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

/// Why it cannot be installed, and what a user can do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissingRule {
    pub reason: String,
    pub get: String,
}
