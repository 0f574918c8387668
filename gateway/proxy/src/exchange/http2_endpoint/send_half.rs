//! The sending half of a stream to an endpoint: sends what its windows and its connection let through, then
//! its end.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::SendStream;
use http::HeaderMap;
use tollgate_http::h2::{BudgetedData, SendBudget};

use crate::state::peer_error::PeerError;

/// Returns the error for a stream that no longer exists.
pub(super) fn stream_closed() -> PeerError {
    io::ErrorKind::BrokenPipe.into()
}

/// The sending half of a stream whose head was sent.
#[derive(Debug)]
pub(super) struct SendHalf {
    stream: SendStream<BudgetedData>,
    budget: Rc<SendBudget>,
}

impl SendHalf {
    pub fn new(stream: SendStream<BudgetedData>, budget: Rc<SendBudget>) -> Self {
        Self { stream, budget }
    }

    pub fn stream_id(&self) -> u32 {
        self.stream.stream_id().as_u32()
    }

    /// Sends the part of `pieces` that the windows and the connection take now, and returns its length. If it
    /// was everything and `last` is set, it ends the stream.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn write(&mut self, pieces: &[IoSlice<'_>], last: bool) -> Result<usize, PeerError> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        self.stream.reserve_capacity(wanted);
        let count = wanted.min(self.stream.capacity()).min(self.budget.available());
        if count == 0 {
            return Ok(0);
        }
        let mut bytes = Vec::with_capacity(count);
        for piece in pieces {
            bytes.extend_from_slice(&piece[..piece.len().min(count - bytes.len())]);
        }
        let chunk = BudgetedData::new(&self.budget, bytes);
        self.stream.send_data(chunk, last && count == wanted).map_err(|_| stream_closed())?;
        Ok(count)
    }

    /// Waits until some of `bytes` can be sent, sends that part and returns its length.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        loop {
            ready!(self.budget.poll_available(cx));
            let count = self.write(&[IoSlice::new(bytes)], false)?;
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(stream_closed())),
            }
        }
    }

    /// Ends the stream, with trailers if there are any.
    ///
    /// # Errors
    /// When the stream is gone.
    pub fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), PeerError> {
        match trailers {
            Some(trailers) => self.stream.send_trailers(trailers),
            None => self.stream.send_data(BudgetedData::empty(), true),
        }
        .map_err(|_| stream_closed())
    }
}
