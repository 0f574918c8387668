//! The PROXY protocol, versions 1 and 2: the header in which a proxy announces a connection's addresses,
//! before all other bytes.
//!
//! The parser follows <https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt> strictly and rejects
//! anything that is not exactly a header. A peer that is believed by mistake could claim any address.

mod receive;
mod version1;
mod version2;
mod write;

use std::net::SocketAddr;

pub use write::ProxyVersion;

/// Longest header in bytes, including everything that version 2 can add to the addresses. nginx has the same
/// limit.
pub const PROXY_HEADER_MAX_BYTES: usize = 4096;

/// The contents of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The proxy opened the connection for itself (a health check), or the client's connection is of a kind
    /// without addresses. The socket's own peer address applies.
    Local,
    /// The proxy forwards a client's connection.
    Proxied {
        /// The client's address.
        source: SocketAddr,
        /// The address to which the client connected.
        destination: SocketAddr,
    },
}

/// The reason why there is no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The peer closed the connection before the end of the header.
    Closed,
    /// The bytes are no header.
    Malformed,
}

/// Parses a header at the start of `bytes`. Returns it with its length, or `None` if more bytes are needed.
///
/// # Errors
/// If no continuation of `bytes` can be a header. It never asks for more than [`PROXY_HEADER_MAX_BYTES`]
/// bytes.
pub fn parse_proxy_header(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    if matches_signature(bytes, version2::SIGNATURE) {
        version2::parse(bytes)
    } else if matches_signature(bytes, version1::SIGNATURE) {
        version1::parse(bytes)
    } else {
        Err(ProxyHeaderError::Malformed)
    }
}

/// Whether `bytes` agrees with the signature, as far as both go.
fn matches_signature(bytes: &[u8], signature: &[u8]) -> bool {
    let both = bytes.len().min(signature.len());
    bytes[..both] == signature[..both]
}

#[cfg(test)]
mod tests;
