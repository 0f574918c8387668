//! The sentences at the head of a report: what its figures allow to say.

use super::range;
use crate::figures::{Decision, Doubt, Headline, Metric, PriceList};
use crate::number;

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

fn plain(text: impl Into<String>) -> Piece {
    Piece { text: text.into(), strong: false }
}

fn strong(text: impl Into<String>) -> Piece {
    Piece { text: text.into(), strong: true }
}

/// Returns the headline of a report.
pub fn headline(decision: &Decision) -> Vec<Piece> {
    let by = decision.by;
    let what = quantity(decision);
    match &decision.headline {
        Headline::Winner { best, next, ratio } => vec![
            strong(&best.0),
            plain(if by.lower_is_better() { " has the lowest " } else { " has the highest " }),
            plain(what),
            plain(": "),
            strong(figure(by, best.1)),
            plain(format!(
                ", {} ({}) × {}, the next with {}.",
                number::ratio(ratio.estimate),
                range(ratio),
                next.0,
                figure(by, next.1)
            )),
        ],
        Headline::NoDifference { between, why } => vec![
            strong("No difference can be shown"),
            plain(format!(" in {what} between {}: {}.", listed(by, between), reason(*why))),
        ],
        Headline::NotTheirs { limited, own } => {
            let named: Vec<String> = limited
                .iter()
                .map(|(title, value, by_what)| match value {
                    Some(value) => format!("{title} ({}, {by_what})", figure(by, *value)),
                    None => format!("{title} ({by_what})"),
                })
                .collect();
            let mut out = vec![
                strong("No winner can be named"),
                plain(format!(
                    " by {what}: another component limited {}, so {} not known.",
                    and(&named),
                    if named.len() == 1 { "its own figure is" } else { "their own figures are" }
                )),
            ];
            if !own.is_empty() {
                out.push(plain(format!(" The figures of the others are their own: {}.", listed(by, own))));
            }
            out
        }
        Headline::Prices { lists } => lists.iter().flat_map(price_list).collect(),
        Headline::Alone { only } => vec![
            strong(&only.0),
            plain(format!(
                " alone has a figure of its own here: {}; there is no other to compare.",
                figure(by, only.1)
            )),
        ],
        Headline::Nothing => vec![plain("No system has a figure that can be compared here.")],
    }
}

/// Returns the sentence without emphasis.
pub(crate) fn headline_text(decision: &Decision) -> String {
    headline(decision).into_iter().map(|piece| piece.text).collect()
}

fn quantity(decision: &Decision) -> String {
    let at = decision.offered.map(|rps| format!(" at {} requests/s", number::whole(rps))).unwrap_or_default();
    let name = match decision.by {
        Metric::Cpu => "CPU time per request",
        Metric::Rps => "throughput",
        Metric::Mean => "mean latency",
        Metric::P50 => "median latency",
        Metric::P99 => "99th percentile of latency",
        Metric::Max => "maximum latency",
    };
    format!("{name}{at}")
}

fn figure(by: Metric, value: f64) -> String {
    match by {
        Metric::Rps => format!("{} requests/s", number::whole(value)),
        _ => number::time(value),
    }
}

fn listed(by: Metric, entries: &[(String, f64)]) -> String {
    let named = if entries.len() > MOST_NAMED + 1 { MOST_NAMED } else { entries.len() };
    let mut all: Vec<String> =
        entries[..named].iter().map(|(title, value)| format!("{title} ({})", figure(by, *value))).collect();
    if named < entries.len() {
        all.push(format!("{} others", entries.len() - named));
    }
    and(&all)
}

fn and(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn reason(why: Doubt) -> String {
    match why {
        Doubt::Rounds { rounds: 1 } => {
            format!("one round has no interval, and a comparison needs {} rounds", crate::FEWEST_ROUNDS)
        }
        Doubt::Rounds { rounds } => {
            format!("{rounds} rounds are too few, a comparison needs {}", crate::FEWEST_ROUNDS)
        }
        Doubt::Noise => "the intervals of their ratios include 1, or the ratios lie within the noise that \
                         two copies of one system show"
            .to_owned(),
        Doubt::NoRatio => "the file holds no ratio of them within rounds".to_owned(),
    }
}

fn price_list(list: &PriceList) -> Vec<Piece> {
    let mut out = vec![
        strong(&list.title),
        plain(format!(": {} of {} prices in CPU differ from 0", list.shown, list.measured)),
    ];
    if let Some((feature, added)) = &list.most {
        out.push(plain(format!(
            "; the highest is {feature}, {} µs ({}).",
            number::plain(added.estimate),
            format_args!("{}–{}", number::plain(added.low), number::plain(added.high))
        )));
    } else {
        out.push(plain("."));
    }
    out.push(plain(" "));
    out
}
