//! The way out of a stream: what its windows and its connection let through, and how it ends.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::SendStream;
use http::HeaderMap;
use tollgate_http::h2::{Chunk, Gate};

/// What a stream that is gone is called.
pub(super) fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// The way out of a stream, once its head has gone.
#[derive(Debug)]
pub(super) struct Outlet {
    stream: SendStream<Chunk>,
    gate: Rc<Gate>,
}

impl Outlet {
    pub fn new(stream: SendStream<Chunk>, gate: Rc<Gate>) -> Self {
        Self { stream, gate }
    }

    /// The number of the stream.
    pub fn stream_id(&self) -> u32 {
        self.stream.stream_id().as_u32()
    }

    /// Sends what can go now, with the end if that was all and it is the `last`. Says how many bytes that was.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn write(&mut self, pieces: &[IoSlice<'_>], last: bool) -> io::Result<usize> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        self.stream.reserve_capacity(wanted);
        let count = wanted.min(self.stream.capacity()).min(self.gate.room());
        if count == 0 {
            return Ok(0);
        }
        let mut bytes = Vec::with_capacity(count);
        for piece in pieces {
            bytes.extend_from_slice(&piece[..piece.len().min(count - bytes.len())]);
        }
        let chunk = Chunk::new(&self.gate, bytes);
        self.stream.send_data(chunk, last && count == wanted).map_err(|_| gone())?;
        Ok(count)
    }

    /// Sends some of it as soon as that can go.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.gate.poll_room(cx));
            let count = self.write(&[IoSlice::new(bytes)], false)?;
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(gone())),
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn end(&mut self, trailers: Option<HeaderMap>) -> io::Result<()> {
        match trailers {
            Some(trailers) => self.stream.send_trailers(trailers),
            None => self.stream.send_data(Chunk::empty(), true),
        }
        .map_err(|_| gone())
    }
}
