//! Computes the analyses of a study from a result file, once a section is measured.
//!
//! [`analyse`] answers each [`Analysis`] of a study with tables and notes for the section that it names.
//! Figures come only from good trials of a numbered round whose verdict permits figures; without any, the
//! table gives the reason. Searches and experiments that run programs are in another crate: this one only
//! reads.

mod balance;
mod bars;
mod capacity;
mod config_lines;
mod feature_prices;
mod number;
mod outcome;
mod quota_advice;
mod scaling;

#[cfg(test)]
mod made;

use tollgate_lab_record::{Line, Results};
use tollgate_lab_study::{Analysis, Study};

/// Answers the study's analyses from the measurements. Returns [`Line::Table`], [`Line::Price`] and
/// [`Line::Note`] lines to append to the result file. A section without a measured cell gets no line. A note
/// that the file already has is not repeated; when the file is read, a table replaces an earlier one of the
/// same section and head.
pub fn analyse(study: &Study, results: &Results) -> Vec<Line> {
    let mut lines: Vec<Line> =
        study.analyses.iter().flat_map(|analysis| answer(study, results, analysis)).collect();
    lines.retain(|line| match line {
        Line::Note { section, text } => {
            !results.notes.iter().any(|(title, other)| title == section && other == text)
        }
        _ => true,
    });
    lines
}

fn answer(study: &Study, results: &Results, analysis: &Analysis) -> Vec<Line> {
    if let Analysis::Bars { system, peers, sections } = analysis {
        return bars::lines(study, results, system, peers, sections);
    }
    let measured = |section: &str| results.cells.iter().any(|cell| cell.section == section);
    if !analysis.section().is_some_and(measured) {
        return Vec::new();
    }
    match analysis {
        Analysis::Capacity {
            section,
            upstream_cores,
            rps_per_core,
            utilisation,
            gateway_cores,
            published,
        } => {
            let cluster = tollgate_lab_stats::capacity::Cluster {
                cores: *upstream_cores,
                rps_per_core: *rps_per_core,
                utilisation: *utilisation,
            };
            let asked =
                capacity::Asked { section, cluster, cores: *gateway_cores, published: published.as_ref() };
            capacity::lines(study, results, &asked)
        }
        Analysis::Scaling { section } => {
            let mut lines = scaling::lines(study, results, section);
            lines.extend(balance::lines(study, results, section));
            lines
        }
        Analysis::QuotaAdvice { section, rates } => quota_advice::lines(study, results, section, rates),
        Analysis::FeaturePrices { section, .. } => feature_prices::lines(study, results, section),
        Analysis::ConfigLines { section } => config_lines::lines(study, results, section),
        Analysis::Bars { .. }
        | Analysis::GeneratorSearch { .. }
        | Analysis::IdleMemory { .. }
        | Analysis::Datagrams { .. }
        | Analysis::LargeBody { .. }
        | Analysis::RuntimeRoute { .. } => Vec::new(),
    }
}

fn table<const N: usize>(section: &str, head: [String; N], rows: Vec<[String; N]>) -> Line {
    Line::Table {
        section: section.to_owned(),
        head: head.to_vec(),
        rows: rows.into_iter().map(|row| row.to_vec()).collect(),
    }
}

fn note(section: &str, text: String) -> Line {
    Line::Note { section: section.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: config-lines, section: One}, {kind: config-lines, section: Two}]
sections:
  - {title: One, systems: [nginx], points: [{}]}
  - {title: Two, systems: [nginx], points: [{}]}
";

    #[test]
    fn a_section_that_was_not_measured_gets_no_line_and_no_note_stands_twice() {
        let study = made::study(STUDY);
        let mut results = made::results(&["nginx"], vec![made::cell("1-1", "One", &[], &["nginx"])]);
        let first = analyse(&study, &results);
        assert_eq!(first.len(), 2, "a table and a note");
        for line in &first {
            let (Line::Table { section, .. } | Line::Note { section, .. }) = line else { panic!("{line:?}") };
            assert_eq!(section, "One");
            if let Line::Note { section, text } = line {
                results.notes.push((section.clone(), text.clone()));
            }
        }
        let second = analyse(&study, &results);
        assert_eq!(second.len(), 1);
        assert!(matches!(second[0], Line::Table { .. }));
    }
}
