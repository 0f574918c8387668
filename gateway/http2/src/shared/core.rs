//! The state of a connection, which the handles of the connection and of its streams share.
//!
//! `receive` and `send` extend [`Core`] with the parsing and the writing of frames. This module keeps the
//! streams, the windows and the output buffer. Invariant: every received byte of a body is unread in a
//! stream, or counted in `unreturned`, or returned to the connection's window.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::frame::{self, FrameType, HEADER_BYTES};
use crate::shared::hpack::{HpackDecoder, HpackEncoder};
use crate::shared::output_limit::OutputLimit;
use crate::shared::role::Role;
use crate::shared::settings::{DEFAULT_WINDOW_BYTES, PeerSettings, ReceiveLimits};
use crate::shared::streams::{SendProgress, StreamKey, StreamState, Streams, wake};
use crate::shared::totals::MemoryTotals;

/// How many streams that were reset here are remembered. Frames that were in flight for them are not an
/// error.
const RESET_IDS_MAX: usize = 256;

/// Bytes of capacity that a buffer keeps for the next read or write.
pub(crate) const KEPT_CAPACITY_BYTES: usize = 16 * 1024;
/// The same for a connection without open streams.
const IDLE_CAPACITY_BYTES: usize = 1024;

/// How many [`FieldSection`] are kept for reuse, and how many queued heads keep their full capacity.
pub(crate) const SPARE_FIELDS_MAX: usize = 32;

/// A head or trailer section whose last frame has not arrived.
#[derive(Debug)]
pub(crate) struct HeaderBlock {
    pub stream: u32,
    pub ends_stream: bool,
    /// Whether the stream names itself as the stream it depends on (RFC 7540, 5.3.1).
    pub is_own_parent: bool,
    pub bytes: Vec<u8>,
}

/// A DATA frame of which only a part has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialData {
    pub stream: u32,
    pub bytes_left: usize,
    pub ends_stream: bool,
}

#[derive(Debug)]
pub(crate) struct Core<R: Role> {
    pub role: R,
    pub limits: ReceiveLimits,
    pub peer_settings: PeerSettings,
    /// How many bytes of the preface were received.
    pub preface: usize,
    pub partial: Vec<u8>,
    pub partial_data: Option<PartialData>,
    pub block: Option<HeaderBlock>,
    /// Whether the peer's SETTINGS were received, which must be its first frame.
    pub has_peer_settings: bool,
    pub decoder: HpackDecoder,
    pub encoder: HpackEncoder,
    pub streams: Streams<R::Stream>,
    /// CPU cost of received frames beyond their own bytes, expressed in bytes of body.
    pub extra_cost: u64,
    /// DATA frames for streams that are closed or were reset.
    pub discarded_data_frames: u64,
    /// Streams that were reset because the peer broke the protocol.
    pub protocol_errors: u32,
    /// The highest id of a stream that the client of the connection has opened.
    pub last: u32,
    /// The connection's receive window: bytes of bodies that the peer may still send. `unreturned` counts
    /// bytes that were consumed and not yet returned to the window.
    pub receive_window: i64,
    pub unreturned: u32,
    /// The connection's send window: bytes of bodies that may be sent.
    pub send_window: i64,
    pub out: Vec<u8>,
    pub written: usize,
    /// Bytes that were ever written, without the rest of `out`.
    pub written_total: u64,
    pub output_limit: OutputLimit,
    /// Streams that wait for room in the output buffer or the connection's window, and the stream that wrote
    /// last.
    pub waiting: Vec<StreamKey>,
    pub writer: Option<StreamKey>,
    /// Whether the peer has sent GOAWAY.
    pub peer_sent_goaway: bool,
    /// The reason why the connection ended. Once set, nothing is read and no stream opens.
    pub ended: Option<ErrorCode>,
    /// The task that reads and writes the socket.
    pub task: Option<Waker>,
    recently_reset: VecDeque<u32>,
    /// Streams up to this id may have been reset here and forgotten. Late frames for them are ignored; they
    /// are not a protocol error.
    forgotten_up_to: u32,
    spare_fields: Vec<FieldSection>,
}

