//! The tables of routes and endpoints, with their rates over the last seconds.

use std::cmp::Ordering;

use tollgate_observe::live::{EndpointLive, RouteLive};

use crate::figures::{age, amount, percent, time};
use crate::recent::{Rates, Recent};
use crate::screen::{Order, Tab};

/// The severity of a row, which `view` shows as a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Normal.
    #[default]
    Well,
    /// Needs attention.
    Doubtful,
    /// Failing.
    Bad,
}

/// A table.
#[derive(Debug)]
pub struct Rows {
    /// Names of the columns; text columns come first, then figures.
    pub columns: &'static [&'static str],
    /// Number of text columns.
    pub texts: usize,
    /// Index of the column by which the table is sorted.
    pub sorted: usize,
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<String>,
    /// The severity.
    pub mood: Mood,
}

const ROUTES: &[&str] = &["route", "req/s", "5xx", "p50", "p99", "total"];
const ENDPOINTS: &[&str] = &["upstream", "endpoint", "state", "weight", "conns", "req/s", "failed", "total"];

/// The values by which a row is sorted.
struct SortKeys<'a> {
    name: (&'a str, &'a str),
    rates: Rates,
    slowness: f64,
    total: u64,
}

impl SortKeys<'_> {
    fn compare(&self, other: &Self, order: Order) -> Ordering {
        let least_first = match order {
            Order::Rate => self.rates.rate.total_cmp(&other.rates.rate),
            Order::Errors => self.rates.errors.total_cmp(&other.rates.errors),
            Order::Slowness => self.slowness.total_cmp(&other.slowness),
            Order::Total => self.total.cmp(&other.total),
            Order::Name => other.name.cmp(&self.name),
        };
        // Rows with equal values are sorted by name; otherwise they would change places every second.
        least_first.reverse().then_with(|| self.name.cmp(&other.name))
    }
}

/// Returns the rows of a table, sorted.
pub fn rows(recent: &Recent, tab: Tab, order: Order) -> Rows {
    match tab {
        Tab::Routes => routes(recent, order),
        Tab::Endpoints => endpoints(recent, order),
    }
}

fn sorted<'a>(mut all: Vec<(SortKeys<'a>, Row)>, order: Order) -> Vec<Row> {
    all.sort_by(|(one, _), (other, _)| one.compare(other, order));
    all.into_iter().map(|(_, row)| row).collect()
}

fn routes(recent: &Recent, order: Order) -> Rows {
    let named = |(route, rates): (&RouteLive, Rates)| {
        let name = match route.name.as_str() {
            "-" => "(no route)",
            "other" => "(all others)",
            name => name,
        };
        (name.to_owned(), route.requests, rates)
    };
    let all: Vec<_> = recent.routes().into_iter().map(named).collect();
    let all = all.iter().map(|(name, total, rates)| {
        let cells = vec![
            name.clone(),
            amount(rates.rate),
            percent(rates.errors),
            time(rates.p50),
            time(rates.p99),
            total.to_string(),
        ];
        let slowness = rates.p99.unwrap_or_default();
        let keys = SortKeys { name: (name, ""), rates: *rates, slowness, total: *total };
        (keys, Row { cells, mood: failing(rates.errors) })
    });
    let sorted_by = [1, 2, 4, 5, 0][order as usize];
    Rows { columns: ROUTES, texts: 1, sorted: sorted_by, rows: sorted(all.collect(), order) }
}

fn endpoints(recent: &Recent, order: Order) -> Rows {
    let all = recent.endpoints();
    let all = all.iter().map(|(upstream, endpoint, rates)| {
        let cells = vec![
            upstream.name.clone(),
            endpoint.address.clone(),
            state(endpoint),
            endpoint.weight.to_string(),
            endpoint.connections.to_string(),
            amount(rates.rate),
            percent(rates.errors),
            endpoint.requests.to_string(),
        ];
        let mood = match endpoint.state.as_str() {
            "unhealthy" => Mood::Bad,
            "ejected" => Mood::Doubtful,
            _ => failing(rates.errors),
        };
        let name = (upstream.name.as_str(), endpoint.address.as_str());
        let slowness = f64::from(endpoint.connections);
        (SortKeys { name, rates: *rates, slowness, total: endpoint.requests }, Row { cells, mood })
    });
    let sorted_by = [5, 6, 4, 7, 0][order as usize];
    Rows { columns: ENDPOINTS, texts: 3, sorted: sorted_by, rows: sorted(all.collect(), order) }
}

fn failing(part: f64) -> Mood {
    match part {
        0.01.. => Mood::Bad,
        0.0 => Mood::Well,
        _ => Mood::Doubtful,
    }
}

fn state(endpoint: &EndpointLive) -> String {
    match (endpoint.ejected_for, &endpoint.problem) {
        (Some(seconds), _) => format!("{}, {} left", endpoint.state, age(seconds)),
        (None, Some(problem)) if endpoint.state == "unhealthy" => {
            format!("{}: {}", endpoint.state, problem.lines().next().unwrap_or_default())
        }
        _ => endpoint.state.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::live;

    #[test]
    fn sorted_by_each_column() {
        let mut recent = Recent::default();
        recent.take(live(1_000.0, 0));
        recent.take(live(1_002.0, 400));
        let first = |order| rows(&recent, Tab::Routes, order).rows[0].cells[0].clone();
        assert_eq!(first(Order::Rate), "items");
        assert_eq!(first(Order::Errors), "cart");
        assert_eq!((first(Order::Total), first(Order::Name)), ("items".to_owned(), "cart".to_owned()));
        let table = rows(&recent, Tab::Routes, Order::Errors);
        assert_eq!(table.columns[table.sorted], "5xx");
        assert_eq!(table.rows[0].cells[..3], ["cart", "50", "10 %"]);
        assert_eq!((table.rows[0].mood, table.rows[1].mood), (Mood::Bad, Mood::Well));
        let table = rows(&recent, Tab::Endpoints, Order::Name);
        assert_eq!(table.rows[1].cells[..3], ["shop", "10.0.0.2:8080", "unhealthy"]);
        assert_eq!(table.rows[1].mood, Mood::Bad);
    }
}
