//! Reads the server name and the protocols from the first bytes of a TLS connection, without a handshake.
//!
//! A listener that passes TLS through calls [`ClientHello::read`] with everything that has arrived, until it returns a
//! result. The function is pure, allocates only if a ClientHello spans several records, and never reads past its
//! input. It follows RFC 8446 (4.1.2, 5.1), RFC 6066 (3) and RFC 7301 (3.1). Unknown extensions are skipped, so GREASE
//! (RFC 8701) and Encrypted Client Hello make no difference: with the latter, the name is the outer one.
//! rustls' `Acceptor` would do the same, but consumes the bytes, and they must reach the endpoint unchanged.

use std::borrow::Cow;

/// The most bytes that a ClientHello may take, records included. Browsers send below 2 KiB, also with post-quantum key
/// shares.
pub const CLIENT_HELLO_MAX_BYTES: usize = 16 * 1024;

const RECORD_HEADER: usize = 5;
const RECORD_MAX: usize = 16 * 1024;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_NAME: u16 = 0;
pub(crate) const ALPN: u16 = 16;

/// The parts of a ClientHello by which a connection is routed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The name in the SNI extension, in lower case; `None`: the client sent none.
    pub server_name: Option<Box<str>>,
    /// The offered protocols (ALPN), separated by commas; empty: the client offered none.
    pub alpn: Box<[u8]>,
}

/// The kind of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// The beginning of a ClientHello: more bytes are needed.
    Partial,
    /// A whole ClientHello, possibly followed by more.
    Hello(ClientHello),
    /// Not TLS: the connection speaks another protocol.
    NotTls,
    /// TLS, but an invalid or oversized ClientHello.
    Malformed,
}

impl ClientHello {
    /// Reads the first bytes of a connection.
    #[must_use]
    pub fn read(bytes: &[u8]) -> FirstBytes {
        let bytes = &bytes[..bytes.len().min(CLIENT_HELLO_MAX_BYTES)];
        match bytes {
            [] => return FirstBytes::Partial,
            [HANDSHAKE] | [HANDSHAKE, 3, ..] => {}
            _ => return FirstBytes::NotTls,
        }
        match message(bytes) {
            Message::Partial if bytes.len() >= CLIENT_HELLO_MAX_BYTES => FirstBytes::Malformed,
            Message::Partial => FirstBytes::Partial,
            Message::Malformed => FirstBytes::Malformed,
            Message::Whole(body) => parse(&body).map_or(FirstBytes::Malformed, FirstBytes::Hello),
        }
    }
}

/// Returns the body of the ClientHello with which these bytes begin; `None`: they begin with no whole one.
pub(crate) fn client_hello_body(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    match message(&bytes[..bytes.len().min(CLIENT_HELLO_MAX_BYTES)]) {
        Message::Whole(body) => Some(body),
        Message::Partial | Message::Malformed => None,
    }
}

/// The first handshake message.
enum Message<'a> {
    Partial,
    Malformed,
    /// Its body, after type and length.
    Whole(Cow<'a, [u8]>),
}

/// Collects the first handshake message, which may span several records.
fn message(bytes: &[u8]) -> Message<'_> {
    let mut collected: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut rest = bytes;
    loop {
        let [kind, major, _, high, low, ..] = *rest else { return Message::Partial };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // A record of a handshake is not empty (RFC 8446, 5.1).
        if kind != HANDSHAKE || major != 3 || length == 0 || length > RECORD_MAX {
            return Message::Malformed;
        }
        let here = (rest.len() - RECORD_HEADER).min(length);
        let (fragment, after) = rest[RECORD_HEADER..].split_at(here);
        match collected.is_empty() {
            true => collected = Cow::Borrowed(fragment),
            false => collected.to_mut().extend_from_slice(fragment),
        }
        let whole = match *collected {
            [kind, ..] if kind != CLIENT_HELLO => return Message::Malformed,
            [_, high, ..] if high != 0 => return Message::Malformed,
            [_, _, high, low, ..] => 4 + usize::from(u16::from_be_bytes([high, low])),
            _ => usize::MAX,
        };
        if whole != usize::MAX && whole > CLIENT_HELLO_MAX_BYTES {
            return Message::Malformed;
        }
        if collected.len() >= whole {
            return Message::Whole(match collected {
                Cow::Borrowed(all) => Cow::Borrowed(&all[4..whole]),
                Cow::Owned(all) => Cow::Owned(all[4..whole].to_vec()),
            });
        }
        if here < length {
            return Message::Partial;
        }
        rest = after;
    }
}

