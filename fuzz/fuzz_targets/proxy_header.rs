//! Headers of the PROXY protocol: the parser gives no result that later bytes could change, and a re-encoded
//! header reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_net::{PROXY_HEADER_MAX_BYTES, ProxyHeader, parse_proxy_header};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse_proxy_header(bytes);
    if whole == Ok(None) {
        assert!(bytes.len() < PROXY_HEADER_MAX_BYTES);
    }
    let length = match whole {
        Ok(Some((_, length))) => length,
        _ => bytes.len(),
    };
    assert!(length <= bytes.len() && length <= PROXY_HEADER_MAX_BYTES.max(bytes.len()));
    for end in 0..length.min(PROXY_HEADER_MAX_BYTES) {
        match parse_proxy_header(&bytes[..end]) {
            Ok(None) => {}
            // An invalid prefix stays invalid with any continuation.
            Err(_) => assert!(whole.is_err(), "refused at {end}"),
            Ok(Some((_, length))) => panic!("it ends at {length} already"),
        }
    }
    if let Ok(Some((ProxyHeader::Proxied { source, destination }, _))) = whole {
        assert_eq!(source.is_ipv4(), destination.is_ipv4());
        let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
        let (from, to) = (source.ip(), destination.ip());
        let line = format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port());
        let again = parse_proxy_header(line.as_bytes());
        assert_eq!(again, Ok(Some((ProxyHeader::Proxied { source, destination }, line.len()))));
    }
});
