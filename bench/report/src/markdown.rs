//! The report as Markdown, small enough to keep in a repository. It has the same tables as the other outputs,
//! but no charts. Texts are escaped, so that a `|` or `*` in a name cannot break a table.

use crate::figures::{Report, Section, Steady};
use crate::number;
use crate::table::{self, Table};
use std::fmt::Write;
use tollgate_lab_record::Results;

/// Returns the report as a Markdown document.
pub fn markdown(results: &Results) -> String {
    let report = Report::new(results);
    let mut out = String::new();
    write_report(&mut out, &report).expect("a string takes everything");
    out
}

fn write_report(out: &mut String, report: &Report) -> std::fmt::Result {
    let header = &report.header;
    writeln!(out, "# {}\n", header.title)?;
    if !header.about.trim().is_empty() {
        writeln!(out, "{}\n", header.about.trim())?;
    }
    if let Some(unfinished) = report.unfinished() {
        writeln!(out, "**{unfinished}**\n")?;
    }
    writeln!(
        out,
        "Run on {} ({} cores, {}, Linux {}), started {}, seed {}.\n",
        header.host.cpu,
        number::plain(header.host.cores),
        number::memory(header.host.memory_kib as f64),
        header.host.kernel,
        header.started,
        header.seed
    )?;
    if let Some(decision) = &report.decision {
        writeln!(out, "## In short\n")?;
        for piece in table::headline(decision) {
            let text = cell(&piece.text);
            // `cell` joins words, and the space at an end of a piece belongs to the sentence.
            let space = |there: bool| if there { " " } else { "" };
            let before = space(piece.text.starts_with(' ') && !text.is_empty());
            let after = space(piece.text.ends_with(' '));
            let mark = if piece.strong { "**" } else { "" };
            write!(out, "{before}{mark}{text}{mark}{after}")?;
        }
        writeln!(out, "\n")?;
        for learned in &report.learned {
            writeln!(out, "{}\n", learned.trim())?;
        }
        let table = table::of_decision(report, decision);
        writeln!(out, "At {}.\n", table.caption)?;
        write_table(out, &table, false)?;
    }
    for own in &report.tables {
        write_table(out, &table::of_own("", own), false)?;
    }
    for note in &report.notes {
        writeln!(out, "{}\n", note.trim())?;
    }
    for section in &report.sections {
        writeln!(out, "## {}\n", section.title)?;
        for note in &section.notes {
            writeln!(out, "{}\n", note.trim())?;
        }
        if let Some(table) = table::of_section(report, section) {
            write_table(out, &table, true)?;
        }
        if let Some(beside) = table::of_published(report, section) {
            writeln!(out, "**{}**\n", cell(&beside.caption))?;
            write_table(out, &beside, true)?;
        }
        write_ground(out, section)?;
        if let Some(more) = table::of_more(section) {
            writeln!(out, "<details><summary>{}</summary>\n", cell(&more.caption))?;
            write_table(out, &more, true)?;
            writeln!(out, "</details>\n")?;
        }
        if let Some(table) = table::of_prices(report, section) {
            write_table(out, &table, false)?;
        }
        for own in &section.tables {
            write_table(out, &table::of_own("", own), false)?;
        }
    }
    write_steady(out, report)?;
    write_missing(out, report)?;
    write_terms(out, report)?;
    write_provenance(out, report)
}

/// Writes the conditions of each cell: the direct ceiling, and the ratio that the A/A control shows without a
/// difference.
fn write_ground(out: &mut String, section: &Section) -> std::fmt::Result {
    let reported: Vec<(&str, String)> = section
        .cells
        .iter()
        .map(|cell| (cell.title.as_str(), table::terms(cell)))
        .filter(|(_, terms)| !terms.is_empty())
        .collect();
    if reported.is_empty() {
        return Ok(());
    }
    writeln!(out, "<details><summary>Offered rate, direct ceiling and A/A control</summary>\n")?;
    for (title, terms) in reported {
        writeln!(out, "- {}: {}", cell(title), cell(&terms))?;
    }
    writeln!(out, "\n</details>\n")
}

