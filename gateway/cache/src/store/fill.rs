//! A response that is being fetched: one leader writes it, followers on any worker read it as it arrives.
//!
//! The leader holds a [`Fill`]; every follower a [`Follower`]. Both refer to a [`FillShared`], whose mutex only they
//! take, never a hit. Wake-ups happen after the mutex is released. Invariant: a fill ends in exactly one way (stored,
//! complete but not stored, refused, failed, or cut), and every follower learns which, even if the leader's task
//! panics: [`Fill`] decides on drop.
//!
//! While a response may still be stored, all of it is kept until it is complete, so a slow follower delays no other. If
//! it is longer than allowed, or all fetches together hold too much, it is not stored. Then only the bytes that a
//! follower has yet to read are kept, and the leader [waits](Fill::poll_room) for the slowest follower.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tollgate_http::Head;

use super::Store;
use super::body::Body;
use super::follower::Follower;
use super::stored::Stored;
use crate::StoredHead;
use crate::disk::Disk;

/// Bytes that are collected into one piece while no follower awaits them.
const PIECE_BYTES: usize = 64 * 1024;
/// How many leaders of a fetch may fail before its followers do. The requests of several leaders fail if the endpoint is in
/// trouble; one alone may be odd.
const FAILURES_MAX: u32 = 3;
/// Bytes that a response which is not stored may be ahead of its slowest follower.
const WINDOW_BYTES: u64 = 256 * 1024;

/// The use of data that the leader pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The response will be stored.
    Stored,
    /// It will not be stored, because there is no room for it; followers still read it. Call
    /// [`poll_room`](Fill::poll_room) before the next push.
    Followed,
    /// It will not be stored, and no follower reads it: stop pushing.
    Unused,
}

/// The state of a fetch.
#[derive(Debug)]
pub(super) enum Phase {
    /// The leader has no head yet.
    Waiting,
    /// The leader left or failed before a head arrived. The first follower that polls becomes the leader.
    Vacant,
    /// The head is known, and the body arrives.
    Streaming(Arc<StoredHead>),
    /// The body is complete. It was not stored.
    Complete(Arc<StoredHead>),
    /// The response is stored.
    Stored(Arc<Stored>),
    /// The response is for the leader alone.
    Refused,
    /// There is no response.
    Failed,
    /// The leader left in the middle of the body.
    Cut,
}

/// A follower as the fill knows it.
#[derive(Debug)]
pub(super) struct Reader {
    pub offset: u64,
    pub waker: Option<Waker>,
}

#[derive(Debug)]
pub(super) struct FillState {
    pub phase: Phase,
    /// The pieces that followers can read, the first of which begins at `start`.
    pub pieces: Vec<Bytes>,
    pub start: u64,
    /// Bytes after them, which become a piece when it is long enough or a follower wants it.
    tail: Vec<u8>,
    /// All bytes so far.
    pub length: u64,
    /// The length of the body, if the head gave it.
    pub declared: Option<u64>,
    /// Whether it will be stored, as far as is known.
    is_kept: bool,
    /// How many leaders have failed.
    failures: u32,
    pub readers: Vec<Option<Reader>>,
    writer: Option<Waker>,
}

impl FillState {
    fn reader_count(&self) -> usize {
        self.readers.iter().flatten().count()
    }

    /// The data from an offset to the end of its piece.
    pub fn piece(&self, offset: u64) -> Option<Bytes> {
        let mut start = self.start;
        for piece in &self.pieces {
            let end = start + piece.len() as u64;
            if (start..end).contains(&offset) {
                return Some(piece.slice((offset - start) as usize..));
            }
            start = end;
        }
        None
    }

    /// Makes the bytes of the tail readable.
    pub fn publish(&mut self) {
        if !self.tail.is_empty() {
            // As a boxed slice, it keeps no spare capacity.
            self.pieces.push(Bytes::from(std::mem::take(&mut self.tail).into_boxed_slice()));
        }
    }

