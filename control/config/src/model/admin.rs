//! The admin listener and the rights of its clients.

use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::{At, Digest, ListenTls, Secret, Spanned};

/// The admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Address of the listener. Default 127.0.0.1:9901.
    pub bind: Spanned<AdminAddress>,
    /// TLS; `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Access tokens and their roles. Without any, every client that reaches the listener has full access.
    pub tokens: Vec<AdminToken>,
    /// File that records every change and its author. Default none: changes are reported only on standard
    /// error.
    pub audit_log: Option<PathBuf>,
    /// Host names that the listener answers to, in addition to IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether clients on other machines may read without a token. Default false.
    pub open: bool,
}

/// Address of a listener for clients. Like the admin listener's, it is an IP address or a Unix socket.
pub type ListenAddress = AdminAddress;

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(AdminSocket),
}

/// A Unix socket, its mode and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSocket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The file's mode. Default 0600.
    pub mode: u32,
    /// `USER`, `USER:GROUP` or `:GROUP`, names or numbers. Default: the owner of the process.
    pub owner: Option<Owner>,
}

/// The owner that a file gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A name, or a number.
    pub user: Option<String>,
    /// A name, or a number.
    pub group: Option<String>,
}

/// A token of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    /// Its name in the audit log and in the history.
    pub name: String,
    /// Its source position.
    pub at: At,
    /// The rights that it grants.
    pub role: Role,
    /// The secret that requests are compared with.
    pub token: TokenSecret,
}

/// The rights of a token. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Read,
    /// Changes resources and rolls back.
    Write,
    /// Also acts on the gateway's machine: copies the store.
    Admin,
}

impl Role {
    /// Returns the role's name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// A token as written in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token.
    Plain(Secret),
    /// The SHA-256 of the token.
    Digest(Digest),
}

impl Default for AdminSettings {
    fn default() -> Self {
        let bind = AdminAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9901)));
        Self {
            bind: Spanned { value: bind, at: At::default() },
            tls: None,
            tokens: Vec::new(),
            audit_log: None,
            hosts: Vec::new(),
            open: false,
        }
    }
}

impl AdminAddress {
    /// Returns the IP address and port; `None` for a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl AdminAddress {
    /// Returns whether both are the same IP address and port, or the same socket file. Owner and mode do not
    /// count.
    #[must_use]
    pub fn is_same_address(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => one == other,
            (Self::Unix(one), Self::Unix(other)) => one.path == other.path,
            (Self::Tcp(_), Self::Unix(_)) | (Self::Unix(_), Self::Tcp(_)) => false,
        }
    }
}

impl From<SocketAddr> for AdminAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Parses the form that [`Display`](fmt::Display) writes. That form lacks the mode and the owner of a socket,
/// so they get their defaults.
impl FromStr for AdminAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(AdminSocket { path: PathBuf::from(path), mode: 0o600, owner: None })),
            None => text.parse().map(Self::Tcp),
        }
    }
}

/// Writes the form used in configuration files.
impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(socket) => write!(f, "unix:{}", socket.path.display()),
        }
    }
}
