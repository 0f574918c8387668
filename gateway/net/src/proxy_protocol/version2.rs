//! Parses version 2: a binary header.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{PROXY_HEADER_MAX_BYTES, ProxyHeader, ProxyHeaderError};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of the fixed part: the signature, version and command, family and protocol, and the length of the
/// remainder.
const FIXED_BYTES: usize = 16;
/// Version 2, with the command: LOCAL for a connection of the proxy's own, PROXY for a client's.
pub(super) const LOCAL: u8 = 0x20;
pub(super) const PROXY: u8 = 0x21;
/// Address families and protocols.
pub(super) const UNSPECIFIED: u8 = 0x00;
pub(super) const TCP4: u8 = 0x11;
pub(super) const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else { return Ok(None) };
    let whole = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if whole > PROXY_HEADER_MAX_BYTES {
        return Err(ProxyHeaderError::Malformed);
    }
    let local = match fixed[12] {
        LOCAL => true,
        PROXY => false,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    // The addresses of a family must fit, even if they are not used (UNIX). Datagrams cannot arrive over a
    // connection.
    let addresses = match fixed[13] {
        UNSPECIFIED => 0,
        TCP4 => 12,
        TCP6 => 36,
        UNIX => 216,
        _ if local => 0,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    if whole - FIXED_BYTES < addresses && !local {
        return Err(ProxyHeaderError::Malformed);
    }
    let Some(rest) = rest.get(..whole - FIXED_BYTES) else { return Ok(None) };
    // The TLVs after the addresses hold nothing that is needed here.
    let header = match fixed[13] {
        _ if local => ProxyHeader::Local,
        TCP4 => proxied::<4>(rest).ok_or(ProxyHeaderError::Malformed)?,
        TCP6 => proxied::<16>(rest).ok_or(ProxyHeaderError::Malformed)?,
        _ => ProxyHeader::Local,
    };
    Ok(Some((header, whole)))
}

/// Reads two addresses, then two ports.
fn proxied<const N: usize>(bytes: &[u8]) -> Option<ProxyHeader>
where
    Octets<N>: Into<std::net::IpAddr>,
{
    let (source, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    Some(ProxyHeader::Proxied {
        source: SocketAddr::new(Octets(*source).into(), u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(Octets(*destination).into(), u16::from_be_bytes(*destination_port)),
    })
}

struct Octets<const N: usize>([u8; N]);

impl From<Octets<4>> for std::net::IpAddr {
    fn from(octets: Octets<4>) -> Self {
        Ipv4Addr::from(octets.0).into()
    }
}

impl From<Octets<16>> for std::net::IpAddr {
    fn from(octets: Octets<16>) -> Self {
        Ipv6Addr::from(octets.0).into()
    }
}
