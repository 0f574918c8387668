//! The handshake. Until it ends, nothing else happens on a connection.
//! [`Stream::poll_handshake`](crate::Stream::poll_handshake) calls it for both sides; at the end it fixes the
//! [`Negotiated`] parameters.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::HandshakeKind;

use super::session::HEADROOM_BYTES;
use super::{HandshakeError, Negotiated, TlsStream};

thread_local! {
    /// Details of the last `ClientHello` on this thread. While no record is buffered, rustls passes them only
    /// to the certificate resolver.
    static LAST_CLIENT_HELLO: RefCell<Option<ClientHelloNames>> = const { RefCell::new(None) };
    /// Whether the certificate of the last handshake on this thread was not valid.
    static UNVERIFIED_CERTIFICATE: Cell<bool> = const { Cell::new(false) };
}

/// The name that a client asked for, and the names of the certificate that it got.
#[derive(Debug, Default)]
pub(super) struct ClientHelloNames {
    server_name: Option<Box<str>>,
    hosts: Option<Arc<[String]>>,
}

/// Records the name in the client's SNI and the names of the chosen certificate, for the connection whose
/// handshake runs on this thread. The certificate resolver calls it, from within
/// [`Stream::poll_handshake`](crate::Stream::poll_handshake).
pub fn record_sni(name: Option<&str>, hosts: Arc<[String]>) {
    let server_name = name.map(|name| name.to_ascii_lowercase().into());
    LAST_CLIENT_HELLO.set(Some(ClientHelloNames { server_name, hosts: Some(hosts) }));
}

/// Records that the peer's certificate is not valid, for the connection whose handshake runs on this thread. A verifier that
/// admits such peers calls it, from within [`Stream::poll_handshake`](crate::Stream::poll_handshake).
pub fn record_unverified_certificate() {
    UNVERIFIED_CERTIFICATE.set(true);
}

impl TlsStream {
    /// Continues the handshake.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        loop {
            ready!(self.poll_flush(cx))?;
            let session = self.session.get_mut();
            if session.established {
                return Poll::Ready(Ok(()));
            }
            if !std::mem::replace(&mut self.has_started, true) {
                // A client sends the first message; a server takes the bytes that it has.
                let received = std::mem::take(&mut session.partial);
                let mut buffer = vec![0; HEADROOM_BYTES + received.len()];
                buffer[HEADROOM_BYTES..].copy_from_slice(&received);
                self.advance(&mut buffer)?;
                continue;
            }
            let socket = self.socket.as_mut().expect(super::ATTACHED);
            ready!(socket.poll_readable(cx))?;
            let mut buffer = vec![0; session.read_buffer_size()];
            let start = HEADROOM_BYTES + session.partial.len();
            buffer[HEADROOM_BYTES..start].copy_from_slice(&session.partial);
            match ready!(socket.poll_read(cx, &mut buffer[start..]))? {
                0 => return Poll::Ready(Err(HandshakeError::Closed)),
                count => self.advance(&mut buffer[..start + count])?,
            }
        }
    }

    fn advance(&mut self, buffer: &mut [u8]) -> Result<(), HandshakeError> {
        let session = self.session.get_mut();
        let processed = session.process_records(buffer);
        let hello_names = LAST_CLIENT_HELLO.take();
        if hello_names.is_some() {
            self.hello_names = hello_names;
        }
        self.is_unverified |= UNVERIFIED_CERTIFICATE.take();
        let processed = match processed {
            Ok(processed) => processed,
            Err(error) => {
                // Send the alert, as far as the kernel accepts it.
                let (socket, out) = (self.socket.as_mut().expect(super::ATTACHED), &session.out);
                let _ = socket.write(&[std::io::IoSlice::new(out)]);
                return Err(error.into());
            }
        };
        session.plain.extend_from_slice(&buffer[..processed.plain]);
        session.keep_partial(&buffer[HEADROOM_BYTES + processed.used..])?;
        if session.established {
            let common = session.common();
            let ClientHelloNames { server_name, hosts } = self.hello_names.take().unwrap_or_default();
            let negotiated = Negotiated {
                version: common.protocol_version().ok_or(rustls::Error::HandshakeNotComplete)?,
                cipher: common.negotiated_cipher_suite().ok_or(rustls::Error::HandshakeNotComplete)?.suite(),
                resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
                alpn: common.alpn_protocol().map(Into::into),
                server_name,
                hosts,
                has_unverified_certificate: self.is_unverified,
                certificates: common
                    .peer_certificates()
                    .filter(|chain| !chain.is_empty() && !self.is_unverified)
                    .map(|chain| chain.iter().map(|it| it.clone().into_owned()).collect()),
            };
            // The handshake completes once, so the cell is empty.
            let _ = self.negotiated.set(negotiated);
        }
        Ok(())
    }
}
