//! The sentences at the head of a report: who wins, by how much and with what certainty, what is not told apart, who
//! was the bottleneck, and under which load. Each sentence says one thing, in words that need no explanation.
//!
//! [`crate::figures::Decision`] decides what may be said; this module only words it.

use super::range;
use crate::figures::{
    Decision, DecisionRow, Doubt, Figures, Headline, Metric, Outcome, PriceList, is_reference,
};
use crate::number;
use tollgate_lab_record::{Summary, VerdictKind};

/// The most systems that a sentence names; it counts the others.
const MOST_NAMED: usize = 4;

/// A part of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Whether it is emphasised.
    pub strong: bool,
}

/// A sentence as its parts.
pub type Sentence = Vec<Piece>;

fn plain(text: impl Into<String>) -> Piece {
    Piece { text: text.into(), strong: false }
}

fn strong(text: impl Into<String>) -> Piece {
    Piece { text: text.into(), strong: true }
}

fn sentence(text: impl Into<String>) -> Sentence {
    vec![plain(text)]
}

/// Returns the sentences at the head of a report.
pub fn sentences(decision: &Decision) -> Vec<Sentence> {
    if let Headline::Prices { lists } = &decision.headline {
        let mut out: Vec<Sentence> = lists.iter().map(price_list).collect();
        out.extend(load(decision));
        return out;
    }
    let mut out = verdict(decision);
    out.extend(bottlenecks(decision));
    out.extend(without_figures(decision));
    out.extend(load(decision));
    out
}

/// Returns the sentences as one text.
pub(crate) fn sentences_text(decision: &Decision) -> String {
    let texts =
        sentences(decision).into_iter().map(|pieces| pieces.into_iter().map(|piece| piece.text).collect());
    texts.collect::<Vec<String>>().join(" ")
}

/// Returns who wins, by how much and with what certainty, or what is not told apart and why.
fn verdict(decision: &Decision) -> Vec<Sentence> {
    let by = decision.by;
    match &decision.headline {
        Headline::Winner { best, next, ratio } => winner(by, best, next, *ratio),
        Headline::NoDifference { between, worse, why } => no_difference(by, between, worse, *why),
        Headline::NotTheirs { limited, own } => {
            let named: Vec<String> =
                limited.iter().map(|(title, value, _)| with_figure(by, title, *value)).collect();
            let mut out = vec![
                vec![strong("No winner is named"), plain(format!(" by {}.", quantity(by)))],
                sentence(match by {
                    Metric::Rps => format!("{} did not reach {} own limit.", and(&named), its(named.len())),
                    _ => format!("The {} of {} is not known.", quantity(by), and(&named)),
                }),
            ];
            if by == Metric::Rps {
                out.push(sentence(if named.len() == 1 {
                    "It may carry more."
                } else {
                    "They may carry more."
                }));
            }
            if !own.is_empty() {
                out.push(sentence(match by {
                    Metric::Rps => format!("{} reached {} own limit.", listed(by, own), its(own.len())),
                    _ => format!("The {} of {} is known.", quantity(by), listed(by, own)),
                }));
            }
            out
        }
        Headline::Alone { only } => vec![
            vec![strong(&only.0), plain(format!(" {} {}.", has(by), figure(by, only.1)))],
            sentence("No other system has a figure of its own here, so there is nothing to compare."),
        ],
        // Prices have sentences of their own.
        Headline::Nothing | Headline::Prices { .. } => {
            vec![sentence("No system has a figure that can be compared here.")]
        }
    }
}

fn winner(by: Metric, best: &(String, f64), next: &(String, f64), ratio: Summary) -> Vec<Sentence> {
    let others = match by {
        Metric::Rps => "carries less",
        Metric::Cpu => "needs more",
        _ => "takes longer",
    };
    vec![
        vec![
            strong(&best.0),
            plain(format!(" {}: ", has_the_best(by))),
            strong(figure(by, best.1)),
            plain("."),
        ],
        sentence(format!(
            "That is {} times the {} of {}, which comes next.",
            number::ratio(ratio.estimate),
            figure(by, next.1),
            next.0
        )),
        sentence(match ratio.rounds {
            rounds if rounds > 1 && ratio.low < ratio.high => format!(
                "With {} % confidence this ratio is between {} and {} ({rounds} rounds).",
                number::whole(crate::estimate::level(rounds) * 100.0),
                number::ratio(ratio.low),
                number::ratio(ratio.high),
            ),
            _ => format!("The file has {} for this ratio.", range(&ratio)),
        }),
        sentence(format!("Every other system {others}, beyond chance.")),
    ]
}

