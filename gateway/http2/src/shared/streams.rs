//! The streams of a connection, found by id or by key. Frames name a stream by its id; handles use its key,
//! an index into a slab, which is cheaper. [`StreamState`] holds the windows, the unread body and the waiting
//! tasks of one stream.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::{Context, Waker};

use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;

/// How many states of ended streams are kept for reuse, and how many bytes of capacity for data each keeps.
const SPARE_STATES_MAX: usize = 8;
const SPARE_DATA_BYTES: usize = 2 * 1024;

/// How far a message was sent on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    Nothing,
    Head,
    End,
}

/// The state of one stream; `role` is what only one role needs. A server's stream exists while a handle holds
/// it or it waits in the queue of received requests, a client's while a handle holds it.
#[derive(Debug)]
pub(crate) struct StreamState<S> {
    pub role: S,
    pub id: u32,
    /// The receive window: bytes of the body that the peer may still send.
    pub receive_window: i64,
    /// Bytes that were read and not yet returned to the window.
    pub unreturned: u32,
    /// Received bytes of the body. Those before `consumed` were consumed.
    pub data: Vec<u8>,
    pub consumed: usize,
    /// Whether the message was received completely.
    pub ended: bool,
    pub trailers: Option<FieldSection>,
    /// Bytes of the body received so far, and the length that the head announced.
    pub received: u64,
    pub declared_length: Option<u64>,
    /// The send window. Negative if the peer has reduced its window by SETTINGS.
    pub send_window: i64,
    pub sent: SendProgress,
    /// The error code with which either side has reset the stream.
    pub reset: Option<ErrorCode>,
    /// Whether the peer reset it. The peer may then send no more frames on it.
    pub is_cancelled: bool,
    /// Whether it is on the list of streams that wait for room.
    pub is_waiting: bool,
    /// The tasks that wait for data, for room and for a reset.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    pub watcher: Option<Waker>,
}

impl<S: Default> StreamState<S> {
    pub fn new(id: u32, receive_window: i64, send_window: i64, ended: bool) -> Self {
        Self {
            role: S::default(),
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
            sent: SendProgress::Nothing,
            reset: None,
            is_cancelled: false,
            is_waiting: false,
            reader: None,
            writer: None,
            watcher: None,
        }
    }
}

impl<S> StreamState<S> {
    /// Whether the stream counts against the limit of concurrent streams: until both sides end it. A stream
    /// that was reset counts until its handle is dropped, because work for it goes on.
    pub fn is_counted(&self) -> bool {
        self.reset.is_some() || !(self.ended && self.sent == SendProgress::End)
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

/// A hasher for stream ids. A fast one is enough, because a peer cannot choose ids freely.
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
#[derive(Debug)]
pub(crate) struct Streams<S> {
    slots: Vec<Option<Box<StreamState<S>>>>,
    free: Vec<StreamKey>,
    /// Removed states, kept for reuse with their buffers.
    spare: Vec<Box<StreamState<S>>>,
    by_id: HashMap<u32, StreamKey, BuildHasherDefault<IdHasher>>,
}

impl<S> Default for Streams<S> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), spare: Vec::new(), by_id: HashMap::default() }
    }
}

impl<S> Streams<S> {
    /// Adds a stream with these windows. `ended`: its peer sends no body.
    pub fn add(&mut self, id: u32, receive_window: i64, send_window: i64, ended: bool) -> StreamKey
    where
        S: Default,
    {
        let new = StreamState::new(id, receive_window, send_window, ended);
        let state = Some(match self.spare.pop() {
            Some(mut spare) => {
                let (role, data) = (std::mem::take(&mut spare.role), std::mem::take(&mut spare.data));
                *spare = StreamState { role, data, ..new };
                spare
            }
            None => Box::new(new),
        });
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

    pub fn remove(&mut self, key: StreamKey) -> Option<Box<StreamState<S>>> {
        let state = self.slots.get_mut(key as usize)?.take()?;
        self.by_id.remove(&state.id);
        self.free.push(key);
        Some(state)
    }

    /// Keeps the state of a removed stream, whose role was cleared, for reuse.
    pub fn recycle(&mut self, mut state: Box<StreamState<S>>) {
        if self.spare.len() < SPARE_STATES_MAX && state.data.capacity() <= SPARE_DATA_BYTES {
            state.data.clear();
            (state.reader, state.writer, state.watcher, state.trailers) = (None, None, None, None);
            self.spare.push(state);
        }
    }

    /// Drops all but one of the states that are kept for reuse.
    pub fn shrink_idle(&mut self) {
        self.spare.truncate(1);
    }

    #[inline]
    pub fn get(&mut self, key: StreamKey) -> Option<&mut StreamState<S>> {
        self.slots.get_mut(key as usize)?.as_deref_mut()
    }

    #[inline]
    pub fn key(&self, id: u32) -> Option<StreamKey> {
        self.by_id.get(&id).copied()
    }

    pub fn iter(&mut self) -> impl Iterator<Item = &mut StreamState<S>> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// How many streams exist.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
