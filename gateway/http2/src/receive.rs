//! Parses and handles the frames that the client sends (RFC 9113, 5 and 6).
//!
//! [`Core::receive`] consumes bytes in whatever pieces the socket delivers them. A complete frame is handled
//! in place. DATA is passed on in pieces, and other partial frames are collected in `partial`. An error of
//! the connection is the `Err` of these functions, which ends it with a GOAWAY. An error of a stream resets
//! only that stream, but counts towards `MOST_MISTAKES`.

use tollgate_http::extend_tightly;

use crate::check;
use crate::core::{Block, Core, Goodbye, Rest};
use crate::frame::{
    self, ACK, END_HEADERS, END_STREAM, HEADER, Header, Kind, PADDED, PAYLOAD, WITH_PRIORITY,
};
use crate::reason::Reason;
use crate::settings::{LARGEST_WINDOW, Told};
use crate::streams::{Key, wake};

/// The bytes with which a client opens an HTTP/2 connection (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How many streams of a connection may be reset for protocol errors before the connection ends.
const MOST_MISTAKES: u32 = 1_000;
/// Least extra cost of a head, in bytes of body that cost as much: a head of 40 bytes takes as long as some
/// hundred.
const HEAD: u64 = 256;
/// The same for each stream whose window SETTINGS moves.
const MOVED: u64 = 8;
/// Payload of the PING that follows a GOAWAY. Its acknowledgement shows that the client received the GOAWAY.
pub(crate) const HEARD: [u8; 8] = *b"farewell";

impl Core {
    /// Parses `bytes` until their extra cost exceeds `most`. Returns how many bytes it consumed.
    pub fn receive(&mut self, bytes: &[u8], most: u64) -> usize {
        let (mut left, most) = (bytes, self.extra.saturating_add(most));
        while !left.is_empty() && self.ended.is_none() && self.extra < most {
            if let Err(reason) = self.some(&mut left) {
                self.end(reason);
            }
        }
        bytes.len() - left.len()
    }