fn no_difference(
    by: Metric,
    between: &[(String, f64)],
    worse: &[(String, f64)],
    why: Doubt,
) -> Vec<Sentence> {
    let mut out = match why {
        Doubt::Rounds { rounds } => {
            let have = if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") };
            vec![
                vec![strong("No winner is named"), plain(format!(" by {}.", quantity(by)))],
                sentence(format!("The run has {have}, and a comparison needs {}.", crate::FEWEST_ROUNDS)),
                sentence(format!("In order of the figures: {}.", listed(by, between))),
            ]
        }
        Doubt::Noise | Doubt::NoRatio => {
            let mut names = between.iter().map(|(title, value)| with_figure(by, title, Some(*value)));
            let best = names.next().unwrap_or_default();
            let others: Vec<String> = names.collect();
            let why = match why {
                Doubt::NoRatio => "The file holds no ratio of them within rounds.",
                _ => {
                    "The differences are within what chance explains, or within what two copies of one system show."
                }
            };
            vec![
                vec![
                    strong(format!("{best} is not told apart from {}", and(&capped(&others)))),
                    plain(format!(" by {}.", quantity(by))),
                ],
                sentence(why),
            ]
        }
    };
    if let Some((title, value)) = worse.first() {
        let (one, several) = match by {
            Metric::Rps => ("carries less", "carry less"),
            Metric::Cpu => ("needs more", "need more"),
            _ => ("takes longer", "take longer"),
        };
        let next = format!("{title} ({})", figure(by, *value));
        if worse.len() == 1 {
            out.push(sentence(format!("{next} {one}, beyond chance.")));
        } else {
            out.push(sentence(format!("{} other systems {several}, beyond chance.", worse.len())));
            out.push(sentence(format!("The next of them is {next}.")));
        }
    }
    out
}

/// Returns a sentence for each part that was full first, with the systems that it concerns.
fn bottlenecks(decision: &Decision) -> Vec<Sentence> {
    let mut groups: Vec<(VerdictKind, Vec<String>)> = Vec::new();
    let candidates = decision.rows.iter().filter(|entry| !is_reference(&entry.row.system));
    let measured: Vec<&DecisionRow> = candidates.filter(|entry| entry.row.figures().is_some()).collect();
    for entry in &measured {
        let Some(kind) = entry.row.verdict else { continue };
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, titles)) => titles.push(entry.row.title.clone()),
            None => groups.push((kind, vec![entry.row.title.clone()])),
        }
    }
    let offered = decision.offered.is_some();
    let sentence_of = |(kind, titles): &(VerdictKind, Vec<String>)| {
        let all = titles.len() == measured.len() && titles.len() > 1;
        let whom = if all { "every system".to_owned() } else { and(&capped(titles)) };
        let its = if all { "its" } else { its(titles.len()) };
        match kind {
            VerdictKind::Nothing if all => "No part was full.".to_owned(),
            VerdictKind::Nothing => format!("No part was full for {whom}."),
            VerdictKind::Gateway => format!("The bottleneck of {whom} was {its} own CPU."),
            VerdictKind::HotWorker => format!("The bottleneck of {whom} was one full worker."),
            VerdictKind::Quota => format!("The bottleneck of {whom} was {its} CPU quota."),
            VerdictKind::Connections => format!("The bottleneck of {whom} was a limit on connections."),
            VerdictKind::Origin => format!("The bottleneck of {whom} was the origin."),
            VerdictKind::Generator if offered => {
                format!("The load generator sent late to {whom}, so that {its} latency is not shown.")
            }
            VerdictKind::Generator => format!("The bottleneck of {whom} was the load generator."),
            VerdictKind::LoadSide => {
                format!(
                    "Origin and load generator filled their core beside {whom}, so that {its} latency is not shown."
                )
            }
            VerdictKind::Link => format!("The bottleneck of {whom} was the network link."),
            // These have no figures.
            VerdictKind::OwnAnswers
            | VerdictKind::ExtraRequests
            | VerdictKind::Errors
            | VerdictKind::Invalid => String::new(),
        }
    };
    let late = measured.iter().filter(|entry| entry.row.figures().is_some_and(|one| !keeps(one)));
    let late: Vec<String> = late.map(|entry| entry.row.title.clone()).collect();
    let mut out: Vec<Sentence> =
        groups.iter().map(sentence_of).filter(|text| !text.is_empty()).map(sentence).collect();
    if !late.is_empty() {
        out.push(sentence(format!("{} did not keep the offered rate.", and(&capped(&late)))));
    }
    out
}

