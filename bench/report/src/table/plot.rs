//! The plot at the head of a report: the figure that the study is about, a bar for each system. HTML draws it as SVG,
//! Markdown as a block of text.

use super::sentences::quantity;
use super::signed;
use crate::figures::{Decision, Headline, Metric, Report, Row, is_reference};
use crate::number;
use tollgate_lab_record::{Summary, VerdictKind};

/// The most prices that the plot shows.
const MOST_PRICES: usize = 12;

/// The plot of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The figure that the bars show, and its cell.
    pub title: String,
    /// The unit of the axis.
    pub axis: &'static str,
    /// The bars in the order of the table.
    pub bars: Vec<PlotBar>,
}

/// A bar of the plot.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotBar {
    /// The system's name, which decides the colour.
    pub system: String,
    /// The text before the bar.
    pub label: String,
    /// Its length, in the unit of the axis.
    pub value: f64,
    /// The interval of the value over the rounds.
    pub range: Option<(f64, f64)>,
    /// The value as text, in the unit of the axis.
    pub text: String,
    /// A text after the value: the component that limited the system, unless the system itself did.
    pub remark: String,
    /// Whether the value is not a figure of a gateway.
    pub pale: bool,
}

/// Returns the plot of a decision; `None` if fewer than two systems have a figure.
pub fn plot(report: &Report, decision: &Decision) -> Option<Plot> {
    let plot = match decision.headline {
        Headline::Prices { .. } => of_prices(report),
        _ => of_cell(decision),
    };
    (plot.bars.len() > 1).then_some(plot)
}

fn of_cell(decision: &Decision) -> Plot {
    let by = decision.by;
    let mut name = quantity(by).to_owned();
    if let Some(first) = name.get(..1) {
        name = format!("{}{}", first.to_uppercase(), &name[1..]);
    }
    let axis = match by {
        Metric::Rps => "requests/s",
        _ => "µs",
    };
    Plot {
        title: format!("{name}: {}", decision.at),
        axis,
        bars: decision.rows.iter().filter_map(|entry| bar(&entry.row, by)).collect(),
    }
}

fn bar(row: &Row, by: Metric) -> Option<PlotBar> {
    let figures = row.figures()?;
    let value = figures.of(by)?;
    let range = match by {
        Metric::Cpu => figures.cpu_us,
        Metric::Rps => Some(figures.rps),
        Metric::P99 => figures.p99_rounds_us,
        _ => None,
    };
    let others = row.verdict.filter(|kind| is_others(*kind, by));
    let remark = match others {
        _ if is_reference(&row.system) => "no gateway".to_owned(),
        Some(kind) => format!("limited by the {}", kind.name()),
        None => String::new(),
    };
    let text = if by == Metric::Rps { number::whole(value) } else { number::plain(value) };
    let (system, label) = (row.system.clone(), row.title.clone());
    Some(PlotBar {
        system,
        label,
        value,
        range: range.and_then(ends),
        text,
        pale: !remark.is_empty(),
        remark,
    })
}

/// Returns whether a figure is the limit of another part. At an offered rate the cost is the system's, whatever caused the
/// latency.
fn is_others(kind: VerdictKind, by: Metric) -> bool {
    let own = matches!(
        kind,
        VerdictKind::Nothing
            | VerdictKind::Gateway
            | VerdictKind::HotWorker
            | VerdictKind::Quota
            | VerdictKind::Connections
    );
    !own && by != Metric::Cpu
}

/// Returns the most expensive of the features whose price is beyond chance.
fn of_prices(report: &Report) -> Plot {
    let all = report.sections.iter().flat_map(|section| &section.prices).filter(|price| !price.whole);
    let mut bars: Vec<PlotBar> = all
        .filter_map(|price| {
            let added = price.cpu_us.figure()?;
            if added.rounds < crate::FEWEST_ROUNDS || added.low <= 0.0 {
                return None;
            }
            Some(PlotBar {
                system: price.system.clone(),
                label: price.feature.clone(),
                value: added.estimate,
                range: ends(*added),
                text: signed(added.estimate, &number::plain),
                remark: report.title_of(&price.system).to_owned(),
                pale: false,
            })
        })
        .collect();
    bars.sort_by(|a, b| b.value.total_cmp(&a.value));
    let title = match bars.len() > MOST_PRICES {
        true => format!(
            "CPU time that a feature adds to a request: the {MOST_PRICES} most expensive of {}",
            bars.len()
        ),
        false => "CPU time that a feature adds to a request".to_owned(),
    };
    bars.truncate(MOST_PRICES);
    Plot { title, axis: "µs", bars }
}

fn ends(figure: Summary) -> Option<(f64, f64)> {
    (figure.rounds > 1 && figure.low < figure.high).then_some((figure.low, figure.high))
}
