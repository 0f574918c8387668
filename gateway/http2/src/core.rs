//! The state of a connection, which its [`Connection`](crate::Connection) and its [`Stream`](crate::Stream)s
//! share.
//!
//! `receive` and `send` extend [`Core`] with the parsing and the writing of frames. This module keeps the
//! streams, the windows and the output buffer. Invariant: every received byte of a body is unread in a
//! stream, or counted in `owed`, or returned to the connection's window.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use crate::fields::Fields;
use crate::frame::{self, HEADER, Kind};
use crate::gate::Gate;
use crate::hpack::{Decoder, Encoder};
use crate::reason::Reason;
use crate::settings::{Settings, Told, WINDOW};
use crate::streams::{Key, Sent, State, Streams, wake};
use crate::totals::{Part, Totals};

/// How many streams that were reset here are remembered. Frames that were in flight for them are not an
/// error.
const REMEMBERED: usize = 256;

/// Bytes of capacity that a buffer keeps for the next read or write.
pub(crate) const KEPT: usize = 16 * 1024;
/// The same for a connection without open streams.
const RESTING: usize = 1024;

/// How many [`Fields`] are kept for reuse, and how many queued heads keep their full capacity.
const SPARE: usize = 32;

/// A head or trailer section whose last frame has not arrived.
#[derive(Debug)]
pub(crate) struct Block {
    pub stream: u32,
    pub ends: bool,
    /// Whether the stream names itself as the stream it depends on (RFC 7540, 5.3.1).
    pub is_own_parent: bool,
    pub bytes: Vec<u8>,
}

/// A DATA frame of which only a part has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub stream: u32,
    pub left: usize,
    pub ends: bool,
}

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goodbye {
    None,
    /// GOAWAY was sent, and a PING after it. New streams are still accepted until the client acknowledges the
    /// PING, which shows that it received the GOAWAY.
    Said,
    /// The second GOAWAY was sent; it names the last stream. Later ones are ignored.
    Known,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub settings: Settings,
    pub told: Told,
    /// How many bytes of the preface were received.
    pub preface: usize,
    pub partial: Vec<u8>,
    pub rest: Option<Rest>,
    pub block: Option<Block>,
    /// Whether the client's SETTINGS were received, which must be its first frame.
    pub greeted: bool,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub streams: Streams,
    /// Streams that wait in the queue of received requests, each with its fields.
    pub new: VecDeque<(Key, Fields)>,
    /// Bytes of memory that the fields of queued streams take, trailers included. A few bytes of HPACK can
    /// name kilobytes, so the size on the wire would say little.
    pub held: Part,
    /// Streams that were reset before they were taken from the queue.
    pub stillborn: u64,
    /// Streams that were refused: more than may be open at once, or ones that depend on themselves.
    pub refused: u64,
    /// CPU cost of received frames beyond their own bytes, expressed in bytes of body.
    pub extra: u64,
    /// DATA frames for streams that are closed or were reset.
    pub unwanted: u64,
    /// Streams that were reset because the client broke the protocol.
    pub mistakes: u32,
    /// The highest id of a stream that the client has opened.
    pub last: u32,
    /// The connection's receive window: bytes of bodies that the client may still send. `owed` counts bytes
    /// that were consumed and not yet returned to the window.
    pub window: i64,
    pub owed: u32,
    /// The connection's send window: bytes of bodies that may be sent.
    pub room: i64,
    pub out: Vec<u8>,
    pub written: usize,
    pub gate: Gate,
    /// Streams that wait for room in the output buffer or the connection's window, and the stream that wrote
    /// last.
    pub waiting: Vec<Key>,
    pub writer: Option<Key>,
    pub goodbye: Goodbye,
    /// Whether the client has sent GOAWAY.
    pub has_left: bool,
    /// The reason why the connection ended. Once set, nothing is read and no stream opens.
    pub ended: Option<Reason>,
    /// The task that reads and writes the socket.
    pub task: Option<Waker>,
    forgotten: VecDeque<u32>,
    /// Streams up to this id may have been reset here and forgotten. Late frames for them are ignored; they
    /// are not a protocol error.
    dim: u32,
    spare: Vec<Fields>,
}

impl Core {
    pub fn new(settings: Settings, totals: &Totals) -> Self {
        let window = settings.connection_window.max(WINDOW).into();
        Self {
            settings,
            told: Told::default(),
            preface: 0,
            partial: Vec::new(),
            rest: None,
            block: None,
            greeted: false,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            streams: Streams::default(),
            new: VecDeque::new(),
            held: Part::of(totals.held.clone()),
            stillborn: 0,
            refused: 0,
            extra: 0,
            unwanted: 0,
            mistakes: 0,
            last: 0,
            window,
            owed: 0,
            room: WINDOW.into(),
            out: Vec::new(),
            written: 0,
            gate: Gate::new(totals),
            waiting: Vec::new(),
            writer: None,
            goodbye: Goodbye::None,
            has_left: false,
            ended: None,
            task: None,
            forgotten: VecDeque::new(),
            dim: 0,
            spare: Vec::new(),
        }
    }