fn its(count: usize) -> &'static str {
    if count == 1 { "its" } else { "their" }
}

fn keeps(figures: &Figures) -> bool {
    figures.offered.is_none() || figures.keeps_its_rate()
}

/// Returns which systems have no figure in this cell, and why in a word.
fn without_figures(decision: &Decision) -> Option<Sentence> {
    let named: Vec<String> = decision
        .rows
        .iter()
        .filter(|entry| {
            matches!(entry.row.outcome, Outcome::Void { .. } | Outcome::Missing { .. } | Outcome::Pending)
        })
        .map(|entry| format!("{} ({})", entry.row.title, entry.row.verdict_name()))
        .collect();
    (!named.is_empty()).then(|| sentence(format!("There is no figure for {}.", or(&capped(&named)))))
}

/// Returns the load of the cell and the rounds behind its figures.
fn load(decision: &Decision) -> Option<Sentence> {
    let rounds =
        decision.rows.iter().filter_map(|entry| entry.row.figures()).map(|figures| figures.rounds).max()?;
    let rate = match decision.offered {
        Some(rps) => format!("{} requests/s", number::whole(rps)),
        None => "the next request as soon as it had answered".to_owned(),
    };
    let over = decision.load.as_ref().map_or_else(String::new, |load| format!(", over {load}"));
    let rounds = if rounds == 1 { "one round".to_owned() } else { format!("{rounds} rounds") };
    Some(sentence(format!("Each system got {rate}{over}, in {rounds}.")))
}

/// Returns the metric in words.
pub(super) fn quantity(by: Metric) -> &'static str {
    match by {
        Metric::Cpu => "CPU time per request",
        Metric::Rps => "throughput",
        Metric::Mean => "mean latency",
        Metric::P50 => "median latency",
        Metric::P99 => "99th percentile of latency",
        Metric::Max => "maximum latency",
    }
}

fn has(by: Metric) -> String {
    match by {
        Metric::Cpu => "needs a CPU time per request of".to_owned(),
        Metric::Rps => "carries".to_owned(),
        _ => format!("has a {} of", quantity(by)),
    }
}

fn has_the_best(by: Metric) -> String {
    match by {
        Metric::Cpu => "needs the least CPU time per request".to_owned(),
        Metric::Rps => "carries the most requests".to_owned(),
        _ => format!("has the lowest {}", quantity(by)),
    }
}

/// Returns a figure with its unit.
pub(super) fn figure(by: Metric, value: f64) -> String {
    match by {
        Metric::Rps => format!("{} requests/s", number::whole(value)),
        _ => number::time(value),
    }
}

fn with_figure(by: Metric, title: &str, value: Option<f64>) -> String {
    value.map_or_else(|| title.to_owned(), |value| format!("{title} ({})", figure(by, value)))
}

fn listed(by: Metric, entries: &[(String, f64)]) -> String {
    let all: Vec<String> =
        entries.iter().map(|(title, value)| with_figure(by, title, Some(*value))).collect();
    and(&capped(&all))
}

/// Returns the first names, and the number of the others.
fn capped(names: &[String]) -> Vec<String> {
    if names.len() <= MOST_NAMED + 1 {
        return names.to_vec();
    }
    let mut out = names[..MOST_NAMED].to_vec();
    out.push(format!("{} others", names.len() - MOST_NAMED));
    out
}

fn and(all: &[String]) -> String {
    joined(all, "and")
}

fn or(all: &[String]) -> String {
    joined(all, "or")
}

fn joined(all: &[String], word: &str) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

fn price_list(list: &PriceList) -> Sentence {
    let features = if list.measured == 1 { "feature" } else { "features" };
    let shown = match list.shown {
        0 => "none adds".to_owned(),
        1 => "one adds".to_owned(),
        count => format!("{count} add"),
    };
    vec![
        strong(&list.title),
        plain(format!(": of {} {features}, {shown} CPU time beyond chance.", list.measured)),
    ]
}
