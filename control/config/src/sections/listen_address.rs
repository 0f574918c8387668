//! Addresses that listeners bind: IP addresses and Unix sockets, whose files have a mode and an owner.
//!
//! `listen` and `admin` have the same forms; they differ in the address of a port alone.

use std::fmt;
use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::scalar::address;
use crate::section::{Fields, Problem, Reader, ScalarError, Text};

pub(crate) static MODE: Text =
    Text { expected: "three octal digits such as `660`", pattern: Some("^0?[0-7]{3}$"), loose: true };
pub(crate) static OWNER: Text = Text {
    expected: "`user`, `user:group` or `:group`",
    pattern: Some(r"^[^\s:]*(:[^\s:]+)?$"),
    loose: true,
};

/// Maximum path of a socket: `sun_path` has 108 bytes, including the final NUL (unix(7)). The socket is first
/// created as `SOCKET_PATH_MAX_BYTES.new`, which takes four more.
const SOCKET_PATH_MAX_BYTES: usize = 103;

/// Address of a listener for clients. Like the admin listener's, it is an IP address or a Unix socket.
pub type ListenAddress = AdminAddress;

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// An IP address and port for datagrams. The same port of TCP is another address.
    Udp(SocketAddr),
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

impl AdminAddress {
    /// Returns the IP address and port that accept connections; `None` for others.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Udp(_) | Self::Unix(_) => None,
        }
    }

    /// Returns the IP address and port, of TCP or UDP; `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Udp(address) => Some(*address),
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
            (Self::Tcp(one), Self::Tcp(other)) | (Self::Udp(one), Self::Udp(other)) => one == other,
            (Self::Unix(one), Self::Unix(other)) => one.path == other.path,
            (Self::Tcp(_) | Self::Udp(_) | Self::Unix(_), _) => false,
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
        if let Some(address) = text.strip_prefix("udp:") {
            return address.parse().map(Self::Udp);
        }
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(AdminSocket { path: PathBuf::from(path), mode: 0o600, owner: None })),
            None => text.parse().map(Self::Tcp),
        }
    }
}

/// Writes the form used in configuration files. An address of UDP has a prefix, which a file does not have.
impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Udp(address) => write!(f, "udp:{address}"),
            Self::Unix(socket) => write!(f, "unix:{}", socket.path.display()),
        }
    }
}

/// Parses an IP address and port, or a Unix socket. `all` is the address for a port alone.
pub(crate) fn listen_address(text: &str, all: IpAddr) -> Result<AdminAddress, ScalarError> {
    let Some(path) = text.strip_prefix("unix:") else {
        return address::bind(text, all).map(AdminAddress::Tcp);
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/')
        || path.len() > SOCKET_PATH_MAX_BYTES
        || path.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Err(ScalarError::new("{} is not the path of a socket").help(
            "write `unix:` and an absolute path of at most 103 bytes: `unix:/run/tollgate/admin.sock`",
        ));
    }
    Ok(AdminAddress::Unix(AdminSocket { path: PathBuf::from(path), mode: 0o600, owner: None }))
}

pub(crate) fn mode(text: &str) -> Result<u32, ScalarError> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let fits = matches!(digits.len(), 3 | 4) && digits.bytes().all(|byte| byte.is_ascii_digit());
    match u32::from_str_radix(digits, 8) {
        Ok(mode @ 0..=0o777) if fits => Ok(mode),
        _ => Err(ScalarError::new("{} is not the mode of a file")),
    }
}

pub(crate) fn owner(text: &str) -> Result<Owner, ScalarError> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let odd = |name: &str| name.chars().any(|c| c.is_whitespace() || c.is_control() || c == ':');
    if text.is_empty() || odd(user) || group.is_some_and(|group| group.is_empty() || odd(group)) {
        return Err(ScalarError::new("{} names no owner"));
    }
    Ok(Owner {
        user: Some(user).filter(|user| !user.is_empty()).map(str::to_owned),
        group: group.map(str::to_owned),
    })
}

/// Reports settings of a socket file at a listener that has none.
pub(crate) fn report_no_socket(reader: &mut Reader, fields: &Fields<'_>) {
    for field in ["mode", "owner"].into_iter().filter_map(|name| fields.get(name)) {
        let message = format!("`{}` applies to a socket file, but `bind` is an address", field.key.name);
        let problem = Problem::error(field.at, message);
        reader.problems.push(problem.help("write `bind: unix:/run/tollgate/admin.sock`"));
    }
}
