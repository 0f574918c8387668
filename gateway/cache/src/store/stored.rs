//! A stored response, or the mark that the responses to a key are not stored.
//!
//! The index holds one reference to each, a worker that sends it another. Head and body never change; a 304 makes a new
//! object. Only the counters and flags of the eviction queues change, in atomics, and [compressed forms](super::forms) of
//! the body are added, each once. So a hit takes no lock.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use tollgate_http::{ContentCoding, Head};

use super::body::{Body, DiskBody};
use super::forms::Forms;
use crate::{Moment, StoredHead};

/// How often an object is known to have been read, at most. S3-FIFO needs two bits.
const READS_MAX: u8 = 3;

/// The kind of an object.
#[derive(Debug)]
enum Content {
    /// A response.
    Response,
    /// The knowledge that responses to this key are not stored, so requests need not wait for each other.
    Uncacheable,
}

/// A stored response. Workers share it: a worker that sends it holds it in an [`Arc`](std::sync::Arc), and eviction
/// does not touch what is being sent.
pub struct Stored {
    hash: u64,
    key: Box<[u8]>,
    /// The next object of its bucket in the index.
    pub(crate) next: ArcSwapOption<Stored>,
    head: StoredHead,
    body: Body,
    /// Boxed, because most responses have none.
    forms: OnceLock<Box<Forms>>,
    content: Content,
    /// Reads since S3-FIFO last looked, up to [`READS_MAX`].
    reads: AtomicU8,
    flags: AtomicU8,
    /// Hits in total. Approximate: two workers that count at once may count one.
    hits: AtomicU32,
}

/// A soft purge marked the object as stale.
const STALE: u8 = 1;
/// The object is in the main queue, or was there last.
const MAIN: u8 = 2;
/// The object was removed from the index.
const GONE: u8 = 4;
/// The object is in a queue, and counted there.
const QUEUED: u8 = 8;

impl Stored {
    pub(crate) fn response(hash: u64, key: &[u8], head: StoredHead, body: Body) -> Self {
        Self::new(hash, key, head, body, Content::Response)
    }

    /// Creates the mark that responses to a key are not stored, for as long as the head is fresh.
    pub(crate) fn uncacheable(hash: u64, key: &[u8], head: StoredHead) -> Self {
        Self::new(hash, key, head, Body::default(), Content::Uncacheable)
    }

    fn new(hash: u64, key: &[u8], head: StoredHead, body: Body, content: Content) -> Self {
        let (key, next) = (key.into(), ArcSwapOption::const_empty());
        let (forms, reads, flags, hits) = Default::default();
        Self { hash, key, next, head, body, forms, content, reads, flags, hits }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its head.
    #[must_use]
    pub const fn head(&self) -> &StoredHead {
        &self.head
    }

    /// The body, in pieces. None is empty. A body [on disk](Self::disk_body) has none.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        self.body.chunks()
    }

