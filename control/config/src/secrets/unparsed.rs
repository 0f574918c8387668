//! Finds secrets in lines after a syntax error, which have no tree: by the names of keys on the line and before it. Rather
//! too much is masked than too little.

use std::ops::Range;

use super::names::{NAMES, OTHER_NAMES, is_secret_name, user_info};
use crate::suggest;

/// How many lines are searched backwards for the key that an unparsed line belongs to.
const LOOK_BACK_LINES: usize = 200;

/// Returns the columns to mask of a line that was not parsed.
pub(super) fn unparsed(page: &[&str], number: u32, chars: &[char]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    out.extend(after_secret_name(chars));
    let line: String = chars.iter().collect();
    if let Some(range) = user_info(&line) {
        let column = |at: usize| line[..at].chars().count();
        out.push(column(range.start)..column(range.end));
    }
    if in_private_key(page, number) {
        out.push(0..chars.len());
    }
    if out.is_empty() && is_below_secret_name(page, number) {
        // The key of the line stays, for example the id of an HMAC key.
        out.push(value_start(chars)..chars.len());
    }
    out
}

/// Returns the column after the first key of a line; 0 if it has none.
pub(super) fn value_start(chars: &[char]) -> usize {
    let colon = chars.windows(2).position(|pair| pair[0] == ':' && pair[1].is_whitespace());
    let start = colon.map_or(0, |colon| colon + 1);
    start + chars.iter().skip(start).take_while(|c| c.is_whitespace()).count()
}

/// Returns the columns after the first key of a line that holds a secret.
fn after_secret_name(chars: &[char]) -> Option<Range<usize>> {
    let in_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut start = 0;
    while start < chars.len() {
        if !in_name(&chars[start]) {
            start += 1;
            continue;
        }
        let end = start + chars[start..].iter().take_while(|c| in_name(c)).count();
        let name: String = chars[start..end].iter().collect();
        let mut value =
            end + chars[end..].iter().take_while(|c| c.is_whitespace() || matches!(c, '"' | '\'')).count();
        let is_key = matches!(chars.get(value), Some(':' | '='));
        // A misspelt name of a secret. `user` is near `users`, but a key of its own.
        let near = || {
            !OTHER_NAMES.contains(name.as_str())
                && suggest::nearest(&name, NAMES.iter().map(String::as_str)).is_some()
        };
        if is_key && (is_secret_name(&name) || near()) {
            value += 1;
            value += chars[value..].iter().take_while(|c| c.is_whitespace()).count();
            return Some(value..chars.len());
        }
        start = end;
    }
    None
}

/// Returns whether a line is part of the value of a secret key on a line before it.
fn is_below_secret_name(page: &[&str], number: u32) -> bool {
    let indent = |line: &str| line.chars().take_while(|c| c.is_whitespace()).count();
    let index = (number as usize).saturating_sub(1);
    let Some(line) = page.get(index) else { return false };
    let mut level = indent(line);
    let before = page[..index].iter().rev().take(LOOK_BACK_LINES).filter(|line| !line.trim().is_empty());
    for (distance, line) in before.enumerate() {
        let chars: Vec<char> = line.chars().collect();
        if indent(line) < level {
            level = indent(line);
            if after_secret_name(&chars).is_some() {
                return true;
            }
        }
        // The value may be on the line after its key.
        if distance == 0 && after_secret_name(&chars).is_some_and(|rest| rest.is_empty()) {
            return true;
        }
    }
    false
}

/// Returns whether a line is part of a private key in PEM.
fn in_private_key(page: &[&str], number: u32) -> bool {
    let lines = page.get(..number as usize).unwrap_or_default().iter().rev().take(LOOK_BACK_LINES);
    for (distance, line) in lines.enumerate() {
        if line.contains("PRIVATE KEY") {
            return line.contains("BEGIN") || distance == 0;
        }
    }
    false
}
