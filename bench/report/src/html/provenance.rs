//! How the study was measured: terms, missing rows, machine, versions, configuration files, and the command
//! that repeats it.

use super::prose;
use crate::figures::Report;
use crate::{number, table};
use maud::{Markup, html};

/// Lists the differences in terms: what the origin received, and what could not be made equal.
pub(super) fn terms(report: &Report) -> Markup {
    let marked = || report.systems.iter().filter(|used| used.marked.is_some() || !used.terms.is_empty());
    html! {
        div id="terms" {
            h3 { "Equal terms" }
            p { "One and the same request was sent through every system, and what arrived at the origin was compared." }
            @if !report.received.is_empty() {
                div class="scroll" role="region" tabindex="0" aria-label="What the origin received" {
                    table {
                        caption { "What the origin received" }
                        thead { tr {
                            th scope="col" class="t" { "System" } th scope="col" class="t" { "Version" }
                            th scope="col" { "Requests a connection" } th scope="col" class="t" { "Differences" }
                        } }
                        tbody {
                            @for one in &report.received {
                                tr {
                                    th scope="row" {
                                        (report.title_of(&one.system))
                                        @if !one.section.is_empty() { small class="faint" { " " (one.section) } }
                                    }
                                    td class="t" { (one.version) }
                                    td { (number::plain(one.requests as f64 / one.connections.max(1) as f64)) }
                                    @if one.differences.is_empty() {
                                        td class="t faint" { "none" }
                                    } @else {
                                        td class="t" { (prose::line(&one.differences.join("; "))) }
                                    }
                                }
                            }
                        }
                    }
                }
            } @else {
                p class="faint" { "This file does not hold the comparison." }
            }
            @if marked().next().is_some() {
                ul {
                    @for used in marked() {
                        li {
                            strong { (used.title) } ": "
                            (used.marked.iter().chain(&used.terms).cloned().collect::<Vec<_>>().join("; "))
                        }
                    }
                }
            }
        }
    }
}

/// Lists the systems of the study that could not be measured.
pub(super) fn missing(report: &Report) -> Markup {
    html! {
        @if report.missing().next().is_some() {
            div id="missing" {
                h3 { "Missing rows" }
                ul {
                    @for used in report.missing() {
                        @if let Some(why) = &used.missing {
                            li {
                                strong { (used.title) } ": " (prose::line(&why.reason)) "."
                                @if !why.get.is_empty() { " To get it: " (prose::line(&why.get)) "." }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Lists everything that is needed to repeat the measurement.
pub(super) fn provenance(report: &Report) -> Markup {
    let header = &report.header;
    let host = &header.host;
    html! {
        section id="provenance" class="page" {
            h2 { "How it was measured" }
            p { "This runs it again:" }
            pre class="command" { code { (header.command) } }
            dl {
                dt { "Machine" }
                dd { (host.cpu) ", " (number::plain(host.cores)) " cores, " (number::memory(host.memory_kib as f64)) ", Linux " (host.kernel) }
                @if !host.placement.is_empty() { dt { "Placement" } dd { (host.placement) } }
                @for (name, text) in table::surroundings(host) { dt { (name) } dd { (text) } }
                @if let Some(quota) = host.own_quota { dt { "Own quota" } dd { (number::plain(quota)) " cores" } }
                dt { "Open files" } dd { (number::whole(host.open_files as f64)) " a process" }
                dt { "Started" } dd { (header.started) }
                @if let Some(seconds) = report.end { dt { "Took" } dd { (number::duration(seconds)) } }
                dt { "Seed" } dd { (header.seed) }
                dt { "Laboratory" } dd { (header.version) ", result format " (header.format) ", study " code { (header.study) } }
                @if !report.tools.is_empty() {
                    dt { "Load" }
                    dd { (report.tools.iter().map(|(name, version)| format!("{name} {version}").trim().to_owned()).collect::<Vec<_>>().join(", ")) }
                }
                @if !header.scaled.is_empty() {
                    dt { "Scaled" }
                    dd { @for scaled in &header.scaled { (scaled) br; } }
                }
                dt { "Intervals" } dd { "Ratios are taken within rounds; ranges are " (crate::INTERVALS) "." }
            }
            h3 { "Systems and their files" }
            @for used in report.systems.iter().filter(|used| used.missing.is_none()) {
                @if used.files.is_empty() && used.command.is_empty() {
                    p class="plain" { (used.title) " " span class="faint" { (used.version) } }
                } @else {
                    details {
                        summary { (used.title) " " span class="faint" { (used.version) } }
                        @if !used.command.is_empty() { pre { code { (used.command.join(" ")) } } }
                        @for file in &used.files {
                            p class="file" { (file.name) }
                            pre { code { (file.text) } }
                        }
                    }
                }
            }
        }
    }
}
