//! Writes the log: the only thread that changes the folder.
//!
//! A segment is written from its beginning to its end. After a failure or a restart, it is never written again: the
//! rest of a failed write is the torn end of its segment. A record becomes visible in the index when all of it is
//! written. If a purge cannot be written, the oldest segments are removed until it can, or until no record is left that
//! it could match. If that fails too, the tier gives up: [`Writer::fail`].

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::format::{
    BLOCK_BYTES, HEADER_BYTES, Header, Kind, Place, Purged, block_sum, block_sums, blocks, write_meta,
    write_purge,
};
use super::index::{Entry, Waiting};
use super::marks::Verdict;
use super::medium::{Medium, SegmentFile, write_all};
use super::{
    Disk, DiskRecord, DiskState, Operation, PURGE_GAP_MAX, Queue, WaitingPurge, lock, recovery, variant,
};
use crate::store::body::{Body, DiskBody};
use crate::{PurgeMode, StoredHead};

/// The size is divided into this many segments.
const SEGMENTS: u64 = 32;
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;
/// A body up to this length is written with its head in one call.
const JOINED_BYTES: u64 = 256 * 1024;
/// A longer body is copied in pieces of this length.
const COPIED_BYTES: usize = 16 * BLOCK_BYTES;
/// Records with longer bodies are not copied when their segment is removed.
const KEPT_BODY_BYTES_MAX: u64 = 1 << 20;
/// How often the writer tries to claim the folder while another process holds it.
const CLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// How long the writer pauses after a failed write.
const PAUSE: Duration = Duration::from_secs(1);

/// A segment that is being written.
#[derive(Debug)]
struct Current {
    number: u32,
    file: Arc<dyn SegmentFile>,
    end: u64,
}

/// The owner of the log.
pub(super) struct Writer<M> {
    disk: Arc<Disk>,
    medium: M,
    /// The lengths of all segments.
    segments: BTreeMap<u32, u64>,
    current: Option<Current>,
    next_number: u32,
    segment_bytes: u64,
    paused_until: Option<Instant>,
}

impl<M: Medium> Writer<M> {
    pub fn new(disk: Arc<Disk>, medium: M) -> Self {
        let segment_bytes =
            (disk.settings.size_bytes / SEGMENTS).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        Self {
            disk,
            medium,
            segments: BTreeMap::new(),
            current: None,
            next_number: 0,
            segment_bytes,
            paused_until: None,
        }
    }

    /// Opens the log, then writes the queue until the tier is closed.
    pub fn run(mut self) {
        let disk = self.disk.clone();
        while !self.claim() {
            let queue = lock(&disk.queue);
            if queue.is_closing {
                break;
            }
            drop(disk.wake.wait_timeout(queue, CLAIM_INTERVAL));
        }
        if disk.state() == DiskState::Starting {
            self.recover();
        }
        while self.step(true).is_continue() {}
        // This releases the lock of the folder.
        drop(self);
        let queue = lock(&disk.queue);
        disk.set_state(DiskState::Closed);
        drop(queue);
        disk.wake.notify_all();
    }

    /// Writes again after a failure, without the wait.
    #[cfg(test)]
    pub fn end_pause(&mut self) {
        self.paused_until = None;
    }

    /// Claims the folder. Returns whether this process now holds it.
    pub fn claim(&mut self) -> bool {
        match self.medium.claim() {
            Ok(true) => {
                self.disk.end_problem();
                self.disk.set_state(DiskState::Starting);
                return true;
            }
            Ok(false) => self.disk.note_problem("another process uses the folder".to_owned()),
            Err(error) => self.disk.note_problem(format!("cannot open the folder: {error}")),
        }
        false
    }

