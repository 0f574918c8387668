//! Parses the head of a request: its line and its fields (RFC 9112, sections 3 and 5). Requests that could be
//! framed in two ways are refused, as the standard demands. [`Heads`] recognizes a head that repeats the
//! previous one byte for byte.

use memchr::{memchr, memmem};
use tollgate_lab_load::token::{self, is_token};

/// Longest accepted head in bytes; no common server accepts a longer one.
pub(crate) const HEAD_MAX_BYTES: usize = 64 * 1024;

/// The field by which a client asks for a response: its status and the length of its body, `X-Lab-Answer: 404 512`. A
/// recording is repeated with it.
pub const ANSWER: &str = "X-Lab-Answer";

/// Longest body in bytes that a client may ask for.
pub const LONGEST_ANSWER: u32 = 64 << 20;

/// The response for which a client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) status: u16,
    /// The length of the body.
    pub(crate) bytes: u32,
}

impl Wanted {
    fn parse(value: &[u8]) -> Result<Self, Refusal> {
        let (status, bytes) = value.split_at(memchr(b' ', value).ok_or(Malformed)?);
        let status = u16::try_from(decimal(status)?).map_err(|_| Malformed)?;
        let bytes = u32::try_from(decimal(&bytes[1..])?).map_err(|_| Malformed)?;
        let fits = (200..=599).contains(&status) && bytes <= LONGEST_ANSWER;
        fits.then_some(Self { status, bytes }).ok_or(Malformed)
    }
}

/// The parts of a head on which the response depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Whether the method is `HEAD`.
    pub(crate) to_head: bool,
    /// Whether it is a `GET` of the ready path.
    pub(crate) to_ready: bool,
    /// Whether the version is HTTP/1.0.
    pub(crate) http10: bool,
    /// Whether the connection stays open.
    pub(crate) keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) waits: bool,
    /// How the body ends.
    pub(crate) body: Body,
    /// The response for which the client asked.
    pub(crate) wanted: Option<Wanted>,
}

/// How the end of a request's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// After this number of bytes; 0 if there is no body.
    Length(u64),
    /// By the chunked transfer coding.
    Chunked,
}

/// Why bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// They are not a request of HTTP/1.
    Malformed,
    /// The head is longer than [`HEAD_MAX_BYTES`].
    HeadTooLong,
}

use Refusal::Malformed;

/// The parts of a request line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) http10: bool,
}

/// Returns the end of the head at the start of `bytes`, blank line included. The first `known` bytes were
/// searched before.
pub(crate) fn end(bytes: &[u8], known: usize) -> Option<usize> {
    let from = known.saturating_sub(3);
    memmem::find(&bytes[from..], b"\r\n\r\n").map(|at| from + at + 4)
}

/// Splits a complete head into the request line and the bytes of the fields.
pub(crate) fn split(head: &[u8]) -> Result<(Line<'_>, Fields<'_>), Refusal> {
    let mut fields = Fields { rest: head };
    let line = fields.line()?;
    let (method, rest) = line.split_at(memchr(b' ', line).ok_or(Malformed)?);
    let (target, version) = rest[1..].split_at(memchr(b' ', &rest[1..]).ok_or(Malformed)?);
    let http10 = match version {
        b" HTTP/1.1" => false,
        b" HTTP/1.0" => true,
        _ => return Err(Malformed),
    };
    // Bytes above ASCII are not allowed in a URI, but some clients send them and every common server accepts
    // them.
    let printable = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    if !is_token(method) || target.is_empty() || !target.iter().all(printable) {
        return Err(Malformed);
    }
    Ok((Line { method, target, http10 }, fields))
}

/// A field's name and value.
pub(crate) type Field<'a> = (&'a [u8], &'a [u8]);

