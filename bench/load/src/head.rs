//! Parses the head of a response (RFC 9112, sections 2 to 6). The parser is strict, so that a gateway that
//! writes malformed heads is noticed. [`LastHead`] skips parsing if a head repeats the previous one byte for
//! byte.

use crate::token::is_token;
use memchr::{memchr, memmem};

/// Longest accepted head, in bytes; the limits of servers are 8 to 64 KiB.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    UntilClose,
}

/// The parts of a head that the generator needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// How the body ends, if there is one.
    pub(crate) framing: Framing,
    /// Whether the server keeps the connection open.
    pub(crate) keep_alive: bool,
}

/// A violation of HTTP's syntax; the text names the part that was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Returns the length of the head at the start of `bytes`, blank line included, if it is complete. The first
/// `from` bytes were searched before.
pub(crate) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(3);
    memmem::find(&bytes[from..], b"\r\n\r\n").map(|at| from + at + 4)
}

/// Returns whether the first bytes can still become a status line.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let known = b"HTTP/1.";
    let shared = known.len().min(bytes.len());
    bytes[..shared] == known[..shared]
}

/// Parses a complete head, blank line included.
pub(crate) fn parse(bytes: &[u8]) -> Result<Head, Malformed> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', a, b, c, rest @ ..] = bytes
    else {
        return Err(Malformed("no status line of HTTP/1"));
    };
    let digit =
        |byte: &u8| if byte.is_ascii_digit() { Ok(u16::from(byte - b'0')) } else { Err(Malformed("status")) };
    let status = digit(a)? * 100 + digit(b)? * 10 + digit(c)?;
    if status < 100 || !matches!(rest.first(), Some(b' ' | b'\r')) {
        return Err(Malformed("status"));
    }
    let mut keep_alive = *minor == b'1';
    let mut length = None;
    let mut chunked = false;
    let mut encoded = false;
    let (_, mut rest) = line(rest)?;
    loop {
        let (field, next) = line(rest)?;
        if field.is_empty() {
            break;
        }
        rest = next;
        let colon = memchr(b':', field).ok_or(Malformed("header line without a colon"))?;
        let (name, value) = (&field[..colon], field[colon + 1..].trim_ascii());
        if !is_token(name) {
            return Err(Malformed("header name"));
        }
        // Few fields matter here; the length of the name rules out most others.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|byte| *byte == b',') {
                    let option = option.trim_ascii();
                    if option.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        keep_alive = true;
                    }
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if length.is_some() {
                    return Err(Malformed("two Content-Length fields"));
                }
                length = Some(decimal(value)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                encoded = true;
                // Chunked must be the last coding (RFC 9112, section 6.1).
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
    }
    if encoded && length.is_some() {
        return Err(Malformed("both Transfer-Encoding and Content-Length"));
    }
    let framing = match (chunked, length) {
        (true, _) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    Ok(Head { status, framing, keep_alive })
}

/// Splits off the first line, without its CR LF.
fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let at = memchr(b'\n', bytes).ok_or(Malformed("line without an end"))?;
    let Some(line) = bytes[..at].strip_suffix(b"\r") else {
        return Err(Malformed("line that ends without CR"));
    };
    if line.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
        return Err(Malformed("control character"));
    }
    Ok((line, &bytes[at + 1..]))
}

fn decimal(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed("Content-Length"));
    }
    Ok(value.iter().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0')))
}

/// The last head that was parsed. Most servers send the same bytes until the second in `Date` changes, and
/// comparing them takes a tenth of the time of parsing.
#[derive(Debug, Default)]
pub(crate) struct LastHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl LastHead {
    /// Returns the head and its length if `input` begins with the same bytes.
    pub(crate) fn begins(&self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        input.starts_with(&self.bytes).then_some((head, self.bytes.len()))
    }

    /// Remembers a head that was parsed from these bytes.
    pub(crate) fn remember(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = Some(head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, Malformed> {
        let bytes = text.replace('\n', "\r\n");
        assert_eq!(end(bytes.as_bytes(), 0), Some(bytes.len()), "{text}");
        parse(bytes.as_bytes())
    }

    #[test]
    fn framing_and_persistence() {
        let read = |text| {
            let head = head(text).unwrap();
            (head.status, head.framing, head.keep_alive)
        };
        assert_eq!(read("HTTP/1.1 200 OK\nContent-Length: 12\n\n"), (200, Framing::Length(12), true));
        assert_eq!(read("HTTP/1.0 200 OK\ncontent-length:0\n\n"), (200, Framing::Length(0), false));
        assert_eq!(read("HTTP/1.0 404\nConnection: Keep-Alive\n\n"), (404, Framing::UntilClose, true));
        assert_eq!(
            read("HTTP/1.1 503 No\nTransfer-Encoding: gzip, chunked\nConnection: x, Close\n\n"),
            (503, Framing::Chunked, false)
        );
        assert_eq!(
            read("HTTP/1.1 200 \nTransfer-Encoding: chunked, gzip\n\n"),
            (200, Framing::UntilClose, true)
        );
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for text in [
            "HTTP/2.0 200 OK\n\n",
            "HTTP/1.2 200 OK\n\n",
            "HTTP/1.1 20 OK\n\n",
            "HTTP/1.1 2000 OK\n\n",
            "HTTP/1.1 099 OK\n\n",
            "HTTP/1.1 200 OK\nname\n\n",
            "HTTP/1.1 200 OK\n: value\n\n",
            "HTTP/1.1 200 OK\nname : value\n\n",
            "HTTP/1.1 200 OK\n folded: value\n\n",
            "HTTP/1.1 200 OK\na: b\0\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 1\n\n",
            "HTTP/1.1 200 OK\nContent-Length: -1\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
        ] {
            assert!(head(text).is_err(), "{text}");
        }
        assert!(parse(b"HTTP/1.1 200 OK\r\na: b\nc: d\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_is_known_again_only_whole() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        let mut last = LastHead::default();
        assert_eq!(last.begins(bytes), None);
        let head = parse(bytes).unwrap();
        last.remember(bytes, head);
        assert_eq!(last.begins(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), Some((head, bytes.len())));
        assert_eq!(last.begins(&bytes[..20]), None);
        assert_eq!(last.begins(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhey"), None);
    }
}
