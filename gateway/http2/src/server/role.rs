//! The server's part of a connection: the queue of received requests, and the graceful shutdown.
//!
//! [`ServerRole`] extends the shared [`Core`]. Invariant: `queued_bytes` is the memory of all fields in the
//! queue, trailers included.

use std::collections::VecDeque;

use crate::server::settings::LocalSettings;
use crate::shared::check::are_allowed;
use crate::shared::core::{Core, HeaderBlock, SPARE_FIELDS_MAX};
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::frame::{self, FrameType, PAYLOAD_MAX_BYTES};
use crate::shared::hpack::HpackEncoder;
use crate::shared::role::Role;
use crate::shared::settings::{DEFAULT_WINDOW_BYTES, PeerSettings};
use crate::shared::streams::{StreamKey, wake};
use crate::shared::totals::{ConnectionShare, MemoryTotals};

/// Payload of the PING that follows a GOAWAY. Its acknowledgement shows that the client received the GOAWAY.
pub(crate) const GOAWAY_PING: [u8; 8] = *b"farewell";
/// The largest possible stream id. A GOAWAY with it refuses no stream yet.
const STREAM_ID_MAX: u32 = 0x7fff_ffff;

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GracefulShutdown {
    None,
    /// GOAWAY was sent, and a PING after it. New streams are still accepted until the client acknowledges the
    /// PING, which shows that it received the GOAWAY.
    Announced,
    /// The second GOAWAY was sent; it names the last stream. Later ones are ignored.
    Final,
}

/// The state of a connection that only a server has.
#[derive(Debug)]
pub(crate) struct ServerRole {
    settings: LocalSettings,
    /// Streams that wait in the queue of received requests, each with its fields.
    pub queue: VecDeque<(StreamKey, FieldSection)>,
    /// Bytes of memory that the fields of queued streams take, trailers included. A few bytes of HPACK can
    /// name kilobytes, so the size on the wire would say little.
    pub queued_bytes: ConnectionShare,
    /// Streams that were reset before they were taken from the queue.
    pub reset_before_start: u64,
    /// Streams that were refused: more than may be open at once, or ones that depend on themselves.
    pub refused: u64,
    shutdown: GracefulShutdown,
}

/// The state of a stream that only a server has.
#[derive(Debug, Default)]
pub(crate) struct ServerStream {
    /// Whether it waits in the queue of received requests.
    is_queued: bool,
    /// Whether all fields of its response are sent as never indexed.
    pub has_secrets: bool,
    /// Whether it is a tunnel, on which only DATA may follow (RFC 9113, 8.5).
    pub is_tunnel: bool,
}

impl Role for ServerRole {
    type Stream = ServerStream;

    fn clear(stream: &mut ServerStream) {
        *stream = ServerStream::default();
    }

    fn on_preface(core: &mut Core<Self>) {
        // MAX_CONCURRENT_STREAMS, and ENABLE_CONNECT_PROTOCOL, which allows WebSocket (RFC 8441, 3).
        let more = [(3, core.role.settings.max_concurrent_streams), (8, 1)];
        core.limits.write(&more, &mut core.out);
    }

    fn block_max_bytes(core: &Core<Self>) -> usize {
        (core.limits.max_head_bytes as usize).max(PAYLOAD_MAX_BYTES)
    }

    fn last_peer_stream(core: &Core<Self>) -> u32 {
        core.last
    }

    /// Whether our GOAWAY excluded the stream (RFC 9113, 6.8). The client may not have received that yet.
    fn ignores(core: &Core<Self>, id: u32) -> bool {
        core.role.shutdown == GracefulShutdown::Final && id > core.last && !id.is_multiple_of(2)
    }

    fn on_section(core: &mut Core<Self>, block: &HeaderBlock, fields: FieldSection) -> Result<(), ErrorCode> {
        let id = block.stream;
        if let Some(key) = core.streams.key(id) {
            return core.on_trailers(key, block, fields);
        }
        if id <= core.last && !core.was_reset_recently(id) {
            return Err(ErrorCode::STREAM_CLOSED);
        }
        if id <= core.last || Self::ignores(core, id) {
            core.recycle_fields(fields);
            return Ok(());
        }
        core.last = id;
        // A stream whose fields form no request is opened anyway, so that it can be answered with the reason.
        let refusal = if block.is_own_parent {
            Some(ErrorCode::PROTOCOL_ERROR)
        } else if core.open_streams() >= core.role.settings.max_concurrent_streams as usize {
            Some(ErrorCode::REFUSED_STREAM)
        } else {
            None
        };
        match refusal {
            None => core.open_stream(id, fields, block.ends_stream),
            Some(code) => {
                core.role.refused += 1;
                core.recycle_fields(fields);
                core.send_reset(id, code);
            }
        }
        Ok(())
    }

    fn on_oversized_block(_: &mut Core<Self>, _: u32, _: bool) {}

    /// The proxy's flood meter weighs the frames of clients.
    #[inline]
    fn on_overhead(_: &mut Core<Self>, _: u32) -> Result<(), ErrorCode> {
        Ok(())
    }

    #[inline]
    fn accepts_data(_: &ServerStream) -> bool {
        true
    }

    #[inline]
    fn on_data_sent(_: &mut Core<Self>, _: usize) {}

    /// A client that resets a request wants no response.
    fn survives_reset(_: bool) -> bool {
        false
    }

    fn on_goaway(_: &mut Core<Self>, _: u32) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn on_settings(_: &mut Core<Self>, _: &PeerSettings) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn on_ping_ack(core: &mut Core<Self>, payload: [u8; 8]) {
        if payload == GOAWAY_PING {
            core.finish_graceful_shutdown();
        }
    }

