//! Finds the source position of a name in a study's file, for messages. `study` parses a file without
//! positions. If it finds a wrong name, this module parses the file again into an `Outline` that has names
//! with positions only.

use serde::Deserialize;
use serde_saphyr::{Error, Spanned};
use std::collections::BTreeMap;

/// Line and column, from 1.
pub(crate) type Position = (u64, u64);

/// The kind of thing that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A system or an arm.
    System,
    /// A load tool.
    Tool,
    /// A feature.
    Feature,
    /// A section.
    Section,
    /// A system for which a point has published figures.
    Published,
}

impl Kind {
    /// Returns the term in messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Tool => "load tool",
            Self::Feature => "feature",
            Self::Section => "section",
            Self::Published => "system of the point",
        }
    }
}

type Name = Spanned<String>;

/// The names in a study, with their source positions.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Outline {
    baseline: Option<Name>,
    control: Option<Name>,
    settings: Load,
    arms: BTreeMap<String, Arm>,
    sections: Vec<Section>,
    analyses: Vec<Analysis>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Load {
    tool: Option<Name>,
    features: Vec<Name>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arm {
    system: Option<Name>,
    features: Vec<Name>,
    settings: Load,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Section {
    title: Option<Name>,
    systems: Vec<Name>,
    settings: Load,
    points: Vec<Point>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Point {
    set: Load,
    systems: Vec<Name>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Analysis {
    section: Option<Name>,
    system: Option<Name>,
    systems: Vec<Name>,
    peers: Vec<Name>,
    instructions: Vec<Name>,
}

impl Outline {
    fn names(self, kind: Kind) -> Vec<Name> {
        let mut names = Vec::new();
        match kind {
            Kind::System => {
                names.extend(self.baseline.into_iter().chain(self.control));
                names.extend(self.arms.into_values().filter_map(|arm| arm.system));
                for section in self.sections {
                    names.extend(section.systems);
                    names.extend(section.points.into_iter().flat_map(|point| point.systems));
                }
                for analysis in self.analyses {
                    names.extend(analysis.system);
                    names.extend(
                        analysis.systems.into_iter().chain(analysis.instructions).chain(analysis.peers),
                    );
                }
            }
            Kind::Tool => {
                names.extend(self.settings.tool);
                names.extend(self.arms.into_values().filter_map(|arm| arm.settings.tool));
                for section in self.sections {
                    names.extend(section.settings.tool);
                    names.extend(section.points.into_iter().filter_map(|point| point.set.tool));
                }
            }
            Kind::Feature => {
                names.extend(self.settings.features);
                for arm in self.arms.into_values() {
                    names.extend(arm.features.into_iter().chain(arm.settings.features));
                }
                for section in self.sections {
                    names.extend(section.settings.features);
                    names.extend(section.points.into_iter().flat_map(|point| point.set.features));
                }
            }
            Kind::Section => {
                names.extend(self.analyses.into_iter().filter_map(|analysis| analysis.section));
                // Reversed, since of two equal titles the second is the duplicate.
                names.extend(self.sections.into_iter().rev().filter_map(|section| section.title));
            }
            // A name that is wrong in one point may be right in another, so the message has only the section.
            Kind::Published => {}
        }
        names
    }
}

/// Returns the first position at which a study uses a name for this kind; for a section's title, the last.
pub(crate) fn of_name(text: &str, kind: Kind, name: &str) -> Option<Position> {
    let outline: Outline = serde_saphyr::from_str(text).ok()?;
    let found = outline.names(kind).into_iter().find(|found| found.value == name)?;
    Some((found.referenced.line(), found.referenced.column()))
}

/// Translates an error of the YAML reader and returns its position. `near` ends the sentence about an unknown
/// name.
pub(crate) fn of_error(
    error: &Error,
    near: impl Fn(&str, &[String]) -> String,
) -> (Option<Position>, String) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let text = match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key `{field}`{}", near(field, &owned(expected)))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value `{variant}`{}", near(variant, &owned(expected)))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` must be there"),
        other => {
            // Cut off the position that the reader appends: the message has it in front.
            let text = other.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.rsplit_once(" at line ").map_or(line, |(what, _)| what).to_owned()
        }
    };
    (error.location().map(|at| (at.line(), at.column())), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "title: wrk
control: nginx
settings: {tool: ab}
arms: {lean: {system: envoy, settings: {tool: hey, features: [tls]}}}
sections:
  - title: One
    systems: [direct, wrk]
    points:
      - {set: {tool: wrk}, systems: [caddy]}
  - title: One
analyses: [{kind: scaling, section: Two}]
";

    #[test]
    fn a_name_is_found_where_it_is_used_as_such() {
        for (kind, name, position) in [
            (Kind::System, "nginx", (2, 10)),
            (Kind::System, "envoy", (4, 23)),
            (Kind::System, "wrk", (7, 23)),
            (Kind::System, "caddy", (9, 38)),
            (Kind::Tool, "ab", (3, 18)),
            (Kind::Tool, "hey", (4, 47)),
            (Kind::Tool, "wrk", (9, 22)),
            (Kind::Feature, "tls", (4, 63)),
            (Kind::Section, "Two", (11, 37)),
            (Kind::Section, "One", (10, 12)),
        ] {
            assert_eq!(of_name(STUDY, kind, name), Some(position), "{name}");
        }
        assert_eq!(of_name(STUDY, Kind::Tool, "nginx"), None);
        assert_eq!(of_name("[", Kind::Tool, "nginx"), None);
    }
}
