//! The decision table, with one row for each system, and the headline above it.
//!
//! Both are based on a single cell. The study names it ([`tollgate_lab_record::Decides`]); otherwise it is the
//! cell that can be attributed to the most systems, at an offered rate before a closed loop. The headline
//! names a winner only if the interval of the ratio to **every** other system excludes 1 beyond the noise of
//! the machine. Everything else is a [`Doubt`], which says between which systems no difference was shown.

use super::{Call, CellReport, Metric, Row, Section, build, parts};
use serde::Serialize;
use tollgate_lab_record::{Results, Summary, VerdictKind};

/// The references that gateways are compared with: no system at all, and forwarders that do not read the bytes.
const REFERENCES: [&str; 3] = ["direct", "floor", "forwarder"];

/// Returns whether a system is a reference for the others and no candidate itself.
pub fn is_reference(system: &str) -> bool {
    REFERENCES.contains(&system)
}

/// The decision table: one row for each system, from the cell that answers the study's question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The id of the chosen cell.
    pub cell: String,
    /// The title of the cell and of its section.
    pub at: String,
    /// The connections in words; `None` if the file does not hold them.
    pub load: Option<String>,
    /// The offered rate of the cell in requests per second; `None` for a closed loop.
    pub offered: Option<f64>,
    /// The metric that orders the rows.
    pub by: Metric,
    /// The rows, best first; systems without figures last.
    pub rows: Vec<DecisionRow>,
    /// The conclusion that the figures support.
    pub headline: Headline,
}

/// A system in the decision table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionRow {
    /// The system's row in the cell.
    pub row: Row,
    /// The highest rate (requests per second) in any cell with figures, with the id and title of that cell.
    pub most: Option<(f64, String, String)>,
    /// The number of cells in which the system has figures.
    pub usable: usize,
    /// The number of cells that name the system.
    pub cells: usize,
    /// In how many cells the system itself was the limit: saturated, one hot worker, quota, connections.
    pub own_limit: usize,
}

/// A system's title and its figure.
pub type Entry = (String, f64);

/// The conclusion that the figures of the decision's cell allow.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Headline {
    /// One system is better than every other one.
    Winner {
        /// The system.
        best: Entry,
        /// The system with the next figure.
        next: Entry,
        /// The ratio of the first to the second.
        ratio: Summary,
    },
    /// No difference was shown between the system with the best figure and others.
    NoDifference {
        /// These systems, the best figure first.
        between: Vec<Entry>,
        /// The systems that are worse than the best one beyond doubt.
        worse: Vec<Entry>,
        /// The reason.
        why: Doubt,
    },
    /// Some systems were limited by another component, so that their own figures are not known.
    NotTheirs {
        /// These systems, each with its figure, if one is shown, and the word of its verdict.
        limited: Vec<(String, Option<f64>, &'static str)>,
        /// The systems whose figures are their own.
        own: Vec<Entry>,
    },
    /// The prices of features, for each system.
    Prices {
        /// One entry for each system.
        lists: Vec<PriceList>,
    },
    /// Only one system has a figure.
    Alone {
        /// The system.
        only: Entry,
    },
    /// No system has a figure that can be compared.
    Nothing,
}

/// Why no difference was shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    /// Fewer rounds than [`crate::FEWEST_ROUNDS`].
    Rounds {
        /// The rounds that there are.
        rounds: u32,
    },
    /// An interval includes 1, or the estimate lies within the noise of the A/A control.
    Noise,
    /// The file has no ratio of the two.
    NoRatio,
}

/// The prices of one system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriceList {
    /// The system's title.
    pub title: String,
    /// The number of features whose price in CPU has an interval above 0.
    pub shown: usize,
    /// The number of features that were measured.
    pub measured: usize,
    /// The most expensive of the features that are shown: its name and price in microseconds.
    pub most: Option<(String, Summary)>,
}

