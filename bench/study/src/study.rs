//! A study as it is written: its sections, points and arms.

use crate::analysis::Analysis;
use crate::cores::Cores;
use crate::external::{CpuSource, External, Url};
use crate::hosts::Hosts;
use crate::kubernetes::{Deployed, Kubernetes};
use crate::settings::Settings;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tollgate_lab_record::{Metric, Published};

/// A study as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The file name without its extension; not part of the file.
    #[serde(skip)]
    pub name: String,
    /// The file; not part of it.
    #[serde(skip)]
    pub file: PathBuf,
    /// The title of the report.
    pub title: String,
    /// The study's question and method, in Markdown.
    pub about: String,
    /// The system to which ratios are relative. By default each cell's first system; reports show ratios only
    /// if this is set.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The system that is measured twice, as the A/A control; `None` means no control.
    #[serde(default)]
    pub control: Option<String>,
    /// The cell whose figures answer the study's question, for the first sentence of the report.
    #[serde(default)]
    pub decides: Option<Decides>,
    /// Settings of every cell.
    #[serde(default)]
    pub settings: Settings,
    /// Systems with features or options of their own, by the name that sections use.
    #[serde(default)]
    pub arms: BTreeMap<String, Arm>,
    /// The cores of each role on this machine; roles that it leaves out are chosen by proportion.
    #[serde(default)]
    pub cores: Cores,
    /// The host of each role, if they are several.
    #[serde(default)]
    pub hosts: Hosts,
    /// The agents in a cluster, for `run --kubernetes`.
    #[serde(default)]
    pub kubernetes: Option<Kubernetes>,
    /// A gateway that already runs, as the arm `target`.
    #[serde(default)]
    pub target: Option<Url>,
    /// The source of the CPU time of `target`.
    #[serde(default)]
    pub cpu: Option<CpuSource>,
    /// The certificate of `target`.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// The user's own origin, to which `direct` and the systems of the catalogue send; default: the
    /// laboratory starts one.
    #[serde(default)]
    pub origin: Option<Url>,
    /// The sections.
    pub sections: Vec<Section>,
    /// The analyses and experiments.
    #[serde(default)]
    pub analyses: Vec<Analysis>,
    /// Sentences for the report that are true on any machine, such as what cannot be reproduced.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The cell and the metric that answer the study's question.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decides {
    /// The title of the section.
    pub section: String,
    /// The number of the point in the section, from 1; default: the first.
    #[serde(default)]
    pub point: Option<usize>,
    /// The metric; default: CPU time at an offered rate, throughput in a closed loop.
    #[serde(default)]
    pub by: Option<Metric>,
}

/// A system with its own features, options and settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The folder under `bench/systems`; empty for a gateway that already runs.
    #[serde(default)]
    pub system: String,
    /// The address of a gateway that already runs, instead of a system of the catalogue.
    #[serde(default)]
    pub target: Option<Url>,
    /// The source of its CPU time.
    #[serde(default)]
    pub cpu: Option<CpuSource>,
    /// PEM file of the only certificate that it may present.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// A system that manifests deploy, instead of a system of the catalogue. A run in a cluster turns it into a
    /// `target`.
    #[serde(default)]
    pub kubernetes: Option<Deployed>,
    /// The version of a gateway that already runs, as far as the run found it out.
    #[serde(skip)]
    pub version: String,
    /// The title in reports; default: the system's title.
    #[serde(default)]
    pub title: Option<String>,
    /// Enabled features in addition to the cell's.
    #[serde(default)]
    pub features: Vec<String>,
    /// Options that the system's own description defines.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Settings of this arm that replace the cell's (such as unequal connections, as published).
    #[serde(default)]
    pub settings: Settings,
}

impl Arm {
    /// Returns the gateway that already runs, if this arm names one.
    pub fn external(&self) -> Option<External> {
        let url = self.target.clone()?;
        Some(External {
            url,
            certificate: self.certificate.clone(),
            cpu: self.cpu.clone(),
            version: self.version.clone(),
        })
    }
}

/// A table of the report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The title; unique in the study.
    pub title: String,
    /// A paragraph of explanation.
    #[serde(default)]
    pub about: String,
    /// The systems in the order of the table; `direct` is the run without a gateway.
    pub systems: Vec<String>,
    /// The setting that varies, for charts: `connections`, `rate`, `workers`, `quota`...
    #[serde(default)]
    pub axis: Option<String>,
    /// Settings of each of its points.
    #[serde(default)]
    pub settings: Settings,
    /// The points, each of which is a cell.
    pub points: Vec<Point>,
}

/// A metric for which a point can set a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// CPU time for each verified response.
    Cpu,
    /// 99th percentile of latency.
    P99,
}

/// A cell: its differences from the section, and the figures that the original published.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The title in tables; by default made of the settings that differ.
    #[serde(default)]
    pub title: Option<String>,
    /// Settings that override the section's.
    #[serde(default)]
    pub set: Settings,
    /// The systems of this point, if they differ from the section's.
    #[serde(default)]
    pub systems: Option<Vec<String>>,
    /// The highest permitted ratio of each metric to the better peer's, for the analysis `bars`.
    #[serde(default)]
    pub bars: BTreeMap<Bar, f64>,
    /// The figures that the original published, by our system's name.
    #[serde(default)]
    pub published: BTreeMap<String, Published>,
}
