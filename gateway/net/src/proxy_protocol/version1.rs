//! Parses version 1: a line of text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{ProxyHeader, ProxyHeaderError};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";
/// Longest line in bytes, including its end.
const LINE_MAX_BYTES: usize = 107;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some(end) = bytes.iter().take(LINE_MAX_BYTES).position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_MAX_BYTES { Ok(None) } else { Err(ProxyHeaderError::Malformed) };
    };
    let header = line(&bytes[..end]).ok_or(ProxyHeaderError::Malformed)?;
    Ok(Some((header, end + 1)))
}

fn line(line: &[u8]) -> Option<ProxyHeader> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("PROXY ")?.strip_suffix('\r')?;
    let (family, rest) = line.split_once(' ').unwrap_or((line, ""));
    match family {
        "TCP4" => addresses::<Ipv4Addr>(rest),
        "TCP6" => addresses::<Ipv6Addr>(rest),
        // The specification says to ignore the rest of the line.
        "UNKNOWN" => Some(ProxyHeader::Local),
        _ => None,
    }
}

fn addresses<A: FromStr + Into<IpAddr>>(text: &str) -> Option<ProxyHeader> {
    let mut parts = text.split(' ');
    let mut next = || parts.next();
    let (source, destination) = (next()?.parse::<A>().ok()?, next()?.parse::<A>().ok()?);
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    next().is_none().then(|| ProxyHeader::Proxied {
        source: SocketAddr::new(source.into(), source_port),
        destination: SocketAddr::new(destination.into(), destination_port),
    })
}

/// Parses a port: digits without a sign or leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}
