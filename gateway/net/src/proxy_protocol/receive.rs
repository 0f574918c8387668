//! A header is read from a socket, and nothing that follows it.

use std::task::{Context, Poll, ready};

use super::{ProxyHeader, ProxyHeaderError, parse_proxy_header};
use crate::Stream;

impl Stream {
    /// Reads a header of the PROXY protocol. `received` holds what has come of it so far. What follows it stays in the
    /// socket: it may be for TLS.
    ///
    /// # Errors
    /// When there is none.
    pub fn poll_proxy_header(
        &mut self,
        cx: &mut Context<'_>,
        received: &mut Vec<u8>,
    ) -> Poll<Result<ProxyHeader, ProxyHeaderError>> {
        loop {
            let mut buffer = [0; 256];
            let count = match ready!(self.poll_peek_into(cx, &mut buffer)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(ProxyHeaderError::Closed)),
                Ok(count) => count,
            };
            let before = received.len();
            received.extend_from_slice(&buffer[..count]);
            let parsed = match parse_proxy_header(received) {
                Ok(parsed) => parsed,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let taken = parsed.map_or(count, |(_, length)| length - before);
            // It was there a moment ago.
            match self.read_some(&mut buffer[..taken]) {
                Some(Ok(read)) if read == taken => {}
                _ => return Poll::Ready(Err(ProxyHeaderError::Closed)),
            }
            if let Some((header, _)) = parsed {
                return Poll::Ready(Ok(header));
            }
        }
    }
}