    /// Records that `out` has grown, and wakes the task to write it.
    #[inline]
    pub fn wake(&mut self) {
        self.gate.set(self.unwritten());
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Registers the task to be woken when there is something to write.
    pub fn wait(&mut self, cx: &Context<'_>) {
        crate::streams::wait(&mut self.task, cx);
    }

    /// Takes empty fields to decode into, from the pool if it has any.
    pub fn take_fields(&mut self) -> Fields {
        let mut fields = self.spare.pop().unwrap_or_else(Fields::with_room);
        fields.clear(self.settings.fields as usize);
        fields
    }

    /// Returns fields to the pool for reuse.
    pub fn give_fields(&mut self, fields: Fields) {
        if self.spare.len() < SPARE && fields.is_small() {
            self.spare.push(fields);
        }
    }

    /// Releases memory when no stream is open: the connection keeps only what small requests need.
    pub fn rest(&mut self) {
        self.out.shrink_to(RESTING);
        self.partial.shrink_to(RESTING);
        self.decoder.shrink_to(RESTING);
        self.spare.truncate(1);
    }

    /// Ends the connection with a GOAWAY that carries the reason. Does nothing if it has already ended.
    pub fn end(&mut self, reason: Reason) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(reason);
        frame::numbers(&mut self.out, Kind::GOAWAY, 0, &[self.last, reason.0]);
        self.cut();
        self.wake();
    }

    /// Ends all streams that are still open, without a frame; nothing is read or written from now on.
    /// [`Core::tell_of_end`] wakes them.
    pub fn cut(&mut self) {
        self.ended.get_or_insert(Reason::CANCEL);
        for (key, _) in std::mem::take(&mut self.new) {
            self.streams.remove(key);
        }
        self.held.set(0);
        for state in self.streams.iter().filter(|state| state.counts()) {
            state.reset.get_or_insert(Reason::CANCEL);
        }
    }

    /// Discards the output buffer, which can no longer be written.
    pub fn forget_unwritten(&mut self) {
        (self.out, self.written) = (Vec::new(), 0);
        self.gate.set(0);
    }

    /// Wakes at most `most` reset streams that are still waiting. Returns how many it woke.
    pub fn tell_of_end(&mut self, most: usize) -> usize {
        let waiting = self.streams.iter().filter(|state| state.reset.is_some() && state.is_waited_for());
        waiting.take(most).map(State::wake_all).count()
    }

    /// Resets a stream and wakes its waiters. Does nothing if it was already reset.
    pub fn reset(&mut self, key: Key, reason: Reason) {
        let Some(state) = self.streams.get(key) else { return };
        if state.reset.is_some() {
            return;
        }
        let id = state.id;
        state.reset = Some(reason);
        state.wake_all();
        self.tell_reset(id, reason);
        self.lose(key);
    }

    /// Sends RST_STREAM for a stream and remembers its id. The stream may have no state: it may be closed or
    /// refused.
    pub fn tell_reset(&mut self, id: u32, reason: Reason) {
        frame::numbers(&mut self.out, Kind::RST_STREAM, id, &[reason.0]);
        if self.forgotten.len() == REMEMBERED
            && let Some(id) = self.forgotten.pop_front()
            // A refused stream above `last` says nothing about forgotten ones.
            && id <= self.last
        {
            self.dim = self.dim.max(id);
        }
        self.forgotten.push_back(id);
        self.wake();
    }

    /// Whether the stream was reset here recently, so that frames for it may still be in flight.
    pub fn was_ended_here(&self, id: u32) -> bool {
        self.forgotten.contains(&id)
    }

    /// Whether the stream may have been reset here, as far as is remembered: its data may still be in flight.
    pub fn may_have_ended_here(&self, id: u32) -> bool {
        id <= self.dim || self.was_ended_here(id)
    }

    /// Discards what was received for a reset stream. If it was still in the queue of received requests,
    /// removes it altogether.
    pub fn lose(&mut self, key: Key) {
        let Some(state) = self.streams.get(key) else { return };
        let unread = state.data.len() - state.read;
        (state.data, state.read) = (Vec::new(), 0);
        let (is_new, trailers) = (state.is_new, state.trailers_size());
        let was_waiting = std::mem::take(&mut state.is_waiting);
        self.read(unread);
        if was_waiting {
            self.waits_no_longer(key);
        }
        if is_new {
            self.stillborn += 1;
            if let Some(at) = self.new.iter().position(|(other, _)| *other == key)
                && let Some((_, fields)) = self.new.remove(at)
            {
                self.held.take_off(fields.size() + trailers);
                self.give_fields(fields);
            }
            self.streams.remove(key);
        }
    }

