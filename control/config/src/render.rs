//! Renders problems as text, in the style of rustc. Secrets in the shown lines are replaced by `***`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use crate::position::{At, SourceFile, lines};
use crate::problem::{Problem, Severity};
use crate::secrets::{Masked, Masks};

/// Columns of a tab in the output, at any position: carets must not depend on the reader's terminal.
const TAB_WIDTH: usize = 4;
/// Columns of a line that are shown; a longer one (JSON on one line) is truncated around the caret.
const LINE_WIDTH_MAX: usize = 140;

/// Renders all problems as one text; empty if there are none.
pub(crate) fn render(files: &[SourceFile], problems: &[Problem], masks: &Masks, colour: bool) -> String {
    let paint = Paint(colour);
    let texts: Vec<SourceText<'_>> = files.iter().map(SourceText::new).collect();
    let mut out = String::new();
    // Many problems may be on one line.
    let mut masked: HashMap<(u32, u32), Option<Masked>> = HashMap::new();
    for problem in problems {
        let place = (problem.at.file, problem.at.line);
        let page = texts.get(problem.at.file as usize).filter(|page| page.line(problem.at.line).is_some());
        let Some((page, secrets)) = page.and_then(|page| Some((page, masks.of(files, problem.at.file)?)))
        else {
            render_problem(&mut out, &texts, problem, None, paint);
            continue;
        };
        let line = match masked.entry(place) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(secrets.mask(&page.lines, problem.at.line)),
        };
        match line {
            None => render_problem(&mut out, &texts, problem, None, paint),
            Some(line) => {
                let mut problem = problem.clone();
                let text = page.line(problem.at.line).unwrap_or_default();
                secrets.conceal(line, text, &mut problem);
                render_problem(&mut out, &texts, &problem, Some(line), paint);
            }
        }
    }
    count(&mut out, files, problems, paint);
    out
}

/// Renders one problem. `masked` is its line without secrets, if it has any.
fn render_problem(
    out: &mut String,
    texts: &[SourceText<'_>],
    problem: &Problem,
    masked: Option<&Masked>,
    paint: Paint,
) {
    let (word, style) = match problem.severity {
        Severity::Error => ("error", "1;31"),
        Severity::Warning => ("warning", "1;33"),
        Severity::Hint => ("hint", "1;36"),
    };
    let message = clean(&problem.message);
    put(out, format_args!("{}{}\n", paint.on(style, word), paint.on("1", &format!(": {message}"))));

    let line = texts.get(problem.at.file as usize).and_then(|page| page.line(problem.at.line));
    let gutter = if line.is_some() { problem.at.line.to_string().len() } else { 1 };
    let blank = " ".repeat(gutter);
    if let Some(place) = describe_position(texts, problem.at) {
        put(out, format_args!("{blank}{} {place}\n", paint.on("1;34", "-->")));
    }
    let bar = paint.on("1;34", "|");
    if let Some(line) = line {
        let (line, at) =
            masked.map_or((line, problem.at), |masked| (&*masked.text, masked.moved(problem.at)));
        let Excerpt { text, before, caret } = show(line, at);
        let number = paint.on("1;34", &format!("{:>gutter$}", problem.at.line));
        let caret = paint.on(style, &"^".repeat(caret));
        put(out, format_args!("{blank} {bar}\n{number} {bar} {text}\n"));
        put(out, format_args!("{blank} {bar} {}{caret}\n", " ".repeat(before)));
    }
    let equals = paint.on("1;34", "=");
    if let Some(expected) = &problem.expected {
        put(out, format_args!("{blank} {equals} {}: {}\n", paint.on("1", "expected"), clean(expected)));
    }
    for help in &problem.help {
        put(out, format_args!("{blank} {equals} {}: {}\n", paint.on("1", "help"), clean(help)));
    }
    for (at, why) in &problem.related {
        let place = describe_position(texts, *at).unwrap_or_default();
        put(out, format_args!("{blank} {equals} {}: {}: {place}\n", paint.on("1", "note"), clean(why)));
    }
    out.push('\n');
}

fn count(out: &mut String, files: &[SourceFile], problems: &[Problem], paint: Paint) {
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let counts = [
        (Severity::Error, "error", "1;31"),
        (Severity::Warning, "warning", "1;33"),
        (Severity::Hint, "hint", "1;36"),
    ];
    let counts = counts.map(|(severity, word, style)| {
        (problems.iter().filter(|problem| problem.severity == severity).count(), word, style)
    });
    let Some((_, _, style)) = counts.iter().find(|(count, ..)| *count > 0) else { return };
    let counts = counts.iter().filter(|(count, ..)| *count > 0);
    let text = counts.map(|(count, word, _)| plural(*count, word)).collect::<Vec<_>>().join(", ");
    let place = files.first().map_or(String::new(), |file| format!(" in {}", clean(&file.name)));
    let more = if files.len() > 1 {
        format!(" and {}", plural(files.len() - 1, "included file"))
    } else {
        String::new()
    };
    put(out, format_args!("{}{place}{more}\n", paint.on(style, &text)));
}

/// Returns `file`, `file:line:column`, or `None` for an unknown file.
fn describe_position(texts: &[SourceText<'_>], at: At) -> Option<String> {
    let name = clean(texts.get(at.file as usize)?.name);
    Some(if at.line == 0 { name } else { format!("{name}:{}:{}", at.line, at.column) })
}

/// A file split into lines once, so that many problems do not each search it from the top.
struct SourceText<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> SourceText<'a> {
    fn new(file: &'a SourceFile) -> Self {
        Self { name: &file.name, lines: lines(&file.text) }
    }

    fn line(&self, number: u32) -> Option<&'a str> {
        let line = self.lines.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        Some(line)
    }
}

