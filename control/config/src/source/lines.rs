//! Where lines are that were read before a text changed.

use crate::model::At;
use crate::problem::Problem;

/// A text's lines by the numbers that they were read under. What is read anew gets numbers that nothing had before, so
/// that whatever was read keeps its places, however far the text above it moves: a reload need not touch it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// In order of their places in the text. None: every line has its own number.
    runs: Vec<Run>,
    /// The next number that nothing had.
    next: u32,
}

/// Lines that follow each other, in the text and by their numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first one, as it was read.
    read: u32,
    /// Its number in the text.
    now: u32,
    count: u32,
}

impl Lines {
    /// As a text of so many lines is read first.
    pub fn new(count: u32) -> Self {
        let count = count.saturating_add(1);
        Self { runs: vec![Run { read: 1, now: 1, count }], next: count.saturating_add(1) }
    }

    /// How many pieces the text was read in.
    pub fn pieces(&self) -> usize {
        self.runs.len()
    }

    /// Other lines take the place of some. Gives the number under which the first of them is to be read.
    pub fn replace(&mut self, from: u32, gone: u32, new: u32) -> Option<u32> {
        let end = from.checked_add(gone)?;
        let read = self.next;
        self.next = read.checked_add(new)?.checked_add(1)?;
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for run in &self.runs {
            let stop = run.now.checked_add(run.count)?;
            if run.now < from {
                runs.push(Run { count: run.count.min(from - run.now), ..*run });
            }
            // What goes on behind the gap.
            if stop > end {
                let skipped = end.saturating_sub(run.now);
                let now = (run.now + skipped - gone).checked_add(new)?;
                runs.push(Run { read: run.read + skipped, now, count: run.count - skipped });
            }
        }
        runs.push(Run { read, now: from, count: new });
        runs.retain(|run| run.count > 0);
        runs.sort_by_key(|run| run.now);
        self.runs = runs;
        Some(read)
    }

    /// Whether a place is still in the text.
    pub fn has(&self, at: At) -> bool {
        self.now(at.line).is_some()
    }

    /// Brings a problem's places to where they are now.
    pub fn settle(&self, problem: &mut Problem) {
        let places = problem.related.iter_mut().map(|(at, _)| at).chain([&mut problem.at]);
        // Other files, and documents, are read whole.
        for at in places.filter(|at| at.file == 0) {
            at.line = self.now(at.line).unwrap_or_default();
        }
    }

    pub fn now(&self, read: u32) -> Option<u32> {
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

    fn now(lines: &Lines, read: impl IntoIterator<Item = u32>) -> Vec<Option<u32>> {
        read.into_iter().map(|read| lines.now(read)).collect()
    }

    #[test]
    fn what_is_behind_a_change_moves_and_keeps_its_number() {
        let mut lines = Lines::new(10);
        assert_eq!(lines.replace(3, 2, 5), Some(12));
        assert_eq!(now(&lines, [1, 2, 3, 4, 5, 10]), [Some(1), Some(2), None, None, Some(8), Some(13)]);
        assert_eq!(now(&lines, 12..=16), [3, 4, 5, 6, 7].map(Some));
        let read = lines.replace(4, 6, 1).unwrap();
        assert_eq!(
            now(&lines, [12, 13, 16, 5, 6, 7, 10]),
            [Some(3), None, None, None, None, Some(5), Some(8)]
        );
        assert_eq!(now(&lines, [read]), [Some(4)]);
        assert_eq!(now(&Lines::default(), [0, 7]), [Some(0), Some(7)], "nothing has moved");
    }
}