    /// The length of the body in bytes: the `Content-Length` of a 200.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.body.length()
    }

    /// The longest piece of the body that lies together from this offset on; empty at the end.
    #[must_use]
    pub fn piece(&self, offset: u64) -> &[u8] {
        self.body.piece(offset).map_or(b"", |(chunk, start)| &chunk[start..])
    }

    /// The body, if it is read from disk while it is sent.
    #[must_use]
    pub fn disk_body(&self) -> Option<&Arc<dyn DiskBody>> {
        self.body.disk()
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    /// The body in a content coding, if a hit was compressed with it before.
    #[must_use]
    pub fn form(&self, coding: ContentCoding) -> Option<&Bytes> {
        self.forms.get()?.get(coding)
    }

    /// Adds a form of the body, unless there is one. Returns whether it did. Callers go through
    /// [`Queues::grow`](super::queues::Queues::grow), because a form changes the cost.
    pub(super) fn set_form(&self, coding: ContentCoding, form: Bytes) -> bool {
        self.forms.get_or_init(Box::default).set(coding, form)
    }

    /// Takes the forms of a response with the same body, before this one is stored.
    pub(super) fn with_forms_of(mut self, other: &Self) -> Self {
        self.forms.clone_from(&other.forms);
        self
    }

    /// Bytes of the forms on the heap.
    pub(super) fn form_bytes(&self) -> u64 {
        self.forms.get().map_or(0, |forms| forms.heap_bytes())
    }

    /// Whether a soft purge marked it: it must be validated, unless it may be served stale.
    #[must_use]
    pub fn is_marked_stale(&self) -> bool {
        self.has(STALE)
    }

    /// Whether it is fresh and may be used without validation.
    #[must_use]
    pub fn is_usable(&self, now: Moment) -> bool {
        let freshness = self.head.freshness();
        freshness.is_fresh(now) && !freshness.is_always_validated() && !self.is_marked_stale()
    }

    /// Whether it is still in the store: neither evicted, replaced nor purged.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        !self.has(GONE)
    }

    /// How often it was read. Approximate.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Bytes that it is counted as, with its compressed forms, and its share of the index and the queues.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let text = self.key.len() + self.head.heap_bytes();
        text as u64 + self.body.heap_bytes() + self.form_bytes() + super::OVERHEAD_BYTES
    }

    pub(crate) const fn is_uncacheable(&self) -> bool {
        matches!(self.content, Content::Uncacheable)
    }

    /// Whether it is kept for this key.
    pub(crate) fn has_key(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// Whether it is kept for this key, and selected by this request.
    pub(crate) fn answers(&self, hash: u64, key: &[u8], request: &Head) -> bool {
        self.has_key(hash, key) && self.head.is_selected_by(request)
    }

    /// Whether the two are kept for the same requests, so that one replaces the other. A mark stands for its whole
    /// key.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.has_key(other.hash, &other.key)
            && (self.head.vary() == other.head.vary() || self.is_uncacheable() || other.is_uncacheable())
    }

    /// Whether the other object takes precedence for a request that selects both, although this one is stored later:
    /// the other one is still fresh, and it alone has `Vary`, or has the later `Date` (RFC 9111, 4 and 4.1).
    pub(crate) fn counts_after(&self, other: &Self) -> bool {
        let Some(made) = self.head.date().map(Moment::from_seconds) else { return false };
        let is_less = match (self.head.vary().is_some(), other.head.vary().is_some()) {
            (false, true) => true,
            (true, false) => false,
            _ => other.head.date() > self.head.date(),
        };
        is_less && self.has_key(other.hash, &other.key) && other.head.freshness().is_fresh(made)
    }

    /// Notes a read. Two workers that do so at once may note one.
    pub(crate) fn note_read(&self) {
        let reads = self.reads.load(Ordering::Relaxed);
        if reads < READS_MAX {
            self.reads.store(reads + 1, Ordering::Relaxed);
        }
        self.hits.store(self.hits.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    pub(crate) fn reads(&self) -> u8 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reads(&self, reads: u8) {
        self.reads.store(reads, Ordering::Relaxed);
    }

    /// Marks it as stale: it must be validated, unless it may be served stale.
    pub fn mark_stale(&self) {
        self.set(STALE);
    }

    pub(crate) fn mark_main(&self) {
        self.set(MAIN);
    }

    pub(crate) fn is_main(&self) -> bool {
        self.has(MAIN)
    }

    pub(crate) fn mark_gone(&self) {
        self.set(GONE);
    }

    pub(crate) fn mark_queued(&self) {
        self.set(QUEUED);
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.has(QUEUED)
    }

    /// Marks it as in no queue. Returns whether it was in one.
    pub(crate) fn unmark_queued(&self) -> bool {
        self.flags.fetch_and(!QUEUED, Ordering::AcqRel) & QUEUED != 0
    }

    fn set(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Inherits the reads and the queue of the object that it replaces.
    pub(crate) fn inherit(&self, old: &Self) {
        self.set_reads(old.reads());
        self.hits.store(old.hits(), Ordering::Relaxed);
        if old.is_main() {
            self.mark_main();
        }
    }

    /// Whether it is a mark that has expired, so that it no longer counts.
    pub(crate) fn is_expired_mark(&self, now: Moment) -> bool {
        self.is_uncacheable() && !self.head.freshness().is_fresh(now)
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        formatter.debug_struct("Stored").field("key", &key).field("head", &self.head).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rules::freshness::Freshness;
    use crate::rules::response_control::ResponseControl;
    use crate::rules::vary::Vary;

    /// A response with this `Cache-Control`, which arrived at the beginning of 1970.
    pub fn stored(cache_control: &str) -> Stored {
        let control = ResponseControl::of_cache_control([cache_control.as_bytes()].into_iter());
        let lifetime = control.lifetime().unwrap_or(0);
        let freshness = Freshness::new(&control, lifetime, Moment::default(), 0);
        let head = StoredHead::new(200, Vec::new(), freshness, Vary::default(), Vec::new());
        Stored::response(1, b"key", head, Body::default())
    }

    #[test]
    fn reads_are_counted_up_to_three() {
        let stored = stored("max-age=1");
        (0..9).for_each(|_| stored.note_read());
        assert_eq!((stored.reads(), stored.hits()), (READS_MAX, 9));
    }

    #[test]
    fn an_object_is_small() {
        // With the two counters of an `Arc`, the allocator's class of 192 bytes.
        assert!(size_of::<Stored>() + 16 <= 192, "{}", size_of::<Stored>());
    }
}
