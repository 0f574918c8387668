//! Finds the secret values in the text of a configuration, so that a rendered problem does not show them.
//!
//! The renderer calls this module with a file that a problem refers to. The positions come from the parsed [`tree`]: the
//! spec table tells which keys hold secrets, and their [`names`] count wherever the table does not know the mapping.
//! After a syntax error there is no tree: from there on, the [`unparsed`] lines are searched for these names.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use zeroize::Zeroizing;

use crate::parse::parse;
use crate::position::{At, SourceFile};
use crate::problem::Problem;
use crate::secrets::tree::{Context, Finder, Secret, SecretValues};
use crate::secrets::unparsed::{unparsed, value_start};

mod names;
mod tree;
mod unparsed;

/// The text shown in place of a secret, whatever its length.
pub(crate) const STARS: &str = "***";
/// The secrets of files, found when they are first needed.
#[derive(Default)]
pub(crate) struct Masks(Mutex<HashMap<u32, Arc<Secrets>>>);

/// A clone may get other files, so it finds their secrets itself.
impl Clone for Masks {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Masks")
    }
}

impl Masks {
    /// Returns the secrets of a file; `None` if there is no such file.
    pub fn of(&self, files: &[SourceFile], index: u32) -> Option<Arc<Secrets>> {
        let file = files.get(index as usize)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.entry(index).or_insert_with(|| Arc::new(Secrets::of(&file.text))).clone())
    }
}

/// The secret values of one file.
#[derive(Default)]
pub(crate) struct Secrets {
    /// The secrets of the part that was parsed.
    values: SecretValues,
    /// The line from which on the text was not parsed.
    unread: Option<u32>,
    /// The position from which on everything is secret, because a secret was not parsed to its end.
    open: Option<(u32, usize)>,
    /// The position from which on values are masked, because parsing stopped among secrets.
    near: Option<(u32, usize)>,
}

/// A line with its secrets replaced.
pub(crate) struct Masked {
    pub text: String,
    cuts: Vec<Range<usize>>,
}

impl Masked {
    /// Moves a position to where the same value is in the masked line. A caret under a secret has the length
    /// of the mask.
    pub fn moved(&self, at: At) -> At {
        let start = at.column.saturating_sub(1) as usize;
        let from = self.map(start, false);
        // The end may be after the secret: the parser counts blanks after a closing quote to the value.
        let to = match self.cuts.iter().any(|cut| cut.contains(&start)) {
            true => from + STARS.len(),
            false => self.map(start + at.length.max(1) as usize, true),
        };
        let to_u32 = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1);
        At { column: to_u32(from) + 1, length: to_u32(to.saturating_sub(from)).max(1), ..at }
    }

    /// Maps a column, or the end of a range of columns.
    fn map(&self, column: usize, is_end: bool) -> usize {
        let (mut removed, mut added) = (0, 0);
        for cut in &self.cuts {
            if column < cut.start || is_end && column == cut.start {
                break;
            }
            if column < cut.end || is_end && column == cut.end {
                return cut.start - removed + added + if is_end { STARS.len() } else { 0 };
            }
            removed += cut.len();
            added += STARS.len();
        }
        column - removed + added
    }
}

impl Secrets {
    /// Finds the secrets of a text.
    pub fn of(text: &str) -> Self {
        let parsed = parse(0, text);
        let mut finder = Finder::new(text, &parsed);
        if let Some(root) = &parsed.root {
            finder.node(root, &Context::root());
        }
        for lost in &parsed.lost {
            finder.node(lost, &Context::default());
        }
        let mut found = Self { values: finder.found, ..Self::default() };
        for ranges in found.values.parts.values_mut() {
            *ranges = merged(std::mem::take(ranges));
        }
        if !parsed.complete {
            found.unread = Some(u32::try_from(parsed.read_to.line.max(1)).unwrap_or(u32::MAX));
            let place = (u32::try_from(parsed.read_to.line).unwrap_or(u32::MAX), parsed.read_to.column);
            let mut context = Context::root();
            for key in parsed.pending.iter().flatten() {
                context = context.under(key);
                if context.is_among_secrets() {
                    found.near = Some(place);
                }
            }
            if context.secret != Secret::No {
                found.open = Some(place);
            }
        }
        found
    }

