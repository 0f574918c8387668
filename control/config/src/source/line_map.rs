//! Maps the lines under which parts of a text were read to the present lines.

use crate::position::At;
use crate::problem::Problem;

/// The lines of a text by the numbers under which they were read. Each part that is reread gets unused
/// numbers. So parts that were read earlier keep their positions when the text above them moves, and a reload
/// need not touch them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineMap {
    /// In the order of the text. Empty: every line has its own number.
    runs: Vec<LineRun>,
    /// The next unused number.
    next: u32,
}

/// A run of lines that are consecutive in the text and in their numbers.
#[derive(Clone, Copy, Debug)]
struct LineRun {
    /// Number of the first line when it was read.
    read: u32,
    /// Number of the first line in the text.
    now: u32,
    count: u32,
}

impl LineMap {
    /// Makes the mapping for a text that was read as a whole; `count` is its number of line breaks.
    pub fn new(count: u32) -> Self {
        let count = count.saturating_add(1);
        Self { runs: vec![LineRun { read: 1, now: 1, count }], next: count.saturating_add(1) }
    }

    /// Returns the number of pieces that the text was read in.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Replaces `gone` lines by `new` ones. Returns the number under which the first new line must be read.
    pub fn replace(&mut self, from: u32, gone: u32, new: u32) -> Option<u32> {
        let end = from.checked_add(gone)?;
        let read = self.next;
        self.next = read.checked_add(new)?.checked_add(1)?;
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for run in &self.runs {
            let stop = run.now.checked_add(run.count)?;
            if run.now < from {
                runs.push(LineRun { count: run.count.min(from - run.now), ..*run });
            }
            // The part of the run after the gap.
            if stop > end {
                let skipped = end.saturating_sub(run.now);
                let now = (run.now + skipped - gone).checked_add(new)?;
                runs.push(LineRun { read: run.read + skipped, now, count: run.count - skipped });
            }
        }
        runs.push(LineRun { read, now: from, count: new });
        runs.retain(|run| run.count > 0);
        runs.sort_by_key(|run| run.now);
        self.runs = runs;
        Some(read)
    }

    /// Returns whether a position is still in the text.
    pub fn has(&self, at: At) -> bool {
        self.current_line(at.line).is_some()
    }

    /// Converts a problem's positions to the present lines.
    pub fn update_positions(&self, problem: &mut Problem) {
        let places = problem.related.iter_mut().map(|(at, _)| at).chain([&mut problem.at]);
        // Other files and documents are always read as a whole.
        for at in places.filter(|at| at.file == 0) {
            at.line = self.current_line(at.line).unwrap_or_default();
        }
    }

    pub fn current_line(&self, read: u32) -> Option<u32> {
        if self.runs.is_empty() || read == 0 {
            return Some(read);
        }
        let run = self.runs.iter().find(|run| read >= run.read && read - run.read < run.count)?;
        Some(run.now + (read - run.read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current_line(lines: &LineMap, read: impl IntoIterator<Item = u32>) -> Vec<Option<u32>> {
        read.into_iter().map(|read| lines.current_line(read)).collect()
    }

    #[test]
    fn lines_behind_a_change_move_and_keep_their_number() {
        let mut lines = LineMap::new(10);
        assert_eq!(lines.replace(3, 2, 5), Some(12));
        assert_eq!(
            current_line(&lines, [1, 2, 3, 4, 5, 10]),
            [Some(1), Some(2), None, None, Some(8), Some(13)]
        );
        assert_eq!(current_line(&lines, 12..=16), [3, 4, 5, 6, 7].map(Some));
        let read = lines.replace(4, 6, 1).unwrap();
        assert_eq!(
            current_line(&lines, [12, 13, 16, 5, 6, 7, 10]),
            [Some(3), None, None, None, None, Some(5), Some(8)]
        );
        assert_eq!(current_line(&lines, [read]), [Some(4)]);
        assert_eq!(current_line(&LineMap::default(), [0, 7]), [Some(0), Some(7)], "nothing has moved");
    }
}
