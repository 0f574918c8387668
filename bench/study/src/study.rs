//! Reads and checks the YAML of a study. [`load`] parses the file and checks all names and numbers, so that a
//! study that loads can be run. A [`Problem`] has the position of the mistake and suggests the nearest known
//! name.

use crate::analysis::Analysis;
use crate::cores::Cores;
use crate::external::{CpuSource, External, Url};
use crate::hosts::Hosts;
use crate::kubernetes::{Deployed, Kubernetes};
use crate::place::{self, Kind, Place};
use crate::range::out_of_range;
use crate::settings::{OriginKind, Settings};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
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

/// The name of the arm that the keys `target`, `cpu` and `certificate` of a study make.
const TARGET: &str = "target";

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

/// A problem of a study, for people.
#[derive(Debug)]
pub struct Problem {
    /// The file with the problem.
    pub file: PathBuf,
    /// Line and column in it, from 1; `None` if they are not known.
    pub place: Option<(u64, u64)>,
    /// The message: the value found and the value expected.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Problem {}

/// A problem of a study that could be parsed.
#[derive(Debug)]
struct Wrong {
    text: String,
    /// The name with the problem, and what it refers to.
    name: Option<(Kind, String)>,
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self { text, name: None }
    }
}

/// The names that a study may use.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Systems under test.
    pub systems: Vec<String>,
    /// Load tools.
    pub tools: Vec<String>,
    /// Features that a cell can ask for.
    pub features: Vec<String>,
}

/// Returns the names of the studies in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Reads a study, by name from `folder` or from a file of the user's own, and checks its names against
/// `known`.
///
/// # Errors
/// A [`Problem`] that says what was expected and where, with the nearest name.
pub fn load(folder: &Path, name: &str, known: &Names) -> Result<Study, Problem> {
    let own = Path::new(name);
    let file = if own.extension().is_some() { own.to_owned() } else { folder.join(format!("{name}.yaml")) };
    let problem = |place: Option<Place>, text: String| Problem { file: file.clone(), place, text };
    let text = fs::read_to_string(&file).map_err(|error| {
        let known = names(folder);
        problem(None, format!("{error}{}; the studies are {}", nearest(name, &known), known.join(", ")))
    })?;
    let mut study: Study = serde_saphyr::from_str(&text).map_err(|error| {
        let (place, text) = place::of_error(&error, hint);
        problem(place, text)
    })?;
    if let Some(url) = study.target.clone() {
        let (cpu, certificate) = (study.cpu.clone(), study.certificate.clone());
        let arm = Arm { target: Some(url), cpu, certificate, ..Arm::default() };
        study.arms.entry(TARGET.to_owned()).or_insert(arm);
    }
    study.file.clone_from(&file);
    study.name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("study").to_owned();
    check(&study, known).map_err(|wrong| {
        problem(wrong.name.and_then(|(kind, name)| place::of_name(&text, kind, &name)), wrong.text)
    })?;
    Ok(study)
}

