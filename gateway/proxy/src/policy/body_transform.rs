//! Transforms a request body while the exchange reads it, for instance to decompress it.

use tollgate_http::HeadLimits;
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_observe::Reason;
use tollgate_policy::Transform;

use crate::state::peer_error::{PeerError, body_error_reason};
use crate::state::request_state::RequestState;

/// A request body that a policy's transform replaces. The reader gets the new body without framing, up to its
/// end.
pub(super) struct BodyTransform {
    /// Finds the end of the body in the framing of the client's version of HTTP.
    reader: BodyReader,
    transform: Box<dyn Transform>,
    /// Transformed data; the part from `at` on is unread.
    ready: Vec<u8>,
    at: usize,
    /// Bytes after the body.
    behind: Vec<u8>,
    fault: Option<Reason>,
}

impl BodyTransform {
    /// Starts on the body of the request in `state`, of which a part may already be in the inbox. If all of
    /// it is, the transformed body replaces it, and the result is `None`.
    ///
    /// # Errors
    /// If the transform fails.
    pub fn begin(
        transform: Box<dyn Transform>,
        state: &mut RequestState,
        limits: &HeadLimits,
    ) -> Result<Option<Self>, Reason> {
        let RequestState { request, inbox, unread, .. } = state;
        let mut body_transform = Self {
            reader: BodyReader::new(request.length).with_trailer_limits(limits),
            transform,
            ready: Vec::new(),
            at: 0,
            behind: Vec::new(),
            fault: None,
        };
        // The length of the new body is not known yet.
        request.remove_all(b"content-length");
        if let Err(reason) = body_transform.feed(&mut std::mem::take(inbox)) {
            // The caller can still find the end of the body.
            *inbox = body_transform.behind;
            *unread = Some(Box::new(body_transform.reader));
            return Err(reason);
        }
        if body_transform.reader.is_done() {
            let length = body_transform.ready.len();
            request.append(b"Content-Length", length.to_string().as_bytes());
            request.length = BodyLength::Exactly(length as u64);
            *inbox = body_transform.ready;
            inbox.append(&mut body_transform.behind);
            return Ok(None);
        }
        request.length = BodyLength::UntilClose;
        Ok(Some(body_transform))
    }

    /// Returns whether [`read`](Self::read) has a result: data, the end, or an error.
    pub fn is_ready(&self) -> bool {
        self.at < self.ready.len() || self.reader.is_done() || self.fault.is_some()
    }

    /// Reads transformed data; 0 is its end.
    ///
    /// # Errors
    /// If the transform failed.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, PeerError> {
        if let Some(reason) = self.fault {
            return Err(PeerError::Rejected(reason));
        }
        let left = &self.ready[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        if self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
        }
        Ok(count)
    }

    /// Takes bytes that the client has sent; an empty slice means that it has closed its direction.
    pub fn take(&mut self, input: &mut [u8]) {
        let taken = if input.is_empty() { self.end() } else { self.feed(input) };
        self.fault = taken.err();
    }

    fn feed(&mut self, input: &mut [u8]) -> Result<(), Reason> {
        let step = self.reader.read(input).map_err(body_error_reason)?;
        if self.reader.is_done() {
            self.behind.extend_from_slice(&input[step.used..]);
        }
        self.transform.push(&input[step.data], &mut self.ready)?;
        if self.reader.is_done() {
            self.transform.finish(&mut self.ready)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Reason> {
        if !self.reader.end_of_stream() {
            return Err(Reason::IncompleteRequest);
        }
        self.transform.finish(&mut self.ready)
    }

    /// Returns the trailer lines after the body.
    pub fn trailers(&self) -> &[u8] {
        self.reader.trailers()
    }

    /// Returns the bytes after the body.
    pub fn into_rest(self) -> Vec<u8> {
        self.behind
    }
}