/// Parses the body of a ClientHello; `None`: it is malformed.
fn parse(body: &[u8]) -> Option<ClientHello> {
    let mut input = Input(body);
    let version = input.u16()?;
    if version >> 8 != 3 {
        return None;
    }
    let _random = input.take(32)?;
    let session = input.list8()?;
    let suites = input.list16()?;
    let compressions = input.list8()?;
    if session.len() > 32 || suites.is_empty() || !suites.len().is_multiple_of(2) || compressions.is_empty() {
        return None;
    }
    let mut hello = ClientHello::default();
    if input.0.is_empty() {
        // Extensions may be missing (RFC 5246, 7.4.1.2).
        return Some(hello);
    }
    let mut extensions = Input(input.list16()?);
    if !input.0.is_empty() {
        return None;
    }
    let (mut has_name, mut has_alpn) = (false, false);
    while !extensions.0.is_empty() {
        let (kind, data) = (extensions.u16()?, extensions.list16()?);
        match kind {
            // A second one would leave it open which of them the server takes (RFC 8446, 4.2).
            SERVER_NAME if std::mem::replace(&mut has_name, true) => return None,
            SERVER_NAME => hello.server_name = Some(server_name(data)?),
            ALPN if std::mem::replace(&mut has_alpn, true) => return None,
            ALPN => hello.alpn = alpn(data)?,
            _ => {}
        }
    }
    Some(hello)
}

