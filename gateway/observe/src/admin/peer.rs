//! The peer of an admin connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

/// The peer of an admin connection. Handlers find it in the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: PeerAddress,
    /// Its verified certificate; `None`: it presented none.
    pub certificate: Option<Arc<CertificateDer<'static>>>,
}

/// The address of a peer.
#[derive(Clone, Copy, Debug)]
pub enum PeerAddress {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A peer on a Unix socket, with its user id (SO_PEERCRED, unix(7)); `None`: not known.
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
