//! Tests the parser of PROXY protocol headers.

use super::*;

fn proxied(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::Proxied {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    }
}

/// Parses a header, and checks that the result does not depend on how the bytes arrive: nothing before the
/// last byte of the header, everything then.
fn whole(header: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let mut more = header.to_vec();
    more.extend_from_slice(b"GET / HTTP/1.1\r\n");
    let found = match parse_proxy_header(&more) {
        Ok(found) => found.expect("it is whole"),
        Err(error) => return Err(error),
    };
    assert_eq!(found.1, header.len());
    for end in 0..header.len() {
        assert_eq!(parse_proxy_header(&header[..end]), Ok(None), "{end} bytes");
    }
    Ok(found.0)
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = version2::SIGNATURE.to_vec();
    bytes.extend_from_slice(&[command, family]);
    bytes.extend_from_slice(&u16::try_from(rest.len()).expect("short").to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

#[test]
fn lines() {
    assert_eq!(
        whole(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n"),
        Ok(proxied("192.0.2.7:56324", "10.0.0.1:443"))
    );
    assert_eq!(
        whole(b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n"),
        Ok(proxied("[2001:db8::1]:0", "[::1]:65535"))
    );
    assert_eq!(whole(b"PROXY UNKNOWN\r\n"), Ok(ProxyHeader::Local));
    assert_eq!(whole(b"PROXY UNKNOWN ffff::1 whatever\r\n"), Ok(ProxyHeader::Local));
    for bad in [
        "GET / HTTP/1.1\r\n",
        "PROXY\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 56324\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 56324 443 \r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 56324 443 5\r\n",
        "PROXY TCP4  192.0.2.7 10.0.0.1 56324 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 +56324 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 056324 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 4294967297 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 18446744073709551617 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 -1 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 00 443\r\n",
        "PROXY TCP4 192.0.2.07 10.0.0.1 56324 443\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.7 10.0.0.1 1 2\r\n",
        "PROXY TCP5 192.0.2.7 10.0.0.1 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "proxy UNKNOWN\r\n",
    ] {
        assert_eq!(parse_proxy_header(bad.as_bytes()), Err(ProxyHeaderError::Malformed), "{bad}");
    }
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91));
    assert_eq!(long.len(), 107);
    assert_eq!(whole(long.as_bytes()), Ok(ProxyHeader::Local));
    let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
    assert_eq!(parse_proxy_header(longer.as_bytes()), Err(ProxyHeaderError::Malformed));
    assert_eq!(
        parse_proxy_header(&longer.as_bytes()[..107]),
        Err(ProxyHeaderError::Malformed),
        "it never ends"
    );
}

#[test]
fn binary() {
    let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 4, 1, 0xbb];
    assert_eq!(whole(&v2(0x21, 0x11, &v4)), Ok(proxied("192.0.2.7:56324", "10.0.0.1:443")));
    let mut v6 = [0; 36];
    (v6[0], v6[15], v6[31], v6[33], v6[35]) = (0x20, 1, 2, 80, 81);
    assert_eq!(whole(&v2(0x21, 0x21, &v6)), Ok(proxied("[2000::1]:80", "[::2]:81")));
    let with_more = [&v4[..], &[0xea, 0, 2, 1, 2]].concat();
    assert_eq!(whole(&v2(0x21, 0x11, &with_more)), Ok(proxied("192.0.2.7:56324", "10.0.0.1:443")));
    assert_eq!(whole(&v2(0x20, 0x00, b"")), Ok(ProxyHeader::Local));
    assert_eq!(whole(&v2(0x20, 0x11, &v4)), Ok(ProxyHeader::Local));
    assert_eq!(whole(&v2(0x20, 0x77, b"x")), Ok(ProxyHeader::Local));
    assert_eq!(whole(&v2(0x21, 0x00, b"")), Ok(ProxyHeader::Local));
    assert_eq!(whole(&v2(0x21, 0x31, &[7; 216])), Ok(ProxyHeader::Local));
    assert_eq!(whole(&v2(0x20, 0x00, &[7; PROXY_HEADER_MAX_BYTES - 16])), Ok(ProxyHeader::Local));
    for bad in [
        v2(0x22, 0x11, &v4),
        v2(0x11, 0x11, &v4),
        v2(0x21, 0x12, &v4),
        v2(0x21, 0x41, &v4),
        v2(0x21, 0x11, &v4[..11]),
        v2(0x21, 0x21, &v6[..35]),
        v2(0x21, 0x31, &[7; 215]),
        v2(0x20, 0x00, &[7; PROXY_HEADER_MAX_BYTES - 15]),
    ] {
        assert_eq!(parse_proxy_header(&bad), Err(ProxyHeaderError::Malformed), "{bad:?}");
    }
    // The declared length counts, not the number of bytes present.
    for length in [PROXY_HEADER_MAX_BYTES - 15, 0x7fff, 0x8000, 0xffff] {
        let mut bytes = v2(0x21, 0x11, &v4);
        bytes[14..16].copy_from_slice(&u16::try_from(length).expect("16 bits").to_be_bytes());
        assert_eq!(parse_proxy_header(&bytes), Err(ProxyHeaderError::Malformed), "{length}");
    }
    assert_eq!(parse_proxy_header(b""), Ok(None));
    assert_eq!(parse_proxy_header(b"\r\n\r\n\0\r\nQUITE"), Err(ProxyHeaderError::Malformed));
}
