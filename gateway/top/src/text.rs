//! A screen as plain text, for a pipe or a file.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::recent::RecentDocuments;
use crate::rows::{TableData, rows};
use crate::screen::{SortColumn, Tab};
use crate::view::{summary, title_line};

/// Returns the figures, the routes and the endpoints. Empty before the first document.
#[must_use]
pub fn text(recent: &RecentDocuments) -> String {
    let Some(live) = recent.latest() else { return String::new() };
    let mut text = format!("{}\n", title_line(live));
    for (name, value) in summary(recent, live) {
        let _ = writeln!(text, "{name:<10} {value}");
    }
    for tab in [Tab::Routes, Tab::Endpoints] {
        let table = rows(recent, tab, SortColumn::Rate);
        if !table.rows.is_empty() {
            text.push('\n');
            text.push_str(&align(&table));
        }
    }
    text
}

/// Aligns figures to the right, and texts to the left.
fn align(table: &TableData) -> String {
    let columns: Vec<String> = table.columns.iter().map(|name| name.to_uppercase()).collect();
    let lines = || std::iter::once(&columns).chain(table.rows.iter().map(|row| &row.cells));
    let width = |column: usize| lines().map(|cells| cells[column].width()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for cells in lines() {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let blank = " ".repeat(width.saturating_sub(cell.width()));
            let gap = if index == 0 { "" } else { "  " };
            let _ = match index < table.text_columns {
                true => write!(line, "{gap}{cell}{blank}"),
                false => write!(line, "{gap}{blank}{cell}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::live;

    #[test]
    fn a_page_for_a_pipe() {
        let mut recent = RecentDocuments::default();
        assert_eq!(text(&recent), "");
        recent.add(live(1_000.0, 0));
        recent.add(live(1_002.0, 400));
        let text = text(&recent);
        for line in [
            "tollgate 0.1.0, running, generation 3, up 102 s",
            "requests   200/s, 400 since the start, 2 in flight",
            "ROUTE  REQ/S   5XX     P50      P99  TOTAL",
            "cart      50  10 %",
            "shop      10.0.0.1:8080  available",
        ] {
            assert!(text.lines().any(|other| other.starts_with(line)), "{line:?} in\n{text}");
        }
        assert!(text.is_ascii(), "a pipe may not take more");
    }
}
