//! The handshake: until it is over, nothing else is done on a connection.

use std::cell::RefCell;
use std::task::{Context, Poll, ready};

use rustls::HandshakeKind;

use super::session::HEADROOM;
use super::{HandshakeError, Negotiated, Tls};

thread_local! {
    /// The name in the last `ClientHello` of this thread: rustls tells it to whoever chooses a certificate, and to
    /// nobody else while no record is buffered.
    static SERVER_NAME: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Tells the connection whose handshake goes on on this thread which name its client asked for. Whoever chooses the
/// certificate calls it, from within [`Stream::poll_handshake`](crate::Stream::poll_handshake).
pub fn note_server_name(name: Option<&str>) {
    SERVER_NAME.set(name.map(|name| name.to_ascii_lowercase().into()));
}

impl Tls {
    /// Goes on with the handshake.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        loop {
            ready!(self.poll_flush(cx))?;
            let session = self.session.get_mut();
            if session.established {
                return Poll::Ready(Ok(()));
            }
            if !std::mem::replace(&mut self.spoken, true) {
                // A client has the first word.
                self.advance(&mut [0; HEADROOM])?;
                continue;
            }
            let socket = self.socket.as_mut().expect(super::ATTACHED);
            ready!(socket.poll_readable(cx))?;
            let mut buffer = vec![0; session.wanted()];
            let start = HEADROOM + session.partial.len();
            buffer[HEADROOM..start].copy_from_slice(&session.partial);
            match ready!(socket.poll_read(cx, &mut buffer[start..]))? {
                0 => return Poll::Ready(Err(HandshakeError::Closed)),
                count => self.advance(&mut buffer[..start + count])?,
            }
        }
    }

    fn advance(&mut self, buffer: &mut [u8]) -> Result<(), HandshakeError> {
        let session = self.session.get_mut();
        let digested = session.digest(buffer);
        let named = SERVER_NAME.take();
        if named.is_some() {
            self.server_name = named;
        }
        let digested = match digested {
            Ok(digested) => digested,
            Err(error) => {
                // The alert, as far as the kernel takes it.
                let (socket, out) = (self.socket.as_mut().expect(super::ATTACHED), &session.out);
                let _ = socket.write(&[std::io::IoSlice::new(out)]);
                return Err(error.into());
            }
        };
        session.plain.extend_from_slice(&buffer[..digested.plain]);
        session.keep(&buffer[HEADROOM + digested.used..])?;
        if session.established {
            let common = session.common();
            let negotiated = Negotiated {
                version: common.protocol_version().ok_or(rustls::Error::HandshakeNotComplete)?,
                cipher: common.negotiated_cipher_suite().ok_or(rustls::Error::HandshakeNotComplete)?.suite(),
                resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
                alpn: common.alpn_protocol().map(Into::into),
                server_name: self.server_name.take(),
                certificate: common
                    .peer_certificates()
                    .and_then(|chain| chain.first())
                    .map(|leaf| leaf.clone().into_owned()),
            };
            // The first and only time.
            let _ = self.negotiated.set(negotiated);
        }
        Ok(())
    }
}