    /// Masks a line; `None` if it holds no secret. `page` has every line of the text, `number` counts from 1.
    pub fn mask(&self, page: &[&str], number: u32) -> Option<Masked> {
        let line = *page.get((number as usize).checked_sub(1)?)?;
        let mut cuts = self.values.parts.get(&number).cloned().unwrap_or_default();
        let unread = self.unread.is_some_and(|from| number >= from);
        let open = self.open.filter(|(from, _)| number >= *from);
        let near = self.near.filter(|(from, _)| number >= *from);
        if cuts.is_empty() && !unread && open.or(near).is_none() {
            return None;
        }
        let chars: Vec<char> = line.chars().collect();
        if let Some((from, column)) = open.or(near) {
            let start = match number == from {
                true => column,
                // The key of the line stays.
                false if open.is_none() => value_start(&chars),
                false => 0,
            };
            let mark = |c: &char| c.is_whitespace() || *c == ':';
            let skipped = chars.iter().skip(start).take_while(|c| mark(c)).count();
            cuts.push(start + skipped..chars.len());
        }
        if unread {
            // The rest of a line that starts with a secret may belong to it.
            let first = cuts.iter().map(|cut| cut.start).min();
            cuts.extend(first.map(|first| first..chars.len()));
            cuts.extend(unparsed(page, number, &chars));
        }
        let blank = chars.iter().take_while(|c| c.is_whitespace()).count();
        for cut in &mut cuts {
            // The indentation of a further line of a value is no part of it.
            cut.start = cut.start.max(blank.min(cut.end));
            cut.end = cut.end.min(chars.len());
            // The parser counts blanks after a closing quote to the value.
            while cut.end > cut.start && chars[cut.end - 1].is_whitespace() {
                cut.end -= 1;
            }
        }
        cuts.retain(|cut| !cut.is_empty());
        let cuts = merged(cuts);
        if cuts.is_empty() {
            return None;
        }
        let mut text = String::with_capacity(line.len());
        let mut done = 0;
        for cut in &cuts {
            text.extend(&chars[done..cut.start]);
            text.push_str(STARS);
            done = cut.end;
        }
        text.extend(&chars[done..]);
        Some(Masked { text, cuts })
    }

    /// Removes a secret from the words of a problem that was found at it. `line` is the problem's line.
    pub fn conceal(&self, masked: &Masked, line: &str, problem: &mut Problem) {
        let at = problem.at;
        let start = at.column.saturating_sub(1) as usize;
        let end = start.saturating_add(at.length.max(1) as usize);
        let mut known: Vec<Zeroizing<String>> = Vec::new();
        for cut in masked.cuts.iter().filter(|cut| cut.start < end && start < cut.end) {
            known.push(Zeroizing::new(line.chars().skip(cut.start).take(cut.len()).collect()));
            known.extend(self.values.texts.get(&(at.line, cut.start)).cloned());
        }
        if known.is_empty() {
            return;
        }
        let words = problem.help.iter_mut().chain([&mut problem.message]);
        for text in words {
            *text = concealed(text, &known);
        }
    }
}

/// Replaces the parts in backquotes that repeat a secret or a part of it.
fn concealed(text: &str, known: &[Zeroizing<String>]) -> String {
    let core = |text: &str| text.trim_matches(['"', '\'', '*', '&', '…']).to_owned();
    let known: Vec<Zeroizing<String>> = known.iter().map(|text| Zeroizing::new(core(text))).collect();
    let repeats = |part: &str| {
        // `base64:` names a form and not a value.
        let part = core(part);
        part.chars().count() > 1
            && !part.ends_with([':', '/'])
            && known.iter().any(|text| text.contains(&part) || text.len() > 3 && part.contains(text.as_str()))
    };
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(i, part)| if i % 2 == 1 && repeats(part) { STARS } else { part });
    parts.collect::<Vec<_>>().join("`")
}

/// Sorts ranges and joins ranges that touch.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests;
