//! The structure of the page.

use super::chart::{Look, swatch};
use super::charts::Charts;
use super::{embedded, prose, provenance, tables};
use crate::figures::{Report, Section};
use crate::{number, table};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub(super) fn page(report: &Report) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Without it, a browser requests an icon from the folder of the file.
                link rel="icon" href="data:,";
                title { (report.header.title) }
                style { (PreEscaped(STYLE)) }
            }
            body id="top" {
                (head(report))
                (contents(report))
                main {
                    (decision(report))
                    @for (at, section) in report.sections.iter().enumerate() { (section_of(report, section, at)) }
                    (provenance::terms(report))
                    (provenance::missing(report))
                    (provenance::provenance(report))
                }
                (embedded::figures(report))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn head(report: &Report) -> Markup {
    let header = &report.header;
    html! {
        header {
            p class="over" { "Tollgate laboratory · study " (header.study) }
            h1 { (header.title) }
            div class="about" { (prose::blocks(&header.about)) }
            @if let Some(unfinished) = report.unfinished() { p class="warning" { (unfinished) } }
            dl class="facts" {
                div { dt { "Machine" } dd { (header.host.cpu) } }
                div { dt { "Cores" } dd { (number::plain(header.host.cores)) } }
                div { dt { "Kernel" } dd { (header.host.kernel) } }
                div { dt { "Date" } dd { (header.started.split('T').next().unwrap_or(&header.started)) } }
                div { dt { "Seed" } dd { (header.seed) } }
                @if let Some((_, title)) = &report.baseline { div { dt { "Ratios to" } dd { (title) } } }
            }
        }
    }
}

/// The contents, which stay in view while the page scrolls.
fn contents(report: &Report) -> Markup {
    html! {
        nav class="contents" aria-label="Sections" {
            ul {
                li { a href="#decision" { "In short" } }
                @for (at, section) in report.sections.iter().enumerate() {
                    li { a href={ "#s" (at) } { (section.title) } }
                }
                li { a href="#terms" { "Equal terms" } }
                @if report.missing().next().is_some() { li { a href="#missing" { "Missing rows" } } }
                li { a href="#provenance" { "How it was measured" } }
                li class="back" { a href="#top" { "Back to top" } }
            }
        }
    }
}

/// The latency distribution of the decision's cell, if the file has it.
fn distribution(report: &Report, cell: &str) -> Markup {
    let section = report.sections.iter().find(|section| section.cells.iter().any(|one| one.id == cell));
    let charts = section
        .map_or_else(Vec::new, |section| Charts { report, section, id: "top".to_owned() }.percentiles(cell));
    html! {
        @if !charts.is_empty() { div class="charts" { @for chart in &charts { (chart) } } }
    }
}

fn decision(report: &Report) -> Markup {
    html! {
        section id="decision" {
            h2 { "In short" }
            @if let Some(decision) = &report.decision {
                p class="lead" {
                    @for piece in table::headline(decision) {
                        @if piece.strong { strong { (piece.text) } } @else { (piece.text) }
                    }
                }
                @for note in &report.learned { div class="learned" { (prose::blocks(note)) } }
                (distribution(report, &decision.cell))
                (tables::draw(&table::of_decision(report, decision), true))
            } @else {
                p { "Nothing was measured yet." }
            }
            @for own in &report.tables { (tables::own(own, &report.header.title)) }
            @for note in &report.notes { div class="note" { (prose::blocks(note)) } }
        }
    }
}

fn section_of(report: &Report, section: &Section, at: usize) -> Markup {
    let id = format!("s{at}");
    let charts = Charts { report, section, id: id.clone() };
    let alone = charts.is_direct_alone();
    let charts = charts.draw();
    html! {
        section id=(id) {
            h2 { (section.title) }
            @for note in &section.notes { div class="note" { (prose::blocks(note)) } }
            @if alone {
                p class="faint" {
                    "Only the direct run was measured here, as a reference for the other sections, so there is no chart."
                }
            }
            @if !charts.is_empty() {
                (legend(report, section))
                @for group in &charts {
                    div class="charts" { @for chart in group { (chart) } }
                }
            }
            @if let Some(mut all) = table::of_section(report, section) {
                ({ all.caption = format!("{}: every cell", section.title); tables::draw(&all, true) })
                (evidence(section))
                @if let Some(beside) = table::of_published(report, section) { (tables::draw(&beside, true)) }
                @if let Some(more) = table::of_more(section) {
                    details { summary { "More figures: mean, largest, cores, connections, failures" } (tables::draw(&more, true)) }
                }
            }
            @if let Some(prices) = table::of_prices(report, section) {
                details { summary { "What features add, as a table" } (tables::draw(&prices, true)) }
            }
            @for own in &section.tables { (tables::own(own, &section.title)) }
        }
    }
}

/// Names the lines of a section's charts. The script turns the names into switches.
fn legend(report: &Report, section: &Section) -> Markup {
    let names: Vec<String> = report.systems.iter().map(|used| used.name.clone()).collect();
    let drawn = section.systems().into_iter().filter(|(system, _)| {
        section.cells.iter().any(|cell| cell.row(system).is_some_and(|row| row.figures().is_some()))
    });
    html! {
        ul class="legend" aria-label="Systems" {
            @for (system, title) in drawn {
                li data-system=(system) { (swatch(Look::of(system, &names))) (title) }
            }
        }
    }
}

/// Lists the findings of every verdict that has some.
fn evidence(section: &Section) -> Markup {
    let rows = || {
        section
            .cells
            .iter()
            .flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)))
            .filter(|(_, row)| !row.findings.is_empty())
    };
    html! {
        @if rows().next().is_some() {
            details {
                summary { "Evidence behind the verdicts" }
                ul class="evidence" {
                    @for (cell, row) in rows() {
                        li { strong { (row.title) } ", " (cell.title) ": " em { (row.verdict_name()) } ". " (prose::line(&row.findings.join("; "))) "." }
                    }
                }
            }
        }
    }
}