    /// If the stream was still in the queue of received requests, removes it altogether.
    fn on_discard(core: &mut Core<Self>, key: StreamKey) {
        let Some(state) = core.streams.get(key).filter(|state| state.role.is_queued) else { return };
        let trailers = state.trailers_size();
        core.role.reset_before_start += 1;
        if let Some(at) = core.role.queue.iter().position(|(other, _)| *other == key)
            && let Some((_, fields)) = core.role.queue.remove(at)
        {
            core.role.queued_bytes.subtract(fields.size() + trailers);
            core.recycle_fields(fields);
        }
        core.streams.remove(key);
    }

    fn drop_code(has_sent_end: bool) -> ErrorCode {
        // RFC 9113, 8.1: a complete response lets the server refuse the rest of the request.
        if has_sent_end { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL }
    }

    fn may_be_finished(core: &Core<Self>) -> bool {
        core.role.shutdown != GracefulShutdown::None
    }

    fn on_abort(core: &mut Core<Self>) {
        for (key, _) in std::mem::take(&mut core.role.queue) {
            core.streams.remove(key);
        }
        core.role.queued_bytes.set(0);
    }
}

impl Core<ServerRole> {
    /// Creates the state of a connection from a client.
    pub fn server(settings: LocalSettings, totals: &MemoryTotals) -> Self {
        let role = ServerRole {
            settings,
            queue: VecDeque::new(),
            queued_bytes: ConnectionShare::of(totals.queued_bytes.clone()),
            reset_before_start: 0,
            refused: 0,
            shutdown: GracefulShutdown::None,
        };
        Self::new(role, settings.receive_limits(), HpackEncoder::for_responses(), totals)
    }

    /// Handles the section after the head of a request.
    fn on_trailers(
        &mut self,
        key: StreamKey,
        block: &HeaderBlock,
        fields: FieldSection,
    ) -> Result<(), ErrorCode> {
        if self.streams.get(key).is_some_and(|state| state.is_cancelled) {
            return Err(ErrorCode::STREAM_CLOSED);
        }
        let Some(state) = self.streams.get(key).filter(|state| state.reset.is_none()) else {
            self.recycle_fields(fields);
            return Ok(());
        };
        if state.ended {
            self.reset_for_error(key, ErrorCode::STREAM_CLOSED);
            return Ok(());
        }
        state.ended = true;
        if state.role.is_tunnel
            || block.is_own_parent
            || !block.ends_stream
            || !are_allowed(fields.iter())
            || state.has_wrong_length()
        {
            self.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        // Trailers that exceed the limit are cut. Their reader checks that and answers with the reason.
        let queued_bytes = if state.role.is_queued { fields.size() } else { 0 };
        state.trailers = Some(fields);
        wake(&mut state.reader);
        self.role.queued_bytes.add(queued_bytes);
        Ok(())
    }

    /// Takes the next stream from the queue of received requests.
    pub fn next_request(&mut self) -> Option<(StreamKey, FieldSection)> {
        let (key, fields) = self.role.queue.pop_front()?;
        let state = self.streams.get(key)?;
        state.role.is_queued = false;
        let trailers = state.trailers_size();
        self.role.queued_bytes.subtract(fields.size() + trailers);
        Some((key, fields))
    }

    /// Whether the connection is finished: no stream can be opened, none is open, and everything was written.
    pub fn is_finished(&self) -> bool {
        (self.role.shutdown == GracefulShutdown::Final || self.peer_sent_goaway)
            && self.streams.len() == 0
            && self.unwritten() == 0
    }

    /// How many streams count against the limit of concurrent streams. Below the limit the result may include
    /// streams that do not count, which spares a scan.
    pub fn open_streams(&mut self) -> usize {
        if self.streams.len() < self.role.settings.max_concurrent_streams as usize {
            return self.streams.len();
        }
        self.streams.iter().filter(|state| state.is_counted()).count()
    }

    /// Opens a stream and puts it into the queue of received requests.
    fn open_stream(&mut self, id: u32, mut fields: FieldSection, ended: bool) {
        if self.role.queue.len() >= SPARE_FIELDS_MAX {
            // The head may wait long, together with many on other connections, and its capacity will not be
            // reused.
            fields.shrink_to_fit();
        }
        // A client that has not received our SETTINGS yet may send up to the default window.
        let window = self.limits.stream_window.max(DEFAULT_WINDOW_BYTES).into();
        let key = self.streams.add(id, window, self.peer_settings.initial_window, ended);
        if let Some(state) = self.streams.get(key) {
            state.role.is_queued = true;
        }
        self.role.queued_bytes.add(fields.size());
        self.role.queue.push_back((key, fields));
    }

    /// Starts a graceful shutdown: sends GOAWAY with the largest id, and a PING to learn when the client
    /// received it.
    pub fn start_graceful_shutdown(&mut self) {
        if self.role.shutdown != GracefulShutdown::None || self.ended.is_some() {
            return;
        }
        self.role.shutdown = GracefulShutdown::Announced;
        frame::write_numbers(&mut self.out, FrameType::GOAWAY, 0, &[STREAM_ID_MAX, ErrorCode::NO_ERROR.0]);
        frame::write_ping(&mut self.out, 0, &GOAWAY_PING);
        self.wake();
    }

    /// Completes the graceful shutdown, after the client's acknowledgement or a timeout: sends GOAWAY with
    /// its last stream.
    pub fn finish_graceful_shutdown(&mut self) {
        if self.role.shutdown == GracefulShutdown::Announced && self.ended.is_none() {
            self.role.shutdown = GracefulShutdown::Final;
            frame::write_numbers(&mut self.out, FrameType::GOAWAY, 0, &[self.last, ErrorCode::NO_ERROR.0]);
            self.wake();
        }
    }
}
