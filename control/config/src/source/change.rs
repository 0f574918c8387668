//! Finds the difference between two texts of a file, and reads only that.
//!
//! YAML is parsed from front to back. So the parser is in the same state after an equal prefix of two texts;
//! its look-ahead is covered because the prefix includes the dash of an item. The changed items are parsed
//! alone, below a `routes:` key of their own. That recreates their state in the file: a list in a mapping, at
//! the same indentation. Parsing continues to the first item, or key, from which the texts are equal again.
//! If the parser arrives there at an item of the same list, or at a key of the same mapping, nothing is open
//! (no quote, bracket or block scalar). The equal remainder therefore has the same meaning as before.
//! Anchors, aliases and tags would break this argument, so a file that contains them is read as a whole.

use std::mem::take;
use std::ops::Range;

use super::LastReading;
use super::layout::{Layout, RouteItem, Starts};
use crate::env::{Lookup, expand};
use crate::load::read_pem_files;
use crate::model::Action;
use crate::parse::{StopAt, items};
use crate::problem::{Problem, Severity};
use crate::read::{self, Draft};
use crate::reader::Reader;
use crate::tree::Node;

/// Maximum number of pieces that a file was read in. Beyond it, the whole file is read again.
const LINE_RUNS_MAX: usize = 256;

/// The difference between two texts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextChange {
    /// Length of the common prefix.
    from: usize,
    /// Start of the common suffix in the old text.
    old_end: usize,
    /// Start of the common suffix in the new text.
    new_end: usize,
}

impl TextChange {
    fn between(old: &[u8], new: &[u8]) -> Self {
        let from =
            common(old.chunks(COMPARE_CHUNK_BYTES).zip(new.chunks(COMPARE_CHUNK_BYTES)), old.iter().zip(new));
        let (rest_old, rest_new) = (&old[from..], &new[from..]);
        let same = common(
            rest_old.rchunks(COMPARE_CHUNK_BYTES).zip(rest_new.rchunks(COMPARE_CHUNK_BYTES)),
            rest_old.iter().rev().zip(rest_new.iter().rev()),
        );
        Self { from, old_end: old.len() - same, new_end: new.len() - same }
    }

    /// Returns the place in the new text of a place in the common suffix of the old one.
    fn moved(self, place: usize) -> usize {
        place - self.old_end + self.new_end
    }
}

/// Number of bytes compared at once.
const COMPARE_CHUNK_BYTES: usize = 4096;

/// Returns the number of equal bytes: compares whole chunks first, then single bytes.
fn common<'a>(
    chunks: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    bytes: impl Iterator<Item = (&'a u8, &'a u8)>,
) -> usize {
    let whole = chunks.take_while(|(one, other)| one.len() == COMPARE_CHUNK_BYTES && one == other).count()
        * COMPARE_CHUNK_BYTES;
    whole + bytes.skip(whole).take_while(|(one, other)| one == other).count()
}

/// Reads the changed part of `new` and returns how many routes that was. `None` means that the whole file
/// must be read; `last` is then unusable.
pub(super) fn reread(last: &mut LastReading, new: String, variables: Lookup<'_>) -> Option<usize> {
    let old = take(&mut last.draft.config.files.first_mut()?.text);
    let change = TextChange::between(old.as_bytes(), new.as_bytes());
    let routes_read = if old == new { 0 } else { apply_change(last, &old, &new, change, variables)? };
    last.draft.config.files.first_mut()?.text = new;
    // These files may have changed even if the text is the same.
    let mut problems = Vec::new();
    read_pem_files(&mut last.draft.config, &mut problems);
    problems.is_empty().then_some(routes_read)
}

/// The items of `routes` that a change concerns.
struct ChangedItems<'t> {
    /// The indices of the old items. The item after them is unchanged.
    old: Range<usize>,
    /// The first of the old items.
    first: RouteItem,
    old_lines: u32,
    new_lines: u32,
    /// The new items.
    part: &'t str,
    /// The text that the parser reads: the new items, and the item or key after them.
    text: String,
    /// The position that the parser must reach in that text.
    stop: StopAt,
}