    /// The wakers of all followers, to be called after the state is unlocked.
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take()).collect()
    }

    /// Drops the pieces that every follower has read, if the response is not stored. Returns whether the leader may
    /// continue.
    fn release(&mut self) -> bool {
        if self.is_kept {
            return true;
        }
        let slowest = self.readers.iter().flatten().map(|reader| reader.offset).min().unwrap_or(self.length);
        let mut read = 0;
        while let Some(piece) = self.pieces.get(read)
            && self.start + piece.len() as u64 <= slowest
        {
            self.start += piece.len() as u64;
            read += 1;
        }
        self.pieces.drain(..read);
        self.length - slowest < WINDOW_BYTES
    }

    /// Does this after a follower has read or left. Returns the leader's waker if it may continue.
    pub fn after_read(&mut self) -> Option<Waker> {
        if self.release() { self.writer.take() } else { None }
    }
}

/// The part of a fetch that its leader, its followers and the index share.
#[derive(Debug)]
pub(crate) struct FillShared {
    hash: u64,
    /// The hash of the key with the varying fields, as far as they are known; `None`: it takes no followers.
    variant: Option<u64>,
    key: Box<[u8]>,
    /// Whether a purge matched the response, so that it must not be stored.
    is_purged: AtomicBool,
    pub(super) state: Mutex<FillState>,
}

impl FillShared {
    /// A fetch that others may follow.
    pub(super) fn shared(hash: u64, variant: u64, key: &[u8]) -> Self {
        Self::new(hash, Some(variant), key)
    }

    /// A fetch without followers.
    pub(super) fn alone(hash: u64, key: &[u8]) -> Self {
        Self::new(hash, None, key)
    }

