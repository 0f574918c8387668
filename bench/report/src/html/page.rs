//! The structure of the file: an overview, then a page for each connection kind and each number of connections, then the
//! systems, the terms and the circumstances.
//!
//! All pages are sections of one file. A style rule, which needs no script, shows the page that the address names; without
//! a name it shows the overview. On paper, and in a browser without the rule, all pages follow each other.

use super::chart::{Look, swatch};
use super::charts::{Charts, overview};
use super::embedded::Places;
use super::{embedded, prose, provenance, tables};
use crate::figures::{Page, Part, Report, Section};
use crate::{number, table};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub(super) fn page(report: &Report) -> Markup {
    let parts = report.parts();
    let places = Places::new(report);
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
            body {
                header {
                    p class="over" { "Tollgate laboratory · study " (report.header.study) }
                    h1 { (report.header.title) }
                    @if let Some(unfinished) = report.unfinished() { p class="warning" { (unfinished) } }
                    @if let Some(busy) = table::busy(&report.header.host) { p class="warning" { (busy) } }
                }
                (contents(report, &parts))
                main {
                    (first(report, &places))
                    @for (at, part) in parts.iter().enumerate() { (part_of(report, part, at + 1, &places)) }
                    (systems(report, &places))
                    (provenance::provenance(report))
                }
                (embedded::figures(report))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The links to the pages. The one to all pages leads to this list itself, which the style rule knows.
fn contents(report: &Report, parts: &[Part]) -> Markup {
    html! {
        nav id="all" class="contents" aria-label="Pages" {
            ul {
                li { a href="#overview" { "Overview" } }
                @for (at, part) in parts.iter().enumerate() {
                    li { a href={ "#p" (at + 1) } { (part.title) } }
                }
                li { a href="#systems" { "Systems and terms" } }
                li { a href="#provenance" { "How it was measured" } }
                @if report.decision.is_some() { li { a href="#all" { "All pages" } } }
            }
        }
    }
}

/// The overview: what the figures say, one plot, and the cell that the study is about.
fn first(report: &Report, places: &Places) -> Markup {
    html! {
        section id="overview" class="page first" {
            @if let Some(decision) = &report.decision {
                ul class="lead" {
                    @for sentence in table::sentences(decision) {
                        li {
                            @for piece in sentence {
                                @if piece.strong { strong { (piece.text) } } @else { (piece.text) }
                            }
                        }
                    }
                }
                @if let Some(plot) = table::plot(report, decision) { div class="charts" { (overview(report, &plot)) } }
                (tables::draw(&table::of_decision(report, decision), places))
            } @else {
                p { "Nothing was measured yet." }
            }
            @for note in &report.learned { div class="learned" { (prose::blocks(note)) } }
            h2 { "The study" }
            div class="about" { (prose::blocks(&report.header.about)) }
            (facts(report))
            @for own in &report.tables { (tables::own(own, &report.header.title, places)) }
            @for note in &report.notes { div class="note" { (prose::blocks(note)) } }
        }
    }
}

fn facts(report: &Report) -> Markup {
    let header = &report.header;
    html! {
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

/// The page of a connection kind, and a page for each number of connections. A single number is on the page of the kind.
fn part_of(report: &Report, part: &Part, at: usize, places: &Places) -> Markup {
    let id = format!("p{at}");
    let charts = Charts { report, part: &part.section, section: &part.section, id: id.clone() };
    let alone = charts.is_direct_alone();
    let single = if part.pages.len() == 1 { part.pages.first() } else { None };
    let mut drawn = charts.of_part();
    if single.is_some() {
        drawn.extend(charts.of_cells());
    }
    html! {
        section id=(id) class="page" {
            h2 { (part.title) }
            @if single.is_none() { (counts(part, at, None)) }
            (load(part, single))
            @for note in &part.section.notes { div class="note" { (prose::blocks(note)) } }
            @if alone {
                p class="faint" {
                    "Only the direct run was measured here, as a reference for the other pages, so there is no chart."
                }
            }
            (charts_of(report, &part.section, &drawn))
            @if let Some(page) = single { (figures_of(report, &page.section, places)) }
            @if let Some(prices) = table::of_prices(report, &part.section) {
                details { summary { "What features add, as a table" } (tables::draw(&prices, places)) }
            }
            @for own in &part.section.tables { (tables::own(own, &part.title, places)) }
        }
        @if single.is_none() {
            @for (place, page) in part.pages.iter().enumerate() { (page_of(report, part, at, place + 1, page, places)) }
        }
    }
}

fn page_of(report: &Report, part: &Part, at: usize, place: usize, page: &Page, places: &Places) -> Markup {
    let id = format!("p{at}-{place}");
    let charts = Charts { report, part: &part.section, section: &page.section, id: id.clone() };
    html! {
        section id=(id) class="page" {
            h2 { (page.section.title) }
            (counts(part, at, Some(place)))
            (load(part, None))
            (charts_of(report, &page.section, &charts.of_cells()))
            (figures_of(report, &page.section, places))
        }
    }
}

/// The links from a part to its pages and between them.
fn counts(part: &Part, at: usize, here: Option<usize>) -> Markup {
    html! {
        @if part.pages.len() > 1 {
            p class="counts" {
                @if here.is_some() { a href={ "#p" (at) } { "All" } } @else { strong { "All" } }
                @for (place, page) in part.pages.iter().enumerate() {
                    " · "
                    @if here == Some(place + 1) { strong { (page.title) } }
                    @else { a href={ "#p" (at) "-" (place + 1) } { (page.title) } }
                }
            }
        }
    }
}

/// The connection kind of a part, and the number of connections if the part has only one.
fn load(part: &Part, single: Option<&Page>) -> Markup {
    let count = single.map(|page| page.title.as_str()).filter(|title| !title.is_empty());
    let words: Vec<&str> = part.kind.as_deref().into_iter().chain(count).collect();
    html! { @if !words.is_empty() { p class="faint" { (words.join(", ")) } } }
}

fn charts_of(report: &Report, section: &Section, charts: &[Vec<Markup>]) -> Markup {
    html! {
        @if !charts.is_empty() {
            (legend(report, section))
            @for group in charts { div class="charts" { @for chart in group { (chart) } } }
        }
    }
}

/// The tables of a page.
fn figures_of(report: &Report, section: &Section, places: &Places) -> Markup {
    let caption = match section.cells.as_slice() {
        // The heading of the page says the rest.
        [cell] => cell.own_title().unwrap_or_default().to_owned(),
        _ => "Every cell".to_owned(),
    };
    html! {
        @if let Some(mut all) = table::of_section(report, section) {
            ({ all.caption = caption; tables::named(&all, &section.title, places) })
            @if let Some(beside) = table::of_published(report, section) {
                (tables::named(&beside, &format!("{}: beside the original", section.title), places))
            }
            (conditions(section))
            (evidence(section))
            @if let Some(more) = table::of_more(section) {
                details { summary { "More figures: mean, largest, cores, connections, failures" } (tables::named(&more, &more.caption, places)) }
            }
        }
    }
}

/// The conditions of each cell: the offered rate, the direct ceiling, and the A/A control.
fn conditions(section: &Section) -> Markup {
    let single = section.cells.len() == 1;
    html! {
        @for cell in &section.cells {
            @let terms = table::terms(cell);
            @if !terms.is_empty() {
                p class="conditions" { @if !single { strong { (cell.title) } ": " } (terms) "." }
            }
        }
    }
}

/// Names the lines of a page's charts. The script turns the names into switches.
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

/// Lists the findings behind the verdicts that the table of the cells does not show.
fn evidence(section: &Section) -> Markup {
    let rows = section.cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
    let found: Vec<_> = rows
        .map(|(cell, row)| (cell, row, table::further_findings(row)))
        .filter(|(_, _, findings)| !findings.is_empty())
        .collect();
    let single = section.cells.len() == 1;
    html! {
        @if !found.is_empty() {
            details {
                summary { "Evidence behind the verdicts" }
                ul class="evidence" {
                    @for (cell, row, findings) in &found {
                        li {
                            strong { (row.title) } @if !single { ", " (cell.title) } ": " em { (row.verdict_name()) } ". "
                            (prose::line(&findings.join("; "))) "."
                        }
                    }
                }
            }
        }
    }
}

/// The page with the results of every system in all cells, the terms of the comparison, the missing systems and the glossary.
fn systems(report: &Report, places: &Places) -> Markup {
    html! {
        section id="systems" class="page" {
            h2 { "Systems and terms" }
            @if let Some(all) = table::of_systems(report.decision.as_ref()) { (tables::draw(&all, places)) }
            (provenance::missing(report))
            (provenance::terms(report))
            h3 id="words" { "Words of this report" }
            dl class="words" {
                @for (term, meaning) in table::glossary(report) { dt { (term) } dd { (meaning) } }
            }
        }
    }
}