    /// Removes a stream whose handle was dropped. If the exchange is incomplete, resets the stream.
    pub fn drop_stream(&mut self, key: Key) {
        let Some(state) = self.streams.remove(key) else { return };
        let unread = state.data.len() - state.read;
        if state.reset.is_none() && self.ended.is_none() {
            match (state.sent, state.ended) {
                (Sent::End, true) => {}
                // RFC 9113, 8.1: a complete response lets the server refuse the rest of the request.
                (Sent::End, false) => self.tell_reset(state.id, Reason::NO_ERROR),
                (Sent::Nothing | Sent::Head, _) => self.tell_reset(state.id, Reason::CANCEL),
            }
        }
        self.read(unread);
        if state.is_waiting {
            self.waits_no_longer(key);
        }
        if self.goodbye != Goodbye::None || self.has_left || self.ended.is_some() {
            self.wake();
        }
    }

    /// Returns `count` consumed or discarded bytes to the connection's window. Sends WINDOW_UPDATE when half
    /// of the window is owed.
    pub fn read(&mut self, count: usize) {
        self.owed += count as u32;
        let is_due = i64::from(self.owed) * 2 >= i64::from(self.settings.connection_window.max(WINDOW));
        // After the end no more data is read, and a frame written now could follow the close of this
        // direction.
        if is_due && self.ended.is_none() {
            self.window += i64::from(self.owed);
            frame::numbers(&mut self.out, Kind::WINDOW_UPDATE, 0, &[self.owed]);
            self.owed = 0;
            self.wake();
        }
    }

    /// Returns `count` consumed bytes to a stream's window.
    pub fn read_of(&mut self, key: Key, count: usize) {
        let half = i64::from(self.settings.window);
        let Some(state) = self.streams.get(key) else { return };
        state.owed += count as u32;
        if i64::from(state.owed) * 2 >= half && !state.ended && state.reset.is_none() && self.ended.is_none()
        {
            let (id, owed) = (state.id, state.owed);
            state.window += i64::from(owed);
            state.owed = 0;
            frame::numbers(&mut self.out, Kind::WINDOW_UPDATE, id, &[owed]);
            self.wake();
        }
    }

    /// Removes a closed stream from the list of waiters, because another stream may reuse its key.
    fn waits_no_longer(&mut self, key: Key) {
        self.waiting.retain(|other| *other != key);
    }

    /// Takes the next stream from the queue of received requests.
    pub fn take_up(&mut self) -> Option<(Key, Fields)> {
        let (key, fields) = self.new.pop_front()?;
        let state = self.streams.get(key)?;
        state.is_new = false;
        let trailers = state.trailers_size();
        self.held.take_off(fields.size() + trailers);
        Some((key, fields))
    }

    /// Wakes the streams that wait for room. The last writer comes after the others.
    pub fn wake_writers(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if let Some(at) = waiting.iter().position(|key| Some(*key) == self.writer) {
            waiting[at..].rotate_left(1);
        }
        for key in waiting {
            if let Some(state) = self.streams.get(key) {
                state.is_waiting = false;
                wake(&mut state.writer);
            }
        }
    }

    /// Whether the connection is finished: no stream can be opened, none is open, and everything was written.
    pub fn is_over(&self) -> bool {
        (self.goodbye == Goodbye::Known || self.has_left) && self.streams.len() == 0 && self.unwritten() == 0
    }

    /// How many streams count against the limit of concurrent streams. Below the limit the result may include
    /// streams that do not count, which spares a scan.
    pub fn open(&mut self) -> usize {
        if self.streams.len() < self.settings.streams as usize {
            return self.streams.len();
        }
        self.streams.iter().filter(|state| state.counts()).count()
    }

    /// Opens a stream and puts it into the queue of received requests.
    pub fn begin(&mut self, id: u32, mut fields: Fields, ended: bool) {
        if self.new.len() >= SPARE {
            // The head may wait long, together with many on other connections, and its capacity will not be
            // reused.
            fields.shrink_to_fit();
        }
        // A client that has not received our SETTINGS yet may send up to the default window.
        let window = self.settings.window.max(WINDOW).into();
        let state = State::new(id, window, self.told.window, ended);
        let key = self.streams.add(state);
        self.held.add(fields.size());
        self.new.push_back((key, fields));
    }

    /// Bytes that wait to be written.
    pub fn unwritten(&self) -> usize {
        self.out.len() - self.written
    }

    /// Reads the frame header at the start of `bytes`, if all of it is there.
    pub fn next_header(bytes: &[u8]) -> Option<frame::Header> {
        bytes.first_chunk::<HEADER>().map(|bytes| frame::Header::read(*bytes))
    }
}