fn write_table(out: &mut String, table: &Table, with_groups: bool) -> std::fmt::Result {
    let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
    let lead = if with_groups { "| Load " } else { "" };
    writeln!(out, "{lead}| {} |", heads.iter().map(|head| cell(head)).collect::<Vec<_>>().join(" | "))?;
    if with_groups {
        out.push_str("|---");
    }
    for column in &table.columns {
        out.push_str(if column.number { "|---:" } else { "|---" });
    }
    out.push_str("|\n");
    for group in &table.groups {
        for (at, row) in group.rows.iter().enumerate() {
            if with_groups {
                let title = group.title.as_deref().filter(|_| at == 0).unwrap_or("");
                write!(out, "| {} ", cell(title))?;
            }
            let mut used = 0;
            for text in row {
                if text.span > 1 {
                    // Markdown has no column spans: the reason goes into the last column, and the others stay
                    // empty.
                    for _ in 1..text.span {
                        out.push_str("| ");
                    }
                }
                write!(out, "| {} ", cell(&text.joined()))?;
                used += text.span;
            }
            for _ in used..table.columns.len() {
                out.push_str("| ");
            }
            out.push_str("|\n");
        }
    }
    out.push('\n');
    for footnote in &table.footnotes {
        writeln!(out, "{}\n", footnote.replace('*', "\\*"))?;
    }
    Ok(())
}

/// Escapes a text so that it cannot break its table.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}

fn write_steady(out: &mut String, report: &Report) -> std::fmt::Result {
    let never: Vec<String> = report
        .rows()
        .filter(|(_, row)| row.figures().is_some() && row.steady == Steady::Never)
        .map(|(cell, row)| format!("{} ({})", row.title, cell.title))
        .collect();
    if !never.is_empty() {
        writeln!(out, "Never steady within the warm-up: {}.\n", never.join(", "))?;
    }
    Ok(())
}

fn write_missing(out: &mut String, report: &Report) -> std::fmt::Result {
    let mut missing = report.missing().peekable();
    if missing.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "## Missing rows\n")?;
    for used in missing {
        if let Some(why) = &used.missing {
            let get = if why.get.is_empty() { String::new() } else { format!(" To get it: {}", why.get) };
            writeln!(out, "- **{}**: {}.{get}", used.title, why.reason.trim_end_matches('.'))?;
        }
    }
    out.push('\n');
    Ok(())
}

fn write_terms(out: &mut String, report: &Report) -> std::fmt::Result {
    let unequal: Vec<_> = report.received.iter().filter(|one| !one.differences.is_empty()).collect();
    let marked: Vec<_> =
        report.systems.iter().filter(|used| used.marked.is_some() || !used.terms.is_empty()).collect();
    if report.received.is_empty() && marked.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Equal terms\n")?;
    if unequal.is_empty() && !report.received.is_empty() {
        writeln!(out, "The origin received the same request from every system.\n")?;
    }
    for one in unequal {
        let place = if one.section.is_empty() { String::new() } else { format!(" ({})", one.section) };
        writeln!(out, "- **{}**{place}: {}.", report.title_of(&one.system), one.differences.join("; "))?;
    }
    for used in marked {
        let mut parts: Vec<&str> = used.marked.iter().map(String::as_str).collect();
        parts.extend(used.terms.iter().map(String::as_str));
        writeln!(out, "- **{}**: {}.", used.title, parts.join("; "))?;
    }
    out.push('\n');
    Ok(())
}

fn write_provenance(out: &mut String, report: &Report) -> std::fmt::Result {
    let header = &report.header;
    writeln!(out, "## How it was measured\n")?;
    for scaled in &header.scaled {
        writeln!(out, "- Scaled: {scaled}")?;
    }
    if !header.host.placement.is_empty() {
        writeln!(out, "- Placement: {}", header.host.placement)?;
    }
    for (name, text) in table::surroundings(&header.host) {
        writeln!(out, "- {name}: {}", cell(&text))?;
    }
    if let Some(quota) = header.host.own_quota {
        writeln!(out, "- The run itself stood under a quota of {} cores", number::plain(quota))?;
    }
    let tools: Vec<String> =
        report.tools.iter().map(|(name, version)| format!("{name} {version}").trim().to_owned()).collect();
    if !tools.is_empty() {
        writeln!(out, "- Load: {}", tools.join(", "))?;
    }
    let versions: Vec<String> = report
        .systems
        .iter()
        .filter(|used| used.missing.is_none() && !used.version.is_empty())
        .map(|used| format!("{} {}", used.title, used.version))
        .collect();
    if !versions.is_empty() {
        writeln!(out, "- Versions: {}", versions.join(", "))?;
    }
    writeln!(out, "- Laboratory {}, format {}, study `{}`", header.version, header.format, header.study)?;
    if let Some(seconds) = report.end {
        writeln!(out, "- It took {}", number::duration(seconds))?;
    }
    writeln!(out, "\nRatios are taken within rounds; the ranges beside them are {}.", crate::INTERVALS)?;
    writeln!(out, "\nAgain:\n\n```\n{}\n```", header.command)
}
