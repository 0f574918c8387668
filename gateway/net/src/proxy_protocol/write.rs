//! Writes a PROXY header, for a connection to an endpoint. The upstream crate sends it before everything
//! else, TLS included.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{ProxyHeader, version2};

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl ProxyHeader {
    /// Returns the header's bytes. A header has one family, so a mixed pair is written as IPv6, with the IPv4
    /// address mapped.
    #[must_use]
    pub fn to_bytes(&self, version: ProxyVersion) -> Vec<u8> {
        let addresses = match *self {
            Self::Local => None,
            Self::Proxied { source, destination } => Some((source, destination)),
        };
        match version {
            ProxyVersion::V1 => line(addresses).into_bytes(),
            ProxyVersion::V2 => binary(addresses),
        }
    }
}

fn line(addresses: Option<(SocketAddr, SocketAddr)>) -> String {
    let Some((source, destination)) = addresses else { return "PROXY UNKNOWN\r\n".to_owned() };
    let ports = (source.port(), destination.port());
    let (family, source, destination) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ("TCP4", source.to_string(), destination.to_string())
        }
        (source, destination) => ("TCP6", wide(source).to_string(), wide(destination).to_string()),
    };
    format!("PROXY {family} {source} {destination} {} {}\r\n", ports.0, ports.1)
}

fn binary(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut header = version2::SIGNATURE.to_vec();
    let Some((source, destination)) = addresses else {
        header.extend_from_slice(&[version2::LOCAL, version2::UNSPECIFIED, 0, 0]);
        return header;
    };
    header.push(version2::PROXY);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.extend_from_slice(&[version2::TCP4, 0, 12]);
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
        }
        (source, destination) => {
            header.extend_from_slice(&[version2::TCP6, 0, 36]);
            header.extend_from_slice(&wide(source).octets());
            header.extend_from_slice(&wide(destination).octets());
        }
    }
    header.extend_from_slice(&source.port().to_be_bytes());
    header.extend_from_slice(&destination.port().to_be_bytes());
    header
}

fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse_proxy_header;
    use super::*;

    fn proxied(source: &str, destination: &str) -> ProxyHeader {
        let address = |text: &str| text.parse().expect("an address");
        ProxyHeader::Proxied { source: address(source), destination: address(destination) }
    }

    #[test]
    fn lines() {
        let line = |header: ProxyHeader| String::from_utf8(header.to_bytes(ProxyVersion::V1)).expect("text");
        assert_eq!(line(ProxyHeader::Local), "PROXY UNKNOWN\r\n");
        assert_eq!(
            line(proxied("192.0.2.7:56324", "10.0.0.1:443")),
            "PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n"
        );
        assert_eq!(
            line(proxied("[2001:db8::7%3]:1", "[::1]:65535")),
            "PROXY TCP6 2001:db8::7 ::1 1 65535\r\n"
        );
        assert_eq!(
            line(proxied("192.0.2.7:1", "[2001:db8::1]:2")),
            "PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 1 2\r\n"
        );
    }

    #[test]
    fn bytes() {
        let bytes = |header: ProxyHeader| header.to_bytes(ProxyVersion::V2)[12..].to_vec();
        assert_eq!(bytes(ProxyHeader::Local), [0x20, 0, 0, 0]);
        assert_eq!(
            bytes(proxied("192.0.2.7:258", "10.0.0.1:443")),
            [0x21, 0x11, 0, 12, 192, 0, 2, 7, 10, 0, 0, 1, 1, 2, 1, 187]
        );
    }

    proptest! {
        #[test]
        fn written_headers_are_parsed(source: SocketAddr, destination: SocketAddr) {
            // A header has neither a flow label nor a scope.
            let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
            let (source, destination) = (plain(source), plain(destination));
            let header = ProxyHeader::Proxied { source, destination };
            for version in [ProxyVersion::V1, ProxyVersion::V2] {
                let bytes = header.to_bytes(version);
                let (read, length) = parse_proxy_header(&bytes).expect("a header").expect("a whole one");
                prop_assert_eq!(length, bytes.len());
                let expected = match source.is_ipv4() == destination.is_ipv4() {
                    true => header,
                    false => {
                        let wide = |of: SocketAddr| SocketAddr::new(wide(of.ip()).into(), of.port());
                        ProxyHeader::Proxied { source: wide(source), destination: wide(destination) }
                    }
                };
                prop_assert_eq!(read, expected);
            }
        }
    }
}