    /// Consumes one item from the start: a piece of the preface, a frame or a part of one.
    fn some(&mut self, bytes: &mut &[u8]) -> Result<(), Reason> {
        if self.preface < PREFACE.len() {
            let left = &PREFACE[self.preface..];
            let count = left.len().min(bytes.len());
            let is_preface = left[..count] == bytes[..count];
            self.preface += count;
            *bytes = &bytes[count..];
            if self.preface == PREFACE.len() {
                self.settings.write(&mut self.out);
            }
            return if is_preface { Ok(()) } else { Err(Reason::PROTOCOL_ERROR) };
        }
        if let Some(rest) = self.rest {
            let (piece, more) = bytes.split_at(rest.left.min(bytes.len()));
            *bytes = more;
            return self.piece(Rest { left: rest.left - piece.len(), ..rest }, piece);
        }
        if !self.partial.is_empty() {
            return self.complete(bytes);
        }
        let Some(header) = Self::next_header(bytes) else {
            extend_tightly(&mut self.partial, bytes);
            *bytes = &[];
            return Ok(());
        };
        if header.length > PAYLOAD {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        if let Some((frame, more)) = bytes.split_at_checked(HEADER + header.length) {
            *bytes = more;
            return self.frame(header, &frame[HEADER..]);
        }
        if self.is_streamed(header) {
            *bytes = &bytes[HEADER..];
            return self.begin_data(header, header.length);
        }
        extend_tightly(&mut self.partial, bytes);
        *bytes = &[];
        Ok(())
    }

    /// Adds bytes to the partial frame, and handles the frame once it is complete.
    fn complete(&mut self, bytes: &mut &[u8]) -> Result<(), Reason> {
        let whole = match Self::next_header(&self.partial) {
            None => HEADER,
            Some(header) => HEADER + header.length,
        };
        let (piece, more) = bytes.split_at((whole - self.partial.len()).min(bytes.len()));
        extend_tightly(&mut self.partial, piece);
        *bytes = more;
        let Some(header) = Self::next_header(&self.partial) else { return Ok(()) };
        if header.length > PAYLOAD {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        if self.partial.len() == HEADER && self.is_streamed(header) {
            self.partial.clear();
            return self.begin_data(header, header.length);
        }
        if self.partial.len() < HEADER + header.length {
            return Ok(());
        }
        let frame = std::mem::take(&mut self.partial);
        let taken = self.frame(header, &frame[HEADER..]);
        self.partial = frame;
        self.partial.clear();
        taken
    }

    /// Whether the frame is DATA that can be passed on in pieces as it arrives.
    fn is_streamed(&self, header: Header) -> bool {
        header.kind == Kind::DATA
            && !header.has(PADDED)
            && self.block.is_none()
            && self.greeted
            && header.length > 0
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if !self.greeted && header.kind != Kind::SETTINGS
            || self.block.is_some() && header.kind != Kind::CONTINUATION
        {
            return Err(Reason::PROTOCOL_ERROR);
        }
        match header.kind {
            Kind::DATA => {
                let content = frame::without_padding(header, payload).ok_or(Reason::PROTOCOL_ERROR)?;
                self.begin_data(header, content.len())?;
                let padding = payload.len() - content.len();
                if padding > 0 {
                    self.read(padding);
                    if let Some(key) = self.streams.key(header.stream) {
                        self.read_of(key, padding);
                    }
                }
                match self.rest {
                    Some(rest) => self.piece(Rest { left: 0, ..rest }, content),
                    None => Ok(()),
                }
            }
            Kind::HEADERS => self.headers(header, payload),
            Kind::CONTINUATION => self.continuation(header, payload),
            Kind::PRIORITY => self.priority(header, payload),
            Kind::RST_STREAM => self.was_reset(header, payload),
            Kind::SETTINGS => self.set(header, payload),
            Kind::PING => self.ping(header, payload),
            Kind::WINDOW_UPDATE => self.window(header, payload),
            Kind::GOAWAY if header.stream != 0 => Err(Reason::PROTOCOL_ERROR),
            Kind::GOAWAY if payload.len() < 8 => Err(Reason::FRAME_SIZE_ERROR),
            // A client must not push (8.4).
            Kind::PUSH_PROMISE => Err(Reason::PROTOCOL_ERROR),
            Kind::GOAWAY => {
                self.has_left = true;
                Ok(())
            }
            // Unknown frame types are ignored (4.1).
            _ => Ok(()),
        }
    }

    /// Resets a stream for a protocol error of the client, and counts it.
    pub fn blame(&mut self, key: Key, reason: Reason) {
        self.reset(key, reason);
        self.count_mistake();
    }

    /// Counts a protocol error. A client that makes one after another has requests started and discarded,
    /// which is an attack (CVE-2025-8671, "MadeYouReset").
    fn count_mistake(&mut self) {
        self.mistakes += 1;
        if self.mistakes > MOST_MISTAKES {
            self.end(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Looks a stream up. Returns `None` if it is closed, and an error if it was never opened.
    fn known(&self, id: u32) -> Result<Option<Key>, Reason> {
        match self.streams.key(id) {
            None if self.is_past_the_last(id) => Ok(None),
            None if id == 0 || id > self.last || id.is_multiple_of(2) => Err(Reason::PROTOCOL_ERROR),
            key => Ok(key),
        }
    }

    /// Whether our GOAWAY excluded the stream (RFC 9113, 6.8). The client may not have received that yet.
    fn is_past_the_last(&self, id: u32) -> bool {
        self.goodbye == Goodbye::Known && id > self.last && !id.is_multiple_of(2)
    }

    /// Starts a DATA frame with `content` bytes besides its padding: charges the windows and checks the
    /// stream.
    fn begin_data(&mut self, header: Header, content: usize) -> Result<(), Reason> {
        let key = self.known(header.stream)?;
        let length = header.length as i64;
        self.window -= length;
        if self.window < 0 {
            return Err(Reason::FLOW_CONTROL_ERROR);
        }
        match key {
            Some(key) => {
                if self.streams.get(key).is_some_and(|state| state.is_cancelled) {
                    self.tell_reset(header.stream, Reason::STREAM_CLOSED);
                    self.count_mistake();
                } else if let Some(state) = self.streams.get(key).filter(|state| state.reset.is_none()) {
                    state.window -= length;
                    let (is_over, ended) = (state.window < 0, state.ended);
                    if ended {
                        self.blame(key, Reason::STREAM_CLOSED);
                    } else if is_over {
                        self.blame(key, Reason::FLOW_CONTROL_ERROR);
                    }
                } else {
                    self.unwanted += 1;
                }
            }
            None if self.may_have_ended_here(header.stream) || self.is_past_the_last(header.stream) => {
                self.unwanted += 1;
            }
            None => {
                self.tell_reset(header.stream, Reason::STREAM_CLOSED);
                self.count_mistake();
            }
        }
        self.rest = Some(Rest { stream: header.stream, left: content, ends: header.has(END_STREAM) });
        Ok(())
    }

    /// Handles a piece of a DATA frame; `rest` describes what follows it.
    fn piece(&mut self, rest: Rest, piece: &[u8]) -> Result<(), Reason> {
        self.rest = (rest.left > 0).then_some(rest);
        let key = self.streams.key(rest.stream);
        let state = key.and_then(|key| self.streams.get(key)).filter(|state| state.reset.is_none());
        let (Some(key), Some(state)) = (key, state) else {
            // The stream is closed or was reset: discard the piece.
            self.read(piece.len());
            return Ok(());
        };
        if state.read > 0 && state.read * 2 >= state.data.len() {
            state.data.drain(..state.read);
            state.read = 0;
        }
        state.data.extend_from_slice(piece);
        state.came += piece.len() as u64;
        state.ended |= rest.left == 0 && rest.ends;
        if state.is_of_wrong_length() {
            self.blame(key, Reason::PROTOCOL_ERROR);
        } else if !piece.is_empty() || state.ended {
            wake(&mut state.reader);
        }
        Ok(())
    }

    fn headers(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream.is_multiple_of(2) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let mut content = frame::without_padding(header, payload).ok_or(Reason::PROTOCOL_ERROR)?;
        let mut is_own_parent = false;
        if header.has(WITH_PRIORITY) {
            let (priority, rest) = content.split_at_checked(5).ok_or(Reason::FRAME_SIZE_ERROR)?;
            is_own_parent = depends_on(priority) == header.stream;
            content = rest;
        }
        let mut block =
            Block { stream: header.stream, ends: header.has(END_STREAM), is_own_parent, bytes: Vec::new() };
        if header.has(END_HEADERS) {
            return self.head(&block, content);
        }
        extend_tightly(&mut block.bytes, content);
        self.block = Some(block);
        Ok(())
    }

    fn continuation(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        let most = (self.settings.fields as usize).max(PAYLOAD);
        let block = self
            .block
            .as_mut()
            .filter(|block| block.stream == header.stream)
            .ok_or(Reason::PROTOCOL_ERROR)?;
        if block.bytes.len() + payload.len() > most {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        extend_tightly(&mut block.bytes, payload);
        match self.block.take_if(|_| header.has(END_HEADERS)) {
            Some(block) => self.head(&block, &block.bytes),
            None => Ok(()),
        }
    }

    /// Decodes a complete head or trailer section.
    fn head(&mut self, block: &Block, bytes: &[u8]) -> Result<(), Reason> {
        let mut fields = self.take_fields();
        let decoded = self.decoder.decode(bytes, &mut fields);
        self.extra += HEAD.max(fields.size() as u64);
        if decoded.is_err() {
            let is_bomb = fields.is_bomb();
            return Err(if is_bomb { Reason::ENHANCE_YOUR_CALM } else { Reason::COMPRESSION_ERROR });
        }
        let id = block.stream;
        if let Some(key) = self.streams.key(id) {
            if self.streams.get(key).is_some_and(|state| state.is_cancelled) {
                return Err(Reason::STREAM_CLOSED);
            }
            let Some(state) = self.streams.get(key).filter(|state| state.reset.is_none()) else {
                self.give_fields(fields);
                return Ok(());
            };
            if state.ended {
                self.blame(key, Reason::STREAM_CLOSED);
                return Ok(());
            }
            state.ended = true;
            if block.is_own_parent
                || !block.ends
                || !check::may_stand(fields.iter())
                || state.is_of_wrong_length()
            {
                self.blame(key, Reason::PROTOCOL_ERROR);
                return Ok(());
            }
            // Trailers that exceed the limit are cut. Their reader checks that and answers with the reason.
            let held = if state.is_new { fields.size() } else { 0 };
            state.trailers = Some(fields);
            wake(&mut state.reader);
            self.held.add(held);
            return Ok(());
        }
        if id <= self.last && !self.was_ended_here(id) {
            return Err(Reason::STREAM_CLOSED);
        }
        if id <= self.last || self.is_past_the_last(id) {
            self.give_fields(fields);
            return Ok(());
        }
        self.last = id;
        // A stream whose fields form no request is opened anyway, so that it can be answered with the reason.
        let refusal = if block.is_own_parent {
            Some(Reason::PROTOCOL_ERROR)
        } else if self.open() >= self.settings.streams as usize {
            Some(Reason::REFUSED_STREAM)
        } else {
            None
        };
        match refusal {
            None => self.begin(id, fields, block.ends),
            Some(reason) => {
                self.refused += 1;
                self.give_fields(fields);
                self.tell_reset(id, reason);
            }
        }
        Ok(())
    }

    fn priority(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let reason = match payload.len() {
            5 if depends_on(payload) == header.stream => Reason::PROTOCOL_ERROR,
            5 => return Ok(()),
            _ => Reason::FRAME_SIZE_ERROR,
        };
        match self.streams.key(header.stream) {
            Some(key) => self.blame(key, reason),
            None => {
                self.tell_reset(header.stream, reason);
                self.count_mistake();
            }
        }
        Ok(())
    }

    fn was_reset(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        let key = self.known(header.stream)?;
        let (Some(code), 4) = (frame::number(payload), payload.len()) else {
            return Err(Reason::FRAME_SIZE_ERROR);
        };
        let Some((key, state)) = key.and_then(|key| Some((key, self.streams.get(key)?))) else {
            return Ok(());
        };
        if state.reset.is_none() {
            state.reset = Some(Reason(code));
            state.is_cancelled = true;
            state.wake_all();
            self.lose(key);
        }
        Ok(())
    }

    fn set(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if header.has(ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Reason::FRAME_SIZE_ERROR) };
        }
        let before = self.told;
        let mut told = Told { table: None, ..before };
        told.read(payload)?;
        self.told = told;
        if let Some((fewest, now)) = told.table {
            self.encoder.resize(fewest);
            self.encoder.resize(now);
        }
        let more = told.window - before.window;
        if more != 0 {
            for state in self.streams.iter() {
                self.extra += MOVED;
                state.room += more;
                if state.room > LARGEST_WINDOW {
                    return Err(Reason::FLOW_CONTROL_ERROR);
                }
                if more > 0 && state.room > 0 {
                    wake(&mut state.writer);
                }
            }
        }
        self.greeted = true;
        frame::header(&mut self.out, Kind::SETTINGS, ACK, 0, 0);
        self.wake();
        Ok(())
    }

    fn ping(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if payload.len() != 8 {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        if header.has(ACK) {
            if payload == HEARD {
                self.goodbye_is_known();
            }
        } else {
            frame::header(&mut self.out, Kind::PING, ACK, 0, 8);
            self.out.extend_from_slice(payload);
        }
        self.wake();
        Ok(())
    }

    fn window(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        let (Some(more), 4) = (frame::number(payload), payload.len()) else {
            return Err(Reason::FRAME_SIZE_ERROR);
        };
        let more = i64::from(more & 0x7fff_ffff);
        if header.stream == 0 {
            if more == 0 {
                return Err(Reason::PROTOCOL_ERROR);
            }
            self.room += more;
            if self.room > LARGEST_WINDOW {
                return Err(Reason::FLOW_CONTROL_ERROR);
            }
            self.wake_writers();
            return Ok(());
        }
        let key = self.known(header.stream)?;
        let Some((key, state)) = key.and_then(|key| Some((key, self.streams.get(key)?))) else {
            return Ok(());
        };
        state.room += more;
        if more == 0 {
            self.blame(key, Reason::PROTOCOL_ERROR);
        } else if state.room > LARGEST_WINDOW {
            self.blame(key, Reason::FLOW_CONTROL_ERROR);
        } else if state.room > 0 {
            wake(&mut state.writer);
        }
        Ok(())
    }
}

/// Returns the stream that a priority depends on (RFC 7540, 6.3).
fn depends_on(priority: &[u8]) -> u32 {
    frame::number(priority).unwrap_or_default() & 0x7fff_ffff
}
