//! Writes frames for the peer into the output buffer. Streams call [`Core::write_section`] and
//! [`Core::write_data`], which respect the peer's windows and the
//! [`OutputLimit`](crate::shared::output_limit::OutputLimit). The connection's task writes the buffer and reports
//! progress with [`Core::has_written`].

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use crate::shared::core::{Core, KEPT_CAPACITY_BYTES};
use crate::shared::frame::{self, END_HEADERS, END_STREAM, FrameType, HEADER_BYTES};
use crate::shared::hpack::HpackEncoder;
use crate::shared::role::Role;
use crate::shared::streams::{SendProgress, StreamKey, register_waker};

/// Error: the stream was reset, its message was complete, or the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClosed;

impl<R: Role> Core<R> {
    /// Writes a section of fields, which `write` encodes. If it `ends` the message, it carries END_STREAM.
    /// `progress` is how far the message is sent then.
    #[inline]
    pub fn write_section(
        &mut self,
        key: StreamKey,
        progress: Option<SendProgress>,
        write: impl FnOnce(&mut HpackEncoder, &mut Vec<u8>),
    ) -> Result<(), StreamClosed> {
        let state = self.streams.get(key).filter(|state| state.reset.is_none()).ok_or(StreamClosed)?;
        if self.ended.is_some() || state.sent == SendProgress::End {
            return Err(StreamClosed);
        }
        if let Some(progress) = progress {
            state.sent = progress;
        }
        let id = state.id;
        let start = self.out.len();
        let flags = END_HEADERS | if progress == Some(SendProgress::End) { END_STREAM } else { 0 };
        frame::write_header(&mut self.out, FrameType::HEADERS, flags, id, 0);
        self.encoder.begin(&mut self.out);
        write(&mut self.encoder, &mut self.out);
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

    /// Waits until a part of a body can be sent. Returns how many bytes the output buffer accepts.
    pub fn poll_capacity(&mut self, key: StreamKey, cx: &Context<'_>) -> Poll<Result<usize, StreamClosed>> {
        match self.sendable(key) {
            Ok(0) => {
                if let Some(state) = self.streams.get(key) {
                    register_waker(&mut state.writer, cx);
                    // If the stream's own window is closed, only a WINDOW_UPDATE for the stream helps.
                    if state.send_window > 0 && !std::mem::replace(&mut state.is_waiting, true) {
                        self.waiting.push(key);
                    }
                }
                Poll::Pending
            }
            Ok(_) => Poll::Ready(Ok(self.output_limit.available())),
            Err(gone) => Poll::Ready(Err(gone)),
        }
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
        let state =
            self.streams.get(key).filter(|state| state.sent != SendProgress::End).ok_or(StreamClosed)?;
        state.send_window -= count as i64;
        if ends {
            state.sent = SendProgress::End;
        }
        let id = state.id;
        self.writer = Some(key);
        self.send_window -= count as i64;
        R::on_data_sent(self, count);
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

    /// Writes the output buffer by calling `write`, which returns how many bytes the socket accepted.
    ///
    /// # Errors
    /// Errors of `write`; `WriteZero` if it accepts nothing.
    pub fn poll_write(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while self.unwritten() > 0 {
            match write(&self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.has_written(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Removes `count` written bytes from the output buffer, and wakes waiting streams when there is room
    /// again.
    pub fn has_written(&mut self, count: usize) {
        self.written += count;
        self.written_total += count as u64;
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
}
