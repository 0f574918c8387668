//! The handle of one request and its response.
//!
//! The task that answers a request holds a [`RequestStream`]: it reads the body and the trailers, and sends
//! the head, the body and the trailers of the response. All waits are poll functions, and a reset by the
//! client wakes them.

use std::cell::RefCell;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::server::role::{ServerRole, ServerStream};
use crate::shared::core::Core;
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::send::StreamClosed;
use crate::shared::streams::{SendProgress, StreamKey, StreamState, register_waker};

/// The handle of one request and its response. Dropping it resets the stream if either is incomplete: with
/// NO_ERROR after a complete response, otherwise with CANCEL.
#[derive(Debug)]
pub struct RequestStream {
    core: Rc<RefCell<Core<ServerRole>>>,
    key: StreamKey,
}

impl RequestStream {
    pub(crate) fn new(core: Rc<RefCell<Core<ServerRole>>>, key: StreamKey) -> Self {
        Self { core, key }
    }

    fn with_state<T>(&self, look: impl FnOnce(&mut StreamState<ServerStream>) -> T) -> Option<T> {
        self.core.borrow_mut().streams.get(self.key).map(look)
    }

    /// Returns the fields of the request's head for reuse.
    pub fn recycle_fields(&self, fields: FieldSection) {
        self.core.borrow_mut().recycle_fields(fields);
    }

    /// Sets the body's length that the request's head has announced. A body of another length is malformed
    /// (RFC 9113, 8.1.1) and resets the stream. Returns whether the stream is still open.
    pub fn set_content_length(&self, declared_length: u64) -> bool {
        let is_wrong = self.with_state(|state| {
            state.declared_length = Some(declared_length);
            state.has_wrong_length()
        });
        if is_wrong == Some(true) {
            self.core.borrow_mut().reset_for_error(self.key, ErrorCode::PROTOCOL_ERROR);
        }
        self.with_state(|state| state.reset.is_none()).unwrap_or(false)
    }

