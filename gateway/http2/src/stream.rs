//! The handle of one request and its response.
//!
//! The task that answers a request holds a [`Stream`]: it reads the body and the trailers, and sends the
//! head, the body and the trailers of the response. All waits are poll functions, and a reset by the client
//! wakes them.

use std::cell::RefCell;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::core::{Core, KEPT};
use crate::fields::Fields;
use crate::reason::Reason;
use crate::send::Gone;
#[cfg(test)]
use crate::streams::Sent;
use crate::streams::{Key, State, wait};

/// The handle of one request and its response. Dropping it resets the stream if either is incomplete: with
/// NO_ERROR after a complete response, otherwise with CANCEL.
#[derive(Debug)]
pub struct Stream {
    core: Rc<RefCell<Core>>,
    key: Key,
}

impl Stream {
    pub(crate) fn new(core: Rc<RefCell<Core>>, key: Key) -> Self {
        Self { core, key }
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.core.borrow_mut().streams.get(self.key).map(look)
    }

    /// Returns the fields of the request's head for reuse.
    pub fn give_back(&self, fields: Fields) {
        self.core.borrow_mut().give_fields(fields);
    }

    /// Sets the body's length that the request's head has announced. A body of another length is malformed
    /// (RFC 9113, 8.1.1) and resets the stream. Returns whether the stream is still open.
    pub fn expect(&self, length: u64) -> bool {
        let is_wrong = self.with(|state| {
            state.length = Some(length);
            state.is_of_wrong_length()
        });
        if is_wrong == Some(true) {
            self.core.borrow_mut().blame(self.key, Reason::PROTOCOL_ERROR);
        }
        self.with(|state| state.reset.is_none()).unwrap_or(false)
    }

    /// Whether the request has no body, or all of it and its trailers were read.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.with(|state| state.ended && state.read == state.data.len() && state.trailers.is_none())
            .unwrap_or(true)
    }

    /// Reads a part of the body into `buffer`, and returns its bytes to the windows. Returns 0 at the end of
    /// the body.
    ///
    /// # Errors
    /// [`Gone`], if the stream was reset.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, Gone>> {
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else { return Poll::Ready(Err(Gone)) };
        let came = &state.data[state.read..];
        if came.is_empty() {
            if state.reset.is_some() {
                return Poll::Ready(Err(Gone));
            }
            if state.ended {
                return Poll::Ready(Ok(0));
            }
            wait(&mut state.reader, cx);
            return Poll::Pending;
        }
        let count = came.len().min(buffer.len());
        buffer[..count].copy_from_slice(&came[..count]);
        state.read += count;
        if state.read == state.data.len() {
            state.read = 0;
            state.data.clear();
            state.data.shrink_to(KEPT);
        }
        core.read_of(self.key, count);
        core.read(count);
        Poll::Ready(Ok(count))
    }

    /// Whether the connection's window lets the client send more of the body.
    #[must_use]
    pub fn may_come(&self) -> bool {
        self.core.borrow().window > 0
    }

    /// Appends to `bytes` what has already arrived of the body, until `bytes` holds `most` bytes.
    pub fn take_early(&self, bytes: &mut Vec<u8>, most: usize) {
        let start = bytes.len();
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else { return };
        let came = &state.data[state.read..];
        let count = came.len().min(most.saturating_sub(start));
        bytes.extend_from_slice(&came[..count]);
        state.read += count;
        if state.read == state.data.len() {
            (state.data, state.read) = (Vec::new(), 0);
        }
        core.read_of(self.key, count);
        core.read(count);
    }

    /// Takes the trailer section, if the request had one. Returns it once.
    #[must_use]
    pub fn take_trailers(&self) -> Option<Fields> {
        self.with(|state| state.trailers.take())?
    }

    /// Sends the response's head, or an interim one if the status is 1xx. If it `ends` the response, it
    /// carries END_STREAM.
    ///
    /// # Errors
    /// [`Gone`], if the stream was reset or its response is already complete.
    pub fn send_head<'a>(
        &self,
        status: &[u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        ends: bool,
    ) -> Result<(), Gone> {
        self.core.borrow_mut().section(self.key, Some(status), fields, ends)
    }

    /// Sends the part of the body that the windows and the output buffer accept. If that is everything and it
    /// is the `last` of the body, it carries END_STREAM. Returns how many bytes it sent.
    ///
    /// # Errors
    /// As [`Stream::send_head`].
    pub fn send(&self, pieces: &[IoSlice<'_>], last: bool) -> Result<usize, Gone> {
        self.core.borrow_mut().data(self.key, pieces, last)
    }

    /// Sends a trailer section, which ends the response.
    ///
    /// # Errors
    /// As [`Stream::send_head`].
    pub fn send_trailers<'a>(&self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Gone> {
        self.core.borrow_mut().section(self.key, None, fields, true)
    }

    /// Ends the response without further data.
    ///
    /// # Errors
    /// As [`Stream::send_head`].
    pub fn end(&self) -> Result<(), Gone> {
        self.core.borrow_mut().data(self.key, &[], true).map(drop)
    }

    /// Waits until a part of a body could be sent. Returns how many bytes the output buffer accepts, whatever
    /// the windows allow.
    ///
    /// # Errors
    /// As [`Stream::send_head`].
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<usize, Gone>> {
        let core = &mut *self.core.borrow_mut();
        match core.room(self.key) {
            Ok(0) => {
                if let Some(state) = core.streams.get(self.key) {
                    wait(&mut state.writer, cx);
                    // If the stream's own window is closed, only a WINDOW_UPDATE for the stream helps.
                    if state.room > 0 && !std::mem::replace(&mut state.is_waiting, true) {
                        core.waiting.push(self.key);
                    }
                }
                Poll::Pending
            }
            Ok(_) => Poll::Ready(Ok(core.gate.room())),
            Err(gone) => Poll::Ready(Err(gone)),
        }
    }

    /// Whether the client's windows let no data through. Heads, trailers and the end of a stream need no
    /// window.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        let core = &mut *self.core.borrow_mut();
        let room = core.room;
        core.streams.get(self.key).is_some_and(|state| state.room.min(room) <= 0)
    }

    /// Waits until the stream is reset by either side.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_gone = self.with(|state| {
            if state.reset.is_none() {
                wait(&mut state.watcher, cx);
            }
            state.reset.is_some()
        });
        if is_gone.unwrap_or(true) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Resets the stream with `reason`.
    pub fn reset(&self, reason: Reason) {
        self.core.borrow_mut().reset(self.key, reason);
    }

    /// Whether the end of the response was written.
    #[cfg(test)]
    pub fn has_sent_end(&self) -> bool {
        self.with(|state| state.sent == Sent::End).unwrap_or(true)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.core.borrow_mut().drop_stream(self.key);
    }
}
