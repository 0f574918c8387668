//! The JA4 fingerprint of a ClientHello: which implementation of TLS a client uses, as other tools name it.
//!
//! The front of layer 4 calls [`ja4`] for connections that it passes through, if an access log takes them: two hashes of a
//! few hundred bytes each. The fingerprint leaves GREASE out and sorts what clients shuffle, so that it stays the same for
//! one implementation. It says nothing about who the client is: anyone can copy it.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use crate::client_hello::{ALPN, Input, SERVER_NAME, client_hello_body};

const SIGNATURE_ALGORITHMS: u16 = 13;
const SUPPORTED_VERSIONS: u16 = 43;
/// Counts have two digits.
const COUNT_MAX: usize = 99;

/// The parts of a ClientHello that the fingerprint consists of, without GREASE.
#[derive(Default)]
struct Parts {
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<u16>,
    signatures: Vec<u16>,
    /// The first protocol that the client offers.
    protocol: Option<Vec<u8>>,
}

/// Returns the fingerprint of the ClientHello with which these bytes begin; `None`: they begin with no valid one.
#[must_use]
pub fn ja4(bytes: &[u8]) -> Option<Box<str>> {
    let Parts { version, mut ciphers, mut extensions, signatures, protocol } =
        parts(&client_hello_body(bytes)?)?;
    let version = match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        _ => "00",
    };
    let name = if extensions.contains(&SERVER_NAME) { 'd' } else { 'i' };
    let counts = (ciphers.len().min(COUNT_MAX), extensions.len().min(COUNT_MAX));
    let mut out = format!("t{version}{name}{:02}{:02}{}", counts.0, counts.1, ends(protocol.as_deref()));
    ciphers.sort_unstable();
    extensions.retain(|kind| !matches!(*kind, SERVER_NAME | ALPN));
    extensions.sort_unstable();
    let mut listed = list(&extensions);
    if !signatures.is_empty() {
        listed.push('_');
        listed.push_str(&list(&signatures));
    }
    for text in [list(&ciphers), listed] {
        out.push('_');
        out.push_str(&hash(&text));
    }
    Some(out.into())
}

fn parts(body: &[u8]) -> Option<Parts> {
    let mut input = Input(body);
    let mut parts = Parts { version: input.u16()?, ..Parts::default() };
    let _random = input.take(32)?;
    let _session = input.list8()?;
    parts.ciphers = numbers(input.list16()?);
    let _compressions = input.list8()?;
    if input.0.is_empty() {
        return Some(parts);
    }
    let mut extensions = Input(input.list16()?);
    while !extensions.0.is_empty() {
        let (kind, data) = (extensions.u16()?, extensions.list16()?);
        if !is_grease(kind) {
            parts.extensions.push(kind);
        }
        let mut data = Input(data);
        match kind {
            SUPPORTED_VERSIONS => {
                parts.version = numbers(data.list8()?).into_iter().max().unwrap_or(parts.version);
            }
            SIGNATURE_ALGORITHMS => parts.signatures = numbers(data.list16()?),
            ALPN => parts.protocol = Input(data.list16()?).list8().map(<[u8]>::to_vec),
            _ => {}
        }
    }
    Some(parts)
}

/// Returns the numbers of two bytes each, without GREASE.
fn numbers(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    pairs.filter(|number| !is_grease(*number)).collect()
}

/// Returns whether it is one of the reserved values of RFC 8701.
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// Returns the first and the last character of a protocol, or of its hexadecimal form if these are no letters or digits.
fn ends(protocol: Option<&[u8]>) -> String {
    let Some([first, last]) = protocol.and_then(|name| Some([*name.first()?, *name.last()?])) else {
        return "00".to_owned();
    };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first, last].map(char::from).iter().collect();
    }
    format!("{:x}{:x}", first >> 4, last & 15)
}

fn list(numbers: &[u16]) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| format!("{number:04x}")).collect();
    texts.join(",")
}

/// Returns the first six bytes of the hash; zeros if there is nothing to hash.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(12);
    }
    let mut out = String::new();
    for byte in &digest(&SHA256, text.as_bytes()).as_ref()[..6] {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
    }

    fn bytes(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// Returns a ClientHello of TLS 1.2 with these cipher suites and extensions.
    fn hello(ciphers: &[u16], extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let extensions: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| [&kind.to_be_bytes()[..], &sized(data)].concat())
            .collect();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(sized(&bytes(ciphers)));
        body.extend([1, 0]);
        body.extend(sized(&extensions));
        let message = [&[1, 0][..], &sized(&body)].concat();
        [&[22, 3, 1][..], &sized(&message)].concat()
    }

    #[test]
    fn a_browser_has_its_published_fingerprint() {
        // Chrome's lists, shuffled, with GREASE: the fingerprint is the example of the method's description.
        let ciphers = [
            0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x009c, 0x009d, 0x002f, 0x0035,
        ];
        let versions = bytes(&[0x6a6a, 0x0304, 0x0303]);
        let signatures = bytes(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601]);
        let mut extensions: Vec<(u16, Vec<u8>)> = [
            0x0a0a, 0x001b, 0x0000, 0x0033, 0x4469, 0x0017, 0x002d, 0x0005, 0x0023, 0x0012, 0x000b, 0xff01,
            0x000a, 0x0015, 0x1a1a,
        ]
        .map(|kind| (kind, Vec::new()))
        .into();
        extensions.push((ALPN, sized(b"\x02h2\x08http/1.1")));
        extensions.push((SUPPORTED_VERSIONS, [&[versions.len() as u8][..], &versions].concat()));
        extensions.push((SIGNATURE_ALGORITHMS, sized(&signatures)));
        let chrome = hello(&ciphers, &extensions);
        assert_eq!(ja4(&chrome).as_deref(), Some("t13d1516h2_8daaf6152771_e5627efa2ab1"));
    }

    #[test]
    fn lists_may_be_short_and_protocols_odd() {
        let of = |extensions: &[(u16, Vec<u8>)]| ja4(&hello(&[0xc02f], extensions)).expect("a fingerprint");
        assert!(of(&[]).starts_with("t12i010000_"), "{}", of(&[]));
        assert!(of(&[]).ends_with("_000000000000"), "{}", of(&[]));
        let protocol = |name: &[u8]| {
            let entry = [&[name.len() as u8][..], name].concat();
            of(&[(ALPN, sized(&entry))])[8..10].to_owned()
        };
        assert_eq!(
            [protocol(b"h"), protocol(b"postgresql"), protocol(b"\xab\xcd"), protocol(b"")],
            ["hh", "pl", "ad", "00"]
        );
        for end in [0, 5, 9, 40] {
            assert_eq!(ja4(&hello(&[0xc02f], &[])[..end]), None, "{end}");
        }
        assert_eq!(ja4(b"GET / HTTP/1.1\r\n"), None);
    }
}
