//! Explains YAML's syntax errors in helpful words, and repairs YAML's traps: texts that look plain to people
//! but not to YAML.
//!
//! To *repair* a trap, the parser swaps the misleading characters for the same number of private-use
//! characters and reads the text again. The tree then gets the real characters back. So one trap does not
//! hide the problems after it.

use crate::position::{At, lines};
use crate::problem::Problem;
use crate::tree::shown;

/// Pairs of a real character and its stand-in from Unicode's private use area.
const LOOKALIKES: [(char, char); 6] = [
    ('*', '\u{e000}'),
    ('[', '\u{e001}'),
    (']', '\u{e002}'),
    ('{', '\u{e003}'),
    ('}', '\u{e004}'),
    (',', '\u{e005}'),
];
/// Stand-in for the `*` of an alias without an anchor. The value is unusable.
const LOST: char = '\u{e006}';

/// A position in the text: line from 1, column from 0, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextPosition {
    pub line: usize,
    pub column: usize,
}

fn at(file: u32, mark: TextPosition, length: usize) -> At {
    let to = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1);
    At { file, line: to(mark.line).max(1), column: to(mark.column) + 1, length: to(length).max(1) }
}

fn line(text: &str, number: usize) -> Vec<char> {
    let lines = lines(text);
    number.checked_sub(1).and_then(|i| lines.get(i)).map(|line| line.chars().collect()).unwrap_or_default()
}

/// Returns the real text of a scalar from a repaired source; `None` if the scalar is an alias without an
/// anchor.
pub(crate) fn restore(text: &str) -> Option<String> {
    if text.starts_with(LOST) {
        return None;
    }
    Some(true_text(text))
}

fn true_text(text: &str) -> String {
    let back = |c| match c {
        LOST => '*',
        c => LOOKALIKES.iter().find(|(_, private)| *private == c).map_or(c, |(real, _)| *real),
    };
    text.chars().map(back).collect()
}

/// Repairs a syntax error that is a known trap. Returns the repaired text and the problem to report.
pub(crate) fn repair(file: u32, text: &str, mark: TextPosition, info: &str) -> Option<(String, Problem)> {
    let chars = line(text, mark.line);
    let mut trap = if info.contains("anchor") {
        unquoted_star(file, &chars, mark)
    } else {
        bracket_in(file, &chars, mark).or_else(|| flow(file, &chars, mark, info))
    }?;
    let mut out = String::with_capacity(text.len() + 8);
    let mut number = 1;
    let mut column = 0;
    let mut previous = '\0';
    for c in text.chars() {
        let mark_here = number == mark.line && c != '\u{feff}';
        let stand_in = trap.swaps.iter().find(|(place, _)| mark_here && *place == column);
        out.push(stand_in.map_or(c, |(_, stand_in)| *stand_in));
        if c == '\n' && previous == '\r' {
            // The LF of a CR LF, which was already counted.
        } else if c == '\n' || c == '\r' {
            number += 1;
            column = 0;
        } else if c != '\u{feff}' || column > 0 {
            column += 1;
        }
        previous = c;
    }
    // The messages for a second trap on a line may contain stand-ins of the first.
    trap.problem.message = true_text(&trap.problem.message);
    trap.problem.help.iter_mut().for_each(|help| *help = true_text(help));
    (out != text).then_some((out, trap.problem))
}

/// Returns `Some` if there is an unquoted address such as `[::]:8080` at this position.
pub(crate) fn bracket(text: &str, mark: TextPosition) -> Option<()> {
    bracket_in(0, &line(text, mark.line), mark).map(|_| ())
}

struct KnownMistake {
    /// Columns of the line, and the stand-in for each.
    swaps: Vec<(usize, char)>,
    problem: Problem,
}

fn lookalike(c: char) -> Option<char> {
    LOOKALIKES.iter().find(|(real, _)| *real == c).map(|(_, private)| *private)
}

