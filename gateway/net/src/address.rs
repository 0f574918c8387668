//! The address of an endpoint, and its text form.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The address of an endpoint. Pooled connections are kept under it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address and a port.
    Socket(SocketAddr),
    /// A name and a port. The name is resolved at each connect.
    Name {
        /// The host name.
        host: String,
        /// The port.
        port: u16,
    },
    /// A unix stream socket.
    Unix(PathBuf),
}

impl Address {
    /// Creates an address from a host (a name, or an IP address without brackets) and a port.
    #[must_use]
    pub fn tcp(host: &str, port: u16) -> Self {
        match host.parse::<IpAddr>() {
            Ok(ip) => Self::Socket(SocketAddr::new(ip, port)),
            Err(_) => Self::Name { host: host.to_owned(), port },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
