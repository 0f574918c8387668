//! A plain-text front for a TLS listener, so that every client of the tests can reach it with a certificate.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::tls::TlsPeer;

/// How long the front waits for one side before it turns to the other.
const TURN: Duration = Duration::from_millis(2);

/// Accepts plain-text connections and carries each over TLS with a client configuration. It offers HTTP/2 if
/// the connection begins with that preface.
#[derive(Clone, Copy, Debug)]
pub struct TlsFront(SocketAddr);

impl TlsFront {
    /// Starts a front, which runs until the tests end. It sends `name` as the server name (SNI). `peer` makes
    /// the client configuration; it must not set ALPN.
    ///
    /// # Panics
    /// Panics if no socket can be bound.
    #[must_use]
    pub fn start(to: SocketAddr, name: &'static str, peer: impl Fn() -> TlsPeer) -> Self {
        let peers = Arc::new([peer().offering(&["http/1.1"]), peer().offering(&["h2"])]);
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for plain in listener.incoming().map_while(Result::ok) {
                let peers = peers.clone();
                // Whatever breaks, the client sees that its connection ends.
                thread::spawn(move || carry(plain, to, name, &peers));
            }
        });
        Self(address)
    }

    /// Returns the address on which the front listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0
    }
}

fn carry(
    mut plain: TcpStream,
    to: SocketAddr,
    name: &str,
    [http1, http2]: &[TlsPeer; 2],
) -> std::io::Result<()> {
    let mut first = [0; 3];
    plain.read_exact(&mut first)?;
    plain.set_nodelay(true)?;
    let peer = if first == *b"PRI" { http2 } else { http1 };
    let mut tls = peer.connect(to, name)?;
    tls.send(&first);
    tls.socket().set_read_timeout(Some(TURN))?;
    plain.set_read_timeout(Some(TURN))?;
    let mut bytes = vec![0; 16 * 1024];
    loop {
        match plain.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => tls.send(&bytes[..count]),
            Err(error) if is_silence(error.kind()) => {}
            Err(error) => return Err(error),
        }
        match tls.some() {
            Ok(bytes) => plain.write_all(&bytes)?,
            Err(error) if is_silence(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_silence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
