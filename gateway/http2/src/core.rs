//! What both ends of the handles share: the connection itself.

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

/// Streams that were ended here of late: what was on its way for them is no mistake.
const REMEMBERED: usize = 256;

/// Bytes of room that a buffer keeps for what comes or goes next.
pub(crate) const KEPT: usize = 16 * 1024;
/// The same while nothing is under way.
const RESTING: usize = 1024;

/// Heads of requests that came at once, whose room serves the next.
const SPARE: usize = 32;

/// A head whose frames are not all here.
#[derive(Debug)]
pub(crate) struct Block {
    pub stream: u32,
    pub ends: bool,
    /// Whether its stream names itself as the one it depends on (RFC 7540, 5.3.1).
    pub is_own_parent: bool,
    pub bytes: Vec<u8>,
}

/// Data of which a part has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub stream: u32,
    pub left: usize,
    pub ends: bool,
}

/// How far a goodbye has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goodbye {
    None,
    /// The client is told that it is to send no more; what is on its way is taken yet, until the answer to a PING shows that it
    /// knows.
    Said,
    /// It knows which streams are the last.
    Known,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub settings: Settings,
    pub told: Told,
    /// Bytes of the preface that have come, and of a frame that is not whole.
    pub preface: usize,
    pub partial: Vec<u8>,
    pub rest: Option<Rest>,
    pub block: Option<Block>,
    /// Whether the client's SETTINGS have come, which are first.
    pub greeted: bool,
    pub decoder: Decoder,
    pub encoder: Encoder,
    pub streams: Streams,
    /// Streams that wait to be taken up, each with its fields.
    pub new: VecDeque<(Key, Fields)>,
    /// Bytes of the fields, trailers too, of streams that wait to be taken up. A few bytes of HPACK can name kilobytes, so that
    /// what came over the wire says little of it.
    pub held: Part,
    /// Streams that were gone before they were taken up.
    pub stillborn: u64,
    /// Streams that were not begun: more than there may be at once.
    pub refused: u64,
    /// What has come costs as much as so many bytes of bodies more than its own.
    pub extra: u64,
    /// Frames of DATA that came for streams that are gone, or were reset.
    pub unwanted: u64,
    /// Streams that were ended for mistakes of the client's.
    pub mistakes: u32,
    /// The client's last stream.
    pub last: u32,
    /// Bytes of bodies that may yet come, and that were read without the window having been opened again.
    pub window: i64,
    pub owed: u32,
    /// Bytes of bodies that may be sent.
    pub room: i64,
    pub out: Vec<u8>,
    pub written: usize,
    pub gate: Gate,
    /// Streams that wait for room which others have taken, and which of them has written last.
    pub waiting: Vec<Key>,
    pub writer: Option<Key>,
    pub goodbye: Goodbye,
    /// Whether the client has said that it leaves.
    pub has_left: bool,
    /// Why it has ended; nothing is read or begun any longer.
    pub ended: Option<Reason>,
    /// The task that reads and writes.
    pub task: Option<Waker>,
    forgotten: VecDeque<u32>,
    /// The highest of those that were ended here before them: what comes of one up to here cannot be told from a mistake.
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

    /// Something was written that is to go.
    #[inline]
    pub fn wake(&mut self) {
        self.gate.set(self.unwritten());
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Has the task woken when something is to be written.
    pub fn wait(&mut self, cx: &Context<'_>) {
        crate::streams::wait(&mut self.task, cx);
    }

    /// Fields to read into.
    pub fn take_fields(&mut self) -> Fields {
        let mut fields = self.spare.pop().unwrap_or_else(Fields::with_room);
        fields.clear(self.settings.fields as usize);
        fields
    }

    /// Fields that were read, for the next.
    pub fn give_fields(&mut self, fields: Fields) {
        if self.spare.len() < SPARE && fields.is_small() {
            self.spare.push(fields);
        }
    }

    /// Nothing is under way: no more memory is kept than small requests need.
    pub fn rest(&mut self) {
        self.out.shrink_to(RESTING);
        self.partial.shrink_to(RESTING);
        self.decoder.shrink_to(RESTING);
        self.spare.truncate(1);
    }

    /// Ends the connection.
    pub fn end(&mut self, reason: Reason) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(reason);
        frame::numbers(&mut self.out, Kind::GOAWAY, 0, &[self.last, reason.0]);
        self.cut();
        self.wake();
    }

    /// Nothing comes or goes any longer: streams that have not ended never will, which [`Core::tell_of_end`] tells them.
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

    /// What waits to be written will not go.
    pub fn forget_unwritten(&mut self) {
        (self.out, self.written) = (Vec::new(), 0);
        self.gate.set(0);
    }

    /// Has so many at most look again that wait although they were reset. Says how many.
    pub fn tell_of_end(&mut self, most: usize) -> usize {
        let waiting = self.streams.iter().filter(|state| state.reset.is_some() && state.is_waited_for());
        waiting.take(most).map(State::wake_all).count()
    }

    /// Ends a stream.
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

    /// Tells that a stream has ended, of which nothing is known otherwise.
    pub fn tell_reset(&mut self, id: u32, reason: Reason) {
        frame::numbers(&mut self.out, Kind::RST_STREAM, id, &[reason.0]);
        if self.forgotten.len() == REMEMBERED
            && let Some(id) = self.forgotten.pop_front()
            // One that was never begun is no measure.
            && id <= self.last
        {
            self.dim = self.dim.max(id);
        }
        self.forgotten.push_back(id);
        self.wake();
    }

    /// Whether frames may still be on their way for a stream that is gone.
    pub fn was_ended_here(&self, id: u32) -> bool {
        self.forgotten.contains(&id)
    }

    /// Whether its data may still be on its way, as far as one remembers.
    pub fn may_have_ended_here(&self, id: u32) -> bool {
        id <= self.dim || self.was_ended_here(id)
    }

    /// What has come for a stream that was reset is wanted no more; one that nobody has taken up was never there.
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

    /// Nobody holds the stream any longer.
    pub fn drop_stream(&mut self, key: Key) {
        let Some(state) = self.streams.remove(key) else { return };
        let unread = state.data.len() - state.read;
        if state.reset.is_none() && self.ended.is_none() {
            match (state.sent, state.ended) {
                (Sent::End, true) => {}
                // RFC 9113, 8.1: the rest of the request is not wanted.
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

    /// Bytes of bodies were read, or are never to be: as many more may come over the connection.
    pub fn read(&mut self, count: usize) {
        self.owed += count as u32;
        let is_due = i64::from(self.owed) * 2 >= i64::from(self.settings.connection_window.max(WINDOW));
        // Once it has ended nothing more comes, and what is written then may follow the end of this direction.
        if is_due && self.ended.is_none() {
            self.window += i64::from(self.owed);
            frame::numbers(&mut self.out, Kind::WINDOW_UPDATE, 0, &[self.owed]);
            self.owed = 0;
            self.wake();
        }
    }

    /// As many more may come of one body.
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

    /// The stream is gone, and its place another's next.
    fn waits_no_longer(&mut self, key: Key) {
        self.waiting.retain(|other| *other != key);
    }

    /// The next stream that waits to be taken up is.
    pub fn take_up(&mut self) -> Option<(Key, Fields)> {
        let (key, fields) = self.new.pop_front()?;
        let state = self.streams.get(key)?;
        state.is_new = false;
        let trailers = state.trailers_size();
        self.held.take_off(fields.size() + trailers);
        Some((key, fields))
    }

    /// Streams that wait for room may have it; who had the last of it comes after the others.
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

    /// Whether no further request can come, none is there, and all was written.
    pub fn is_over(&self) -> bool {
        (self.goodbye == Goodbye::Known || self.has_left) && self.streams.len() == 0 && self.unwritten() == 0
    }

    /// Streams that a client has opened and that count.
    pub fn open(&mut self) -> usize {
        if self.streams.len() < self.settings.streams as usize {
            return self.streams.len();
        }
        self.streams.iter().filter(|state| state.counts()).count()
    }

    /// A stream begins.
    pub fn begin(&mut self, id: u32, mut fields: Fields, ended: bool) {
        if self.new.len() >= SPARE {
            // It may wait long, beside as many of other connections, and its room is nobody's next.
            fields.shrink_to_fit();
        }
        // What a client may send that has not heard yet how much that is.
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

    /// The bytes of a frame's header that begins here, if it is whole.
    pub fn next_header(bytes: &[u8]) -> Option<frame::Header> {
        bytes.first_chunk::<HEADER>().map(|bytes| frame::Header::read(*bytes))
    }
}