/// Returns the name of the only entry of the list.
fn server_name(data: &[u8]) -> Option<Box<str>> {
    let mut input = Input(data);
    let mut list = Input(input.list16()?);
    let (kind, name) = (list.take(1)?, list.list16()?);
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let fits = (1..=255).contains(&name.len()) && name.iter().all(is_valid);
    if kind != [0] || !fits || !list.0.is_empty() || !input.0.is_empty() {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    // A client may write the root's dot, although RFC 6066 has none.
    let name = name.strip_suffix('.').map_or(name.as_str(), |name| name);
    (!name.is_empty()).then(|| name.into())
}

fn alpn(data: &[u8]) -> Option<Box<[u8]>> {
    let mut input = Input(data);
    let mut list = Input(input.list16()?);
    let mut all = Vec::with_capacity(data.len());
    while !list.0.is_empty() {
        let protocol = list.list8()?;
        if protocol.is_empty() {
            return None;
        }
        if !all.is_empty() {
            all.push(b',');
        }
        all.extend_from_slice(protocol);
    }
    (!all.is_empty() && input.0.is_empty()).then(|| all.into())
}

/// Bytes that are still to be read.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Takes bytes whose number is in the byte before them.
    pub fn list8(&mut self) -> Option<&'a [u8]> {
        let count = self.take(1)?[0];
        self.take(count.into())
    }

    /// Takes bytes whose number is in the two bytes before them.
    pub fn list16(&mut self) -> Option<&'a [u8]> {
        let count = self.u16()?;
        self.take(count.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        let entry = [&[0][..], &(name.len() as u16).to_be_bytes(), name].concat();
        extension(SERVER_NAME, &[&(entry.len() as u16).to_be_bytes()[..], &entry].concat())
    }

    fn offered(protocols: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = protocols.iter().flat_map(|it| [&[it.len() as u8][..], it].concat()).collect();
        extension(ALPN, &[&(list.len() as u16).to_be_bytes()[..], &list].concat())
    }

    /// Returns the handshake message of a ClientHello with these extensions.
    fn handshake(extensions: &[Vec<u8>]) -> Vec<u8> {
        let extensions = extensions.concat();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        [&[CLIENT_HELLO, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
    }

    /// Returns the message in records of this many bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record =
            |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn hello(name: Option<&str>, alpn: &[u8]) -> FirstBytes {
        FirstBytes::Hello(ClientHello { server_name: name.map(Into::into), alpn: alpn.into() })
    }

    #[test]
    fn names_and_protocols() {
        // GREASE before and after, and an encrypted hello.
        let (grease, ech) = (extension(0x4a4a, &[]), extension(0xfe0d, &[0; 200]));
        let all = [grease.clone(), sni(b"DB.Example.com"), ech, offered(&[b"h2", b"http/1.1"]), grease];
        let message = handshake(&all);
        for size in [1, 7, 100, 10_000] {
            let bytes = records(&message, size);
            assert_eq!(ClientHello::read(&bytes), hello(Some("db.example.com"), b"h2,http/1.1"), "{size}");
            for end in 0..bytes.len() {
                assert_eq!(ClientHello::read(&bytes[..end]), FirstBytes::Partial, "{size}, {end}");
            }
            let more = [&bytes[..], b"more"].concat();
            assert_eq!(ClientHello::read(&more), hello(Some("db.example.com"), b"h2,http/1.1"));
        }
        assert_eq!(ClientHello::read(&records(&handshake(&[]), 1000)), hello(None, b""));
        assert_eq!(ClientHello::read(&records(&handshake(&[sni(b"a.")]), 1000)), hello(Some("a"), b""));
    }

    #[test]
    fn input_that_is_no_client_hello() {
        assert_eq!(ClientHello::read(b"GET / HTTP/1.1\r\n"), FirstBytes::NotTls);
        assert_eq!(ClientHello::read(&[HANDSHAKE, 2]), FirstBytes::NotTls);
        // A ServerHello, at its first byte.
        assert_eq!(ClientHello::read(&[HANDSHAKE, 3, 1, 0, 9, 2]), FirstBytes::Malformed);
        // An alert, an empty record, and records that are too long.
        assert_eq!(ClientHello::read(&[HANDSHAKE, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2]), FirstBytes::Malformed);
        assert_eq!(ClientHello::read(&[HANDSHAKE, 3, 1, 0, 0]), FirstBytes::Malformed);
        assert_eq!(ClientHello::read(&[HANDSHAKE, 3, 1, 0xff, 0xff]), FirstBytes::Malformed);
        assert_eq!(ClientHello::read(&[HANDSHAKE, 3, 1, 0, 9, 1, 1, 0, 0]), FirstBytes::Malformed);
        for bad in [
            vec![sni(b"a"), sni(b"b")],
            vec![offered(&[b"h2"]), offered(&[b"h2"])],
            vec![sni(b"")],
            vec![sni(b"a b")],
            vec![sni(b".")],
            vec![extension(SERVER_NAME, &[0, 0])],
            vec![extension(ALPN, &[0, 1, 0])],
            vec![vec![0, 0, 0, 9]],
        ] {
            assert_eq!(ClientHello::read(&records(&handshake(&bad), 1000)), FirstBytes::Malformed, "{bad:?}");
        }
        let long = records(&[&[CLIENT_HELLO, 0, 0x3f, 0xff][..], &[0; 20_000]].concat(), 1000);
        assert_eq!(ClientHello::read(&long), FirstBytes::Malformed);
        let pieces = records(&[&[CLIENT_HELLO, 0, 0x3f, 0][..], &[0; 20_000]].concat(), 1);
        assert_eq!(ClientHello::read(&pieces[..CLIENT_HELLO_MAX_BYTES - 1]), FirstBytes::Partial);
        assert_eq!(ClientHello::read(&pieces[..CLIENT_HELLO_MAX_BYTES]), FirstBytes::Malformed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = ClientHello::read(&bytes);
            let _ = ClientHello::read(&[&[HANDSHAKE, 3, 1, 2, 0, CLIENT_HELLO, 0][..], &bytes].concat());
        }

        #[test]
        fn a_prefix_never_decides_otherwise(
            name in "[a-z]{1,20}", size in 1..80_usize, cut in 0..200_usize, flip in any::<u8>(),
        ) {
            let mut bytes = records(&handshake(&[sni(name.as_bytes())]), size);
            let at = cut % bytes.len();
            bytes[at] ^= flip;
            let whole = ClientHello::read(&bytes);
            for end in 0..bytes.len() {
                let early = ClientHello::read(&bytes[..end]);
                prop_assert!(early == FirstBytes::Partial || early == whole, "{early:?} at {end}, then {whole:?}");
            }
        }
    }
}
