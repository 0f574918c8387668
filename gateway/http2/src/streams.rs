//! The streams of a connection, found by id or by key. Frames name a stream by its id; handles use its key,
//! an index into a slab, which is cheaper. [`StreamState`] holds the windows, the unread body and the waiting
//! tasks of one stream.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::{Context, Waker};

use crate::error_code::ErrorCode;
use crate::fields::FieldSection;

/// How far a stream's response was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseProgress {
    Nothing,
    Head,
    End,
}

/// The state of one stream. It exists while a handle holds it or it waits in the queue of received requests.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub id: u32,
    /// The receive window: bytes of the body that the client may still send.
    pub receive_window: i64,
    /// Bytes that were read and not yet returned to the window.
    pub unreturned: u32,
    /// Received bytes of the body. Those before `consumed` were consumed.
    pub data: Vec<u8>,
    pub consumed: usize,
    /// Whether the request was received completely.
    pub ended: bool,
    pub trailers: Option<FieldSection>,
    /// Bytes of the body received so far, and the length that the head announced.
    pub received: u64,
    pub declared_length: Option<u64>,
    /// The send window. Negative if the client has reduced its window by SETTINGS.
    pub send_window: i64,
    pub sent: ResponseProgress,
    /// The error code with which either side has reset the stream.
    pub reset: Option<ErrorCode>,
    /// Whether the client reset it. The client may then send no more frames on it.
    pub is_cancelled: bool,
    /// Whether it waits in the queue of received requests.
    pub is_queued: bool,
    /// Whether it is on the list of streams that wait for room.
    pub is_waiting: bool,
    /// The tasks that wait for data, for room and for a reset.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    pub watcher: Option<Waker>,
}

impl StreamState {
    pub fn new(id: u32, receive_window: i64, send_window: i64, ended: bool) -> Self {
        Self {
            id,
            receive_window,
            unreturned: 0,
            data: Vec::new(),
            consumed: 0,
            ended,
            trailers: None,
            received: 0,
            declared_length: None,
            send_window,
            sent: ResponseProgress::Nothing,
            reset: None,
            is_cancelled: false,
            is_queued: true,
            is_waiting: false,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// Whether the stream counts against the limit of concurrent streams: until both sides end it. A stream
    /// that was reset counts until its handle is dropped, because work for it goes on.
    pub fn is_counted(&self) -> bool {
        self.reset.is_some() || !(self.ended && self.sent == ResponseProgress::End)
    }

    /// Whether the body has another length than the head announced. Before the end, only an excess counts.
    pub fn has_wrong_length(&self) -> bool {
        self.declared_length
            .is_some_and(|length| if self.ended { self.received != length } else { self.received > length })
    }

    /// Bytes of memory that its trailers take.
    pub fn trailers_size(&self) -> usize {
        self.trailers.as_ref().map_or(0, FieldSection::size)
    }

    /// Whether a task waits for the stream.
    pub fn has_waiters(&self) -> bool {
        [&self.reader, &self.writer, &self.watcher].into_iter().any(Option::is_some)
    }

    pub fn wake_all(&mut self) {
        [&mut self.reader, &mut self.writer, &mut self.watcher]
            .into_iter()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }
}

/// Registers the task in `slot`, to be woken by [`wake`].
pub(crate) fn register_waker(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

pub(crate) fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

/// A hasher for stream ids. A fast one is enough, because clients cannot choose ids freely.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The index of a stream's slot. It is reused after the stream is removed.
pub(crate) type StreamKey = u32;

/// All streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Option<Box<StreamState>>>,
    free: Vec<StreamKey>,
    by_id: HashMap<u32, StreamKey, BuildHasherDefault<IdHasher>>,
}

impl Streams {
    pub fn add(&mut self, state: StreamState) -> StreamKey {
        let (id, state) = (state.id, Some(Box::new(state)));
        let key = match self.free.pop() {
            Some(key) => {
                self.slots[key as usize] = state;
                key
            }
            None => {
                self.slots.push(state);
                self.slots.len() as StreamKey - 1
            }
        };
        self.by_id.insert(id, key);
        key
    }

    pub fn remove(&mut self, key: StreamKey) -> Option<Box<StreamState>> {
        let state = self.slots.get_mut(key as usize)?.take()?;
        self.by_id.remove(&state.id);
        self.free.push(key);
        Some(state)
    }

    #[inline]
    pub fn get(&mut self, key: StreamKey) -> Option<&mut StreamState> {
        self.slots.get_mut(key as usize)?.as_deref_mut()
    }

    #[inline]
    pub fn key(&self, id: u32) -> Option<StreamKey> {
        self.by_id.get(&id).copied()
    }

    pub fn iter(&mut self) -> impl Iterator<Item = &mut StreamState> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// How many streams exist.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
