//! Reads a PROXY header from a socket, and nothing after it.

use std::task::{Context, Poll, ready};

use super::{ProxyHeader, ProxyHeaderError, parse_proxy_header};
use crate::Stream;

impl Stream {
    /// Reads a PROXY protocol header. `received` holds the bytes read so far, over several calls. The bytes
    /// after the header stay in the socket, because they may be for TLS.
    ///
    /// # Errors
    /// If the peer closes the connection, or sends something else.
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
            // The peek just saw these bytes.
            match self.try_read(&mut buffer[..taken]) {
                Some(Ok(read)) if read == taken => {}
                _ => return Poll::Ready(Err(ProxyHeaderError::Closed)),
            }
            if let Some((header, _)) = parsed {
                return Poll::Ready(Ok(header));
            }
        }
    }
}
