//! The tables of routes and endpoints, with their rates over the last seconds.

use std::cmp::Ordering;

use tollgate_observe::live::{EndpointLive, RouteLive};

use crate::figures::{age, amount, percent, time};
use crate::recent::{RecentDocuments, RequestRates};
use crate::screen::{SortColumn, Tab};

/// The severity of a row, which `view` shows as a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowSeverity {
    /// Normal.
    #[default]
    Normal,
    /// Needs attention.
    Warning,
    /// Failing.
    Critical,
}

/// A table.
#[derive(Debug)]
pub struct TableData {
    /// Names of the columns; text columns come first, then figures.
    pub columns: &'static [&'static str],
    /// Number of text columns.
    pub text_columns: usize,
    /// Index of the column by which the table is sorted.
    pub sorted_column: usize,
    /// Columns in the order in which a narrow screen leaves them out.
    pub dispensable: &'static [usize],
    pub rows: Vec<Row>,
}

impl TableData {
    /// Keeps the rows of which a text cell contains `filter`, in any case. Returns the number before.
    pub fn retain_matching(&mut self, filter: &str) -> usize {
        let (all, filter) = (self.rows.len(), filter.to_lowercase());
        self.rows.retain(|row| {
            row.cells[..self.text_columns].iter().any(|cell| cell.to_lowercase().contains(&filter))
        });
        all
    }
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// One cell for each column.
    pub cells: Vec<String>,
    /// The severity.
    pub severity: RowSeverity,
}

const ROUTES: &[&str] = &["route", "req/s", "5xx", "p50", "p99", "total"];
const ENDPOINTS: &[&str] = &["upstream", "endpoint", "state", "weight", "conns", "req/s", "failed", "total"];

/// The values by which a row is sorted.
struct SortKeys<'a> {
    name: (&'a str, &'a str),
    rates: RequestRates,
    slowness: f64,
    total: u64,
}

impl SortKeys<'_> {
    fn compare(&self, other: &Self, order: SortColumn) -> Ordering {
        let least_first = match order {
            SortColumn::Rate => self.rates.rate.total_cmp(&other.rates.rate),
            SortColumn::Errors => self.rates.errors.total_cmp(&other.rates.errors),
            SortColumn::Slowness => self.slowness.total_cmp(&other.slowness),
            SortColumn::Total => self.total.cmp(&other.total),
            SortColumn::Name => other.name.cmp(&self.name),
        };
        // Rows with equal values are sorted by name; otherwise they would change places every second.
        least_first.reverse().then_with(|| self.name.cmp(&other.name))
    }
}

/// Returns the rows of a table, sorted.
pub fn rows(recent: &RecentDocuments, tab: Tab, order: SortColumn) -> TableData {
    match tab {
        Tab::Routes => routes(recent, order),
        Tab::Endpoints => endpoints(recent, order),
    }
}

fn sort_rows<'a>(mut all: Vec<(SortKeys<'a>, Row)>, order: SortColumn) -> Vec<Row> {
    all.sort_by(|(one, _), (other, _)| one.compare(other, order));
    all.into_iter().map(|(_, row)| row).collect()
}

fn routes(recent: &RecentDocuments, order: SortColumn) -> TableData {
    let named = |(route, rates): (&RouteLive, RequestRates)| {
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
        (keys, Row { cells, severity: error_severity(rates.errors) })
    });
    let sorted_by = [1, 2, 4, 5, 0][order as usize];
    TableData {
        columns: ROUTES,
        text_columns: 1,
        sorted_column: sorted_by,
        dispensable: &[5, 3, 2],
        rows: sort_rows(all.collect(), order),
    }
}

fn endpoints(recent: &RecentDocuments, order: SortColumn) -> TableData {
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
        let severity = match endpoint.state.as_str() {
            "unhealthy" => RowSeverity::Critical,
            "ejected" => RowSeverity::Warning,
            _ => error_severity(rates.errors),
        };
        let name = (upstream.name.as_str(), endpoint.address.as_str());
        let slowness = f64::from(endpoint.connections);
        (SortKeys { name, rates: *rates, slowness, total: endpoint.requests }, Row { cells, severity })
    });
    let sorted_by = [5, 6, 4, 7, 0][order as usize];
    TableData {
        columns: ENDPOINTS,
        text_columns: 3,
        sorted_column: sorted_by,
        dispensable: &[3, 7, 4, 6, 5],
        rows: sort_rows(all.collect(), order),
    }
}

/// Returns the severity of a fraction of errors.
pub fn error_severity(part: f64) -> RowSeverity {
    match part {
        0.01.. => RowSeverity::Critical,
        0.0 => RowSeverity::Normal,
        _ => RowSeverity::Warning,
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
        let mut recent = RecentDocuments::default();
        recent.add(live(1_000.0, 0));
        recent.add(live(1_002.0, 400));
        let first = |order| rows(&recent, Tab::Routes, order).rows[0].cells[0].clone();
        assert_eq!(first(SortColumn::Rate), "items");
        assert_eq!(first(SortColumn::Errors), "cart");
        assert_eq!(
            (first(SortColumn::Total), first(SortColumn::Name)),
            ("items".to_owned(), "cart".to_owned())
        );
        let table = rows(&recent, Tab::Routes, SortColumn::Errors);
        assert_eq!(table.columns[table.sorted_column], "5xx");
        assert_eq!(table.rows[0].cells[..3], ["cart", "50", "10 %"]);
        assert_eq!(
            (table.rows[0].severity, table.rows[1].severity),
            (RowSeverity::Critical, RowSeverity::Normal)
        );
        let table = rows(&recent, Tab::Endpoints, SortColumn::Name);
        assert_eq!(table.rows[1].cells[..3], ["shop", "10.0.0.2:8080", "unhealthy"]);
        assert_eq!(table.rows[1].severity, RowSeverity::Critical);
    }

    #[test]
    fn a_filter_keeps_the_rows_that_contain_it() {
        let mut recent = RecentDocuments::default();
        recent.add(live(1_000.0, 0));
        recent.add(live(1_002.0, 400));
        let kept = |tab, filter: &str| {
            let mut table = rows(&recent, tab, SortColumn::Name);
            let all = table.retain_matching(filter);
            (all, table.rows.iter().map(|row| row.cells[0].clone()).collect::<Vec<_>>())
        };
        assert_eq!(kept(Tab::Routes, "CAR"), (2, vec!["cart".to_owned()]));
        assert_eq!(kept(Tab::Routes, "").1.len(), 2);
        assert_eq!(kept(Tab::Endpoints, "unhealthy").1.len(), 1);
        assert!(kept(Tab::Routes, "50").1.is_empty(), "figures are not searched");
    }
}
