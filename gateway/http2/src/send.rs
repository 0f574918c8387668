//! Writes frames for the client into the output buffer. Streams call [`Core::write_section`] and
//! [`Core::write_data`], which respect the client's windows and the
//! [`OutputLimit`](crate::output_limit::OutputLimit). The connection's task writes the buffer and reports
//! progress with [`Core::has_written`].

use std::io::IoSlice;

use crate::core::{Core, GracefulShutdown, KEPT_CAPACITY_BYTES};
use crate::error_code::ErrorCode;
use crate::frame::{self, END_HEADERS, END_STREAM, FrameType, HEADER_BYTES};
use crate::receive::GOAWAY_PING;
use crate::streams::{ResponseProgress, StreamKey};

/// The largest possible stream id. A GOAWAY with it refuses no stream yet.
const STREAM_ID_MAX: u32 = 0x7fff_ffff;

/// Error: the stream was reset, its response was complete, or the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClosed;

impl Core {
    /// Writes a section of fields: a head if there is a `status`, otherwise trailers. If it `ends` the
    /// response, it carries END_STREAM.
    pub fn write_section<'a>(
        &mut self,
        key: StreamKey,
        status: Option<&[u8]>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        ends: bool,
    ) -> Result<(), StreamClosed> {
        let state = self.streams.get(key).filter(|state| state.reset.is_none()).ok_or(StreamClosed)?;
        if self.ended.is_some() || state.sent == ResponseProgress::End {
            return Err(StreamClosed);
        }
        if ends {
            state.sent = ResponseProgress::End;
        } else if status.is_some_and(|status| status.first() != Some(&b'1')) {
            state.sent = ResponseProgress::Head;
        }
        let id = state.id;
        let start = self.out.len();
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        frame::write_header(&mut self.out, FrameType::HEADERS, flags, id, 0);
        self.encoder.begin(&mut self.out);
        if let Some(status) = status {
            self.encoder.status(status, &mut self.out);
        }
        for (name, value) in fields {
            self.encoder.field(name, value, &mut self.out);
        }
        let length = self.out.len() - start - HEADER_BYTES;
        if length <= self.peer_settings.max_frame_payload {
            let [_, a, b, c] = (length as u32).to_be_bytes();
            self.out[start..start + 3].copy_from_slice(&[a, b, c]);
        } else {
            self.split(start, id, flags);
        }
        self.wake();
        Ok(())
    }

    /// Splits a section that is too long for one frame into HEADERS and CONTINUATION frames.
    #[cold]
    fn split(&mut self, start: usize, id: u32, flags: u8) {
        let section = self.out.split_off(start + HEADER_BYTES);
        self.out.truncate(start);
        let mut pieces = section.chunks(self.peer_settings.max_frame_payload).peekable();
        let mut kind = FrameType::HEADERS;
        let mut flags = flags & !END_HEADERS;
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            frame::write_header(&mut self.out, kind, flags | last, id, piece.len());
            self.out.extend_from_slice(piece);
            (kind, flags) = (FrameType::CONTINUATION, 0);
        }
    }

    /// How many bytes of a body may be sent now: the least of both windows and the room in the output buffer.
    pub fn sendable(&mut self, key: StreamKey) -> Result<usize, StreamClosed> {
        let (window, available) = (self.send_window, self.output_limit.available());
        let state = self.streams.get(key).filter(|state| state.reset.is_none()).ok_or(StreamClosed)?;
        if self.ended.is_some() {
            return Err(StreamClosed);
        }
        Ok(usize::try_from(state.send_window.min(window)).unwrap_or(0).min(available))
    }

    /// Writes the part of a body that may be sent now. If that is everything and `last` is set, the final
    /// frame carries END_STREAM. Returns how many bytes it wrote.
    pub fn write_data(
        &mut self,
        key: StreamKey,
        pieces: &[IoSlice<'_>],
        last: bool,
    ) -> Result<usize, StreamClosed> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let count = wanted.min(self.sendable(key)?);
        let ends = last && count == wanted;
        if count == 0 && !ends {
            return Ok(0);
        }
        let state = self.streams.get(key).ok_or(StreamClosed)?;
        state.send_window -= count as i64;
        if ends {
            state.sent = ResponseProgress::End;
        }
        let id = state.id;
        self.writer = Some(key);
        self.send_window -= count as i64;
        let (mut left, mut rest) = (count, pieces.iter().map(|piece| &piece[..]));
        let mut piece = rest.next().unwrap_or_default();
        loop {
            let mut length = left.min(self.peer_settings.max_frame_payload);
            left -= length;
            let flags = if left == 0 && ends { END_STREAM } else { 0 };
            frame::write_header(&mut self.out, FrameType::DATA, flags, id, length);
            while length > 0 {
                let (now, later) = piece.split_at(length.min(piece.len()));
                self.out.extend_from_slice(now);
                length -= now.len();
                piece = if later.is_empty() { rest.next().unwrap_or_default() } else { later };
            }
            if left == 0 {
                break;
            }
        }
        self.wake();
        Ok(count)
    }

    /// Removes `count` written bytes from the output buffer, and wakes waiting streams when there is room
    /// again.
    pub fn has_written(&mut self, count: usize) {
        self.written += count;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
            // Release the memory that a large response needed, and more if no stream is open.
            self.out.shrink_to(KEPT_CAPACITY_BYTES);
            if self.streams.len() == 0 {
                self.shrink_idle();
            }
        } else if self.written > KEPT_CAPACITY_BYTES {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.output_limit.set(self.unwritten());
        // WINDOW_UPDATE wakes the streams that wait for the connection's window; waking them at each write
        // would be useless. After the end of the connection, `wake_ended_streams` wakes them a few at a time.
        if !self.waiting.is_empty()
            && self.send_window > 0
            && self.output_limit.has_room_for_writers()
            && self.ended.is_none()
        {
            self.wake_writers();
        }
    }

    /// Starts a graceful shutdown: sends GOAWAY with the largest id, and a PING to learn when the client
    /// received it.
    pub fn start_graceful_shutdown(&mut self) {
        if self.shutdown != GracefulShutdown::None || self.ended.is_some() {
            return;
        }
        self.shutdown = GracefulShutdown::Announced;
        frame::write_numbers(&mut self.out, FrameType::GOAWAY, 0, &[STREAM_ID_MAX, ErrorCode::NO_ERROR.0]);
        frame::write_header(&mut self.out, FrameType::PING, 0, 0, GOAWAY_PING.len());
        self.out.extend_from_slice(&GOAWAY_PING);
        self.wake();
    }

    /// Completes the graceful shutdown, after the client's acknowledgement or a timeout: sends GOAWAY with
    /// its last stream.
    pub fn finish_graceful_shutdown(&mut self) {
        if self.shutdown == GracefulShutdown::Announced && self.ended.is_none() {
            self.shutdown = GracefulShutdown::Final;
            frame::write_numbers(&mut self.out, FrameType::GOAWAY, 0, &[self.last, ErrorCode::NO_ERROR.0]);
            self.wake();
        }
    }
}
