//! The admin listener and the rights of its clients.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{AdminAddress, At, Digest, ListenTls, Secret, Spanned};

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