impl<'t> ChangedItems<'t> {
    /// Finds the items that a change concerns; `None` if it goes beyond the list, or has features that a partial read
    /// does not support.
    fn find(layout: &Layout, old: &str, new: &'t str, change: TextChange) -> Option<Self> {
        let (start, end) = (layout.last_before(change.from)?, layout.first_at_or_after(change.old_end));
        let first = layout.items[start];
        // The end of the changed part and of the item after it, in the old text.
        let (stop, until) = match layout.items.get(end) {
            Some(item) => (item.start, layout.items.get(end + 1).map(|item| item.start).or(layout.after)),
            None => (layout.after.unwrap_or(old.len()), None),
        };
        let at_end = end == layout.items.len() && layout.after.is_none();
        if stop < change.old_end {
            return None;
        }
        let part = &new[first.start..change.moved(stop)];
        if !at_end && !part.ends_with('\n') || part.contains(['\r', '\0', '\u{feff}']) {
            return None;
        }
        let old_lines = count_lines(&old[first.start..stop]) + u32::from(at_end);
        let new_lines = count_lines(part) + u32::from(at_end);
        let line = new_lines as usize + 2;
        let stop = match layout.items.get(end) {
            Some(_) => StopAt::Item(line),
            None if at_end => StopAt::End,
            None => StopAt::Key(line),
        };
        let text_end = until.map_or(new.len(), |until| change.moved(until));
        let text = format!("routes:\n{}", &new[first.start..text_end]);
        Some(Self { old: start..end, first, old_lines, new_lines, part, text, stop })
    }

    /// Reads the routes of the parsed items into the draft, whose routes are empty. `read_as` is the number under which
    /// the first line is read. Returns the layout of the items, and the warnings; `None` after an error.
    fn read(
        &self,
        draft: &mut Draft,
        mut nodes: Vec<Node>,
        read_as: u32,
        indent: usize,
        variables: Lookup<'_>,
    ) -> Option<(Vec<RouteItem>, Vec<Problem>)> {
        let mut reader = Reader::new(true);
        let mut starts = Starts::new(self.part);
        let mut entries = Vec::with_capacity(nodes.len());
        for node in &mut nodes {
            let line = node.at.line - read_as;
            let mut item = Layout::item(self.part, starts.of(line + 1)?, indent, node)?;
            item.start += self.first.start;
            item.line = self.first.line + line;
            item.routes = self.first.routes + draft.config.routes.len();
            entries.push(item);
            expand(node, variables, &mut reader.problems);
            read::route(&mut reader, node, draft);
        }
        reader.problems.extend(read::unknown(&draft.references, &draft.upstream_names));
        reader.problems.extend(read::check_per_try(&draft.per_try_timeouts, draft.config.timeouts.total));
        let has_error = reader.problems.iter().any(|problem| problem.severity == Severity::Error);
        (!has_error).then_some((entries, reader.problems))
    }
}

fn apply_change(
    last: &mut LastReading,
    old: &str,
    new: &str,
    change: TextChange,
    variables: Lookup<'_>,
) -> Option<usize> {
    let LastReading { draft, layout, lines, warnings } = last;
    if lines.runs() > LINE_RUNS_MAX {
        return None;
    }
    let changed = ChangedItems::find(layout, old, new, change)?;
    let read_as = lines.replace(changed.first.line, changed.old_lines, changed.new_lines)?;
    let nodes = items(0, &changed.text, read_as.checked_sub(2)?, changed.stop)?;

    let mut routes = take(&mut draft.config.routes);
    let gone =
        changed.first.routes..layout.items.get(changed.old.end).map_or(routes.len(), |item| item.routes);
    for route in &routes[gone.clone()] {
        route.name.as_ref().and_then(|name| draft.route_names.remove(&name.value));
    }
    draft.references.clear();
    draft.per_try_timeouts.clear();
    let (entries, mut problems) = changed.read(draft, nodes, read_as, layout.indent, variables)?;
    warnings.retain(|problem| lines.has(problem.at));
    if warnings.iter().any(|problem| !problem.related.iter().all(|(at, _)| lines.has(*at))) {
        return None;
    }
    warnings.append(&mut problems);

    // The roots of static files are resolved and checked when the whole file is read.
    if draft.config.routes.iter().any(|route| matches!(route.action, Action::Files(_))) {
        return None;
    }
    let routes_read = draft.config.routes.len();
    for item in &mut layout.items[changed.old.end..] {
        item.start = change.moved(item.start);
        item.line = item.line - changed.old_lines + changed.new_lines;
        item.routes = item.routes - gone.len() + routes_read;
    }
    layout.items.splice(changed.old, entries);
    layout.after = layout.after.map(|after| change.moved(after));
    drop(routes.splice(gone, draft.config.routes.drain(..)));
    draft.config.routes = routes;
    Some(routes_read)
}

pub(super) fn count_lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
