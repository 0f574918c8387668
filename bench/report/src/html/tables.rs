//! Tables as HTML.

use super::prose;
use crate::figures::OwnTable;
use crate::number;
use crate::table::{self, Table, Text, Tone};
use maud::{Markup, html};

/// Draws a table that the study itself defines.
pub(super) fn own(own: &OwnTable, section: &str) -> Markup {
    labelled(&table::of_own("", own), false, &format!("{section}: {}", own.head.join(", ")))
}

/// Draws a table, which scrolls sideways within the page if it is too wide. Number cells carry their exact
/// value and its source.
pub(super) fn draw(table: &Table, sortable: bool) -> Markup {
    labelled(table, sortable, &table.caption)
}

/// Draws a table with a name for screen readers, which must be unique on the page.
fn labelled(table: &Table, sortable: bool, label: &str) -> Markup {
    html! {
        div class="scroll" role="region" tabindex="0" aria-label=(label) {
            table class=[sortable.then_some("sortable")] {
                @if !table.caption.is_empty() { caption { (table.caption) } }
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" class=[column.number.then_some("n")] { (column.head) }
                        }
                    }
                }
                @for group in &table.groups {
                    tbody {
                        @if let Some(title) = &group.title {
                            tr class="group" { th scope="rowgroup" colspan=(table.columns.len()) { (title) } }
                        }
                        @for row in &group.rows {
                            tr {
                                @for (at, text) in row.iter().enumerate() { (cell(table, row, at, text)) }
                            }
                        }
                    }
                }
            }
        }
        @for footnote in &table.footnotes { p class="footnote" { (footnote) } }
    }
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
    let class = format!("{}{tone}", if number { "n " } else { "" });
    let class = (!class.trim().is_empty()).then(|| class.trim().to_owned());
    let inner = html! {
        @if let Some(beside) = &text.beside { small class="beside" { (beside) } " " }
        span { (prose::line(&text.text)) }
        @if let Some(small) = &text.small { small { (prose::line(small)) } }
    };
    let source = text.source.as_ref();
    html! {
        @if at == 0 {
            th scope="row" class=[class] { (inner) }
        } @else {
            td class=[class]
                colspan=[(text.span > 1).then_some(text.span)]
                data-cell=[source.map(|source| &source.cell)]
                data-system=[source.map(|source| &source.system)]
                data-figure=[source.map(|source| &source.figure)]
                data-value=[source.map(|source| number::behind(source.value))]
                { (inner) }
        }
    }
}
