//! Remembers purges, to check records on disk against them.
//!
//! A purge of a prefix, of tags or of everything visits no record. It leaves a mark, and each record that is read is
//! compared with the marks. So the keys and tags of millions of records need not be in memory, and a purge takes no
//! time. A mark matches the records before it in the log. Until the purge is in the log, its mark matches all records,
//! because all will precede it. The number of marks is bounded: one mark for everything replaces too many. A mark is
//! dropped when no record precedes it.

use std::collections::{BTreeMap, HashMap};

use super::format::{Place, Purged};
use crate::PurgeMode;

/// The most marks, and the most bytes of their texts.
const MARKS_MAX: usize = 1 << 16;
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The place of a purge that is not in the log yet: after all records.
const PENDING: Place = Place { segment: u32::MAX, offset: u32::MAX };

/// The effect of the purges on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Valid,
    /// A soft purge matches it.
    Stale,
    Removed,
}

/// The newest purge of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Newest {
    /// Its number among the purges of this process; 0 if an earlier process made it.
    number: u64,
    /// Its place in the log.
    place: Place,
}

impl Newest {
    fn max(self, other: Self) -> Self {
        Self { number: self.number.max(other.number), place: self.place.max(other.place) }
    }
}

/// The newest purges of one prefix or tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    removed: Newest,
    stale: Newest,
}

impl Mark {
    fn newest(&mut self, mode: PurgeMode) -> &mut Newest {
        match mode {
            PurgeMode::Remove => &mut self.removed,
            PurgeMode::MarkStale => &mut self.stale,
        }
    }

    fn max(self, other: Self) -> Self {
        Self { removed: self.removed.max(other.removed), stale: self.stale.max(other.stale) }
    }

    fn is_needed(&self, oldest: Place) -> bool {
        self.removed.place > oldest || self.stale.place > oldest
    }
}

/// The marks, and the number of purges of this process so far.
#[derive(Debug, Default)]
pub(super) struct Marks {
    count: u64,
    all: Mark,
    prefixes: HashMap<Box<[u8]>, Mark>,
    /// How many prefixes have each length, so that a key is compared with a few prefixes only.
    lengths: BTreeMap<usize, usize>,
    tags: HashMap<Box<[u8]>, Mark>,
    text_bytes: usize,
}

impl Marks {
    /// Adds a purge that is about to be written to the log. Returns its number.
    pub fn begin(&mut self, purged: &Purged, mode: PurgeMode) -> u64 {
        self.count += 1;
        self.note(purged, mode, Newest { number: self.count, place: PENDING });
        self.count
    }

    /// Sets the place of a purge in the log.
    pub fn settle(&mut self, purged: &Purged, mode: PurgeMode, number: u64, place: Place) {
        let settle = |mark: &mut Mark| {
            let newest = mark.newest(mode);
            // Otherwise a later purge of the same kind follows in the log.
            if newest.number == number && newest.place == PENDING {
                newest.place = place;
            }
        };
        match purged {
            Purged::Key(_) => {}
            Purged::Prefix(prefix) => self.prefixes.get_mut(prefix).into_iter().for_each(settle),
            Purged::Tags(tags) => {
                for tag in tags {
                    self.tags.get_mut(tag).into_iter().for_each(settle);
                }
            }
            Purged::All => settle(&mut self.all),
        }
    }

    /// Adds a purge that an earlier process wrote.
    pub fn restore(&mut self, purged: &Purged, mode: PurgeMode, place: Place) {
        self.note(purged, mode, Newest { number: 0, place });
    }

    fn note(&mut self, purged: &Purged, mode: PurgeMode, newest: Newest) {
        let merge = |mark: &mut Mark| {
            let own = mark.newest(mode);
            *own = own.max(newest);
        };
        match purged {
            Purged::Key(_) => {}
            Purged::Prefix(prefix) => {
                if !self.prefixes.contains_key(prefix) {
                    *self.lengths.entry(prefix.len()).or_default() += 1;
                    self.text_bytes += prefix.len();
                }
                merge(self.prefixes.entry(prefix.clone()).or_default());
            }
            Purged::Tags(tags) => {
                for tag in tags {
                    if !self.tags.contains_key(tag) {
                        self.text_bytes += tag.len();
                    }
                    merge(self.tags.entry(tag.clone()).or_default());
                }
            }
            Purged::All => merge(&mut self.all),
        }
        if self.prefixes.len() + self.tags.len() > MARKS_MAX || self.text_bytes > TEXT_BYTES_MAX {
            self.collapse();
        }
    }

    /// Replaces all marks by a single mark, which matches every record that they match.
    fn collapse(&mut self) {
        let marks = self.prefixes.drain().chain(self.tags.drain()).map(|(_, mark)| mark);
        let merged = marks.fold(self.all, Mark::max);
        self.all.removed = merged.removed.max(merged.stale);
        self.lengths.clear();
        self.text_bytes = 0;
    }