/// Iterates over the fields of a head. Values have no surrounding white space.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn line(&mut self) -> Result<&'a [u8], Refusal> {
        let end = memchr(b'\n', self.rest).ok_or(Malformed)?;
        let line = self.rest[..end].strip_suffix(b"\r").ok_or(Malformed)?;
        self.rest = &self.rest[end + 1..];
        Ok(line)
    }

    /// Returns the next field; `None` at the blank line.
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, Refusal> {
        let line = self.line()?;
        if line.is_empty() {
            return if self.rest.is_empty() { Ok(None) } else { Err(Malformed) };
        }
        let (name, value) = line.split_at(memchr(b':', line).ok_or(Malformed)?);
        let control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
        if !is_token(name) || value.iter().any(control) {
            return Err(Malformed);
        }
        Ok(Some((name, value[1..].trim_ascii())))
    }
}

/// Parses a complete head, blank line included.
pub(crate) fn parse(bytes: &[u8], ready_path: &[u8]) -> Result<Head, Refusal> {
    let (Line { method, target, http10 }, mut fields) = split(bytes)?;
    let mut keep_alive = !http10;
    let (mut hosts, mut waits, mut length, mut chunked) = (0, false, None, false);
    let mut wanted = None;
    while let Some((name, value)) = fields.next()? {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => hosts += 1,
            6 if name.eq_ignore_ascii_case(b"expect") => waits |= value.eq_ignore_ascii_case(b"100-continue"),
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        keep_alive = true;
                    }
                }
            }
            12 if name.eq_ignore_ascii_case(ANSWER.as_bytes()) => wanted = Some(Wanted::parse(value)?),
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let first = length.replace(decimal(value)?).is_none();
                first.then_some(()).ok_or(Malformed)?;
            }
            // Other codings would have to be decoded to find the end, and no client of the laboratory sends
            // them.
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let known = !chunked && value.eq_ignore_ascii_case(b"chunked");
                known.then_some(()).ok_or(Malformed)?;
                chunked = true;
            }
            _ => {}
        }
    }
    // RFC 9112, sections 3.2 and 6.1: a request with two lengths, or without a length that can be trusted, is
    // an attack.
    let one_host = hosts == 1 || (hosts == 0 && http10);
    if !one_host || (chunked && (length.is_some() || http10)) {
        return Err(Malformed);
    }
    let body = if chunked { Body::Chunked } else { Body::Length(length.unwrap_or(0)) };
    Ok(Head {
        to_head: method == b"HEAD",
        to_ready: method == b"GET" && target == ready_path,
        http10,
        keep_alive,
        waits: waits && !http10,
        body,
        wanted,
    })
}

/// Returns whether a request may begin with this byte.
pub(crate) fn may_begin(byte: u8) -> bool {
    token::may_stand(byte)
}