fn check(study: &Study, exist: &Names) -> Result<(), Wrong> {
    let Names { systems, tools, features } = exist;
    let mut known: Vec<String> = systems.to_vec();
    known.extend(study.arms.keys().cloned());
    let named = |name: &String, place: &str, known: &[String], kind: Kind| {
        if known.contains(name) {
            return Ok(());
        }
        let text = format!("{place}: no {} is called `{name}`{}", kind.words(), hint(name, known));
        Err(Wrong { text, name: Some((kind, name.clone())) })
    };
    if study.target.is_none() && (study.cpu.is_some() || study.certificate.is_some()) {
        return Err("`cpu` and `certificate` need `target: URL` beside them".to_owned().into());
    }
    if study.kubernetes.is_some() && !study.hosts.is_empty() {
        return Err("`kubernetes` names the hosts of all roles, and excludes `hosts`".to_owned().into());
    }
    for (name, arm) in &study.arms {
        if let Some(deployed) = &arm.kubernetes {
            if arm.target.is_some()
                || arm.cpu.is_some()
                || !arm.system.is_empty()
                || !arm.features.is_empty()
                || !arm.options.is_empty()
            {
                let text = "`kubernetes` excludes `system`, `target`, `cpu`, `features` and `options`: manifests \
                            configure the system";
                return Err(format!("arms.{name}: {text}").into());
            }
            deployed.check().map_err(|text| format!("arms.{name}.kubernetes: {text}"))?;
            continue;
        }
        match (&arm.target, arm.system.as_str()) {
            (None, "") => {
                let text =
                    format!("arms.{name}: expected `system: NAME`, or `target: URL` for a gateway that runs");
                return Err(text.into());
            }
            (None, _) if arm.cpu.is_some() || arm.certificate.is_some() => {
                return Err(format!("arms.{name}: `cpu` and `certificate` need `target: URL`").into());
            }
            (None, _) => {}
            (Some(_), system) => {
                if !system.is_empty() || !arm.features.is_empty() || !arm.options.is_empty() {
                    let text = "the laboratory does not configure a gateway that already runs: `target` excludes \
                                `system`, `features` and `options`";
                    return Err(format!("arms.{name}: {text}").into());
                }
                continue;
            }
        }
        named(&arm.system, &format!("arms.{name}"), systems, Kind::System)?;
        for feature in arm.features.iter().chain(arm.settings.features()) {
            named(feature, &format!("arms.{name}"), features, Kind::Feature)?;
        }
        if let Some(tool) = &arm.settings.tool {
            named(tool, &format!("arms.{name}"), tools, Kind::Tool)?;
        }
    }
    for name in study.baseline.iter().chain(&study.control) {
        named(name, "baseline, control", &known, Kind::System)?;
    }
    let mut titles: Vec<String> = Vec::new();
    for section in &study.sections {
        let place = format!("section \"{}\"", section.title);
        if titles.contains(&section.title) {
            let name = Some((Kind::Section, section.title.clone()));
            return Err(Wrong { text: format!("{place}: the title stands twice"), name });
        }
        titles.push(section.title.clone());
        for point in &section.points {
            let list = point.systems.as_ref().unwrap_or(&section.systems);
            for name in list {
                named(name, &place, &known, Kind::System)?;
            }
            for name in point.published.keys() {
                named(name, &format!("{place}, published"), list, Kind::Published)?;
            }
            let settings = study.settings.with(&section.settings).with(&point.set);
            named(&settings.tool().to_owned(), &place, tools, Kind::Tool)?;
            for feature in settings.features() {
                named(feature, &place, features, Kind::Feature)?;
            }
            if let Some((_, most)) = point.bars.iter().find(|(_, most)| !(most.is_finite() && **most > 0.0)) {
                return Err(format!("{place}: a bar of {most}: expected a ratio above 0").into());
            }
            let runs = |arm: &Arm| arm.target.is_some() || arm.kubernetes.is_some();
            let external = list.iter().find(|name| study.arms.get(*name).is_some_and(runs));
            let unfit = [
                ("relay", settings.relay.is_some()),
                ("cold", settings.cold()),
                ("origin_beside_target", settings.origin_beside_target()),
            ];
            if let (Some(name), Some((key, _))) = (external, unfit.iter().find(|(_, set)| *set)) {
                let text = format!(
                    "{place}: `{key}` is not possible with {name}, which the laboratory does not start"
                );
                return Err(text.into());
            }
            let arms =
                list.iter().filter_map(|name| study.arms.get(name)).map(|arm| settings.with(&arm.settings));
            if let Some(text) =
                std::iter::once(settings.clone()).chain(arms).find_map(|one| out_of_range(&one))
            {
                return Err(format!("{place}: {text}").into());
            }
            if settings.origin_delay_ms.is_some() && settings.origin() != OriginKind::Builtin {
                return Err(
                    format!("{place}: `origin_delay_ms` needs `origin: builtin`; nginx cannot wait").into()
                );
            }
            if settings.poisson() && settings.rate.is_none() {
                return Err(format!(
                    "{place}: `poisson` needs a `rate`: a closed loop has no arrivals of its own"
                )
                .into());
            }
        }
        if section.points.is_empty() {
            return Err(format!("{place}: no points, so nothing would be measured").into());
        }
    }
    let judged = study.analyses.iter().flat_map(|analysis| match analysis {
        Analysis::Bars { sections, .. } => sections.as_slice(),
        _ => &[],
    });
    for section in study.analyses.iter().filter_map(Analysis::section).chain(judged.map(String::as_str)) {
        named(&section.to_owned(), "analyses", &titles, Kind::Section)?;
    }
    if let Some(decides) = &study.decides {
        named(&decides.section, "decides", &titles, Kind::Section)?;
        let points = study.sections.iter().find(|section| section.title == decides.section);
        let points = points.map_or(0, |section| section.points.len());
        let point = decides.point.unwrap_or(1);
        if point == 0 || point > points {
            return Err(format!("decides: point {point}: the section has the points 1 to {points}").into());
        }
    }
    for analysis in &study.analyses {
        let systems: &[String] = match analysis {
            Analysis::FeaturePrices { instructions, .. } => instructions,
            Analysis::Bars { peers, .. } => peers,
            other => other.tried(),
        };
        if let Analysis::IdleMemory { connections: 0, .. } | Analysis::LargeBody { bytes: 0, .. } = analysis {
            return Err("analyses: `connections` or `bytes` is 0: expected at least 1".to_owned().into());
        }
        if let Analysis::Datagrams { rate, bytes, sockets, rounds, seconds, .. } = analysis
            && (*rate == 0
                || !(16..=1_400).contains(bytes)
                || *sockets == 0
                || *rounds == 0
                || *seconds <= 0.0)
        {
            let expected = "expected `bytes` from 16 to 1400, and everything else above 0";
            return Err(format!("analyses: datagrams: {expected}").into());
        }
        let judged = match analysis {
            Analysis::Bars { system, .. } => Some(system),
            _ => None,
        };
        for name in systems.iter().chain(judged) {
            named(name, "analyses", &known, Kind::System)?;
        }
    }
    Ok(())
}

