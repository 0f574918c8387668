//! Who is at the other end of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

/// Who is at the other end of a connection of the admin listener.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where.
    pub address: PeerAddress,
    /// The certificate that it has shown, and that was verified.
    pub certificate: Option<Arc<CertificateDer<'static>>>,
}

/// Where the other end of a connection is.
#[derive(Clone, Copy, Debug)]
pub enum PeerAddress {
    /// An address.
    Tcp(SocketAddr),
    /// On this machine, of the user with this number (SO_PEERCRED, unix(7)).
    Unix(Option<u32>),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Some(user)) => write!(f, "unix:uid={user}"),
            Self::Unix(None) => f.write_str("unix"),
        }
    }
}
