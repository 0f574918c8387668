//! TLS on a connection, by rustls.
//!
//! This module drives rustls' unbuffered interface, so an idle connection holds its keys and no buffers.
//! Received records are read into the caller's buffer and decrypted there; sent data is encrypted into one
//! buffer for each thread. rustls' buffered interface keeps 4 KiB and more for each connection.

mod fault;
mod handshake;
mod handshake_error;
mod read;
mod session;
mod write;

use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::{CipherSuite, ClientConfig, ProtocolVersion, ServerConfig};

pub use fault::{TlsFault, TlsFaultClass, TlsFaultKind};
pub use handshake::{record_sni, record_unverified_certificate};
pub use handshake_error::HandshakeError;
pub(crate) use session::Session;

use crate::Stream;
use handshake::ClientHelloNames;
use session::SessionSide;

/// One TLS connection: its socket and its rustls session.
#[derive(Debug)]
pub(crate) struct TlsStream {
    /// `None` while the connection moves from one thread to another.
    socket: Option<Stream>,
    /// In a cell, because finding out what an idle connection has to read means decrypting it.
    session: RefCell<Session>,
    negotiated: OnceCell<Negotiated>,
    /// Whether this side has sent its first message, or waits for the peer's. A client speaks first. A server
    /// that has received bytes already processes them before it waits.
    has_started: bool,
    /// Until the handshake ends: the name in the client's SNI, and the names of the chosen certificate.
    hello_names: Option<ClientHelloNames>,
    /// Whether the peer's certificate is not valid.
    is_unverified: bool,
}

/// The parameters that the handshake negotiated.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// TLS 1.2 or 1.3.
    pub version: ProtocolVersion,
    /// The cipher suite of the records.
    pub cipher: CipherSuite,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The protocol chosen by ALPN (RFC 7301), if any.
    pub alpn: Option<Box<[u8]>>,
    /// The name in the client's SNI (RFC 6066, 3), in lower case; `None` on the client side.
    pub server_name: Option<Box<str>>,
    /// The names of the server's certificate, in lower case; `*.` is a wildcard for one label. `None` on the
    /// client side.
    pub hosts: Option<Arc<[String]>>,
    /// The peer's certificate, which was verified and whose key the peer has proved to hold, with the
    /// intermediates. `None` if the peer presented no certificate, or an invalid one.
    pub certificates: Option<Certificates>,
    /// Whether the peer presented a certificate that is not valid, and was admitted nevertheless.
    pub has_unverified_certificate: bool,
}

impl Negotiated {
    /// Returns `1.2` or `1.3`.
    #[must_use]
    pub fn version_number(&self) -> &'static str {
        if self.version == ProtocolVersion::TLSv1_3 { "1.3" } else { "1.2" }
    }

    /// The IANA name of the cipher suite.
    #[must_use]
    pub fn cipher_name(&self) -> &'static str {
        match self.cipher {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            other => other.as_str().unwrap_or("-"),
        }
    }
}

/// A certificate, followed by the intermediates between it and a root; at least one.
pub type Certificates = Arc<[CertificateDer<'static>]>;

impl TlsStream {
    /// Creates the server side; the handshake has not begun. `received` has the first bytes of the client's first
    /// message, as far as they were read already.
    pub fn server(
        socket: Stream,
        config: Arc<ServerConfig>,
        received: Vec<u8>,
    ) -> Result<Self, rustls::Error> {
        let mut stream = Self::new(socket, SessionSide::Server(UnbufferedServerConnection::new(config)?));
        stream.has_started = received.is_empty();
        stream.session.get_mut().partial = received;
        Ok(stream)
    }

    /// Creates the client side; the handshake has not begun.
    pub fn client(
        socket: Stream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::new(socket, SessionSide::Client(UnbufferedClientConnection::new(config, name)?)))
    }

    fn new(socket: Stream, side: SessionSide) -> Self {
        let has_started = matches!(side, SessionSide::Server(_));
        let session = RefCell::new(Session::new(side));
        Self {
            socket: Some(socket),
            session,
            negotiated: OnceCell::new(),
            has_started,
            hello_names: None,
            is_unverified: false,
        }
    }

    /// The negotiated parameters; `None` before the end of the handshake.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// Takes the socket out, to move it to another thread.
    pub fn take_socket(&mut self) -> Option<Stream> {
        self.socket.take()
    }

    /// Puts the socket back.
    pub fn put_socket(&mut self, socket: Stream) {
        self.socket = Some(socket);
    }

    /// Whether nothing unread was taken from the socket.
    pub fn has_nothing_unread(&self) -> bool {
        self.session.borrow().has_nothing_unread()
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket().local_address()
    }

    pub fn limit_unsent(&self, bytes: u32) {
        self.socket().limit_unsent(bytes);
    }

    pub fn reset_on_close(&self) {
        self.session.borrow_mut().suppress_close_notify();
        self.socket().reset_on_close();
    }

    #[cfg(feature = "simulate")]
    pub fn as_simulated(&self) -> Option<&crate::simulated::SimulatedSocket> {
        self.socket().as_simulated()
    }

    fn socket(&self) -> &Stream {
        self.socket.as_ref().expect(ATTACHED)
    }
}

const ATTACHED: &str = "a TLS connection has its socket while it is on a thread";

impl Drop for TlsStream {
    fn drop(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        // RFC 8446, 6.1: without this alert the peer cannot tell an end from a truncation. If the kernel does
        // not accept it at once, it is lost, because no task waits for it any more.
        if let Some(notice) = self.session.get_mut().close_notify() {
            let _ = socket.write(&[std::io::IoSlice::new(&notice)]);
        }
    }
}