/// Returns the end of a sentence about an unknown name: the nearest name, or all names.
fn hint(name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        near if near.is_empty() => format!("; known: {}", known.join(", ")),
        near => near,
    }
}

/// Returns `, did you mean ...?` if a name is near enough: at most 1 edit plus a third of its length.
fn nearest(name: &str, known: &[String]) -> String {
    known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 3)
        .min()
        .map_or_else(String::new, |(_, other)| format!(", did you mean `{other}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(text: &str) -> Result<Study, String> {
        let study: Study = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known = Names {
            systems: owned(&["direct", "nginx", "tollgate"]),
            tools: owned(&["builtin", "wrk"]),
            features: owned(&["access_log", "tls"]),
        };
        check(&study, &known).map_err(|wrong| wrong.text)?;
        Ok(study)
    }

    const GOOD: &str = "
title: T
about: A
sections:
  - title: One
    systems: [direct, nginx]
    settings: {tool: wrk}
    points:
      - {set: {connections: 1}, published: {nginx: {rps: [2454, 2505]}}}
";

    #[test]
    fn a_good_study_is_read() {
        let study = study(GOOD).unwrap();
        assert_eq!(study.sections[0].points[0].published["nginx"].rps, [2_454.0, 2_505.0]);
    }

    #[test]
    fn a_gateway_that_runs_is_an_arm_of_its_own() {
        let arm = "arms: {mine: {target: 'https://a.example/x', cpu: {unit: a.service}}}\n";
        let text = format!(
            "{arm}{}",
            GOOD.replace("[direct, nginx]", "[direct, mine]").replace("{nginx:", "{mine:")
        );
        let external = study(&text).unwrap().arms["mine"].external().unwrap();
        assert_eq!((external.url.path.as_str(), external.cpu.is_some()), ("/x", true));
        let error = study(&text.replace("{target:", "{system: nginx, target:")).unwrap_err();
        assert!(error.contains("`target` excludes `system`"), "{error}");
        let error = study(&text.replace("target: 'https://a.example/x', ", "")).unwrap_err();
        assert!(error.contains("arms.mine: expected `system: NAME`"), "{error}");
        let error = study(&text.replace("{tool: wrk}", "{cold: true}")).unwrap_err();
        assert!(error.contains("`cold` is not possible with mine"), "{error}");
        let error = study(&format!("cpu: {{pid: 1}}\n{GOOD}")).unwrap_err();
        assert!(error.contains("need `target: URL`"), "{error}");
    }

    #[test]
    fn a_system_of_manifests_is_an_arm_of_its_own() {
        let arm = "arms: {web: {kubernetes: {manifests: [web.yaml], service: web, pods: {app: web}}}}\n";
        let text =
            format!("{arm}{}", GOOD.replace("[direct, nginx]", "[direct, web]").replace("{nginx:", "{web:"));
        let deployed = study(&text).unwrap().arms["web"].kubernetes.clone().unwrap();
        assert_eq!((deployed.service.as_str(), deployed.port), ("web", 80));
        let error = study(&text.replace("{kubernetes:", "{system: nginx, kubernetes:")).unwrap_err();
        assert!(error.contains("arms.web: `kubernetes` excludes `system`"), "{error}");
        let error = study(&text.replace("{tool: wrk}", "{cold: true}")).unwrap_err();
        assert!(error.contains("`cold` is not possible with web"), "{error}");
        let error = study(&format!("hosts: {{gateway: a}}\nkubernetes: {{}}\n{text}")).unwrap_err();
        assert!(error.contains("excludes `hosts`"), "{error}");
    }

    #[test]
    fn wrong_names_are_told_with_the_nearest_one() {
        let error = study(&GOOD.replace("[direct, nginx]", "[direct, ngnix]")).unwrap_err();
        assert!(error.contains("no system is called `ngnix`, did you mean `nginx`?"), "{error}");
        let counted = "analyses: [{kind: feature-prices, section: One, instructions: [ngnix]}]";
        let error = study(&format!("{GOOD}{counted}")).unwrap_err();
        assert!(error.contains("analyses: no system is called `ngnix`"), "{error}");
        let error = study(&GOOD.replace("wrk", "wrq")).unwrap_err();
        assert!(error.contains("no load tool is called `wrq`, did you mean `wrk`?"), "{error}");
        let error = study(&GOOD.replace("{tool: wrk}", "{features: [acess_log]}")).unwrap_err();
        assert!(error.contains("no feature is called `acess_log`, did you mean `access_log`?"), "{error}");
        let error = study(&GOOD.replace("published:", "bars: {cpu: 0}, published:")).unwrap_err();
        assert!(error.contains("a bar of 0"), "{error}");
        let judged = "analyses: [{kind: bars, system: tolgate, peers: [nginx]}]";
        let error = study(&format!("{GOOD}{judged}")).unwrap_err();
        assert!(error.contains("did you mean `tollgate`?"), "{error}");
        let error = study(&GOOD.replace("connections", "conections")).unwrap_err();
        assert!(error.contains("conections") && error.contains("line 9"), "{error}");
        let error = study(&GOOD.replace("{tool: wrk}", "{origin_delay_ms: 5}")).unwrap_err();
        assert!(error.contains("needs `origin: builtin`"), "{error}");
        let error = study(&GOOD.replace("{tool: wrk}", "{poisson: true}")).unwrap_err();
        assert!(error.contains("needs a `rate`"), "{error}");
        let error = study(&GOOD.replace("sections:", "decides: {section: Onw}\nsections:")).unwrap_err();
        assert!(error.contains("decides: no section is called `Onw`, did you mean `One`?"), "{error}");
        let error = study(&GOOD.replace("sections:", "decides: {section: One, point: 2}\nsections:"));
        assert!(error.unwrap_err().contains("decides: point 2: the section has the points 1 to 1"));
        let error = study(&GOOD.replace("{nginx:", "{tollgate:")).unwrap_err();
        assert!(error.contains("published"), "{error}");
    }
}