impl<R: Role> Core<R> {
    pub fn new(role: R, limits: ReceiveLimits, encoder: HpackEncoder, totals: &MemoryTotals) -> Self {
        let receive_window = limits.connection_window.max(DEFAULT_WINDOW_BYTES).into();
        Self {
            role,
            limits,
            peer_settings: PeerSettings::default(),
            preface: 0,
            partial: Vec::new(),
            partial_data: None,
            block: None,
            has_peer_settings: false,
            decoder: HpackDecoder::new(),
            encoder,
            streams: Streams::default(),
            extra_cost: 0,
            discarded_data_frames: 0,
            protocol_errors: 0,
            last: 0,
            receive_window,
            unreturned: 0,
            send_window: DEFAULT_WINDOW_BYTES.into(),
            out: Vec::new(),
            written: 0,
            written_total: 0,
            output_limit: OutputLimit::new(totals),
            waiting: Vec::new(),
            writer: None,
            peer_sent_goaway: false,
            ended: None,
            task: None,
            recently_reset: VecDeque::new(),
            forgotten_up_to: 0,
            spare_fields: Vec::new(),
        }
    }

    /// Records that `out` has grown, and wakes the task to write it.
    #[inline]
    pub fn wake(&mut self) {
        self.output_limit.set(self.unwritten());
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Registers the task to be woken when there is something to write.
    pub fn register_waker(&mut self, cx: &Context<'_>) {
        crate::shared::streams::register_waker(&mut self.task, cx);
    }

    /// Takes empty fields to decode into, from the pool if it has any.
    pub fn take_fields(&mut self) -> FieldSection {
        let mut fields = self.spare_fields.pop().unwrap_or_else(FieldSection::with_typical_capacity);
        fields.clear(self.limits.max_head_bytes as usize);
        fields
    }

    /// Returns fields to the pool for reuse.
    pub fn recycle_fields(&mut self, fields: FieldSection) {
        if self.spare_fields.len() < SPARE_FIELDS_MAX && fields.is_small() {
            self.spare_fields.push(fields);
        }
    }

    /// Releases memory when no stream is open: the connection keeps only what small requests need.
    pub fn shrink_idle(&mut self) {
        self.out.shrink_to(IDLE_CAPACITY_BYTES);
        self.partial.shrink_to(IDLE_CAPACITY_BYTES);
        self.decoder.shrink_to(IDLE_CAPACITY_BYTES);
        self.spare_fields.truncate(1);
        self.streams.shrink_idle();
    }

    /// Ends the connection with a GOAWAY that carries the reason. Does nothing if it has already ended.
    pub fn end(&mut self, code: ErrorCode) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(code);
        let last = R::last_peer_stream(self);
        frame::write_numbers(&mut self.out, FrameType::GOAWAY, 0, &[last, code.0]);
        self.abort();
        self.wake();
    }

    /// Ends all streams that are still open, without a frame; nothing is read or written from now on.
    /// [`Core::wake_ended_streams`] wakes them.
    pub fn abort(&mut self) {
        self.ended.get_or_insert(ErrorCode::CANCEL);
        R::on_abort(self);
        for state in self.streams.iter().filter(|state| state.is_counted()) {
            state.reset.get_or_insert(ErrorCode::CANCEL);
        }
    }

    /// Discards the output buffer, which can no longer be written.
    pub fn discard_output(&mut self) {
        (self.out, self.written) = (Vec::new(), 0);
        self.output_limit.set(0);
    }

    /// Wakes at most `max_count` reset streams that are still waiting. Returns how many it woke.
    pub fn wake_ended_streams(&mut self, max_count: usize) -> usize {
        let waiting = self.streams.iter().filter(|state| state.reset.is_some() && state.has_waiters());
        waiting.take(max_count).map(StreamState::wake_all).count()
    }

