//! Where an endpoint is.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where an endpoint is: the identity under which its connections are kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address and a port.
    Socket(SocketAddr),
    /// A name to resolve at each connect, and a port.
    Name {
        /// Host name.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix stream socket.
    Unix(PathBuf),
}

impl Address {
    /// An address from a host (name or IP address without brackets) and a port.
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
