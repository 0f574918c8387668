//! Parses YAML (and therefore JSON) to a tree with source positions.
//!
//! [`parse`] reads a whole file, and repairs known traps so that they do not hide further problems. [`items`] reads some
//! items of a list for a partial reread. Both build the tree with `builder`.

mod builder;
mod items;

use self::builder::Builder;
pub(crate) use self::builder::ParsedText;
pub(crate) use self::items::{StopAt, items};
use crate::syntax::{self, TextPosition};

/// Maximum of traps repaired in one file; each costs another pass.
const REPAIRS_MAX: usize = 64;

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
