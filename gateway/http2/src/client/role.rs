//! The state of a client: the streams that it opens, and the responses on them.
//!
//! [`ClientRole`] extends the shared [`Core`]. Invariant: the heads that wait in a stream are bounded by
//! `WAITING_HEADS_MAX_BYTES`, whatever the endpoint sends.

use std::collections::VecDeque;

use crate::client::overhead::OverheadCredit;
use crate::client::settings::ClientSettings;
use crate::shared::check::are_allowed;
use crate::shared::core::{Core, HeaderBlock};
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::frame::PAYLOAD_MAX_BYTES;
use crate::shared::hpack::HpackEncoder;
use crate::shared::receive::PREFACE;
use crate::shared::role::Role;
use crate::shared::settings::PeerSettings;
use crate::shared::streams::{SendProgress, StreamKey, wake};
use crate::shared::totals::MemoryTotals;

/// A block on the wire may have this many times the bytes of the largest head, so that a head that is too
/// large ends its own response and not the connection.
const BLOCK_FACTOR: usize = 4;
/// The most memory of heads that wait for their reader in one stream. Interim responses could otherwise grow
/// without end, because no window bounds them.
const WAITING_HEADS_MAX_BYTES: usize = 64 * 1024;
/// The least memory that a waiting head counts.
const WAITING_HEAD_BYTES: usize = 256;
/// The largest id of a stream that a client opens. Ids cannot be reused (RFC 9113, 5.1.1).
pub(crate) const LAST_ID_MAX: u32 = 0x7fff_fffd;

/// The state of a connection that only a client has.
#[derive(Debug, Default)]
pub(crate) struct ClientRole {
    pub credit: OverheadCredit,
    /// The last stream that the endpoint's GOAWAY names, if it sent one.
    pub goaway_last: Option<u32>,
    /// The payload of a PING that the endpoint has not acknowledged.
    pub ping: Option<[u8; 8]>,
    /// How many PINGs were sent.
    pub pings: u64,
}

/// The state of a stream that only a client has.
#[derive(Debug, Default)]
pub(crate) struct ClientStream {
    /// Heads that wait for their reader, interim ones and at most one final one, and their memory.
    pub heads: VecDeque<FieldSection>,
    pub heads_bytes: usize,
    /// Whether the final head was received.
    has_final: bool,
    /// Whether the request is a CONNECT, and whether the final head accepted it: then only DATA may follow (RFC 9113,
    /// 8.5).
    pub is_connect: bool,
    is_tunnel: bool,
    /// The end of the request's head in the output, comparable with `Core::written_total`.
    pub head_end: u64,
    pub failure: Option<StreamFailure>,
}

/// Why a stream has no response, if its reset alone does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFailure {
    /// The endpoint's GOAWAY excluded the stream, or its head was never written.
    NotProcessed,
    /// The endpoint broke the protocol.
    Malformed,
    /// A head or trailer section is so large that it ended the connection. `is_end`: it was the end of the
    /// stream, so it is trailers or, in gRPC, a head that is also the trailers.
    TooLarge { is_end: bool },
}

impl Role for ClientRole {
    type Stream = ClientStream;

    fn clear(stream: &mut ClientStream) {
        stream.heads.clear();
        let heads = std::mem::take(&mut stream.heads);
        *stream = ClientStream { heads, ..ClientStream::default() };
    }

    fn on_preface(_: &mut Core<Self>) {}

    fn block_max_bytes(core: &Core<Self>) -> usize {
        (core.limits.max_head_bytes as usize).saturating_mul(BLOCK_FACTOR).max(PAYLOAD_MAX_BYTES)
    }

    /// A server opens no streams, because push is disabled.
    fn last_peer_stream(_: &Core<Self>) -> u32 {
        0
    }

    fn ignores(_: &Core<Self>, _: u32) -> bool {
        false
    }