    /// Resets a stream and wakes its waiters. Does nothing if it was already reset.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        let Some(state) = self.streams.get(key) else { return };
        if state.reset.is_some() {
            return;
        }
        let id = state.id;
        state.reset = Some(code);
        state.wake_all();
        self.send_reset(id, code);
        self.discard_received(key);
    }

    /// Sends RST_STREAM for a stream and remembers its id. The stream may have no state: it may be closed or
    /// refused.
    pub fn send_reset(&mut self, id: u32, code: ErrorCode) {
        frame::write_numbers(&mut self.out, FrameType::RST_STREAM, id, &[code.0]);
        if self.recently_reset.len() == RESET_IDS_MAX
            && let Some(id) = self.recently_reset.pop_front()
            // A refused stream above `last` says nothing about forgotten ones.
            && id <= self.last
        {
            self.forgotten_up_to = self.forgotten_up_to.max(id);
        }
        self.recently_reset.push_back(id);
        self.wake();
    }

    /// Whether the stream was reset here recently, so that frames for it may still be in flight.
    pub fn was_reset_recently(&self, id: u32) -> bool {
        self.recently_reset.contains(&id)
    }

    /// Whether the stream may have been reset here, as far as is remembered: its data may still be in flight.
    pub fn may_have_been_reset(&self, id: u32) -> bool {
        id <= self.forgotten_up_to || self.was_reset_recently(id)
    }

    /// Discards what was received for a reset stream.
    pub fn discard_received(&mut self, key: StreamKey) {
        let Some(state) = self.streams.get(key) else { return };
        let unread = state.data.len() - state.consumed;
        (state.data, state.consumed) = (Vec::new(), 0);
        let was_waiting = std::mem::take(&mut state.is_waiting);
        self.return_window(unread);
        if was_waiting {
            self.stop_waiting(key);
        }
        R::on_discard(self, key);
    }

    /// Copies received bytes of a body into `buffer`, and returns them to the windows. Returns how many.
    #[inline]
    pub fn read(&mut self, key: StreamKey, buffer: &mut [u8]) -> usize {
        let Some(state) = self.streams.get(key) else { return 0 };
        let received = &state.data[state.consumed..];
        let count = received.len().min(buffer.len());
        buffer[..count].copy_from_slice(&received[..count]);
        state.consumed += count;
        if state.consumed == state.data.len() {
            state.consumed = 0;
            state.data.clear();
            state.data.shrink_to(KEPT_CAPACITY_BYTES);
        }
        self.return_stream_window(key, count);
        self.return_window(count);
        count
    }

    /// Removes a stream whose handle was dropped. If the exchange is incomplete, resets the stream.
    pub fn drop_stream(&mut self, key: StreamKey) {
        let Some(mut state) = self.streams.remove(key) else { return };
        let unread = state.data.len() - state.consumed;
        if state.reset.is_none() && self.ended.is_none() {
            let has_sent_end = state.sent == SendProgress::End;
            if !(has_sent_end && state.ended) {
                self.send_reset(state.id, R::drop_code(has_sent_end));
            }
        }
        self.return_window(unread);
        if state.is_waiting {
            self.stop_waiting(key);
        }
        R::clear(&mut state.role);
        self.streams.recycle(state);
        if R::may_be_finished(self) || self.peer_sent_goaway || self.ended.is_some() {
            self.wake();
        }
    }

    /// Returns `count` consumed or discarded bytes to the connection's window. Sends WINDOW_UPDATE when half
    /// of the window is owed.
    pub fn return_window(&mut self, count: usize) {
        self.unreturned += count as u32;
        let is_due = i64::from(self.unreturned) * 2
            >= i64::from(self.limits.connection_window.max(DEFAULT_WINDOW_BYTES));
        // After the end no more data is read, and a frame written now could follow the close of this
        // direction.
        if is_due && self.ended.is_none() {
            self.receive_window += i64::from(self.unreturned);
            frame::write_numbers(&mut self.out, FrameType::WINDOW_UPDATE, 0, &[self.unreturned]);
            self.unreturned = 0;
            self.wake();
        }
    }

    /// Returns `count` consumed bytes to a stream's window.
    pub fn return_stream_window(&mut self, key: StreamKey, count: usize) {
        let half = i64::from(self.limits.stream_window);
        let Some(state) = self.streams.get(key) else { return };
        state.unreturned += count as u32;
        if i64::from(state.unreturned) * 2 >= half
            && !state.ended
            && state.reset.is_none()
            && self.ended.is_none()
        {
            let (id, unreturned) = (state.id, state.unreturned);
            state.receive_window += i64::from(unreturned);
            state.unreturned = 0;
            frame::write_numbers(&mut self.out, FrameType::WINDOW_UPDATE, id, &[unreturned]);
            self.wake();
        }
    }

    /// Removes a closed stream from the list of waiters, because another stream may reuse its key.
    fn stop_waiting(&mut self, key: StreamKey) {
        self.waiting.retain(|other| *other != key);
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

    /// Bytes that wait to be written.
    pub fn unwritten(&self) -> usize {
        self.out.len() - self.written
    }

    /// The value of `written_total` once all bytes that wait are written.
    pub fn output_end(&self) -> u64 {
        self.written_total + self.unwritten() as u64
    }

    /// Reads the frame header at the start of `bytes`, if all of it is there.
    pub fn next_header(bytes: &[u8]) -> Option<frame::FrameHeader> {
        bytes.first_chunk::<HEADER_BYTES>().map(|bytes| frame::FrameHeader::read(*bytes))
    }
}
