//! Tables as HTML.
//!
//! A number names its source by its place, which keeps the page small: the head of its column has the figure's name,
//! and its row the place of cell and system in the page's JSON ([`super::embedded`]).

use super::embedded::Places;
use super::prose;
use crate::figures::OwnTable;
use crate::table::{self, Table, Text, Tone};
use maud::{Markup, html};

/// Draws a table that the study itself defines.
pub(super) fn own(own: &OwnTable, section: &str, places: &Places) -> Markup {
    labelled(&table::of_own("", own), &format!("{section}: {}", own.head.join(", ")), places)
}

/// Draws a table with a name of its own beside its caption.
pub(super) fn named(table: &Table, label: &str, places: &Places) -> Markup {
    labelled(table, label, places)
}

/// Draws a table, which scrolls sideways within the page if it is too wide.
pub(super) fn draw(table: &Table, places: &Places) -> Markup {
    labelled(table, &table.caption, places)
}

/// Draws a table with a name for screen readers, which must be unique on the page.
fn labelled(table: &Table, label: &str, places: &Places) -> Markup {
    html! {
        div class="scroll" role="region" tabindex="0" aria-label=(label) {
            table class="sortable" {
                @if !table.caption.is_empty() { caption { (table.caption) } }
                thead {
                    tr {
                        @for (at, column) in table.columns.iter().enumerate() {
                            th scope="col" class=[(!column.number).then_some("t")] data-figure=[figure(table, at)] { (column.head) }
                        }
                    }
                }
                @for group in &table.groups {
                    tbody {
                        @if let Some(title) = group.title.as_ref().filter(|_| table.groups.len() > 1) {
                            tr class="group" { th scope="rowgroup" colspan=(table.columns.len()) { (title) } }
                        }
                        @for row in &group.rows {
                            tr data-row=[place(row, places)] {
                                @for (at, text) in row.iter().enumerate() { (cell(table, row, at, text)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the name of the figure in a column; `None` if its texts have no source.
fn figure(table: &Table, column: usize) -> Option<&str> {
    let mut rows = table.groups.iter().flat_map(|group| &group.rows);
    rows.find_map(|row| Some(row.get(column)?.source.as_ref()?.figure.as_str()))
}

/// Returns the place of a row's cell and system in the page's JSON.
fn place(row: &[Text], places: &Places) -> Option<usize> {
    let source = row.iter().find_map(|text| text.source.as_ref())?;
    places.of(&source.cell, &source.system)
}

fn cell(table: &Table, row: &[Text], at: usize, text: &Text) -> Markup {
    let column: usize = row[..at].iter().map(|text| text.span).sum();
    let number = text.span == 1 && table.columns.get(column).is_some_and(|column| column.number);
    let tone = match text.tone {
        Tone::Plain => "",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Faint => "faint",
    };
    let class = if number || at == 0 { tone.to_owned() } else { format!("t {tone}") };
    let class = (!class.trim().is_empty()).then(|| class.trim().to_owned());
    let inner = html! {
        @if let Some(beside) = &text.beside { small { (beside) } " " }
        (prose::line(&text.text))
        @if let Some(small) = &text.small { div { (prose::line(small)) } }
    };
    html! {
        @if at == 0 {
            th scope="row" class=[class] { (inner) }
        } @else {
            td class=[class] colspan=[(text.span > 1).then_some(text.span)] { (inner) }
        }
    }
}
