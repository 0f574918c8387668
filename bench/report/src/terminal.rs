//! The report for a terminal, fitted to its width. A table that is too wide loses its least important columns
//! first, then its intervals. A terminal with fewer than 40 columns wraps the lines itself.

use crate::figures::Report;
use crate::number;
use crate::table::{self, Column, Group, Table, Text, Tone};
use anstyle::{AnsiColor, Style};
use tollgate_lab_record::Results;
use unicode_width::UnicodeWidthStr;

/// The narrowest supported width; a narrower terminal wraps the lines itself.
const NARROWEST: usize = 40;
/// The smallest width of a column with words that wrap.
const WORDS: usize = 12;
/// Spaces between columns.
const GAP: usize = 2;

/// Returns the report as lines of text. `width` is the number of the terminal's columns (a table drops its
/// least important columns to fit). `colour` enables ANSI colours.
pub fn terminal(results: &Results, width: usize, colour: bool) -> String {
    let report = Report::new(results);
    let mut out = Screen { text: String::new(), width: width.max(NARROWEST), colour };
    out.title(&report.header.title);
    let host = &report.header.host;
    out.faint(&format!(
        "{}, {} cores, Linux {}; started {}, seed {}",
        host.cpu,
        number::plain(host.cores),
        host.kernel,
        report.header.started,
        report.header.seed
    ));
    if let Some(busy) = table::busy(host) {
        out.line(&busy, style(Tone::Bad));
    }
    if let Some(unfinished) = report.unfinished() {
        out.line(unfinished, style(Tone::Bad));
    }
    for scaled in &report.header.scaled {
        out.line(&format!("Scaled: {scaled}"), Style::new());
    }
    if let Some(decision) = &report.decision {
        out.line(&table::sentences_text(decision), Style::new().bold());
        for learned in &report.learned {
            out.line(learned, Style::new());
        }
        out.table(&table::of_decision(&report, decision));
    }
    for note in &report.notes {
        out.line(note, Style::new());
    }
    for own in &report.tables {
        out.table(&table::of_own("", own));
    }
    for section in &report.sections {
        if let Some(table) = table::of_section(&report, section) {
            out.table(&table);
        } else {
            out.title(&section.title);
        }
        if let Some(table) = table::of_published(&report, section) {
            out.table(&table);
        }
        if let Some(table) = table::of_prices(&report, section) {
            out.table(&table);
        }
        for own in &section.tables {
            out.table(&table::of_own("", own));
        }
        for note in &section.notes {
            out.line(note, Style::new());
        }
    }
    for received in report.received.iter().filter(|received| !received.differences.is_empty()) {
        let differences = received.differences.join("; ");
        let place =
            if received.section.is_empty() { String::new() } else { format!(" ({})", received.section) };
        out.line(
            &format!("Unequal terms, {}{place}: {differences}", report.title_of(&received.system)),
            Style::new(),
        );
    }
    for used in report.missing() {
        if let Some(why) = &used.missing {
            let get = if why.get.is_empty() { String::new() } else { format!("; to get it: {}", why.get) };
            out.line(&format!("Missing, {}: {}{get}", used.title, why.reason), Style::new());
        }
    }
    if let Some(all) = table::of_systems(report.decision.as_ref()) {
        out.table(&all);
    }
    out.title("Words of this report");
    for (term, meaning) in table::glossary(&report) {
        out.faint(&format!("{term}: {meaning}"));
    }
    out.faint(&format!("Again: {}", report.header.command));
    out.text
}

/// Formats a table for outputs other than the report.
pub(crate) fn draw(table: &Table, width: usize, colour: bool) -> String {
    let mut out = Screen { text: String::new(), width: width.max(NARROWEST), colour };
    out.table(table);
    out.text
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Bad => AnsiColor::Yellow.on_default(),
        Tone::Faint => Style::new().dimmed(),
    }
}

struct Screen {
    text: String,
    width: usize,
    colour: bool,
}

impl Screen {
    fn paint(&mut self, text: &str, style: Style) {
        if self.colour && !text.trim().is_empty() && style != Style::new() {
            self.text.push_str(&format!("{style}{text}{style:#}"));
        } else {
            self.text.push_str(text);
        }
    }

    fn title(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(text, Style::new().bold());
    }

    fn faint(&mut self, text: &str) {
        self.line(text, style(Tone::Faint));
    }

    fn line(&mut self, text: &str, style: Style) {
        for paragraph in text.lines() {
            for line in wrap(paragraph, self.width) {
                self.paint(&line, style);
                self.text.push('\n');
            }
        }
    }