impl Decision {
    pub(super) fn of(
        results: &Results,
        sections: &[Section],
        baseline: Option<&(String, String)>,
    ) -> Option<Self> {
        let cells =
            || sections.iter().flat_map(|section| section.cells.iter().map(move |cell| (section, cell)));
        let named = results.header.decides.as_ref();
        let chosen = named.and_then(|named| cells().find(|(_, cell)| cell.id == named.cell));
        let chosen = chosen.filter(|(_, cell)| cell.rows.iter().any(|row| row.figures().is_some()));
        let by = chosen.and(named).and_then(|named| named.by);
        let (section, cell) = chosen.or_else(|| most_attributed(cells()))?;
        let by = by.unwrap_or(if cell.offered.is_some() { Metric::Cpu } else { Metric::Rps });
        // Every system of the study gets a row, even if this cell leaves it out.
        let mut names: Vec<(&str, &Row)> = cell.rows.iter().map(|row| (row.system.as_str(), row)).collect();
        for (_, other) in cells() {
            for row in &other.rows {
                if names.iter().all(|(name, _)| *name != row.system) {
                    names.push((&row.system, row));
                }
            }
        }
        let mut rows: Vec<DecisionRow> = names
            .into_iter()
            .map(|(name, row)| {
                decision_row(name, row, cell.row(name).is_some(), cells().map(|(_, cell)| cell))
            })
            .collect();
        let key = |row: &DecisionRow| row.row.figures().and_then(|figures| figures.of(by));
        rows.sort_by(|a, b| {
            let order = match (key(a), key(b)) {
                (Some(a), Some(b)) => better_first(by, a, b),
                (a, b) => b.is_some().cmp(&a.is_some()),
            };
            order.then_with(|| b.row.figures().is_some().cmp(&a.row.figures().is_some()))
        });
        // References come first. A direct run whose throughput the others are not compared with is one of the rows.
        let apart = |row: &DecisionRow| {
            let compared = by != Metric::Rps || baseline.is_some_and(|(name, _)| name == "direct");
            is_reference(&row.row.system) && (row.row.system != "direct" || compared)
        };
        rows.sort_by_key(|row| (!apart(row), row.row.system != "direct" && apart(row)));
        // A study that also measures cells without a feature asks more than their price.
        let priced = sections.iter().filter(|section| !section.cells.is_empty());
        let only_priced = priced.into_iter().all(|section| !section.prices.is_empty());
        let prices = prices(sections, results).filter(|_| chosen.is_none() && only_priced);
        Some(Self {
            cell: cell.id.clone(),
            at: match cell.own_title() {
                Some(title) => format!("{title} ({})", section.title),
                None if cell.axis.as_ref().is_some_and(|(axis, _)| axis == "connections") => {
                    format!("{}, {}", section.title, parts::count(cell))
                }
                None => format!("{}, {}", section.title, cell.title),
            },
            load: parts::load(cell),
            offered: cell.offered,
            by,
            rows,
            headline: prices.unwrap_or_else(|| headline(results, cell, by)),
        })
    }
}

/// Returns the cell for a study that names none: at an offered rate, if there is one; of these, the one with
/// the most systems whose figures are their own, then with the most figures, then with the highest rate; of
/// equal cells, the first. `None` if no cell has figures.
fn most_attributed<'a>(
    cells: impl Iterator<Item = (&'a Section, &'a CellReport)>,
) -> Option<(&'a Section, &'a CellReport)> {
    let rank = |cell: &CellReport| {
        let by = if cell.offered.is_some() { Metric::Cpu } else { Metric::Rps };
        let own = cell.rows.iter().filter(|row| !is_reference(&row.system) && is_its_own(row, by));
        let measured = cell.rows.iter().filter(|row| row.figures().is_some());
        (cell.offered.is_some(), own.count(), measured.count(), cell.offered.unwrap_or(0.0) as u64)
    };
    let mut best: Option<(&Section, &CellReport)> = None;
    for (section, cell) in cells {
        if best.is_none_or(|(_, other)| rank(cell) > rank(other)) {
            best = Some((section, cell));
        }
    }
    best.filter(|(_, cell)| cell.rows.iter().any(|row| row.figures().is_some()))
}

/// Returns whether a figure is one of the system and not of another component. Throughput of a closed loop is
/// only at the system's own limit; the cost at an offered rate is if the rate was kept, and latency if the
/// generator was in time as well.
fn is_its_own(row: &Row, by: Metric) -> bool {
    let Some(figures) = row.figures() else { return false };
    let kept = figures.keeps_its_rate();
    let own_limit = matches!(
        row.verdict,
        Some(VerdictKind::Gateway | VerdictKind::HotWorker | VerdictKind::Quota | VerdictKind::Connections)
    );
    match by {
        Metric::Cpu if figures.offered.is_some() => kept,
        _ if figures.offered.is_some() => kept && row.verdict.is_none_or(VerdictKind::has_latency),
        _ => own_limit,
    }
}

fn better_first(by: Metric, a: f64, b: f64) -> std::cmp::Ordering {
    if by.lower_is_better() { a.total_cmp(&b) } else { b.total_cmp(&a) }
}