/// Returns the text from a column to the next blank, comma or closing bracket.
fn word(chars: &[char], start: usize) -> String {
    let rest = chars.get(start..).unwrap_or_default();
    rest.iter().take_while(|c| !c.is_whitespace() && !matches!(c, ',' | ']' | '}')).collect()
}

/// Detects `*.example.com`: YAML reads a leading `*` as an alias.
fn unquoted_star(file: u32, chars: &[char], mark: TextPosition) -> Option<KnownMistake> {
    if chars.get(mark.column) != Some(&'*') {
        return None;
    }
    let word = word(chars, mark.column);
    let place = at(file, mark, word.chars().count());
    let name = &word[1..];
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
        let problem = Problem::error(place, format!("no value is marked `&{name}`"))
            .help(format!("write `{name}` for the name of an upstream"))
            .help(format!("put quotes around a text that begins with `*`: `\"{word}\"`"));
        return Some(KnownMistake { swaps: vec![(mark.column, LOST)], problem });
    }
    let word = word.trim_end_matches(':');
    let problem =
        Problem::error(place, format!("{} is not quoted: YAML reads a leading `*` as an alias", shown(word)))
            .help(format!("put it in quotes: `\"{word}\"`"));
    Some(KnownMistake { swaps: vec![(mark.column, lookalike('*')?)], problem })
}