    fn new(hash: u64, variant: Option<u64>, key: &[u8]) -> Self {
        let state = FillState {
            phase: Phase::Waiting,
            pieces: Vec::new(),
            start: 0,
            tail: Vec::new(),
            length: 0,
            declared: None,
            is_kept: true,
            failures: 0,
            readers: Vec::new(),
            writer: None,
        };
        Self { hash, variant, key: key.into(), is_purged: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Whether a request with this key and these varying fields can follow it. Once its response is known, that decides. A
    /// request that arrives after a purge wants nothing from before.
    pub(super) fn is_joined_by(&self, variant: u64, key: &[u8], request: &Head) -> bool {
        if self.is_purged.load(Ordering::Relaxed) {
            return false;
        }
        self.variant.is_some_and(|own| match self.head_for(key) {
            Some(head) => head.is_selected_by(request),
            None => own == variant && *self.key == *key,
        })
    }

    /// The head of its response, if it is a fetch for this key, and the head has arrived.
    pub(super) fn head_for(&self, key: &[u8]) -> Option<Arc<StoredHead>> {
        if *self.key != *key {
            return None;
        }
        match &self.lock().phase {
            Phase::Streaming(head) | Phase::Complete(head) => Some(head.clone()),
            _ => None,
        }
    }

    /// Adds a follower; `None` if there are too many, or the start of the body is no longer kept.
    pub(super) fn follow(self: &Arc<Self>, store: &Arc<Store>) -> Option<Follower> {
        let follower = self.join(store)?;
        store.counters.count_followed();
        Some(follower)
    }

    fn join(self: &Arc<Self>, store: &Arc<Store>) -> Option<Follower> {
        let mut state = self.lock();
        if !state.is_kept || state.reader_count() >= store.settings.followers_max {
            return None;
        }
        state.publish();
        let reader = Some(Reader { offset: 0, waker: None });
        let id = match state.readers.iter().position(Option::is_none) {
            Some(free) => {
                state.readers[free] = reader;
                free
            }
            None => {
                state.readers.push(reader);
                state.readers.len() - 1
            }
        };
        drop(state);
        Some(Follower::new(store.clone(), self.clone(), id))
    }

    /// Hands the lead to the first follower that polls, because the leader left or failed before a head arrived. Without
    /// followers, the fetch ends.
    fn vacate(self: &Arc<Self>, store: &Store) {
        self.lock().phase = Phase::Vacant;
        self.pass_on(store);
    }

    /// Wakes a follower to take the lead, unless one has it already.
    pub(super) fn pass_on(self: &Arc<Self>, store: &Store) {
        let mut stripe = store.index.lock(self.hash);
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Vacant) {
            return;
        }
        let heir = state.readers.iter_mut().flatten().find_map(|reader| reader.waker.take());
        if state.reader_count() == 0 {
            stripe.unregister(self);
        }
        drop(state);
        drop(stripe);
        heir.into_iter().for_each(Waker::wake);
    }

    /// Marks the response as purged, if the purge matches its key, or may match its tags. The tags are unknown until
    /// the head arrives, so every purge by tag matches until then.
    pub(super) fn purge(&self, concerns: impl Fn(&[u8], Option<&StoredHead>) -> bool) {
        let state = self.lock();
        let head = match &state.phase {
            Phase::Streaming(head) => Some(&**head),
            _ => None,
        };
        if concerns(&self.key, head) {
            self.is_purged.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leader's side of a fetch. Dropped before a head is known, it hands the lead to a follower; dropped in the
/// middle of the body, it cuts the followers' responses.
#[derive(Debug)]
pub struct Fill {
    store: Arc<Store>,
    shared: Arc<FillShared>,
    /// Bytes that are counted in [`Store::filling`].
    counted: u64,
    /// The disk tier, and its number of purges when the fetch started.
    disk: Option<(Arc<Disk>, u64)>,
    is_over: bool,
}

impl Fill {
    pub(super) fn new(store: Arc<Store>, shared: Arc<FillShared>) -> Self {
        let disk = store.disk.load_full().map(|disk| {
            let purges = disk.purges();
            (disk, purges)
        });
        Self { store, shared, counted: 0, disk, is_over: false }
    }

    /// The key of the request.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.shared.key
    }

    /// Publishes a head that [`admit`](crate::admit) allows to be stored, and the length of the body, if it is known.
    /// Returns false if the body is too long: then followers fetch for themselves, and the fill must be dropped.
    #[must_use]
    pub fn start(&mut self, head: StoredHead, length: Option<u64>) -> bool {
        if length.is_some_and(|length| length > self.store.settings.object_bytes_max) {
            self.store.counters.count_refused();
            self.end(Some(Phase::Refused));
            return false;
        }
        let mut state = self.shared.lock();
        state.declared = length;
        // A body that fits in one piece gets memory of exactly its length.
        if let Some(length) = length.and_then(|length| usize::try_from(length).ok())
            && length <= PIECE_BYTES
        {
            state.tail.reserve_exact(length);
        }
        state.phase = Phase::Streaming(Arc::new(head));
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    /// Appends data of the body. The caller must have called [`start`](Self::start).
    pub fn push(&mut self, data: &[u8]) -> Pushed {
        let mut state = self.shared.lock();
        state.length += data.len() as u64;
        if state.is_kept {
            self.counted += data.len() as u64;
            let filling = self.store.filling.add(data.len() as u64);
            let has_room = self.store.may_fill(filling, self.counted);
            if state.length > self.store.settings.object_bytes_max || !has_room {
                state.is_kept = false;
                self.store.counters.count_refused();
                self.store.filling.subtract(std::mem::take(&mut self.counted));
            }
        }
        let has_readers = state.reader_count() > 0;
        if !has_readers && !state.is_kept {
            (state.pieces, state.tail) = Default::default();
            state.start = state.length;
            return Pushed::Unused;
        }
        append(&mut state, data, has_readers);
        let kept = if state.is_kept { Pushed::Stored } else { Pushed::Followed };
        state.release();
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        kept
    }

    /// Waits until followers of a response that is not stored have read enough of it. Ready at once otherwise.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.release() {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives up storing the response in the middle of its body, for instance because it is longer than a policy allows.
    /// Followers still read it, as after [`Pushed::Followed`].
    pub fn give_up(&mut self) {
        self.shared.lock().is_kept = false;
    }

    /// Returns a count for what its own client has yet to take.
    #[must_use]
    pub fn unsent(&self) -> Unsent {
        Unsent { store: self.store.clone(), bytes: 0 }
    }

    /// Bytes that it holds.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let state = self.shared.lock();
        state.pieces.iter().map(Bytes::len).sum::<usize>() + state.tail.len()
    }

    /// Ends a complete body, and stores the response. `None`: it is not stored, because it is too long, a
    /// purge came first, or it has another length than its head declared (RFC 9111, 3.3).
    pub fn finish(mut self) -> Option<Arc<Stored>> {
        let stored = {
            let mut state = self.shared.lock();
            // The drop cuts an incomplete response.
            if state.declared.is_some_and(|declared| declared != state.length) {
                return None;
            }
            let Phase::Streaming(head) = std::mem::replace(&mut state.phase, Phase::Cut) else { return None };
            state.publish();
            if state.is_kept {
                let head = Arc::try_unwrap(head).unwrap_or_else(|head| (*head).clone());
                let body = Body::new(std::mem::take(&mut state.pieces));
                let stored = Arc::new(self.response(head, body));
                state.phase = Phase::Stored(stored.clone());
                Some(stored)
            } else {
                state.phase = Phase::Complete(head);
                None
            }
        };
        match stored {
            Some(stored) => self.store(stored),
            None => {
                self.end(None);
                None
            }
        }
    }

    /// Stores a response again with the head that a 304 has updated, and the same body (RFC 9111, 4.3.4), in all its forms.
    /// `None`: a purge came first; followers still get it.
    pub fn freshen(self, stale: &Stored, head: StoredHead) -> Option<Arc<Stored>> {
        let stored = self.response(head, stale.body().clone()).with_forms_of(stale);
        self.finish_at_once(stored)
    }

    /// Stores the manifest of a response that is stored in slices: its head, and the length of the whole. `None`: a
    /// purge came first; followers still get it.
    pub fn finish_manifest(self, head: StoredHead, length: u64) -> Option<Arc<Stored>> {
        let stored = self.response(head, Body::new(vec![Bytes::from(length.to_string())]));
        self.finish_at_once(stored)
    }

    fn response(&self, head: StoredHead, body: Body) -> Stored {
        Stored::response(self.shared.hash, &self.shared.key, head, body)
    }

    fn finish_at_once(mut self, stored: Stored) -> Option<Arc<Stored>> {
        let stored = Arc::new(stored);
        self.shared.lock().phase = Phase::Stored(stored.clone());
        self.store(stored)
    }

    /// Adds a follower for the request that started the fetch, because a task of its own leads it. `None`: there are
    /// too many.
    #[must_use]
    pub fn follower(&self) -> Option<Follower> {
        self.shared.join(&self.store)
    }

    /// Ends a fetch whose 304 leaves nothing that may be stored. Returns the stored body with the new head, which
    /// answers this request alone; followers fetch for themselves.
    #[must_use]
    pub fn use_once(mut self, stale: &Stored, head: StoredHead) -> Arc<Stored> {
        let stored = self.response(head, stale.body().clone()).with_forms_of(stale);
        stored.mark_gone();
        self.end(Some(Phase::Refused));
        Arc::new(stored)
    }

    /// Ends a fetch whose response is for this request alone: followers fetch for themselves. The caller may
    /// [remember](Store::mark_uncacheable) it.
    pub fn refuse(mut self) {
        self.end(Some(Phase::Refused));
    }

    /// Ends a fetch that failed before there was a response: followers fail as well, so that an endpoint in trouble
    /// does not get all their requests at once.
    pub fn fail(mut self) {
        self.end(Some(Phase::Failed));
    }

    /// Does so if several leaders have failed one after another. Until then a follower leads: the error may concern the
    /// request of the leader alone. So an endpoint in trouble gets one of their requests at a time, and few in all.
    pub fn fail_over(mut self) {
        let is_last = {
            let mut state = self.shared.lock();
            state.failures += 1;
            state.failures >= FAILURES_MAX
        };
        if is_last {
            self.fail();
        } else {
            self.is_over = true;
            self.shared.vacate(&self.store);
        }
    }

    /// Puts the response in the index, unless a purge came first or it has no room, and wakes the followers.
    fn store(&mut self, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        let (is_kept, removed) = {
            let mut stripe = self.store.index.lock(self.shared.hash);
            stripe.unregister(&self.shared);
            // A purge sets it under the lock of the stripe.
            let is_purged = self.shared.is_purged.load(Ordering::Relaxed);
            let is_kept = !is_purged && self.store.fits(&stored);
            if is_kept {
                self.write_to_disk(&stored);
            }
            // A body on disk stays there: only its head is new.
            let enters_memory = is_kept && stored.disk_body().is_none();
            let most = self.store.settings.variants_max;
            (is_kept, enters_memory.then(|| self.store.index.insert(&mut stripe, stored.clone(), most)))
        };
        self.is_over = true;
        self.wake_followers();
        match removed {
            Some(removed) => self.store.queue(&stored, &removed),
            None => {
                stored.mark_gone();
                self.store.lent.add(&stored);
            }
        }
        is_kept.then_some(stored)
    }

    /// Hands the response to the disk tier. The caller holds the lock of the stripe.
    fn write_to_disk(&self, stored: &Arc<Stored>) {
        let Some(disk) = self.store.disk.load_full() else { return };
        // If the tier is a new one, this fetch started before the tier's first purge.
        let own = self.disk.as_ref().filter(|(own, _)| Arc::ptr_eq(own, &disk));
        disk.insert(stored, own.map_or(0, |(_, purges)| *purges));
    }

    /// Ends the fetch without storing anything. `phase`: the final phase for followers, if they do not know it already.
    fn end(&mut self, phase: Option<Phase>) {
        self.store.index.lock(self.shared.hash).unregister(&self.shared);
        if let Some(phase) = phase {
            self.shared.lock().phase = phase;
        }
        self.is_over = true;
        self.wake_followers();
    }

    fn wake_followers(&self) {
        let wakers = self.shared.lock().take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.store.filling.subtract(self.counted);
        if self.is_over {
            return;
        }
        let has_head = matches!(self.shared.lock().phase, Phase::Streaming(_));
        if has_head {
            self.end(Some(Phase::Cut));
        } else {
            self.shared.vacate(&self.store);
        }
    }
}

/// Bytes of a response that the leader has copied for its own slow client, so as not to delay others. As long as this
/// exists, they count as if they were still being fetched.
#[derive(Debug)]
pub struct Unsent {
    store: Arc<Store>,
    bytes: u64,
}

impl Unsent {
    /// Sets their number.
    pub fn set(&mut self, bytes: u64) {
        self.store.filling.add(bytes);
        self.store.filling.subtract(std::mem::replace(&mut self.bytes, bytes));
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.store.filling.subtract(self.bytes);
    }
}

/// Appends data to the pieces or to the tail. `is_awaited`: followers want it now.
fn append(state: &mut FillState, mut data: &[u8], is_awaited: bool) {
    if is_awaited {
        state.publish();
        state.pieces.push(Bytes::copy_from_slice(data));
        return;
    }
    while !data.is_empty() {
        let room = PIECE_BYTES - state.tail.len().min(PIECE_BYTES);
        let (now, later) = data.split_at(data.len().min(room));
        state.tail.extend_from_slice(now);
        data = later;
        if state.tail.len() == PIECE_BYTES {
            state.publish();
        }
    }
}
