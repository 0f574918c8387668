//! Checks a study that was parsed: its names, its numbers, and combinations of keys.

use crate::analysis::Analysis;
use crate::nearest::hint;
use crate::position::Kind;
use crate::range::out_of_range;
use crate::settings::OriginKind;
use crate::study::{Arm, Point, Section, Study};

/// A problem of a study that could be parsed.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub text: String,
    /// The name with the problem, and what it refers to.
    pub name: Option<(Kind, String)>,
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

/// The settings that may differ between the arms of a cell: they configure the system, its start, or its address. All
/// others configure the load or the origin, and systems under different loads do not compare.
const OF_A_SYSTEM: [&str; 14] = [
    "chain",
    "cold",
    "features",
    "host",
    "hosts",
    "memory_mib",
    "origin_kept",
    "path",
    "quota",
    "routes",
    "target_cores",
    "until_steady",
    "warm_up",
    "workers",
];

/// Checks a study.
pub(crate) fn check(study: &Study, exist: &Names) -> Result<(), Wrong> {
    if study.target.is_none() && (study.cpu.is_some() || study.certificate.is_some()) {
        return Err("`cpu` and `certificate` need `target: URL` beside them".to_owned().into());
    }
    if study.kubernetes.is_some() && !study.hosts.is_empty() {
        return Err("`kubernetes` names the hosts of all roles, and excludes `hosts`".to_owned().into());
    }
    let mut known: Vec<String> = exist.systems.clone();
    known.extend(study.arms.keys().cloned());
    let checks = Checks { study, exist, known };
    checks.arms()?;
    for name in study.baseline.iter().chain(&study.control) {
        checks.is_system(name, "baseline, control")?;
    }
    let mut titles: Vec<String> = Vec::new();
    for section in &study.sections {
        if titles.contains(&section.title) {
            let name = Some((Kind::Section, section.title.clone()));
            let text = format!("section \"{}\": the title stands twice", section.title);
            return Err(Wrong { text, name });
        }
        titles.push(section.title.clone());
        checks.section(section)?;
    }
    checks.references(&titles)?;
    study.analyses.iter().try_for_each(|analysis| checks.analysis(analysis))
}

/// The checks of one study.
struct Checks<'a> {
    study: &'a Study,
    exist: &'a Names,
    /// The systems and the arms.
    known: Vec<String>,
}

/// Checks that a name is known.
fn named(name: &str, place: &str, known: &[String], kind: Kind) -> Result<(), Wrong> {
    if known.iter().any(|other| other == name) {
        return Ok(());
    }
    let text = format!("{place}: no {} is called `{name}`{}", kind.words(), hint(name, known));
    Err(Wrong { text, name: Some((kind, name.to_owned())) })
}