struct Excerpt {
    text: String,
    /// Columns before the caret.
    before: usize,
    /// Columns of the caret.
    caret: usize,
}

/// Prepares a line and the position of its caret for display. Only a window of a long line is examined: a
/// megabyte of JSON on one line may have thousands of problems.
fn show(line: &str, at: At) -> Excerpt {
    let start = at.column.saturating_sub(1) as usize;
    let from = start.saturating_sub(LINE_WIDTH_MAX);
    let tail = after(line, from);
    let mut chars: Vec<char> = tail.chars().take(3 * LINE_WIDTH_MAX + 1).collect();
    let more = chars.len() > 3 * LINE_WIDTH_MAX;
    chars.truncate(3 * LINE_WIDTH_MAX);

    let columns = |range: std::ops::Range<usize>| {
        let end = range.end.min(chars.len());
        chars.get(range.start.min(end)..end).unwrap_or_default().iter().copied().map(width).sum::<usize>()
    };
    let before = columns(0..start - from);
    let end = (start - from).saturating_add(at.length.max(1) as usize);
    let caret = columns(start - from..end).clamp(1, LINE_WIDTH_MAX);
    let total = columns(0..chars.len());
    // A short line is shown completely, a long one from a little before the caret.
    let skip = if from == 0 && !more && total <= LINE_WIDTH_MAX {
        0
    } else {
        before.saturating_sub(LINE_WIDTH_MAX / 4)
    };
    let mut text = String::new();
    let mut column = 0;
    let mut first = None;
    for c in &chars {
        let next = column + width(*c);
        if column >= skip && next <= skip + LINE_WIDTH_MAX {
            first.get_or_insert(column);
            visible(&mut text, *c);
        }
        column = next;
    }
    let first = first.unwrap_or(0);
    let cut = from > 0 || first > 0;
    if cut {
        text.insert(0, '…');
    }
    if more || total > skip + LINE_WIDTH_MAX {
        text.push('…');
    }
    let before = before.saturating_sub(first) + usize::from(cut);
    Excerpt { text: text.trim_end().to_owned(), before, caret }
}

/// Returns the text after the first `count` characters.
fn after(line: &str, count: usize) -> &str {
    if line.is_ascii() {
        return line.get(count..).unwrap_or("");
    }
    let mut chars = line.chars();
    if count > 0 {
        // `nth` skips whole machine words, which matters for a long line.
        let _ = chars.nth(count - 1);
    }
    chars.as_str()
}

fn width(c: char) -> usize {
    match c {
        '\t' => TAB_WIDTH,
        c if hidden(c) => 1,
        c => c.width().unwrap_or(0),
    }
}

fn visible(out: &mut String, c: char) {
    match c {
        '\t' => out.push_str(&" ".repeat(TAB_WIDTH)),
        c if hidden(c) => out.push('\u{fffd}'),
        c => out.push(c),
    }
}

/// Returns whether a character could control a terminal or change the direction of text. Files must not be
/// able to do either.
fn hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces [`hidden`] characters, so that the result is on one line. The text may contain parts of the
/// user's file.
fn clean(text: &str) -> String {
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn on(self, style: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, at: At) -> String {
        let files = [SourceFile { name: "f.yaml".into(), text: text.into() }];
        render(&files, &[Problem::error(at, "no").help("do")], &Masks::default(), false)
    }

    fn at(line: u32, column: u32, length: u32) -> At {
        At { file: 0, line, column, length }
    }

    #[test]
    fn the_caret_stands_under_its_text() {
        let text = rendered("a: 1\nb: [x, yy]\n", at(2, 8, 2));
        assert_eq!(
            text,
            "error: no\n --> f.yaml:2:8\n  |\n2 | b: [x, yy]\n  |        ^^\n  = help: do\n\n1 error in f.yaml\n"
        );
    }

    #[test]
    fn tabs_wide_and_hidden_characters_do_not_move_it() {
        let caret = |text: &str, at| {
            let out = rendered(text, at);
            let mut lines = out.lines().skip(3);
            let (line, caret) = (lines.next().unwrap().to_owned(), lines.next().unwrap().to_owned());
            (line, caret)
        };
        let (line, mark) = caret("\tk: v", at(1, 5, 1));
        assert_eq!((line.as_str(), mark.as_str()), ("1 |     k: v", "  |        ^"));
        let (line, mark) = caret("日本: v", at(1, 5, 1));
        assert_eq!((line.as_str(), mark.as_str()), ("1 | 日本: v", "  |       ^"));
        let (line, mark) = caret("日本: v", at(1, 1, 2));
        assert_eq!((line.as_str(), mark.as_str()), ("1 | 日本: v", "  | ^^^^"));
        let (line, mark) = caret("\u{1b}[31m: v", at(1, 8, 1));
        assert_eq!((line.as_str(), mark.as_str()), ("1 | \u{fffd}[31m: v", "  |        ^"));
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let out = rendered(&text, at(1, 501, 4));
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[3].chars().count() < 160);
        let column = lines[4].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[3].chars().skip(column).take(4).collect::<String>(), "HERE");
    }

    #[test]
    fn places_that_do_not_exist_are_harmless() {
        for at in [at(9, 1, 1), at(1, 99, 5), at(0, 0, 0), At { file: 7, ..at(1, 1, 1) }] {
            assert!(rendered("x", at).starts_with("error: no\n"));
        }
        assert_eq!(render(&[], &[], &Masks::default(), true), "");
    }
}