    /// Whether the request has no body, or all of it and its trailers were read.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.with_state(|state| state.ended && state.consumed == state.data.len() && state.trailers.is_none())
            .unwrap_or(true)
    }

    /// Reads a part of the body into `buffer`, and returns its bytes to the windows. Returns 0 at the end of
    /// the body.
    ///
    /// # Errors
    /// [`StreamClosed`], if the stream was reset.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, StreamClosed>> {
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else { return Poll::Ready(Err(StreamClosed)) };
        let received = &state.data[state.consumed..];
        if received.is_empty() {
            if state.reset.is_some() {
                return Poll::Ready(Err(StreamClosed));
            }
            if state.ended {
                return Poll::Ready(Ok(0));
            }
            register_waker(&mut state.reader, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(core.read(self.key, buffer)))
    }

    /// Whether the connection's window lets the client send more of the body.
    #[must_use]
    pub fn can_receive(&self) -> bool {
        self.core.borrow().receive_window > 0
    }

    /// Appends to `bytes` what has already arrived of the body, until `bytes` holds `max_bytes` bytes.
    pub fn take_received(&self, bytes: &mut Vec<u8>, max_bytes: usize) {
        let start = bytes.len();
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else { return };
        let received = &state.data[state.consumed..];
        let count = received.len().min(max_bytes.saturating_sub(start));
        bytes.extend_from_slice(&received[..count]);
        state.consumed += count;
        if state.consumed == state.data.len() {
            (state.data, state.consumed) = (Vec::new(), 0);
        }
        core.return_stream_window(self.key, count);
        core.return_window(count);
    }

    /// Takes the trailer section, if the request had one. Returns it once.
    #[must_use]
    pub fn take_trailers(&self) -> Option<FieldSection> {
        self.with_state(|state| state.trailers.take())?
    }

    /// Sends all fields of the response, from now on, as never indexed (RFC 7541, 6.2.3).
    pub fn forbid_indexing(&self) {
        self.with_state(|state| state.role.has_secrets = true);
    }

    /// Makes the stream a tunnel, because the request is a CONNECT that succeeds: only DATA may follow (RFC 9113, 8.5).
    /// Trailers reset it, even if they have arrived already.
    pub fn become_tunnel(&self) {
        let has_trailers = self.with_state(|state| {
            state.role.is_tunnel = true;
            state.trailers.is_some()
        });
        if has_trailers == Some(true) {
            self.core.borrow_mut().reset_for_error(self.key, ErrorCode::PROTOCOL_ERROR);
        }
    }

    fn has_secrets(&self) -> bool {
        self.with_state(|state| state.role.has_secrets).unwrap_or(false)
    }

    /// Sends the response's head, or an interim one if the status is 1xx. If it `ends` the response, it
    /// carries END_STREAM.
    ///
    /// # Errors
    /// [`StreamClosed`], if the stream was reset or its response is already complete.
    pub fn send_head<'a>(
        &self,
        status: &[u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        ends: bool,
    ) -> Result<(), StreamClosed> {
        let progress = match (ends, status.first()) {
            (true, _) => Some(SendProgress::End),
            // An interim response changes nothing.
            (false, Some(b'1')) => None,
            (false, _) => Some(SendProgress::Head),
        };
        let secrets = self.has_secrets();
        self.core.borrow_mut().write_section(self.key, progress, |encoder, out| {
            encoder.status(status, out);
            encoder.fields(fields, secrets, out);
        })
    }

    /// Sends the part of the body that the windows and the output buffer accept. If that is everything and it
    /// is the `last` of the body, it carries END_STREAM. Returns how many bytes it sent.
    ///
    /// # Errors
    /// As [`RequestStream::send_head`].
    pub fn send(&self, pieces: &[IoSlice<'_>], last: bool) -> Result<usize, StreamClosed> {
        self.core.borrow_mut().write_data(self.key, pieces, last)
    }

    /// Sends a trailer section, which ends the response.
    ///
    /// # Errors
    /// As [`RequestStream::send_head`].
    pub fn send_trailers<'a>(
        &self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StreamClosed> {
        let secrets = self.has_secrets();
        self.core.borrow_mut().write_section(self.key, Some(SendProgress::End), |encoder, out| {
            encoder.fields(fields, secrets, out);
        })
    }

    /// Ends the response without further data.
    ///
    /// # Errors
    /// As [`RequestStream::send_head`].
    pub fn end(&self) -> Result<(), StreamClosed> {
        self.core.borrow_mut().write_data(self.key, &[], true).map(drop)
    }

    /// Waits until a part of a body could be sent. Returns how many bytes the output buffer accepts, whatever
    /// the windows allow.
    ///
    /// # Errors
    /// As [`RequestStream::send_head`].
    pub fn poll_capacity(&self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamClosed>> {
        self.core.borrow_mut().poll_capacity(self.key, cx)
    }

    /// Whether the client's windows let no data through. Heads, trailers and the end of a stream need no
    /// window.
    #[must_use]
    pub fn is_send_blocked(&self) -> bool {
        let core = &mut *self.core.borrow_mut();
        let window = core.send_window;
        core.streams.get(self.key).is_some_and(|state| state.send_window.min(window) <= 0)
    }

    /// Waits until the stream is reset by either side.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_gone = self.with_state(|state| {
            if state.reset.is_none() {
                register_waker(&mut state.watcher, cx);
            }
            state.reset.is_some()
        });
        if is_gone.unwrap_or(true) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Resets the stream with `code`.
    pub fn reset(&self, code: ErrorCode) {
        self.core.borrow_mut().reset(self.key, code);
    }

    /// Whether the end of the response was written.
    #[cfg(test)]
    pub fn has_sent_end(&self) -> bool {
        self.with_state(|state| state.sent == SendProgress::End).unwrap_or(true)
    }
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        self.core.borrow_mut().drop_stream(self.key);
    }
}