impl Checks<'_> {
    fn is_system(&self, name: &str, place: &str) -> Result<(), Wrong> {
        named(name, place, &self.known, Kind::System)
    }

    fn arms(&self) -> Result<(), Wrong> {
        let Names { systems, tools, features } = self.exist;
        for (name, arm) in &self.study.arms {
            let place = format!("arms.{name}");
            if let Some(key) = arm.settings.given().find(|key| !OF_A_SYSTEM.contains(key)) {
                let text = format!(
                    "{place}.settings: `{key}` belongs to the load or the origin, which all systems of a cell share: set it in \
                     the section or the point; an arm may have {}",
                    OF_A_SYSTEM.join(", ")
                );
                return Err(text.into());
            }
            if let Some(deployed) = &arm.kubernetes {
                if arm.target.is_some()
                    || arm.cpu.is_some()
                    || !arm.system.is_empty()
                    || !arm.features.is_empty()
                    || !arm.options.is_empty()
                {
                    let text = "`kubernetes` excludes `system`, `target`, `cpu`, `features` and `options`: manifests \
                                configure the system";
                    return Err(format!("{place}: {text}").into());
                }
                deployed.check().map_err(|text| format!("{place}.kubernetes: {text}"))?;
                continue;
            }
            match (&arm.target, arm.system.as_str()) {
                (None, "") => {
                    let text = "expected `system: NAME`, or `target: URL` for a gateway that runs";
                    return Err(format!("{place}: {text}").into());
                }
                (None, _) if arm.cpu.is_some() || arm.certificate.is_some() => {
                    return Err(format!("{place}: `cpu` and `certificate` need `target: URL`").into());
                }
                (None, _) => {}
                (Some(_), system) => {
                    if !system.is_empty() || !arm.features.is_empty() || !arm.options.is_empty() {
                        let text = "the laboratory does not configure a gateway that already runs: `target` excludes \
                                    `system`, `features` and `options`";
                        return Err(format!("{place}: {text}").into());
                    }
                    continue;
                }
            }
            named(&arm.system, &place, systems, Kind::System)?;
            for feature in arm.features.iter().chain(arm.settings.features()) {
                named(feature, &place, features, Kind::Feature)?;
            }
            if let Some(tool) = &arm.settings.tool {
                named(tool, &place, tools, Kind::Tool)?;
            }
        }
        Ok(())
    }

    fn section(&self, section: &Section) -> Result<(), Wrong> {
        let place = format!("section \"{}\"", section.title);
        section.points.iter().try_for_each(|point| self.point(section, point, &place))?;
        if section.points.is_empty() {
            return Err(format!("{place}: no points, so nothing would be measured").into());
        }
        Ok(())
    }

    fn point(&self, section: &Section, point: &Point, place: &str) -> Result<(), Wrong> {
        let study = self.study;
        let list = point.systems.as_ref().unwrap_or(&section.systems);
        for name in list {
            self.is_system(name, place)?;
        }
        for name in point.published.keys() {
            named(name, &format!("{place}, published"), list, Kind::Published)?;
        }
        let settings = study.settings.with(&section.settings).with(&point.set);
        named(settings.tool(), place, &self.exist.tools, Kind::Tool)?;
        for feature in settings.features() {
            named(feature, place, &self.exist.features, Kind::Feature)?;
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
            let text =
                format!("{place}: `{key}` is not possible with {name}, which the laboratory does not start");
            return Err(text.into());
        }
        let arms =
            list.iter().filter_map(|name| study.arms.get(name)).map(|arm| settings.with(&arm.settings));
        if let Some(text) = std::iter::once(settings.clone()).chain(arms).find_map(|one| out_of_range(&one)) {
            return Err(format!("{place}: {text}").into());
        }
        if settings.origin_delay_ms.is_some() && settings.origin() != OriginKind::Builtin {
            let text = format!("{place}: `origin_delay_ms` needs `origin: builtin`; nginx cannot wait");
            return Err(text.into());
        }
        if settings.poisson() && settings.rate.is_none() {
            let text = format!("{place}: `poisson` needs a `rate`: a closed loop has no arrivals of its own");
            return Err(text.into());
        }
        Ok(())
    }

    /// Checks the references to sections.
    fn references(&self, titles: &[String]) -> Result<(), Wrong> {
        let study = self.study;
        let judged = study.analyses.iter().flat_map(|analysis| match analysis {
            Analysis::Bars { sections, .. } => sections.as_slice(),
            _ => &[],
        });
        for section in study.analyses.iter().filter_map(Analysis::section).chain(judged.map(String::as_str)) {
            named(section, "analyses", titles, Kind::Section)?;
        }
        let Some(decides) = &study.decides else { return Ok(()) };
        named(&decides.section, "decides", titles, Kind::Section)?;
        let points = study.sections.iter().find(|section| section.title == decides.section);
        let points = points.map_or(0, |section| section.points.len());
        let point = decides.point.unwrap_or(1);
        if point == 0 || point > points {
            return Err(format!("decides: point {point}: the section has the points 1 to {points}").into());
        }
        Ok(())
    }

    fn analysis(&self, analysis: &Analysis) -> Result<(), Wrong> {
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
            self.is_system(name, "analyses")?;
        }
        Ok(())
    }
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
    fn systems_of_a_cell_have_one_load() {
        let with = |settings: &str| {
            let arm = format!("arms: {{easy: {{system: nginx, settings: {{{settings}}}}}}}\n");
            study(&format!("{arm}{}", GOOD.replace("[direct, nginx]", "[nginx, easy]")))
        };
        for settings in ["rate: 5", "connections: 2", "response_body: 1", "seconds: 1", "origin_delay_ms: 5"]
        {
            let (key, _) = settings.split_once(':').unwrap();
            let error = with(settings).unwrap_err();
            assert!(
                error.starts_with(&format!("arms.easy.settings: `{key}` belongs to the load")),
                "{error}"
            );
        }
        let own =
            "workers: 2, quota: 0.5, cold: true, warm_up: 0, features: [access_log], host: a.test, path: /a";
        assert_eq!(with(own).unwrap().arms["easy"].settings.workers(), 2);
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
