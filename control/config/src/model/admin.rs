//! The admin listener, and who may do what there.

use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::{At, Digest, ListenTls, Secret, Spanned};

/// The admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it is. Default 127.0.0.1:9901.
    pub bind: Spanned<AdminAddress>,
    /// TLS; `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Who may do what. With none everybody who reaches the listener may.
    pub tokens: Vec<AdminToken>,
    /// Where who changed what is written. Default nowhere but to standard error.
    pub audit_log: Option<PathBuf>,
    /// Host names under which the listener answers, beside IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether others than this machine may read without a token. Default false.
    pub open: bool,
}

/// Where clients connect to: as the admin listener's, an address or a Unix socket.
pub type ListenAddress = AdminAddress;

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(AdminSocket),
}

/// A Unix socket, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSocket {
    /// Its file.
    pub path: PathBuf,
    /// The file's mode. Default 0600.
    pub mode: u32,
    /// `USER`, `USER:GROUP` or `:GROUP`, names or numbers. Default: whose the process is.
    pub owner: Option<Owner>,
}

/// Whose a file is to be.
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
    /// What it is called, in the audit log and in the history.
    pub name: String,
    /// Where it was written.
    pub at: At,
    /// What it opens.
    pub role: Role,
    /// What is compared.
    pub token: TokenSecret,
}

/// What a token opens; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looking.
    Read,
    /// Changing resources, and rolling back.
    Write,
    /// What touches the gateway's machine: copies of the store.
    Admin,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// A token, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSecret {
    /// Itself.
    Plain(Secret),
    /// Its SHA-256.
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
    /// The address, where it is one.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl AdminAddress {
    /// Whether both are the same address, or the same file, whoever that belongs to.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
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

/// As [`Display`](fmt::Display) writes it. Whose the file of a socket is does not stand there.
impl FromStr for AdminAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(AdminSocket { path: PathBuf::from(path), mode: 0o600, owner: None })),
            None => text.parse().map(Self::Tcp),
        }
    }
}

/// As it is written.
impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(socket) => write!(f, "unix:{}", socket.path.display()),
        }
    }
}
