//! Reads the log at the start.
//!
//! The records are read from the oldest to the newest, without the bodies, and put in the index; a purge removes
//! records before it. A segment may end in the middle of a record, where the process was killed or a write failed: that
//! record was never visible. Any other invalid record is damage. It may have been a purge or a newer version, so
//! everything before it is removed, and so is the rest of its segment.

use std::collections::BTreeMap;
use std::io;

use super::format::{HEADER_BYTES, Header, Kind, Place, Purged, read_meta, read_purge};
use super::index::Entry;
use super::medium::{Medium, SegmentFile, read_exact};
use super::{Disk, lock, variant};
use crate::PurgeMode;

/// Bytes that are read at once.
const WINDOW_BYTES: u64 = 128 * 1024;

/// The log that was found.
#[derive(Debug)]
pub(super) struct Recovered {
    /// The lengths of the segments.
    pub segments: BTreeMap<u32, u64>,
    /// The number of the next segment.
    pub next_number: u32,
}

/// How the reading of a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scanned {
    /// At its end, or where a write was interrupted.
    Whole,
    /// At damage.
    Damaged,
}

/// Reads the log into the index of a tier.
///
/// # Errors
/// If the folder cannot be listed, or damaged segments cannot be removed.
pub(super) fn recover(disk: &Disk, medium: &dyn Medium) -> io::Result<Recovered> {
    let mut numbers = medium.segments()?;
    numbers.sort_unstable();
    let next_number = numbers.last().map_or(0, |last| last + 1);
    let mut segments = BTreeMap::new();
    for number in numbers {
        let opened = medium.open(number).and_then(|file| Ok((file.length()?, file)));
        let scanned = match &opened {
            Ok((length, file)) => scan(disk, &**file, number, *length),
            Err(_) => Scanned::Damaged,
        };
        if let Ok((length, file)) = opened {
            segments.insert(number, length);
            disk.files.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(number, file);
        }
        if scanned == Scanned::Damaged {
            disk.counters.count_error();
            disk.index.clear();
            segments.insert(number, 0);
            while let Some((older, _)) = segments.pop_first() {
                disk.files.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&older);
                medium.remove(older)?;
            }
        }
    }
    Ok(Recovered { segments, next_number })
}

/// Reads the records of a segment.
fn scan(disk: &Disk, file: &dyn SegmentFile, number: u32, length: u64) -> Scanned {
    let mut window = Window { file, length, start: 0, bytes: Vec::new() };
    let mut at = 0;
    while length - at >= HEADER_BYTES as u64 {
        // A segment has no record that begins after 4 GiB.
        let Ok(offset) = u32::try_from(at) else { return Scanned::Damaged };
        let place = Place { segment: number, offset };
        let header = match window.get(at, HEADER_BYTES as u64) {
            Ok(bytes) => Header::read(bytes, place),
            Err(_) => None,
        };
        let Some(header) = header else { return Scanned::Damaged };
        let meta_at = at + HEADER_BYTES as u64;
        if header.record_bytes() > length - at {
            return Scanned::Whole;
        }
        let Ok(meta) = window.get(meta_at, u64::from(header.meta_bytes)) else { return Scanned::Damaged };
        if !header.has_meta(meta) || replay(disk, place, &header, meta).is_none() {
            return Scanned::Damaged;
        }
        at += header.record_bytes();
    }
    Scanned::Whole
}

/// Applies a record. `None`: it is invalid.
fn replay(disk: &Disk, place: Place, header: &Header, meta: &[u8]) -> Option<()> {
    match header.kind {
        Kind::Object => {
            let meta = read_meta(meta, header.body_bytes)?;
            let entry = Entry::new(place, header.meta_bytes, header.body_bytes, variant(&meta.head));
            disk.index.restore(disk.hash(&meta.key), entry);
        }
        Kind::Purge => {
            let (purged, mode) = read_purge(meta)?;
            match (&purged, mode) {
                (Purged::Key(key), mode) => {
                    disk.index.purge(disk.hash(key), mode, true);
                }
                (Purged::All, PurgeMode::Remove) => disk.index.clear(),
                (Purged::All, PurgeMode::MarkStale) => disk.index.mark_all(),
                _ => lock(&disk.marks).restore(&purged, mode, place),
            }
        }
    }
    Some(())
}

/// A part of a file in memory.
struct Window<'f> {
    file: &'f dyn SegmentFile,
    length: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns the bytes at an offset, which lie before the end of the file.
    fn get(&mut self, at: u64, length: u64) -> io::Result<&[u8]> {
        let is_there = at >= self.start && at + length <= self.start + self.bytes.len() as u64;
        if !is_there {
            let wanted = length.max(WINDOW_BYTES.min(self.length - at));
            self.bytes = read_exact(self.file, wanted as usize, at)?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + length as usize])
    }
}
