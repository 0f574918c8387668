//! TLS on a connection: rustls speaks it, the data path's buffers carry it.
//!
//! rustls' unbuffered interface is driven here, so that a connection that is idle holds its keys and nothing else: what
//! comes is read into the caller's buffer and decrypted from there, what goes is encrypted into one buffer a thread.
//! Its buffered interface keeps 4 KiB and more for each connection.

mod failure;
mod fault;
mod handshake;
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

pub use failure::HandshakeError;
pub use fault::{TlsFault, TlsFaultClass, TlsFaultKind};
pub use handshake::note_server_name;
pub(crate) use session::Session;

use crate::Stream;
use handshake::Asked;
use session::Side;

/// One TLS connection: its socket, and what rustls knows of it.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Nothing while the connection goes from one thread to another.
    socket: Option<Stream>,
    /// Behind a cell: to look what an idle connection has to read is to decrypt it.
    session: RefCell<Session>,
    negotiated: OnceCell<Negotiated>,
    /// Whether this end has nothing to say before the peer does.
    spoken: bool,
    /// What the client asks for, and what the certificate is for that it got, until the handshake is over.
    asked: Option<Asked>,
}

/// What both sides have agreed on.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// TLS 1.2 or 1.3.
    pub version: ProtocolVersion,
    /// How records are encrypted.
    pub cipher: CipherSuite,
    /// Whether a session of before was resumed.
    pub resumed: bool,
    /// The protocol chosen by ALPN (RFC 7301), if any.
    pub alpn: Option<Box<[u8]>>,
    /// The name that the client asked for (SNI; RFC 6066, 3), in lower case; `None` at a client's own end.
    pub server_name: Option<Box<str>>,
    /// What the server's certificate is for, in lower case, with `*.` for one label; `None` at a client's own end.
    pub hosts: Option<Arc<[String]>>,
    /// The certificate that the peer has proved to be its own and that was verified, with those between it and a root.
    pub certificates: Option<Certificates>,
}

impl Negotiated {
    /// `1.2` or `1.3`.
    #[must_use]
    pub fn version_number(&self) -> &'static str {
        if self.version == ProtocolVersion::TLSv1_3 { "1.3" } else { "1.2" }
    }

    /// The cipher suite, as IANA names it.
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

/// A certificate and those between it and a root, in this order; at least one.
pub type Certificates = Arc<[CertificateDer<'static>]>;

impl Tls {
    /// The server's end of a handshake that has yet to begin.
    pub fn server(socket: Stream, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(socket, Side::Server(UnbufferedServerConnection::new(config)?)))
    }

    /// The client's end of a handshake that has yet to begin.
    pub fn client(
        socket: Stream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::new(socket, Side::Client(UnbufferedClientConnection::new(config, name)?)))
    }

    fn new(socket: Stream, side: Side) -> Self {
        let spoken = matches!(side, Side::Server(_));
        let session = RefCell::new(Session::new(side));
        Self { socket: Some(socket), session, negotiated: OnceCell::new(), spoken, asked: None }
    }

    /// What was agreed on; nothing before the handshake's end.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// Takes out what lies under it, for the way to another thread.
    pub fn take_socket(&mut self) -> Option<Stream> {
        self.socket.take()
    }

    /// Puts back what lies under it.
    pub fn put_socket(&mut self, socket: Stream) {
        self.socket = Some(socket);
    }

    /// Whether nothing has come that was not read, as far as this end has taken it from the socket.
    pub fn is_quiet(&self) -> bool {
        self.session.borrow().is_quiet()
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket().local_address()
    }

    pub fn limit_unsent(&self, bytes: u32) {
        self.socket().limit_unsent(bytes);
    }

    pub fn reset_on_close(&self) {
        self.session.borrow_mut().forget_close();
        self.socket().reset_on_close();
    }

    #[cfg(feature = "simulate")]
    pub fn as_simulated(&self) -> Option<&crate::simulated::Socket> {
        self.socket().as_simulated()
    }

    fn socket(&self) -> &Stream {
        self.socket.as_ref().expect(ATTACHED)
    }
}

const ATTACHED: &str = "a TLS connection has its socket while it is on a thread";

impl Drop for Tls {
    fn drop(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        // RFC 8446, 6.1: without this the peer cannot tell an end from a cut. What the kernel does not take at once is
        // lost: nobody waits for it any more.
        if let Some(notice) = self.session.get_mut().close_notify() {
            let _ = socket.write(&[std::io::IoSlice::new(&notice)]);
        }
    }
}