    /// The effect of the purges on the record at a place.
    pub fn of_record<'t>(&self, place: Place, key: &[u8], tags: impl Iterator<Item = &'t [u8]>) -> Verdict {
        let mark = self.concerning(key, tags);
        verdict(place < mark.removed.place, place < mark.stale.place)
    }

    /// The same for a response that is not in the log, and whose fetch started after this many purges.
    pub fn of_fetch<'t>(&self, count: u64, key: &[u8], tags: impl Iterator<Item = &'t [u8]>) -> Verdict {
        if count == self.count {
            return Verdict::Valid;
        }
        let mark = self.concerning(key, tags);
        verdict(count < mark.removed.number, count < mark.stale.number)
    }

    fn concerning<'t>(&self, key: &[u8], tags: impl Iterator<Item = &'t [u8]>) -> Mark {
        let begins = self.lengths.keys().filter_map(|length| key.get(..*length));
        let prefixes = begins.filter_map(|prefix| self.prefixes.get(prefix));
        let tags = tags.filter_map(|tag| self.tags.get(tag));
        prefixes.chain(tags).copied().fold(self.all, Mark::max)
    }

    /// Drops the marks that no record precedes. `oldest`: the place of the oldest record.
    pub fn prune(&mut self, oldest: Place) {
        let Self { prefixes, lengths, tags, text_bytes, .. } = self;
        prefixes.retain(|prefix, mark| {
            let is_needed = mark.is_needed(oldest);
            if !is_needed {
                *text_bytes -= prefix.len();
                if let Some(count) = lengths.get_mut(&prefix.len()) {
                    *count -= 1;
                }
            }
            is_needed
        });
        lengths.retain(|_, count| *count > 0);
        tags.retain(|tag, mark| {
            let is_needed = mark.is_needed(oldest);
            if !is_needed {
                *text_bytes -= tag.len();
            }
            is_needed
        });
    }
}

fn verdict(is_removed: bool, is_stale: bool) -> Verdict {
    match (is_removed, is_stale) {
        (true, _) => Verdict::Removed,
        (false, true) => Verdict::Stale,
        (false, false) => Verdict::Valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: u32, offset: u32) -> Place {
        Place { segment, offset }
    }

    fn prefix(text: &str) -> Purged {
        Purged::Prefix(text.as_bytes().into())
    }

    fn tag(text: &str) -> Purged {
        Purged::Tags(vec![text.as_bytes().into()])
    }

    fn of(marks: &Marks, place: Place, key: &str, tags: &str) -> Verdict {
        marks.of_record(place, key.as_bytes(), tags.split(' ').map(str::as_bytes))
    }

    #[test]
    fn a_purge_concerns_the_records_before_it() {
        let mut marks = Marks::default();
        let number = marks.begin(&prefix("a/"), PurgeMode::Remove);
        assert_eq!(of(&marks, at(9, 9), "a/x", ""), Verdict::Removed, "not in the log yet");
        assert_eq!(of(&marks, at(9, 9), "b/x", ""), Verdict::Valid);
        marks.settle(&prefix("a/"), PurgeMode::Remove, number, at(2, 5));
        assert_eq!(of(&marks, at(2, 4), "a/x", ""), Verdict::Removed);
        assert_eq!(of(&marks, at(2, 6), "a/x", ""), Verdict::Valid);
        marks.restore(&tag("t"), PurgeMode::MarkStale, at(1, 0));
        assert_eq!(of(&marks, at(0, 7), "b", "s t"), Verdict::Stale);
        assert_eq!(of(&marks, at(0, 7), "b", "tt"), Verdict::Valid);
        marks.prune(at(1, 0));
        assert_eq!(of(&marks, at(0, 7), "b", "s t"), Verdict::Valid, "no such record is left");
        marks.prune(at(3, 0));
        assert_eq!((marks.prefixes.len(), marks.lengths.len(), marks.text_bytes), (0, 0, 0));
    }

    #[test]
    fn the_newest_of_two_purges_counts() {
        let mut marks = Marks::default();
        let first = marks.begin(&Purged::All, PurgeMode::Remove);
        let second = marks.begin(&Purged::All, PurgeMode::Remove);
        marks.settle(&Purged::All, PurgeMode::Remove, first, at(1, 0));
        assert_eq!(of(&marks, at(2, 0), "a", ""), Verdict::Removed, "the second is not in the log yet");
        marks.settle(&Purged::All, PurgeMode::Remove, second, at(3, 0));
        assert_eq!(
            (of(&marks, at(2, 0), "a", ""), of(&marks, at(3, 1), "a", "")),
            (Verdict::Removed, Verdict::Valid)
        );
    }

    #[test]
    fn a_fetch_that_began_before_a_purge_is_concerned() {
        let mut marks = Marks::default();
        let before = marks.count;
        marks.begin(&tag("t"), PurgeMode::Remove);
        let of = |count| marks.of_fetch(count, b"k", [&b"t"[..]].into_iter());
        assert_eq!((of(before), of(marks.count)), (Verdict::Removed, Verdict::Valid));
        assert_eq!(marks.of_fetch(before, b"k", [].into_iter()), Verdict::Valid);
    }

    #[test]
    fn too_many_marks_become_one() {
        let mut marks = Marks::default();
        for number in 0..=MARKS_MAX as u32 {
            marks.restore(&prefix(&format!("{number}/")), PurgeMode::MarkStale, at(number, 0));
        }
        assert_eq!(marks.prefixes.len() + marks.lengths.len() + marks.text_bytes, 0);
        assert_eq!(of(&marks, at(3, 0), "other", ""), Verdict::Removed);
    }
}