    /// Reads the log, and makes the tier ready.
    pub fn recover(&mut self) {
        if let Err(error) = self.remove_outdated() {
            return self.fail(&format!("cannot remove outdated contents: {error}"));
        }
        match recovery::recover(&self.disk, &self.medium) {
            Ok(recovery::Recovered { segments, next_number }) => {
                self.segments = segments;
                self.next_number = next_number;
                self.count_bytes();
                self.disk.set_state(DiskState::Ready);
                self.make_room(0);
                self.bound_index();
            }
            Err(error) => self.fail(&format!("cannot read the folder: {error}")),
        }
    }

    /// Removes the contents if purges that may match them can have expired at their source.
    fn remove_outdated(&self) -> io::Result<()> {
        if !self.disk.settings.shares_purges {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // A file that cannot be read confirms nothing. Neither does a time in the future, beyond a difference of
        // clocks.
        let confirmed = self.medium.confirmed().ok().flatten();
        let gap =
            confirmed.filter(|at| *at <= now + PURGE_GAP_MAX.as_secs()).map(|at| now.saturating_sub(at));
        if gap.is_some_and(|gap| gap < PURGE_GAP_MAX.as_secs()) {
            return Ok(());
        }
        for number in self.medium.segments()? {
            self.medium.remove(number)?;
            self.disk.was_outdated.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Executes the next operation. `waits`: waits for one if there is none. Breaks at the end.
    pub fn step(&mut self, waits: bool) -> ControlFlow<()> {
        let disk = self.disk.clone();
        let mut queue = lock(&disk.queue);
        let operation = loop {
            if disk.state() == DiskState::Closed || disk.state() == DiskState::Waiting {
                // It gave up, or ends before the folder was free.
                queue.operations.clear();
                return ControlFlow::Break(());
            }
            if std::mem::take(&mut queue.is_overrun) {
                let dropped = Self::forget_waiting(&mut queue);
                drop(queue);
                self.remove_all(&dropped);
                return ControlFlow::Continue(());
            }
            if let Some(operation) = queue.operations.pop_front() {
                break operation;
            }
            if queue.is_closing || !waits {
                return ControlFlow::Break(());
            }
            queue = disk.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        match operation {
            Operation::Write(object) => {
                self.write(&object);
                // Until now it holds memory.
                lock(&disk.queue).bytes -= object.cost();
            }
            Operation::Purge(purge) => {
                self.purge(purge);
                lock(&disk.queue).purges -= 1;
            }
            Operation::Confirm(seconds) => {
                lock(&disk.queue).has_confirmation = false;
                // A failure makes the contents look older than they are.
                if self.medium.confirm(seconds).is_err() {
                    disk.counters.count_error();
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Empties the queue except for purges that a caller waits for, because the log is about to be removed. Objects go
    /// too, because a purge that was dropped may match them.
    fn forget_waiting(queue: &mut Queue) -> Vec<Arc<Waiting>> {
        let mut dropped = Vec::new();
        queue.operations.retain(|operation| match operation {
            Operation::Write(object) => {
                dropped.push(object.clone());
                false
            }
            Operation::Purge(purge) => purge.done.is_some(),
            Operation::Confirm(_) => false,
        });
        (queue.bytes, queue.has_confirmation) = (0, false);
        queue.purges = queue.operations.len();
        dropped
    }

    fn write(&mut self, object: &Arc<Waiting>) {
        let is_paused = self.paused_until.is_some_and(|until| Instant::now() < until);
        if object.is_gone() || is_paused {
            if !object.is_gone() {
                self.disk.counters.count_drop();
            }
            return self.give_up(object);
        }
        let stored = &object.stored;
        match self.append_object(stored.key(), stored.head(), stored.body(), true) {
            Ok(entry) => {
                self.disk.index.settle(object, Some(entry));
                if self.paused_until.take().is_some() {
                    self.disk.end_problem();
                }
                self.bound_index();
            }
            Err(error) => {
                self.note_failure(&error);
                self.give_up(object);
            }
        }
    }

    /// Ends the wait of an object that is not written. The next start must not find an older version of it in the log.
    fn give_up(&mut self, object: &Arc<Waiting>) {
        let has_older = self.disk.index.settle(object, None);
        if has_older {
            self.write_purge(&Purged::Key(object.stored.key().into()), PurgeMode::Remove, false);
        }
    }

    fn note_failure(&mut self, error: &io::Error) {
        self.disk.counters.count_error();
        self.disk.note_problem(format!("cannot write: {error}"));
        self.paused_until = Some(Instant::now() + PAUSE);
        if error.kind() == ErrorKind::StorageFull && self.segments.len() > 1 {
            // Other programs fill the disk, so use less of it.
            self.evict(false);
        }
    }

    fn purge(&mut self, WaitingPurge { purged, mode, number, done, is_announced }: WaitingPurge) {
        let place = self.write_purge(&purged, mode, done.is_some() && !is_announced);
        match (&purged, mode) {
            // The key's records stay valid in this process until the request succeeds.
            _ if is_announced => {}
            (Purged::Key(key), mode) => {
                self.disk.index.purge(self.disk.hash(key), mode, true);
            }
            (Purged::All, PurgeMode::Remove) => {
                self.disk.index.clear();
                self.remove_old_segments();
            }
            _ => {}
        }
        if let Some(place) = place {
            lock(&self.disk.marks).settle(&purged, mode, number, place);
        }
        if let Some(done) = done {
            // The caller may have left.
            let _ = done.try_send(place.is_some());
        }
    }

    /// Writes a purge to the log, and removes old segments if it must. Returns its place; `None`: the tier gave up.
    fn write_purge(&mut self, purged: &Purged, mode: PurgeMode, is_synced: bool) -> Option<Place> {
        let mut meta = Vec::new();
        write_purge(&mut meta, purged, mode);
        let mut attempts_left = self.segments.len() + 1;
        loop {
            let written = self.append_purge(&meta).and_then(|place| {
                let file = self.current.as_ref().filter(|_| is_synced).map(|current| current.file.clone());
                file.map_or(Ok(()), |file| file.sync()).map(|()| place)
            });
            match written {
                Ok(place) => return Some(place),
                Err(error) => {
                    self.note_failure(&error);
                    self.current = None;
                }
            }
            attempts_left = attempts_left.saturating_sub(1);
            // Without segments, no record is left that it could match.
            while attempts_left == 0 || self.segments.is_empty() {
                if self.segments.is_empty() {
                    let is_given_up = self.disk.state() == DiskState::Closed;
                    return (!is_given_up).then_some(Place { segment: self.next_number, offset: 0 });
                }
                if !self.evict(false) {
                    return None;
                }
            }
            if !self.evict(false) {
                return None;
            }
        }
    }

    /// Appends an object. `makes_room`: removes the oldest segments if there is no room.
    fn append_object(
        &mut self,
        key: &[u8],
        head: &StoredHead,
        body: &Body,
        makes_room: bool,
    ) -> io::Result<Entry> {
        // The checksums depend on the place, and their number on the length alone.
        let mut meta = Vec::new();
        write_meta(&mut meta, key, head, &[]);
        let meta_bytes = meta.len() + 8 * blocks(body.length()) as usize;
        let header = Header::new(Kind::Object, &[], body.length());
        let record_bytes = header.record_bytes() + meta_bytes as u64;
        let place = self.place_for(record_bytes, makes_room)?;
        let sums = match body.disk() {
            None => block_sums(place, body.chunks().iter().map(|chunk| &chunk[..])),
            Some(disk) => {
                let mut sums = Vec::new();
                let mut at = 0;
                while at < disk.length() {
                    let data = disk.read(at, COPIED_BYTES)?;
                    for block in data.chunks(BLOCK_BYTES) {
                        sums.push(block_sum(place, sums.len() as u64, block));
                    }
                    at += data.len() as u64;
                }
                sums
            }
        };
        sums.iter().for_each(|sum| meta.extend_from_slice(&sum.to_le_bytes()));
        let header = Header::new(Kind::Object, &meta, body.length());
        let mut first = header.write(place).to_vec();
        first.extend_from_slice(&meta);
        let written = match body.disk() {
            None if body.length() <= JOINED_BYTES => {
                body.chunks().iter().for_each(|chunk| first.extend_from_slice(chunk));
                self.extend(&first)
            }
            None => {
                let chunks = body.chunks().iter().map(|chunk| &chunk[..]);
                std::iter::once(&first[..]).chain(chunks).try_for_each(|bytes| self.extend(bytes))
            }
            Some(disk) => self.extend(&first).and_then(|()| {
                let mut at = 0;
                while at < disk.length() {
                    let data = disk.read(at, COPIED_BYTES)?;
                    self.extend(&data)?;
                    at += data.len() as u64;
                }
                Ok(())
            }),
        };
        self.end_append(place, written)?;
        self.disk.counters.count_write(record_bytes);
        Ok(Entry::new(place, header.meta_bytes, body.length(), variant(head)))
    }

    fn append_purge(&mut self, meta: &[u8]) -> io::Result<Place> {
        let header = Header::new(Kind::Purge, meta, 0);
        let place = self.place_for(header.record_bytes(), false)?;
        let mut bytes = header.write(place).to_vec();
        bytes.extend_from_slice(meta);
        let written = self.extend(&bytes);
        self.end_append(place, written)?;
        Ok(place)
    }

    /// Returns the place of the next record, in a segment that has room for it or is new.
    fn place_for(&mut self, bytes: u64, makes_room: bool) -> io::Result<Place> {
        if makes_room {
            self.make_room(bytes);
        }
        let segment_bytes = self.segment_bytes;
        let current = self.current.take().filter(|it| it.end == 0 || it.end + bytes <= segment_bytes);
        let current = match current {
            Some(current) => current,
            None => {
                let number = self.next_number;
                self.next_number += 1;
                let file = self.medium.create(number)?;
                self.segments.insert(number, 0);
                let mut files = self.disk.files.write().unwrap_or_else(PoisonError::into_inner);
                files.insert(number, file.clone());
                Current { number, file, end: 0 }
            }
        };
        // A segment is shorter than 4 GiB when a record begins.
        let place = Place { segment: current.number, offset: current.end as u32 };
        self.current = Some(current);
        Ok(place)
    }

    /// Appends bytes to the current segment.
    fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Err(ErrorKind::NotFound.into()) };
        write_all(&*current.file, bytes, current.end)?;
        current.end += bytes.len() as u64;
        Ok(())
    }

    /// Counts the appended bytes. After a failure, closes the segment for writes.
    fn end_append(&mut self, place: Place, written: io::Result<()>) -> io::Result<()> {
        if let Some(Current { number, file, end }) = &self.current {
            let length = match &written {
                Ok(()) => *end,
                Err(_) => file.length().unwrap_or(*end).max(*end),
            };
            self.segments.insert(*number, length);
        }
        if written.is_err() {
            self.current = None;
            if place.offset == 0 {
                // It has no whole record.
                self.disk.files.write().unwrap_or_else(PoisonError::into_inner).remove(&place.segment);
                self.remove_segment(place.segment);
            }
        }
        self.count_bytes();
        written
    }

    fn count_bytes(&self) {
        self.disk.bytes.store(self.total(), Ordering::Relaxed);
    }

    fn total(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Removes the oldest segments until there is room for this many bytes.
    fn make_room(&mut self, bytes: u64) {
        // The last segment that was removed keeps its room until its records are copied.
        let most = self.disk.settings.size_bytes.saturating_sub(self.segment_bytes);
        while self.total() + bytes > most && self.evict(true) {}
    }

    fn bound_index(&mut self) {
        while self.disk.index.count() > self.disk.objects_max && self.evict(false) {}
    }

    /// Removes the oldest segment. `copies`: first copies its records that were read since they were written to the end
    /// of the log. Returns whether a segment was removed.
    fn evict(&mut self, copies: bool) -> bool {
        let Some((number, length)) =
            self.segments.first_key_value().map(|(number, length)| (*number, *length))
        else {
            return false;
        };
        if self.current.as_ref().is_some_and(|current| current.number == number) {
            self.current = None;
        }
        let before = self.disk.index.count();
        let read = self.disk.index.evict(number);
        let file = self.disk.files.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if !self.remove_segment(number) {
            return false;
        }
        let mut left = if copies && length <= self.segment_bytes { length / 2 } else { 0 };
        for (hash, entry) in read {
            let is_copied = file.as_ref().is_some_and(|file| {
                let bytes = HEADER_BYTES as u64 + u64::from(entry.meta_bytes) + entry.body_bytes;
                let fits = bytes <= left && entry.body_bytes <= KEPT_BODY_BYTES_MAX && !entry.is_stale();
                left -= if fits { bytes } else { 0 };
                fits && self.copy(hash, entry, file.clone())
            });
            if !is_copied {
                self.disk.index.drop_record(hash, entry.place);
            }
        }
        self.disk.counters.count_evictions(before.saturating_sub(self.disk.index.count()) as u64);
        if let Some(oldest) = self.segments.first_key_value() {
            lock(&self.disk.marks).prune(Place { segment: *oldest.0, offset: 0 });
        }
        self.disk.state() != DiskState::Closed
    }

    /// Copies a record of a removed segment. Returns whether look-ups now find the copy.
    fn copy(&mut self, hash: u64, entry: Entry, file: Arc<dyn SegmentFile>) -> bool {
        let record = DiskRecord { disk: self.disk.clone(), hash, key: Box::default(), entry, file };
        let Some((head, body)) = record.read() else { return false };
        // The copy would follow the record that removes the key at the next start.
        if self.disk.announced.has(hash) {
            return false;
        }
        // A soft purge precedes the copy in the log, so a marked record must not be copied.
        if lock(&self.disk.marks).of_record(entry.place, &body.key, head.tags()) != Verdict::Valid {
            return false;
        }
        let Ok(data) = body.read(0, KEPT_BODY_BYTES_MAX as usize) else { return false };
        let key = body.key.clone();
        let appended = self.append_object(&key, &head, &Body::new(vec![data]), false);
        match appended {
            Ok(copy) => self.disk.index.replace(hash, entry.place, copy),
            Err(error) => {
                self.disk.counters.count_error();
                self.disk.note_problem(format!("cannot write: {error}"));
                false
            }
        }
    }

    /// Removes a segment's file. Returns whether it succeeded. Otherwise the tier gives up: the next start would find
    /// the file, when newer records may be gone.
    fn remove_segment(&mut self, number: u32) -> bool {
        match self.medium.remove(number) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.fail(&format!("cannot remove a segment: {error}"));
                false
            }
            _ => {
                self.segments.remove(&number);
                self.count_bytes();
                true
            }
        }
    }

    /// Removes all segments except the current one.
    fn remove_old_segments(&mut self) {
        let current = self.current.as_ref().map(|current| current.number);
        let numbers: Vec<u32> = self.segments.keys().copied().filter(|it| Some(*it) != current).collect();
        for number in numbers {
            self.disk.files.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
            if !self.remove_segment(number) {
                return;
            }
        }
    }

    fn remove_all(&mut self, dropped: &[Arc<Waiting>]) {
        for object in dropped {
            self.disk.counters.count_drop();
            self.disk.index.settle(object, None);
        }
        self.current = None;
        self.disk.index.clear();
        self.remove_old_segments();
    }

    /// Gives up: the folder is no longer used. Removes every segment that can be removed, because the next start must
    /// not find outdated responses.
    fn fail(&mut self, problem: &str) {
        self.disk.counters.count_error();
        self.disk.note_problem(problem.to_owned());
        self.disk.set_state(DiskState::Closed);
        self.disk.index.clear();
        self.current = None;
        self.disk.files.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.segments.clear();
        for number in self.medium.segments().unwrap_or_default() {
            // The first failure is already recorded.
            let _ = self.medium.remove(number);
        }
        self.count_bytes();
    }
}