/// Detects `[::]:8080`: YAML reads a leading `[` as the start of a list.
fn bracket_in(file: u32, chars: &[char], mark: TextPosition) -> Option<KnownMistake> {
    // The parser reports the error at the start, at the end or just after the brackets, and an address is
    // short.
    let near = mark.column.saturating_sub(80)..chars.len().min(mark.column.saturating_add(80));
    for open in near.filter(|i| chars[*i] == '[') {
        let length =
            chars[open + 1..].iter().take_while(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.')).count();
        let close = open + 1 + length;
        let inside = &chars[open + 1..close];
        let follows = match (chars.get(close), chars.get(close + 1), chars.get(close + 2)) {
            (Some(']'), Some(':'), Some(c)) => c.is_ascii_digit(),
            (Some(']'), Some('/'), _) => true,
            _ => false,
        };
        let quoted = chars[..open].iter().filter(|c| matches!(c, '"' | '\'')).count() % 2 == 1;
        if !follows || quoted || inside.iter().filter(|c| **c == ':').count() < 2 {
            continue;
        }
        let blank = |c: &char| c.is_whitespace() || matches!(c, ',' | '[' | '{');
        let start = chars[..open].iter().rposition(blank).map_or(0, |i| i + 1);
        let word: String = chars[start..open].iter().collect::<String>() + &chars_until(chars, open, close);
        if mark.column < start || mark.column > close + 1 {
            continue;
        }
        let place = at(file, TextPosition { line: mark.line, column: start }, word.chars().count());
        let mut problem = Problem::error(
            place,
            format!("{} is not quoted: YAML reads `[` as the start of a list", shown(&word)),
        )
        .help(format!("put it in quotes: `\"{word}\"`"));
        if let Some(port) = word.strip_prefix("[::]:") {
            problem = problem.help(format!("or write `:{port}`, which means the same"));
        }
        return Some(KnownMistake {
            swaps: vec![(open, lookalike('[')?), (close, lookalike(']')?)],
            problem,
        });
    }
    None
}

fn chars_until(chars: &[char], open: usize, close: usize) -> String {
    let head: String = chars[open..=close.min(chars.len() - 1)].iter().collect();
    head + &word(chars, close + 1)
}

/// Detects `{regex: /v[0-9]+}` or `[${HOST}:80]`: inside brackets, a bracket ends an unquoted text.
fn flow(file: u32, chars: &[char], mark: TextPosition, info: &str) -> Option<KnownMistake> {
    let open = mark.column;
    let from = *chars.get(open)?;
    if !matches!(from, '[' | '{') {
        return None;
    }
    let before = *chars.get(open.checked_sub(1)?)?;
    if !info.contains("flow")
        || before.is_whitespace()
        || matches!(before, ',' | '[' | '{' | ':' | '"' | '\'')
    {
        return None;
    }
    // The text extends to a blank, or to a comma or closing bracket outside its own brackets.
    let mut closers = Vec::new();
    let mut swaps = Vec::new();
    let mut end = open;
    for (column, c) in chars.iter().enumerate().skip(open) {
        match c {
            c if c.is_whitespace() => break,
            '[' => closers.push(']'),
            '{' => closers.push('}'),
            ']' | '}' if closers.last() == Some(c) => drop(closers.pop()),
            ']' | '}' => break,
            ',' if closers.is_empty() => break,
            _ => {}
        }
        swaps.extend(lookalike(*c).map(|private| (column, private)));
        end = column + 1;
    }
    if !closers.is_empty() {
        return None;
    }
    let blank = |c: &char| c.is_whitespace() || matches!(c, ',' | '[' | '{');
    let start = chars[..open].iter().rposition(blank).map_or(0, |i| i + 1);
    let text: String = chars[start..end].iter().collect();
    let place = at(file, TextPosition { line: mark.line, column: start }, text.chars().count());
    let problem = Problem::error(
        place,
        format!("{} is not quoted: inside brackets, `{from}` ends a text", shown(&text)),
    )
    .help(format!("put it in quotes: `'{text}'`"));
    Some(KnownMistake { swaps, problem })
}

/// Explains a syntax error of the YAML parser in this project's words. `open` is the innermost bracket that
/// is not closed.
pub(crate) fn explain(
    file: u32,
    text: &str,
    mark: TextPosition,
    info: &str,
    open: Option<TextPosition>,
) -> Problem {
    let end = end(text);
    let (ended, mark) = (mark >= end, mark.min(end));
    let error = SyntaxError { file, text, mark, line: line(text, mark.line), ended, info };
    error
        .in_indentation()
        .or_else(|| error.in_scalar())
        .or_else(|| error.in_open_bracket(open))
        .or_else(|| error.in_structure())
        .unwrap_or_else(|| error.problem(format!("not valid YAML: {info}")))
}

/// An error of the YAML parser. The methods that explain it return `None` if it is of another kind; they are
/// called in their order.
struct SyntaxError<'a> {
    file: u32,
    text: &'a str,
    /// The position at which the parser stopped.
    mark: TextPosition,
    /// The line in which it stopped.
    line: Vec<char>,
    /// Whether it stopped at the end of the text.
    ended: bool,
    /// The parser's message.
    info: &'a str,
}

