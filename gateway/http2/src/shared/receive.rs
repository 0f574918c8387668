//! Parses and handles the frames that the peer sends (RFC 9113, 5 and 6).
//!
//! [`Core::receive`] consumes bytes in whatever pieces the socket delivers them. A complete frame is handled
//! in place. DATA is passed on in pieces, and other partial frames are collected in `partial`. An error of
//! the connection is the `Err` of these functions, which ends it with a GOAWAY. An error of a stream resets
//! only that stream, but counts towards `PROTOCOL_ERRORS_MAX`.

use tollgate_http::extend_tightly;

use crate::shared::core::{Core, HeaderBlock, PartialData};
use crate::shared::error_code::ErrorCode;
use crate::shared::frame::{
    self, ACK, END_HEADERS, END_STREAM, FrameHeader, FrameType, HEADER_BYTES, PADDED, PAYLOAD_MAX_BYTES,
    WITH_PRIORITY,
};
use crate::shared::role::Role;
use crate::shared::settings::{PeerSettings, WINDOW_MAX_BYTES};
use crate::shared::streams::{StreamKey, wake};

/// The bytes with which a client opens an HTTP/2 connection (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How many streams of a connection may be reset for protocol errors before the connection ends.
const PROTOCOL_ERRORS_MAX: u32 = 1_000;
/// The minimum cost of a head, in bytes of a body: reading a head of 40 bytes takes as long as reading some hundred bytes
/// of a body.
const HEAD_COST_BYTES: u64 = 256;
/// The same for each stream whose window SETTINGS moves.
const WINDOW_CHANGE_COST_BYTES: u64 = 8;
/// The overhead of a SETTINGS frame, in frames that transfer nothing.
const SETTINGS_OVERHEAD: u32 = 10;

impl<R: Role> Core<R> {
    /// Parses `bytes` until their extra cost exceeds `max_cost`. Returns how many bytes it consumed.
    pub fn receive(&mut self, bytes: &[u8], max_cost: u64) -> usize {
        let (mut left, max_cost) = (bytes, self.extra_cost.saturating_add(max_cost));
        while !left.is_empty() && self.ended.is_none() && self.extra_cost < max_cost {
            if let Err(code) = self.step(&mut left) {
                self.end(code);
            }
        }
        bytes.len() - left.len()
    }