fn decimal(value: &[u8]) -> Result<u64, Refusal> {
    // 18 digits stay below 2^63.
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Parses heads and recognizes the previous one. Most clients send the same bytes each time, and comparing
/// them costs a tenth of parsing.
#[derive(Debug)]
pub(crate) struct Heads {
    ready_path: Vec<u8>,
    bytes: Vec<u8>,
    last: Option<Head>,
}

impl Heads {
    pub(crate) fn new(ready_path: &str) -> Self {
        Self { ready_path: ready_path.into(), bytes: Vec::new(), last: None }
    }

    /// Returns the head at the start of `input` and its length, if it equals the previous one.
    pub(crate) fn again(&self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.last?;
        input.starts_with(&self.bytes).then_some((head, self.bytes.len()))
    }

    /// Parses a complete head.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Head, Refusal> {
        let head = parse(bytes, &self.ready_path)?;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.last = Some(head);
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Head, Refusal> {
        let bytes = text.replace('\n', "\r\n");
        assert_eq!(end(bytes.as_bytes(), 0), Some(bytes.len()), "{text}");
        parse(bytes.as_bytes(), b"/ready")
    }

    #[test]
    fn versions_decide_what_becomes_of_the_connection() {
        let kept = |text| read(text).unwrap().keep_alive;
        assert!(kept("GET / HTTP/1.1\nHost: a\n\n"));
        assert!(!kept("GET / HTTP/1.1\nHost: a\nConnection: TE, close\n\n"));
        assert!(!kept("GET / HTTP/1.0\n\n"));
        assert!(kept("GET / HTTP/1.0\nconnection: Keep-Alive\n\n"));
        assert!(read("GET / HTTP/1.0\n\n").unwrap().http10);
    }

    #[test]
    fn bodies_and_waiting() {
        let got = |text| {
            let head = read(text).unwrap();
            (head.body, head.waits)
        };
        assert_eq!(got("POST / HTTP/1.1\nHost: a\n\n"), (Body::Length(0), false));
        assert_eq!(got("POST / HTTP/1.1\nHost: a\nContent-Length: 012\n\n"), (Body::Length(12), false));
        assert_eq!(
            got("PUT / HTTP/1.1\nHost: a\nTransfer-Encoding: Chunked\nExpect: 100-continue\n\n"),
            (Body::Chunked, true)
        );
    }

    #[test]
    fn a_client_may_ask_for_a_response() {
        let asked = |value: &str| read(&format!("GET / HTTP/1.1\nHost: a\nx-lab-answer: {value}\n\n"));
        assert_eq!(asked("404 512").unwrap().wanted, Some(Wanted { status: 404, bytes: 512 }));
        assert_eq!(read("GET / HTTP/1.1\nHost: a\n\n").unwrap().wanted, None);
        for wrong in ["404", "404 ", " 512", "99 0", "600 0", "200 67108865", "200 1 1", "2x0 1"] {
            assert_eq!(asked(wrong), Err(Malformed), "{wrong}");
        }
    }

    #[test]
    fn only_a_get_of_the_very_path_is_ready() {
        let ready = |text| read(text).unwrap().to_ready;
        assert!(ready("GET /ready HTTP/1.1\nHost: a\n\n"));
        assert!(!ready("HEAD /ready HTTP/1.1\nHost: a\n\n"));
        assert!(!ready("GET /ready/ HTTP/1.1\nHost: a\n\n"));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            "GET / HTTP/2.0\nHost: a\n\n",
            "GET / HTTP/1.1 \nHost: a\n\n",
            "GET  HTTP/1.1\nHost: a\n\n",
            "GET /\nHost: a\n\n",
            "G(T / HTTP/1.1\nHost: a\n\n",
            " GET / HTTP/1.1\nHost: a\n\n",
            "GET /\x7f HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\nHost: a\nHost: a\n\n",
            "GET / HTTP/1.1\nHost: a\nname\n\n",
            "GET / HTTP/1.1\nHost: a\n: value\n\n",
            "GET / HTTP/1.1\nHost: a\nname : value\n\n",
            "GET / HTTP/1.1\nHost: a\n folded: value\n\n",
            "GET / HTTP/1.1\nHost: a\nb: c\0\n\n",
            "GET / HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 1\n\n",
            "GET / HTTP/1.1\nHost: a\nContent-Length: +1\n\n",
            "GET / HTTP/1.1\nHost: a\nContent-Length: 9999999999999999999\n\n",
            "GET / HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n",
            "GET / HTTP/1.1\nHost: a\nTransfer-Encoding: gzip\n\n",
            "GET / HTTP/1.0\nTransfer-Encoding: chunked\n\n",
        ] {
            assert_eq!(read(text), Err(Malformed), "{text}");
        }
        assert!(parse(b"GET / HTTP/1.1\nHost: a\r\n\r\n", b"").is_err(), "a line that ends without CR");
    }

    #[test]
    fn a_head_is_known_again_only_whole() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut heads = Heads::new("/ready");
        assert_eq!(heads.again(bytes), None);
        let head = heads.read(bytes).unwrap();
        assert_eq!(heads.again(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET"), Some((head, bytes.len())));
        assert_eq!(heads.again(&bytes[..9]), None);
        assert_eq!(heads.again(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n"), None);
    }
}
