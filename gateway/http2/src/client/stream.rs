//! The handle of one request to an endpoint and its response.
//!
//! The exchange holds a [`ResponseStream`]: it sends the body and the trailers of the request, and reads the
//! heads, the body and the trailers of the response. All waits are poll functions, which a reset by the
//! endpoint and the end of the connection wake.

use std::cell::RefCell;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::client::role::{ClientRole, StreamFailure};
use crate::shared::core::Core;
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::send::StreamClosed;
use crate::shared::streams::{SendProgress, StreamKey, register_waker};

/// Why a response does not arrive, or does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFailure {
    /// The endpoint has not processed the request: its GOAWAY excluded it (RFC 9113, 6.8), or its head was not sent
    /// before the connection was lost.
    NotProcessed,
    /// The endpoint refused the stream with REFUSED_STREAM: it was not processed (RFC 9113, 8.7).
    Refused,
    /// The endpoint demands HTTP/1.1.
    Http11Required,
    /// The response, or the connection, breaks the protocol.
    Malformed,
    /// The head is too large for any limit.
    HeadTooLarge,
    /// The trailers, or a head that is also the end, are too large for any limit.
    TrailersTooLarge,
    /// The endpoint reset the stream with another code. It may have processed the request.
    Reset,
    /// The connection is lost.
    Closed,
}

/// The handle of one request and its response. Dropping it resets the stream with CANCEL if either is
/// incomplete.
#[derive(Debug)]
pub struct ResponseStream {
    core: Rc<RefCell<Core<ClientRole>>>,
    key: StreamKey,
}

impl ResponseStream {
    pub(crate) fn new(core: Rc<RefCell<Core<ClientRole>>>, key: StreamKey) -> Self {
        Self { core, key }
    }

    /// Waits for the next head: any number of interim ones, and the final one. Each is checked by
    /// [`FieldSection::response`].
    ///
    /// # Errors
    /// The reason why no head follows.
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<FieldSection, ResponseFailure>> {
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else {
            return Poll::Ready(Err(ResponseFailure::Closed));
        };
        if let Some(head) = state.role.heads.pop_front() {
            if state.role.heads.is_empty() {
                state.role.heads_bytes = 0;
            }
            return Poll::Ready(Ok(head));
        }
        if state.ended || state.reset.is_some() {
            return Poll::Ready(Err(core.failure(self.key)));
        }
        register_waker(&mut state.reader, cx);
        Poll::Pending
    }

    /// Returns the fields of a head for reuse.
    pub fn recycle_fields(&self, fields: FieldSection) {
        self.core.borrow_mut().recycle_fields(fields);
    }

    /// Whether nothing follows the heads received so far: no body and no trailers.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let core = &mut *self.core.borrow_mut();
        core.streams
            .get(self.key)
            .is_none_or(|state| state.ended && state.consumed == state.data.len() && state.trailers.is_none())
    }

    /// Whether the whole response was received, read or not.
    #[must_use]
    pub fn is_received(&self) -> bool {
        self.core.borrow_mut().streams.get(self.key).is_none_or(|state| state.ended)
    }

    /// Reads a part of the body into `buffer`, and returns its bytes to the windows. Returns 0 at the end of
    /// the body; [`ResponseStream::take_trailers`] then has the trailers.
    ///
    /// # Errors
    /// The reason why the body does not go on.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, ResponseFailure>> {
        let core = &mut *self.core.borrow_mut();
        let Some(state) = core.streams.get(self.key) else {
            return Poll::Ready(Err(ResponseFailure::Closed));
        };
        if state.consumed < state.data.len() {
            return Poll::Ready(Ok(core.read(self.key, buffer)));
        }
        if state.ended && state.role.failure.is_none() {
            return Poll::Ready(Ok(0));
        }
        if state.reset.is_some() {
            return Poll::Ready(Err(core.failure(self.key)));
        }
        register_waker(&mut state.reader, cx);
        Poll::Pending
    }

    /// Takes the trailer section, if the response had one. Returns it once.
    #[must_use]
    pub fn take_trailers(&self) -> Option<FieldSection> {
        self.core.borrow_mut().streams.get(self.key)?.trailers.take()
    }

    /// Sends the part of the body that the windows and the output buffer accept. If that is everything and it
    /// is the `last` of the body, it carries END_STREAM. Returns how many bytes it sent.
    ///
    /// # Errors
    /// [`StreamClosed`], if the stream was reset or the request is already complete.
    pub fn send(&self, pieces: &[IoSlice<'_>], last: bool) -> Result<usize, StreamClosed> {
        self.core.borrow_mut().write_data(self.key, pieces, last)
    }

    /// Sends a trailer section, which ends the request. All fields are sent as never indexed: trailers hardly
    /// repeat, and it is not known which are secret.
    ///
    /// # Errors
    /// As [`ResponseStream::send`].
    pub fn send_trailers<'a>(
        &self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StreamClosed> {
        self.core.borrow_mut().write_section(self.key, Some(SendProgress::End), |encoder, out| {
            for (name, value) in fields {
                encoder.request_field(name, value, true, out);
            }
        })
    }

    /// Ends the request without further data.
    ///
    /// # Errors
    /// As [`ResponseStream::send`].
    pub fn end(&self) -> Result<(), StreamClosed> {
        self.core.borrow_mut().write_data(self.key, &[], true).map(drop)
    }

    /// Waits until a part of a body can be sent. Returns how many bytes the output buffer accepts, whatever the
    /// windows allow.
    ///
    /// # Errors
    /// As [`ResponseStream::send`].
    pub fn poll_capacity(&self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamClosed>> {
        self.core.borrow_mut().poll_capacity(self.key, cx)
    }

    /// Resets the stream with `code`.
    pub fn reset(&self, code: ErrorCode) {
        self.core.borrow_mut().reset(self.key, code);
    }

    /// Whether the request was sent completely.
    #[must_use]
    pub fn has_sent_end(&self) -> bool {
        self.core.borrow_mut().has_sent_end(self.key)
    }
}

impl Core<ClientRole> {
    /// Why a stream has no further head or body.
    fn failure(&mut self, key: StreamKey) -> ResponseFailure {
        let is_violation = self.violation().is_some();
        let Some(state) = self.streams.get(key) else { return ResponseFailure::Closed };
        match (state.role.failure, state.reset) {
            (Some(StreamFailure::NotProcessed), _) => ResponseFailure::NotProcessed,
            (Some(StreamFailure::Malformed), _) => ResponseFailure::Malformed,
            (Some(StreamFailure::TooLarge { is_end: false }), _) => ResponseFailure::HeadTooLarge,
            (Some(StreamFailure::TooLarge { is_end: true }), _) => ResponseFailure::TrailersTooLarge,
            (None, Some(ErrorCode::REFUSED_STREAM)) if state.is_cancelled => ResponseFailure::Refused,
            (None, Some(ErrorCode::HTTP_1_1_REQUIRED)) if state.is_cancelled => {
                ResponseFailure::Http11Required
            }
            (None, Some(_)) if state.is_cancelled => ResponseFailure::Reset,
            // Reset here, for a frame that breaks the protocol, or at the end of the connection.
            (None, Some(code)) if code != ErrorCode::CANCEL => ResponseFailure::Malformed,
            _ if is_violation => ResponseFailure::Malformed,
            _ => ResponseFailure::Closed,
        }
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.core.borrow_mut().drop_stream(self.key);
    }
}
