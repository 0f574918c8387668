//! The streams of a connection, by their number and by their place.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::{Context, Waker};

use crate::fields::Fields;
use crate::reason::Reason;

/// What a stream's response has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    Head,
    End,
}

/// One stream, for as long as somebody holds it or it waits to be taken up.
#[derive(Debug)]
pub(crate) struct State {
    pub id: u32,
    /// Bytes of the body that may yet come.
    pub window: i64,
    /// Bytes that were read, and for which the window was not opened again.
    pub owed: u32,
    /// What has come of the body; it was read up to `read`.
    pub data: Vec<u8>,
    pub read: usize,
    /// Whether all of the request has come.
    pub ended: bool,
    pub trailers: Option<Fields>,
    /// Bytes of the body that have come, and how many its head has announced.
    pub came: u64,
    pub length: Option<u64>,
    /// Bytes that may be sent; below 0 where the client has made its windows smaller.
    pub room: i64,
    pub sent: Sent,
    /// Why it has ended before its time.
    pub reset: Option<Reason>,
    /// Whether it was the client that has ended it so: it may send no more of it.
    pub is_cancelled: bool,
    /// Whether it waits to be taken up.
    pub is_new: bool,
    /// Whether it waits for room that others have taken.
    pub is_waiting: bool,
    /// Who waits for data, for room, for a reset.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    pub watcher: Option<Waker>,
}

impl State {
    pub fn new(id: u32, window: i64, room: i64, ended: bool) -> Self {
        Self {
            id,
            window,
            owed: 0,
            data: Vec::new(),
            read: 0,
            ended,
            trailers: None,
            came: 0,
            length: None,
            room,
            sent: Sent::Nothing,
            reset: None,
            is_cancelled: false,
            is_new: true,
            is_waiting: false,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// Whether it counts among the requests that a client may have at once: until both sides have ended it, and one that was
    /// reset for as long as it is worked at.
    pub fn counts(&self) -> bool {
        self.reset.is_some() || !(self.ended && self.sent == Sent::End)
    }

    /// Whether what has come is not the body that its head has announced; of one that has not ended, whether it is more.
    pub fn is_of_wrong_length(&self) -> bool {
        self.length.is_some_and(|length| if self.ended { self.came != length } else { self.came > length })
    }

    /// Bytes that its trailers take.
    pub fn trailers_size(&self) -> usize {
        self.trailers.as_ref().map_or(0, Fields::size)
    }

    /// Whether somebody waits for it.
    pub fn is_waited_for(&self) -> bool {
        [&self.reader, &self.writer, &self.watcher].into_iter().any(Option::is_some)
    }

    pub fn wake_all(&mut self) {
        [&mut self.reader, &mut self.writer, &mut self.watcher]
            .into_iter()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }
}

/// Has the task woken when what it waits for has come.
pub(crate) fn wait(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

pub(crate) fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

/// Spreads the numbers of streams, which no client can choose freely.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
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

/// A stream's place.
pub(crate) type Key = u32;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<Box<State>>>,
    free: Vec<Key>,
    by_id: HashMap<u32, Key, BuildHasherDefault<Spread>>,
}

impl Streams {
    pub fn add(&mut self, state: State) -> Key {
        let (id, state) = (state.id, Some(Box::new(state)));
        let key = match self.free.pop() {
            Some(key) => {
                self.places[key as usize] = state;
                key
            }
            None => {
                self.places.push(state);
                self.places.len() as Key - 1
            }
        };
        self.by_id.insert(id, key);
        key
    }

    pub fn remove(&mut self, key: Key) -> Option<Box<State>> {
        let state = self.places.get_mut(key as usize)?.take()?;
        self.by_id.remove(&state.id);
        self.free.push(key);
        Some(state)
    }

    #[inline]
    pub fn get(&mut self, key: Key) -> Option<&mut State> {
        self.places.get_mut(key as usize)?.as_deref_mut()
    }

    #[inline]
    pub fn key(&self, id: u32) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    pub fn iter(&mut self) -> impl Iterator<Item = &mut State> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