impl SyntaxError<'_> {
    fn says(&self, words: &str) -> bool {
        self.info.contains(words)
    }

    /// The character at which the parser stopped.
    fn current(&self) -> Option<char> {
        self.line.get(self.mark.column).copied()
    }

    fn before(&self) -> Option<char> {
        self.mark.column.checked_sub(1).and_then(|i| self.line.get(i)).copied()
    }

    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::error(at(self.file, self.mark, 1), message)
    }

    /// Explains a tab in an indentation.
    fn in_indentation(&self) -> Option<Problem> {
        if !self.says("tab") || self.says("indicator") || self.says("anchor") {
            return None;
        }
        let mark = find_tab(self.text, self.mark).unwrap_or(self.mark);
        let problem = Problem::error(at(self.file, mark, 1), "a tab cannot indent a line");
        Some(problem.help("use spaces"))
    }

    /// Explains an error in a text, and texts that are nested too deeply.
    fn in_scalar(&self) -> Option<Problem> {
        if self.says("recursion limit") {
            return Some(self.problem("nested too deeply"));
        }
        if self.says("unexpected character") {
            let c = self.current().unwrap_or('?');
            return Some(self.problem(format!("a text cannot begin with `{c}`")).help("put it in quotes"));
        }
        if self.says("unknown escape") || self.says("hexadecimal") || self.says("Unicode character escape") {
            let message =
                "a backslash in double quotes starts an escape sequence, and this is not a valid one";
            let help = "use single quotes, in which a backslash is only a backslash";
            return Some(self.problem(message).help(help));
        }
        if self.says("quoted scalar") && !self.says("trailing") {
            let help = "close it; its further lines must be indented more than their key";
            return Some(self.problem("the quote that opens here is not closed").help(help));
        }
        if self.says("trailing content") {
            let help = "put quotes around the whole value";
            return Some(self.problem("text follows a closing quote").help(help));
        }
        None
    }

    /// Explains a bracket that is not closed in its line.
    fn in_open_bracket(&self, open: Option<TextPosition>) -> Option<Problem> {
        let open = open?;
        let c = *line(self.text, open.line).get(open.column)?;
        let close = match c {
            '[' => ']',
            '{' => '}',
            _ => return None,
        };
        if open.line >= self.mark.line && self.current().is_some() {
            return None;
        }
        let help = match self.ended {
            true => format!("the text ends without its `{close}`"),
            false => format!("the text cannot be parsed from line {} on", self.mark.line),
        };
        let message = format!("the `{c}` that opens here is not closed");
        Some(Problem::error(at(self.file, open, 1), message).help(help))
    }

    /// Explains keys, entries, brackets and documents that do not fit together.
    fn in_structure(&self) -> Option<Problem> {
        if self.before() == Some('\t') {
            let tab = TextPosition { column: self.mark.column - 1, ..self.mark };
            let problem = Problem::error(at(self.file, tab, 1), "a tab is not allowed here");
            return Some(problem.help("use spaces"));
        }
        if self.says("mapping values are not allowed") || self.says("illegal placement of ':'") {
            let problem = self
                .problem("a `:` is not allowed here")
                .help("if it belongs to the text, put the whole text in quotes")
                .help("if it ends a key, check the indentation, the closing of brackets, and the space after each `:`");
            return Some(problem);
        }
        let is_collection = self.says("expected key") || self.says("'-' indicator");
        if is_collection && (matches!(self.before(), Some('}' | ']')) || self.current() == Some('{')) {
            let help = "put the whole text in quotes if it starts with `{` or `[`";
            return Some(self.problem("text follows a closing bracket").help(help));
        }
        if is_collection {
            let help = "check its indentation: the entries of one list or mapping begin in the same column";
            return Some(self.problem("this line does not fit the lines above it").help(help));
        }
        if self.says("flow") || self.says("bracket") {
            let help = "check the brackets of this line and of those before it";
            return Some(self.problem("a `[` or `{` is not closed, or a comma is missing").help(help));
        }
        if self.says("document") || self.says("directive") {
            return Some(self.problem("this is not a valid start or end of a YAML document"));
        }
        self.ended.then(|| self.problem("the text ends in the middle of a value"))
    }
}

/// Returns the position after the last character that is not blank. Anything missing at the end of a text is
/// reported there, because the parser's own position is one line further and may not exist.
pub(crate) fn end(text: &str) -> TextPosition {
    let lines = lines(text.trim_end());
    TextPosition { line: lines.len(), column: lines.last().map_or(0, |line| line.chars().count()) }
}

/// Returns the first tab in an indentation, from the line in which the parser stopped to two lines below.
fn find_tab(text: &str, mark: TextPosition) -> Option<TextPosition> {
    let lines = lines(text);
    (mark.line.max(1)..=lines.len().min(mark.line + 2)).find_map(|number| {
        let line = lines.get(number - 1)?;
        let column = line.chars().take_while(|c| c.is_whitespace()).position(|c| c == '\t')?;
        Some(TextPosition { line: number, column })
    })
}