    /// Consumes one item from the start: a piece of the preface, a frame or a part of one.
    fn step(&mut self, bytes: &mut &[u8]) -> Result<(), ErrorCode> {
        if self.preface < PREFACE.len() {
            let left = &PREFACE[self.preface..];
            let count = left.len().min(bytes.len());
            let is_preface = left[..count] == bytes[..count];
            self.preface += count;
            *bytes = &bytes[count..];
            if self.preface == PREFACE.len() {
                R::on_preface(self);
            }
            return if is_preface { Ok(()) } else { Err(ErrorCode::PROTOCOL_ERROR) };
        }
        if let Some(rest) = self.partial_data {
            let (piece, more) = bytes.split_at(rest.bytes_left.min(bytes.len()));
            *bytes = more;
            return self
                .on_data_piece(PartialData { bytes_left: rest.bytes_left - piece.len(), ..rest }, piece);
        }
        if !self.partial.is_empty() {
            return self.complete_frame(bytes);
        }
        let Some(header) = Self::next_header(bytes) else {
            extend_tightly(&mut self.partial, bytes);
            *bytes = &[];
            return Ok(());
        };
        if header.length > PAYLOAD_MAX_BYTES {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        if let Some((frame, more)) = bytes.split_at_checked(HEADER_BYTES + header.length) {
            *bytes = more;
            return self.on_frame(header, &frame[HEADER_BYTES..]);
        }
        if self.is_streamed(header) {
            *bytes = &bytes[HEADER_BYTES..];
            return self.begin_data(header, header.length);
        }
        extend_tightly(&mut self.partial, bytes);
        *bytes = &[];
        Ok(())
    }

    /// Adds bytes to the partial frame, and handles the frame once it is complete.
    fn complete_frame(&mut self, bytes: &mut &[u8]) -> Result<(), ErrorCode> {
        let whole = match Self::next_header(&self.partial) {
            None => HEADER_BYTES,
            Some(header) => HEADER_BYTES + header.length,
        };
        let (piece, more) = bytes.split_at((whole - self.partial.len()).min(bytes.len()));
        extend_tightly(&mut self.partial, piece);
        *bytes = more;
        let Some(header) = Self::next_header(&self.partial) else { return Ok(()) };
        if header.length > PAYLOAD_MAX_BYTES {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        if self.partial.len() == HEADER_BYTES && self.is_streamed(header) {
            self.partial.clear();
            return self.begin_data(header, header.length);
        }
        if self.partial.len() < HEADER_BYTES + header.length {
            return Ok(());
        }
        let frame = std::mem::take(&mut self.partial);
        let taken = self.on_frame(header, &frame[HEADER_BYTES..]);
        self.partial = frame;
        self.partial.clear();
        taken
    }

    /// Whether the frame is DATA that can be passed on in pieces as it arrives.
    fn is_streamed(&self, header: FrameHeader) -> bool {
        header.kind == FrameType::DATA
            && !header.has(PADDED)
            && self.block.is_none()
            && self.has_peer_settings
            && header.length > 0
    }

    fn on_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if !self.has_peer_settings && header.kind != FrameType::SETTINGS
            || self.block.is_some() && header.kind != FrameType::CONTINUATION
        {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        match header.kind {
            FrameType::DATA | FrameType::HEADERS => {}
            FrameType::SETTINGS => R::on_overhead(self, SETTINGS_OVERHEAD)?,
            _ => R::on_overhead(self, 1)?,
        }
        match header.kind {
            FrameType::DATA => {
                let content = frame::without_padding(header, payload).ok_or(ErrorCode::PROTOCOL_ERROR)?;
                self.begin_data(header, content.len())?;
                let padding = payload.len() - content.len();
                if padding > 0 {
                    self.return_window(padding);
                    if let Some(key) = self.streams.key(header.stream) {
                        self.return_stream_window(key, padding);
                    }
                }
                match self.partial_data {
                    Some(rest) => self.on_data_piece(PartialData { bytes_left: 0, ..rest }, content),
                    None => Ok(()),
                }
            }
            FrameType::HEADERS => self.on_headers(header, payload),
            FrameType::CONTINUATION => self.on_continuation(header, payload),
            FrameType::PRIORITY => self.on_priority(header, payload),
            FrameType::RST_STREAM => self.on_rst_stream(header, payload),
            FrameType::SETTINGS => self.on_settings(header, payload),
            FrameType::PING => self.on_ping(header, payload),
            FrameType::WINDOW_UPDATE => self.on_window_update(header, payload),
            FrameType::GOAWAY if header.stream != 0 => Err(ErrorCode::PROTOCOL_ERROR),
            FrameType::GOAWAY if payload.len() < 8 => Err(ErrorCode::FRAME_SIZE_ERROR),
            // A client must not push (8.4), and the client's role has disabled push (6.6).
            FrameType::PUSH_PROMISE => Err(ErrorCode::PROTOCOL_ERROR),
            FrameType::GOAWAY => {
                self.peer_sent_goaway = true;
                R::on_goaway(self, frame::read_number(payload).unwrap_or_default() & 0x7fff_ffff)
            }
            // Unknown frame types are ignored (4.1).
            _ => Ok(()),
        }
    }

    /// Resets a stream for a protocol error of the peer, and counts it.
    pub fn reset_for_error(&mut self, key: StreamKey, code: ErrorCode) {
        self.reset(key, code);
        self.count_protocol_error();
    }

    /// Counts a protocol error. A client that makes one after another has requests started and discarded,
    /// which is an attack (CVE-2025-8671, "MadeYouReset").
    pub fn count_protocol_error(&mut self) {
        self.protocol_errors += 1;
        if self.protocol_errors > PROTOCOL_ERRORS_MAX {
            self.end(ErrorCode::ENHANCE_YOUR_CALM);
        }
    }

    /// Looks a stream up. Returns `None` if it is closed, and an error if it was never opened.
    fn find_stream(&self, id: u32) -> Result<Option<StreamKey>, ErrorCode> {
        match self.streams.key(id) {
            None if R::ignores(self, id) => Ok(None),
            None if id == 0 || id > self.last || id.is_multiple_of(2) => Err(ErrorCode::PROTOCOL_ERROR),
            key => Ok(key),
        }
    }

    /// Starts a DATA frame with `content` bytes besides its padding: charges the windows and checks the
    /// stream.
    fn begin_data(&mut self, header: FrameHeader, content: usize) -> Result<(), ErrorCode> {
        let key = self.find_stream(header.stream)?;
        let length = header.length as i64;
        self.receive_window -= length;
        if self.receive_window < 0 {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        if content == 0 && !header.has(END_STREAM) {
            R::on_overhead(self, 1)?;
        }
        match key {
            Some(key) => {
                if self.streams.get(key).is_some_and(|state| state.is_cancelled) {
                    self.send_reset(header.stream, ErrorCode::STREAM_CLOSED);
                    self.count_protocol_error();
                } else if let Some(state) = self.streams.get(key).filter(|state| state.reset.is_none()) {
                    state.receive_window -= length;
                    let (is_over, ended) = (state.receive_window < 0, state.ended);
                    let is_expected = R::accepts_data(&state.role);
                    if ended {
                        self.reset_for_error(key, ErrorCode::STREAM_CLOSED);
                    } else if !is_expected {
                        self.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
                    } else if is_over {
                        self.reset_for_error(key, ErrorCode::FLOW_CONTROL_ERROR);
                    }
                } else {
                    self.discarded_data_frames += 1;
                    R::on_overhead(self, 1)?;
                }
            }
            None if self.may_have_been_reset(header.stream) || R::ignores(self, header.stream) => {
                self.discarded_data_frames += 1;
                R::on_overhead(self, 1)?;
            }
            None => {
                self.send_reset(header.stream, ErrorCode::STREAM_CLOSED);
                self.count_protocol_error();
            }
        }
        self.partial_data = Some(PartialData {
            stream: header.stream,
            bytes_left: content,
            ends_stream: header.has(END_STREAM),
        });
        Ok(())
    }

    /// Handles a piece of a DATA frame; `partial_data` describes what follows it.
    fn on_data_piece(&mut self, partial_data: PartialData, piece: &[u8]) -> Result<(), ErrorCode> {
        self.partial_data = (partial_data.bytes_left > 0).then_some(partial_data);
        let key = self.streams.key(partial_data.stream);
        let state = key.and_then(|key| self.streams.get(key)).filter(|state| state.reset.is_none());
        let (Some(key), Some(state)) = (key, state) else {
            // The stream is closed or was reset: discard the piece.
            self.return_window(piece.len());
            return Ok(());
        };
        if state.consumed > 0 && state.consumed * 2 >= state.data.len() {
            state.data.drain(..state.consumed);
            state.consumed = 0;
        }
        state.data.extend_from_slice(piece);
        state.received += piece.len() as u64;
        state.ended |= partial_data.bytes_left == 0 && partial_data.ends_stream;
        if state.has_wrong_length() {
            self.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
        } else if !piece.is_empty() || state.ended {
            wake(&mut state.reader);
        }
        Ok(())
    }

    fn on_headers(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if header.stream.is_multiple_of(2) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let mut content = frame::without_padding(header, payload).ok_or(ErrorCode::PROTOCOL_ERROR)?;
        let mut is_own_parent = false;
        if header.has(WITH_PRIORITY) {
            let (priority, rest) = content.split_at_checked(5).ok_or(ErrorCode::FRAME_SIZE_ERROR)?;
            is_own_parent = depends_on(priority) == header.stream;
            content = rest;
        }
        let mut block = HeaderBlock {
            stream: header.stream,
            ends_stream: header.has(END_STREAM),
            is_own_parent,
            bytes: Vec::new(),
        };
        if header.has(END_HEADERS) {
            return self.on_section(&block, content);
        }
        extend_tightly(&mut block.bytes, content);
        self.block = Some(block);
        Ok(())
    }

    fn on_continuation(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        let max_bytes = R::block_max_bytes(self);
        let block = self
            .block
            .as_mut()
            .filter(|block| block.stream == header.stream)
            .ok_or(ErrorCode::PROTOCOL_ERROR)?;
        if block.bytes.len() + payload.len() > max_bytes {
            let ends_stream = block.ends_stream;
            R::on_oversized_block(self, header.stream, ends_stream);
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        extend_tightly(&mut block.bytes, payload);
        match self.block.take_if(|_| header.has(END_HEADERS)) {
            Some(block) => self.on_section(&block, &block.bytes),
            None => Ok(()),
        }
    }

    /// Decodes a complete head or trailer section.
    fn on_section(&mut self, block: &HeaderBlock, bytes: &[u8]) -> Result<(), ErrorCode> {
        let mut fields = self.take_fields();
        let decoded = self.decoder.decode(bytes, &mut fields);
        self.extra_cost += HEAD_COST_BYTES.max(fields.size() as u64);
        if decoded.is_err() {
            let is_bomb = fields.is_bomb();
            if is_bomb {
                R::on_oversized_block(self, block.stream, block.ends_stream);
            }
            return Err(if is_bomb { ErrorCode::ENHANCE_YOUR_CALM } else { ErrorCode::COMPRESSION_ERROR });
        }
        R::on_section(self, block, fields)
    }

    fn on_priority(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if header.stream == 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let code = match payload.len() {
            5 if depends_on(payload) == header.stream => ErrorCode::PROTOCOL_ERROR,
            5 => return Ok(()),
            _ => ErrorCode::FRAME_SIZE_ERROR,
        };
        match self.streams.key(header.stream) {
            Some(key) => self.reset_for_error(key, code),
            // RFC 9113, 6.4: an idle stream must not be reset.
            None if header.stream > self.last || header.stream.is_multiple_of(2) => return Err(code),
            None => {
                self.send_reset(header.stream, code);
                self.count_protocol_error();
            }
        }
        Ok(())
    }

    fn on_rst_stream(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        let key = self.find_stream(header.stream)?;
        let (Some(code), 4) = (frame::read_number(payload), payload.len()) else {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        };
        let Some((key, state)) = key.and_then(|key| Some((key, self.streams.get(key)?))) else {
            return Ok(());
        };
        if state.reset.is_none() {
            let stays_readable = R::survives_reset(state.ended);
            state.reset = Some(ErrorCode(code));
            state.is_cancelled = true;
            state.wake_all();
            if !stays_readable {
                self.discard_received(key);
            }
        }
        Ok(())
    }

    fn on_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if header.stream != 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if header.has(ACK) {
            return match payload {
                [] if self.has_peer_settings => Ok(()),
                // RFC 9113, 3.4: the settings of the peer come first.
                [] => Err(ErrorCode::PROTOCOL_ERROR),
                _ => Err(ErrorCode::FRAME_SIZE_ERROR),
            };
        }
        let before = self.peer_settings;
        let mut peer_settings = PeerSettings { hpack_table: None, ..before };
        peer_settings.apply(payload)?;
        R::on_settings(self, &peer_settings)?;
        self.peer_settings = peer_settings;
        if let Some((fewest, now)) = peer_settings.hpack_table {
            self.encoder.resize(fewest);
            self.encoder.resize(now);
        }
        let more = peer_settings.initial_window - before.initial_window;
        if more != 0 {
            for state in self.streams.iter() {
                self.extra_cost += WINDOW_CHANGE_COST_BYTES;
                state.send_window += more;
                if state.send_window > WINDOW_MAX_BYTES {
                    return Err(ErrorCode::FLOW_CONTROL_ERROR);
                }
                if more > 0 && state.send_window > 0 {
                    wake(&mut state.writer);
                }
            }
        }
        self.has_peer_settings = true;
        frame::write_header(&mut self.out, FrameType::SETTINGS, ACK, 0, 0);
        self.wake();
        Ok(())
    }

    fn on_ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if header.stream != 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if payload.len() != 8 {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        if header.has(ACK) {
            if let Some(payload) = payload.first_chunk() {
                R::on_ping_ack(self, *payload);
            }
        } else {
            frame::write_ping(&mut self.out, ACK, payload);
        }
        self.wake();
        Ok(())
    }

    fn on_window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        let (Some(more), 4) = (frame::read_number(payload), payload.len()) else {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        };
        let more = i64::from(more & 0x7fff_ffff);
        if header.stream == 0 {
            if more == 0 {
                return Err(ErrorCode::PROTOCOL_ERROR);
            }
            self.send_window += more;
            if self.send_window > WINDOW_MAX_BYTES {
                return Err(ErrorCode::FLOW_CONTROL_ERROR);
            }
            self.wake_writers();
            return Ok(());
        }
        let key = self.find_stream(header.stream)?;
        let Some((key, state)) = key.and_then(|key| Some((key, self.streams.get(key)?))) else {
            return Ok(());
        };
        state.send_window += more;
        if more == 0 {
            self.reset_for_error(key, ErrorCode::PROTOCOL_ERROR);
        } else if state.send_window > WINDOW_MAX_BYTES {
            self.reset_for_error(key, ErrorCode::FLOW_CONTROL_ERROR);
        } else if state.send_window > 0 {
            wake(&mut state.writer);
        }
        Ok(())
    }
}

/// Returns the stream that a priority depends on (RFC 7540, 6.3).
fn depends_on(priority: &[u8]) -> u32 {
    frame::read_number(priority).unwrap_or_default() & 0x7fff_ffff
}