    fn table(&mut self, table: &Table) {
        if table.caption.is_empty() {
            self.text.push('\n');
        } else {
            self.title(&table.caption);
        }
        let fit = fit(table, self.width);
        self.heads(table, &fit);
        for group in &table.groups {
            if let Some(title) = group.title.as_ref().filter(|_| table.groups.len() > 1) {
                self.line(title, Style::new().underline());
            }
            for row in &group.rows {
                self.row(table, row, &fit);
            }
        }
        for footnote in &table.footnotes {
            self.faint(footnote);
        }
    }

    fn heads(&mut self, table: &Table, fit: &Fit) {
        let heads: Vec<Vec<String>> = fit
            .kept
            .iter()
            .zip(&fit.widths)
            .map(|(column, width)| wrap(&table.columns[*column].head, *width))
            .collect();
        let lines = heads.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            for ((head, column), width) in heads.iter().zip(&fit.kept).zip(&fit.widths) {
                // Heads are aligned to the line above the rows.
                let text = (line + head.len()).checked_sub(lines).map_or("", |at| head[at].as_str());
                self.paint(&pad(text, *width, table.columns[*column].number), style(Tone::Faint));
                self.text.push_str(&" ".repeat(GAP));
            }
            self.end_line();
        }
    }

    fn row(&mut self, table: &Table, row: &[Text], fit: &Fit) {
        let Fit { kept, widths, bare } = fit;
        let mut column = 0;
        let mut used = 0;
        for text in row {
            let Some(at) = kept.iter().position(|kept| *kept == column) else {
                column += text.span;
                continue;
            };
            let last = column + text.span >= table.columns.len();
            if last && !table.columns[column].number {
                // The last text may be long: it wraps within its own column.
                let room = self.width.saturating_sub(used).max(8);
                for (line, part) in wrap(&text.joined(), room).iter().enumerate() {
                    if line > 0 {
                        self.end_line();
                        self.text.push_str(&" ".repeat(used));
                    }
                    self.paint(part, style(text.tone));
                }
            } else if text.span > 1 {
                let room = self.width.saturating_sub(used).max(8);
                for (line, part) in wrap(&text.text, room).iter().enumerate() {
                    if line > 0 {
                        self.end_line();
                        self.text.push_str(&" ".repeat(used));
                    }
                    self.paint(part, style(text.tone));
                }
            } else {
                let cut = cut(&written(text, *bare), widths[at]);
                self.paint(&pad(&cut, widths[at], table.columns[column].number), style(text.tone));
                self.text.push_str(&" ".repeat(GAP));
                used += widths[at] + GAP;
            }
            column += text.span;
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        let end = self.text.trim_end_matches(' ').len();
        self.text.truncate(end);
        self.text.push('\n');
    }
}

/// How a table fits into a width.
struct Fit {
    /// The indices of the columns that fit.
    kept: Vec<usize>,
    /// The widths of these columns.
    widths: Vec<usize>,
    /// Whether the intervals were dropped as well.
    bare: bool,
}

/// Drops the least important columns until the rest fits. If that is not enough, drops the intervals, then
/// the published figures, and finally cuts the first column.
fn fit(table: &Table, width: usize) -> Fit {
    let mut kept: Vec<usize> = (0..table.columns.len()).collect();
    let mut bare = false;
    loop {
        let mut widths: Vec<usize> =
            kept.iter().map(|at| natural(&table.columns[*at], *at, &table.groups, bare)).collect();
        // The last column of words wraps, so it needs only a few words' width.
        if let (Some(at), Some(last)) = (kept.last(), widths.last_mut())
            && !table.columns[*at].number
        {
            *last = (*last).min(if bare { WORDS } else { 18 });
        }
        let total: usize = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if total <= width {
            return Fit { kept, widths, bare };
        }
        let floor = if bare { 0 } else { 1 };
        let next = kept.iter().copied().filter(|at| table.columns[*at].drop > floor);
        match next.max_by_key(|at| table.columns[*at].drop) {
            Some(drop) => kept.retain(|at| *at != drop),
            None if !bare => bare = true,
            None => {
                if let Some(first) = widths.first_mut() {
                    *first = first.saturating_sub(total - width).max(8);
                }
                return Fit { kept, widths, bare };
            }
        }
    }
}

fn written(text: &Text, bare: bool) -> String {
    if bare { text.text.clone() } else { text.joined() }
}

fn natural(column: &Column, at: usize, groups: &[Group], bare: bool) -> usize {
    let texts = groups.iter().flat_map(|group| &group.rows).filter_map(|row| {
        let mut start = 0;
        row.iter().find_map(|text| {
            let here = start == at && text.span == 1;
            start += text.span;
            here.then(|| written(text, bare).width())
        })
    });
    // A head may take two lines, so its longest word counts.
    let head = column.head.split_whitespace().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let head = if bare { head } else { column.head.width() };
    texts.chain([head]).max().unwrap_or(0)
}

fn pad(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if right { format!("{space}{text}") } else { format!("{text}{space}") }
}

fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.width() + c.to_string().width() + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
