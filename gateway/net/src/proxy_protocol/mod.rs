//! The PROXY protocol, versions 1 and 2: what a proxy says about a connection, before all else on it.
//!
//! After <https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>, strictly: what is not exactly a header is none,
//! since whoever is believed by mistake could take any address.

mod receive;
mod version1;
mod version2;
mod write;

use std::net::SocketAddr;

pub use write::ProxyVersion;

/// Bytes of a header at most, with all that version 2 can add to the addresses. nginx reads as many.
pub const LONGEST_PROXY_HEADER: usize = 4096;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The connection is the proxy's own (a check of health), or of a kind that has no addresses: it is from whom it comes
    /// from.
    Local,
    /// It is another's.
    Proxied {
        /// Who has opened it.
        source: SocketAddr,
        /// To where.
        destination: SocketAddr,
    },
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The peer has closed the connection before the end of it.
    Closed,
    /// What has come is none.
    Malformed,
}

/// Reads a header at the beginning of some bytes; gives it with its length, or `None` where more is needed.
///
/// # Errors
/// When it can be none, whatever comes. Never past [`LONGEST_PROXY_HEADER`] bytes does it ask for more.
pub fn parse_proxy_header(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    if begins(bytes, version2::SIGNATURE) {
        version2::parse(bytes)
    } else if begins(bytes, version1::SIGNATURE) {
        version1::parse(bytes)
    } else {
        Err(ProxyHeaderError::Malformed)
    }
}

/// Whether the bytes begin so, as far as there are any.
fn begins(bytes: &[u8], signature: &[u8]) -> bool {
    let both = bytes.len().min(signature.len());
    bytes[..both] == signature[..both]
}

#[cfg(test)]
mod tests;
