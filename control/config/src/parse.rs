//! Parses YAML (and therefore JSON) to a tree with source positions.
//!
//! [`parse`] reads a whole file, and repairs known traps so that they do not hide further problems. [`items`] reads some
//! items of a list for a partial reread. Both build the tree with `builder`.

mod builder;
mod items;

use self::builder::Builder;
pub(crate) use self::items::{StopAt, items};
use crate::position::At;
use crate::problem::Problem;
use crate::syntax::{self, TextPosition};
use crate::tree::{MappingEntry, Node};

/// Maximum of traps repaired in one file; each costs another pass.
const REPAIRS_MAX: usize = 64;

/// The result of parsing a file.
pub(crate) struct ParsedText {
    /// The document's value; `None` if there is none.
    pub root: Option<Node>,
    pub problems: Vec<Problem>,
    /// Whether the parser reached the end of the text. If not, a key that seems missing may just not have
    /// been reached.
    pub complete: bool,
    /// Whether the tree holds everything in the text: it was read to the end, and no key was dropped.
    pub whole: bool,
    /// Whether every value is independent of others: no anchor, alias or tag, and no repaired trap.
    pub plain: bool,
    /// Entries that are not in the tree because another one of their mapping has the key, each with the
    /// position of that key.
    pub dropped: Vec<(At, MappingEntry)>,
    /// Values that are not in the tree because their key is unusable.
    pub lost: Vec<Node>,
    /// The keys of the open mappings and lists (`None`) around the position where parsing stopped.
    pub pending: Vec<Option<String>>,
    /// The end of what was parsed.
    pub read_to: TextPosition,
}

/// Parses a file's text. It reports known traps (an unquoted `*.example.com`) and repairs them, so that they
/// do not hide the problems after them.
pub(crate) fn parse(file: u32, text: &str) -> ParsedText {
    let mut problems = Vec::new();
    let mut repaired: Option<String> = None;
    for _ in 0..REPAIRS_MAX {
        let current = repaired.as_deref().unwrap_or(text);
        let mut builder = Builder::new(file, current, repaired.is_some());
        match builder.run() {
            Ok(()) => {
                problems.append(&mut builder.problems);
                let complete = !builder.cut;
                let plain = builder.plain && repaired.is_none();
                return builder.parsed(problems, complete, plain);
            }
            Err(failure) => {
                let fixed = syntax::repair(file, current, failure.mark, &failure.info);
                if let Some((next, problem)) = fixed {
                    problems.push(problem);
                    repaired = Some(next);
                    continue;
                }
                let open = builder.stack.iter().rev().find(|open| open.bracket);
                let open = open.map(|open| TextPosition {
                    line: open.at.line as usize,
                    column: open.at.column as usize - 1,
                });
                problems.push(syntax::explain(file, current, failure.mark, &failure.info, open));
                builder.close_all();
                problems.append(&mut builder.problems);
                return builder.parsed(problems, false, false);
            }
        }
    }
    Builder::new(file, "", true).parsed(problems, false, false)
}

#[cfg(test)]
mod tests;