/// Compares the system with the best figure with every other one.
fn headline(results: &Results, cell: &CellReport, by: Metric) -> Headline {
    let mut own: Vec<(&Row, f64)> = Vec::new();
    let mut limited: Vec<(String, Option<f64>, &'static str)> = Vec::new();
    for row in cell.rows.iter().filter(|row| !is_reference(&row.system)) {
        let hidden = by.is_latency() && row.verdict.is_some_and(|kind| !kind.has_latency());
        if hidden && row.figures().is_some_and(|figures| figures.keeps_its_rate()) {
            limited.push((row.title.clone(), None, row.verdict_name()));
            continue;
        }
        let Some(value) = row.figures().and_then(|figures| figures.of(by)) else { continue };
        if row.figures().is_some_and(|figures| figures.offered.is_some() && !figures.keeps_its_rate()) {
            // The table shows that it cannot carry this rate; it has no cost at it.
            continue;
        }
        if is_its_own(row, by) {
            own.push((row, value));
        } else {
            limited.push((row.title.clone(), Some(value), row.verdict_name()));
        }
    }
    own.sort_by(|(_, a), (_, b)| better_first(by, *a, *b));
    limited.sort_by(|(_, a, _), (_, b, _)| match (a, b) {
        (Some(a), Some(b)) => better_first(by, *a, *b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    let entry = |(row, value): &(&Row, f64)| (row.title.clone(), *value);
    if !limited.is_empty() {
        return Headline::NotTheirs { limited, own: own.iter().map(entry).collect() };
    }
    let [best, others @ ..] = own.as_slice() else { return Headline::Nothing };
    let [next, ..] = others else { return Headline::Alone { only: entry(best) } };
    let wanted = if by.lower_is_better() { Call::Lower } else { Call::Higher };
    let noise = best.0.control.filter(|_| by == Metric::Cpu);
    let mut between = vec![entry(best)];
    let mut worse = Vec::new();
    let mut why = None;
    let mut first = None;
    for other in others {
        let ratio = build::pair(results, &cell.id, &best.0.system, &other.0.system, by);
        first = first.or(ratio);
        let doubt = match ratio.map(|ratio| (ratio, build::named(ratio, noise))) {
            Some((_, call)) if call == wanted => {
                worse.push(entry(other));
                continue;
            }
            Some((ratio, Call::Open)) => Doubt::Rounds { rounds: ratio.rounds },
            Some(_) => Doubt::Noise,
            None => {
                let rounds = |row: &Row| row.figures().map_or(0, |figures| figures.rounds);
                match rounds(best.0).min(rounds(other.0)) {
                    rounds if rounds < crate::FEWEST_ROUNDS => Doubt::Rounds { rounds },
                    _ => Doubt::NoRatio,
                }
            }
        };
        between.push(entry(other));
        why = why.or(Some(doubt));
    }
    match (why, first) {
        (None, Some(ratio)) => Headline::Winner { best: entry(best), next: entry(next), ratio },
        (why, _) => Headline::NoDifference { between, worse, why: why.unwrap_or(Doubt::NoRatio) },
    }
}

/// Returns the headline of a study of prices; `None` if it has none.
fn prices(sections: &[Section], results: &Results) -> Option<Headline> {
    let mut lists: Vec<PriceList> = Vec::new();
    for used in &results.systems {
        let of_system = sections.iter().flat_map(|section| &section.prices);
        let added = of_system.filter(|price| price.system == used.name && !price.whole);
        let known: Vec<(&str, Summary)> =
            added.filter_map(|price| Some((price.feature.as_str(), *price.cpu_us.figure()?))).collect();
        let shown: Vec<&(&str, Summary)> = known
            .iter()
            .filter(|(_, added)| added.rounds >= crate::FEWEST_ROUNDS && added.low > 0.0)
            .collect();
        let most = shown.iter().max_by(|(_, a), (_, b)| a.estimate.total_cmp(&b.estimate));
        if !known.is_empty() {
            lists.push(PriceList {
                title: used.title.clone(),
                shown: shown.len(),
                measured: known.len(),
                most: most.map(|(feature, added)| ((*feature).to_owned(), *added)),
            });
        }
    }
    (!lists.is_empty()).then_some(Headline::Prices { lists })
}

fn decision_row<'a>(
    name: &str,
    row: &Row,
    in_cell: bool,
    cells: impl Iterator<Item = &'a CellReport>,
) -> DecisionRow {
    let mut out = DecisionRow { row: row.clone(), most: None, usable: 0, cells: 0, own_limit: 0 };
    if !in_cell && !matches!(row.outcome, super::Outcome::Missing { .. }) {
        out.row.outcome = super::Outcome::Elsewhere;
        out.row.ratios.clear();
        out.row.verdict = None;
    }
    for cell in cells {
        let Some(row) = cell.row(name) else { continue };
        out.cells += 1;
        let Some(figures) = row.figures() else { continue };
        out.usable += 1;
        if matches!(
            row.verdict,
            Some(
                VerdictKind::Gateway | VerdictKind::HotWorker | VerdictKind::Quota | VerdictKind::Connections
            )
        ) {
            out.own_limit += 1;
        }
        if out.most.as_ref().is_none_or(|(rps, ..)| figures.rps.estimate > *rps) {
            out.most = Some((figures.rps.estimate, cell.id.clone(), cell.title.clone()));
        }
    }
    out
}
