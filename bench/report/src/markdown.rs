//! The report as Markdown, small enough to keep in a repository. It has the pages of the HTML report as sections, with a
//! list of contents, and the same tables; the plot at its head is a block of text. Texts are escaped, so that a `|` or
//! `*` in a name cannot break a table.

use crate::figures::{Part, Report, Section, Steady};
use crate::number;
use crate::table::{self, Plot, Table};
use std::fmt::Write;
use tollgate_lab_record::Results;

/// The widest bar of the plot in characters.
const WIDEST_BAR: f64 = 30.0;

/// Returns the report as a Markdown document.
pub fn markdown(results: &Results) -> String {
    let report = Report::new(results);
    let mut out = String::new();
    write_report(&mut out, &report).expect("a string takes everything");
    out
}

fn write_report(out: &mut String, report: &Report) -> std::fmt::Result {
    let header = &report.header;
    let parts = report.parts();
    writeln!(out, "# {}\n", header.title)?;
    if let Some(unfinished) = report.unfinished() {
        writeln!(out, "**{unfinished}**\n")?;
    }
    if let Some(busy) = table::busy(&header.host) {
        writeln!(out, "**{busy}**\n")?;
    }
    if let Some(decision) = &report.decision {
        for sentence in table::sentences(decision) {
            out.push_str("- ");
            for piece in sentence {
                let text = escaped(&piece.text);
                let text = if piece.strong { format!("**{text}**") } else { text };
                out.push_str(&text);
            }
            out.push('\n');
        }
        out.push('\n');
        if let Some(plot) = table::plot(report, decision) {
            write_plot(out, &plot)?;
        }
        let table = table::of_decision(report, decision);
        writeln!(out, "{}:\n", cell(&table.caption))?;
        write_table(out, &table)?;
    }
    write_contents(out, report, &parts)?;
    for learned in &report.learned {
        writeln!(out, "{}\n", learned.trim())?;
    }
    writeln!(out, "## {STUDY}\n")?;
    if !header.about.trim().is_empty() {
        writeln!(out, "{}\n", header.about.trim())?;
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
    for own in &report.tables {
        write_table(out, &table::of_own("", own))?;
    }
    for note in &report.notes {
        writeln!(out, "{}\n", note.trim())?;
    }
    for part in &parts {
        write_part(out, report, part)?;
    }
    writeln!(out, "## {SYSTEMS}\n")?;
    if let Some(all) = table::of_systems(report.decision.as_ref()) {
        write_table(out, &all)?;
    }
    write_steady(out, report)?;
    write_missing(out, report)?;
    write_terms(out, report)?;
    writeln!(out, "### {WORDS}\n")?;
    for (term, meaning) in table::glossary(report) {
        writeln!(out, "- **{}**: {}", cell(term), cell(&meaning))?;
    }
    out.push('\n');
    write_provenance(out, report)
}

const STUDY: &str = "The study";
const SYSTEMS: &str = "Systems and terms";
const WORDS: &str = "Words of this report";
const MEASURED: &str = "How it was measured";

/// Writes the plot: a bar of blocks for each value, light ones if the value is not a gateway's own.
fn write_plot(out: &mut String, plot: &Plot) -> std::fmt::Result {
    let most = plot.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let labels = plot.bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    writeln!(out, "```text\n{}, in {}", plot.title, plot.axis)?;
    for bar in &plot.bars {
        let blocks = (bar.value / most * WIDEST_BAR).round().max(1.0) as usize;
        let block = if bar.pale { "░" } else { "█" };
        let room = " ".repeat(labels - bar.label.chars().count());
        let remark = if bar.remark.is_empty() { String::new() } else { format!("  {}", bar.remark) };
        writeln!(out, "{}{room}  {} {}{remark}", bar.label, block.repeat(blocks), bar.text)?;
    }
    writeln!(out, "```\n")
}

/// Writes the list of contents: the parts, each with its numbers of connections.
fn write_contents(out: &mut String, report: &Report, parts: &[Part]) -> std::fmt::Result {
    let mut anchors = Anchors::default();
    anchors.of(&report.header.title);
    let link = |anchors: &mut Anchors, text: &str, heading: &str| {
        format!("[{}](#{})", cell(text), anchors.of(heading))
    };
    let mut lines = vec![link(&mut anchors, STUDY, STUDY)];
    for part in parts {
        let mut line = link(&mut anchors, &part.title, &part.title);
        let pages = part.pages.iter().filter(|_| part.pages.len() > 1);
        let pages: Vec<String> =
            pages.map(|page| link(&mut anchors, &page.title, &page.section.title)).collect();
        if !pages.is_empty() {
            line.push_str(&format!(": {}", pages.join(", ")));
        }
        lines.push(line);
    }
    lines.push(format!("{}: {}", link(&mut anchors, SYSTEMS, SYSTEMS), link(&mut anchors, WORDS, WORDS)));
    lines.push(link(&mut anchors, MEASURED, MEASURED));
    for line in lines {
        writeln!(out, "- {line}")?;
    }
    out.push('\n');
    Ok(())
}

/// The names that a forge gives to the headings of a document, in their order: lower case, words joined by dashes, and a
/// number for a heading that occurred before.
#[derive(Debug, Default)]
struct Anchors(Vec<String>);

impl Anchors {
    fn of(&mut self, heading: &str) -> String {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
        let name: String = heading.to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let before = self.0.iter().filter(|other| **other == name).count();
        self.0.push(name.clone());
        if before == 0 { name } else { format!("{name}-{before}") }
    }
}

/// Writes the section of a connection kind, and one for each of its numbers of connections.
fn write_part(out: &mut String, report: &Report, part: &Part) -> std::fmt::Result {
    writeln!(out, "## {}\n", part.title)?;
    let single = if part.pages.len() == 1 { part.pages.first() } else { None };
    let count = single.map(|page| page.title.as_str()).filter(|title| !title.is_empty());
    let load: Vec<&str> = part.kind.as_deref().into_iter().chain(count).collect();
    if !load.is_empty() {
        writeln!(out, "{}.\n", load.join(", "))?;
    }
    for note in &part.section.notes {
        writeln!(out, "{}\n", note.trim())?;
    }
    match single {
        Some(page) => write_cells(out, report, &page.section)?,
        None => {
            for page in &part.pages {
                writeln!(out, "### {}\n", page.section.title)?;
                write_cells(out, report, &page.section)?;
            }
        }
    }
    if let Some(table) = table::of_prices(report, &part.section) {
        write_table(out, &table)?;
    }
    for own in &part.section.tables {
        write_table(out, &table::of_own("", own))?;
    }
    Ok(())
}

/// Writes the tables of some cells and their conditions.
fn write_cells(out: &mut String, report: &Report, section: &Section) -> std::fmt::Result {
    if let [one] = section.cells.as_slice()
        && let Some(title) = one.own_title()
    {
        writeln!(out, "{}:\n", cell(title))?;
    }
    if let Some(table) = table::of_section(report, section) {
        write_table(out, &table)?;
    }
    if let Some(beside) = table::of_published(report, section) {
        writeln!(out, "{}:\n", cell(&beside.caption))?;
        write_table(out, &beside)?;
    }
    let single = section.cells.len() == 1;
    for one in &section.cells {
        let terms = table::terms(one);
        if !terms.is_empty() {
            let title = if single { String::new() } else { format!("{}: ", cell(&one.title)) };
            writeln!(out, "{}{title}{}.", if single { "" } else { "- " }, cell(&terms))?;
        }
    }
    out.push('\n');
    if let Some(more) = table::of_more(section) {
        writeln!(out, "<details><summary>More figures</summary>\n")?;
        write_table(out, &more)?;
        writeln!(out, "</details>\n")?;
    }
    Ok(())
}

/// Writes a table. Several groups get a first column with their titles; the title of a single group stands above the
/// table.
fn write_table(out: &mut String, table: &Table) -> std::fmt::Result {
    let with_groups = table.groups.len() > 1;
    let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
    let lead = if with_groups { "| | " } else { "| " };
    writeln!(out, "{lead}{} |", heads.iter().map(|head| cell(head)).collect::<Vec<_>>().join(" | "))?;
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
    Ok(())
}

/// Escapes a text on one line so that it cannot break its table.
fn cell(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn escaped(text: &str) -> String {
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
    writeln!(out, "### Missing rows\n")?;
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
    writeln!(out, "### Equal terms\n")?;
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
    writeln!(out, "## {MEASURED}\n")?;
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
    writeln!(out, "\nAgain:\n\n```\n{}\n```", header.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_a_forge() {
        let mut anchors = Anchors::default();
        assert_eq!(
            anchors.of("As published: Connection:Close without a space, 1,000 connections"),
            "as-published-connectionclose-without-a-space-1000-connections"
        );
        assert_eq!(anchors.of("64 KiB — a `b`"), "64-kib--a-b");
        assert_eq!(
            (anchors.of("One"), anchors.of("One"), anchors.of("one")),
            ("one".into(), "one-1".into(), "one-2".into())
        );
    }
}
