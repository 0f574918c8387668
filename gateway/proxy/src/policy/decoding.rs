//! The body of a request, of which another one is made while it is read.

use std::io;

use tollgate_http::HeadLimits;
use tollgate_http::h1::{BodyReader, Length};
use tollgate_observe::Reason;
use tollgate_policy::Transform;

use crate::client_side::{Unfit, broken_body};
use crate::scratch::Scratch;

/// The body of a request, of which another one is made while it is read. Who reads gets it without framing, up to its end.
pub(super) struct Decoding {
    /// Where the body ends, in the client's version of HTTP.
    reader: BodyReader,
    transform: Box<dyn Transform>,
    /// What was made and is yet to be read, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// What came behind the body.
    behind: Vec<u8>,
    fault: Option<Reason>,
}

impl Decoding {
    /// Of the request in `scratch`, of which some of the body may be there. Nothing if all of it is: then what was made of it
    /// is there in its place.
    ///
    /// # Errors
    /// When nothing can be made of it.
    pub fn begin(
        transform: Box<dyn Transform>,
        scratch: &mut Scratch,
        limits: &HeadLimits,
    ) -> Result<Option<Self>, Reason> {
        let Scratch { request, inbox, unread, .. } = scratch;
        let mut decoding = Self {
            reader: BodyReader::new(request.length).within(limits),
            transform,
            ready: Vec::new(),
            at: 0,
            behind: Vec::new(),
            fault: None,
        };
        // Not what it will be.
        request.remove_all(b"content-length");
        if let Err(reason) = decoding.feed(&mut std::mem::take(inbox)) {
            // The reader still finds the end of the body.
            *inbox = decoding.behind;
            *unread = Some(Box::new(decoding.reader));
            return Err(reason);
        }
        if decoding.reader.is_done() {
            let length = decoding.ready.len();
            request.append(b"Content-Length", length.to_string().as_bytes());
            request.length = Length::Exactly(length as u64);
            *inbox = decoding.ready;
            inbox.append(&mut decoding.behind);
            return Ok(None);
        }
        request.length = Length::UntilClose;
        Ok(Some(decoding))
    }

    /// Whether something is there to be read: some of it, its end, or that there is none.
    pub fn is_ready(&self) -> bool {
        self.at < self.ready.len() || self.reader.is_done() || self.fault.is_some()
    }

    /// Reads some of what is there; 0: that was all.
    ///
    /// # Errors
    /// When nothing can be made of the rest.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(reason) = self.fault {
            return Err(Unfit(reason).into());
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

    /// Takes what the client has sent; nothing: it has ended its direction.
    pub fn take(&mut self, input: &mut [u8]) {
        let taken = if input.is_empty() { self.end() } else { self.feed(input) };
        self.fault = taken.err();
    }

    fn feed(&mut self, input: &mut [u8]) -> Result<(), Reason> {
        let step = self.reader.read(input).map_err(broken_body)?;
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

    /// The trailer lines that came behind the body.
    pub fn trailers(&self) -> &[u8] {
        self.reader.trailers()
    }

    /// What came behind it.
    pub fn into_rest(self) -> Vec<u8> {
        self.behind
    }
}