    fn on_section(core: &mut Core<Self>, block: &HeaderBlock, fields: FieldSection) -> Result<(), ErrorCode> {
        let id = block.stream;
        let Some(key) = core.streams.key(id) else {
            core.recycle_fields(fields);
            return match id {
                // RFC 9113, 5.1: an idle stream.
                id if id > core.last => Err(ErrorCode::PROTOCOL_ERROR),
                id if core.may_have_been_reset(id) => Self::on_overhead(core, 1),
                _ => Err(ErrorCode::STREAM_CLOSED),
            };
        };
        let Some(state) = core.streams.get(key).filter(|state| state.reset.is_none()) else {
            core.recycle_fields(fields);
            return Self::on_overhead(core, 1);
        };
        if state.ended {
            core.reset_for_error(key, ErrorCode::STREAM_CLOSED);
            return Ok(());
        }
        if block.is_own_parent {
            core.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        if state.role.has_final {
            if state.role.is_tunnel || !block.ends_stream || !are_allowed(fields.iter()) {
                core.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
                return Ok(());
            }
            // Trailers that exceed the limit are cut, which their reader checks.
            state.ended = true;
            state.trailers = Some(fields);
            wake(&mut state.reader);
            return Ok(());
        }
        let is_interim = fields.is_interim();
        if is_interim && block.ends_stream {
            core.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        state.role.has_final = !is_interim;
        state.role.is_tunnel = state.role.is_connect && fields.is_success();
        state.ended = block.ends_stream;
        state.role.heads_bytes += fields.size().max(WAITING_HEAD_BYTES);
        let is_flood = is_interim && state.role.heads_bytes > WAITING_HEADS_MAX_BYTES;
        state.role.heads.push_back(fields);
        wake(&mut state.reader);
        if is_flood {
            core.reset_for_error(key, ErrorCode::ENHANCE_YOUR_CALM);
        }
        if is_interim { Self::on_overhead(core, 1) } else { Ok(()) }
    }

    fn on_oversized_block(core: &mut Core<Self>, id: u32, ends_stream: bool) {
        if let Some(key) = core.streams.key(id)
            && let Some(state) = core.streams.get(key)
        {
            state.role.failure.get_or_insert(StreamFailure::TooLarge { is_end: ends_stream });
        }
    }

    fn on_overhead(core: &mut Core<Self>, cost: u32) -> Result<(), ErrorCode> {
        if core.role.credit.take(cost) { Ok(()) } else { Err(ErrorCode::ENHANCE_YOUR_CALM) }
    }

    /// RFC 9113, 8.1: a head comes first.
    fn accepts_data(stream: &ClientStream) -> bool {
        stream.has_final
    }

    fn on_data_sent(core: &mut Core<Self>, count: usize) {
        core.role.credit.on_sent(count);
    }

    /// RFC 9113, 8.1: a server may reset the rest of a request after a complete response.
    fn survives_reset(has_received_end: bool) -> bool {
        has_received_end
    }

    fn on_goaway(core: &mut Core<Self>, last: u32) -> Result<(), ErrorCode> {
        // RFC 9113, 6.8: the last stream must not increase.
        if core.role.goaway_last.replace(last).is_some_and(|before| last > before) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let mut excluded = 0;
        for state in core.streams.iter().filter(|state| state.id > last && state.reset.is_none()) {
            state.role.failure = Some(StreamFailure::NotProcessed);
            state.reset = Some(ErrorCode::REFUSED_STREAM);
            state.is_cancelled = true;
            state.wake_all();
            excluded += 1;
        }
        core.wake();
        Self::on_overhead(core, excluded)
    }

    fn on_settings(core: &mut Core<Self>, settings: &PeerSettings) -> Result<(), ErrorCode> {
        // RFC 9113, 6.5.2: a server must not enable push. RFC 8441, 3: extended CONNECT must not be withdrawn.
        let withdraws = core.peer_settings.allows_connect_protocol && !settings.allows_connect_protocol;
        if settings.enables_push || withdraws { Err(ErrorCode::PROTOCOL_ERROR) } else { Ok(()) }
    }

    fn on_ping_ack(core: &mut Core<Self>, payload: [u8; 8]) {
        core.role.ping.take_if(|sent| *sent == payload);
    }

    /// A response of which a part was discarded must not look complete, and its head not arrive.
    fn on_discard(core: &mut Core<Self>, key: StreamKey) {
        if let Some(state) = core.streams.get(key).filter(|state| !state.is_cancelled) {
            state.role.failure.get_or_insert(StreamFailure::Malformed);
            state.role.heads.clear();
            state.role.heads_bytes = 0;
        }
    }

    fn drop_code(_: bool) -> ErrorCode {
        ErrorCode::CANCEL
    }

    fn may_be_finished(_: &Core<Self>) -> bool {
        false
    }

    fn on_abort(_: &mut Core<Self>) {}
}

impl Core<ClientRole> {
    /// Creates the state of a connection to an endpoint, with the preface and SETTINGS in its output.
    pub fn client(settings: &ClientSettings, totals: &MemoryTotals) -> Self {
        let limits = settings.receive_limits();
        let mut core = Self::new(ClientRole::default(), limits, HpackEncoder::for_requests(), totals);
        // A server sends no preface.
        core.preface = PREFACE.len();
        core.out.extend_from_slice(PREFACE);
        // ENABLE_PUSH.
        limits.write(&[(2, 0)], &mut core.out);
        core
    }

    /// Whether a stream can be opened: the endpoint has sent no GOAWAY, and ids are left.
    pub fn can_open(&self) -> bool {
        self.ended.is_none() && !self.peer_sent_goaway && self.last < LAST_ID_MAX
    }

    /// The error with which this side ended the connection; CANCEL if the connection was lost, NO_ERROR if this side
    /// closed it in order.
    pub fn violation(&self) -> Option<ErrorCode> {
        self.ended.filter(|code| !matches!(*code, ErrorCode::CANCEL | ErrorCode::NO_ERROR))
    }

    /// Marks the streams whose heads were not written completely: the endpoint cannot process these requests. The
    /// output must be discarded now.
    pub fn give_up_unwritten(&mut self) {
        let written = self.written_total;
        for state in
            self.streams.iter().filter(|state| state.reset.is_none() && state.role.head_end > written)
        {
            state.role.failure.get_or_insert(StreamFailure::NotProcessed);
        }
    }

    /// Opens a stream.
    pub fn open(&mut self) -> StreamKey {
        // 1, 3, 5 and so on.
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        self.role.credit.on_sent(0);
        let window = self.limits.stream_window.into();
        self.streams.add(self.last, window, self.peer_settings.initial_window, false)
    }

    /// Whether the request on a stream was sent completely.
    pub fn has_sent_end(&mut self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|state| state.sent == SendProgress::End)
    }
}
