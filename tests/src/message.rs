//! Requests and responses as the harness reads them.

use std::fmt;

/// Header fields in order, with their case as received. Values are mapped byte by byte to characters (ISO
/// 8859-1), so that no byte is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Returns the first value of a field. Case does not matter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns all values of a field, in order.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// Returns whether the field is present.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the names in order, with their case as received.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(n, _)| n.as_str()).collect()
    }

    /// Returns whether a comma-separated field lists `token`.
    #[must_use]
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.all(name).iter().flat_map(|v| v.split(',')).any(|t| t.trim().eq_ignore_ascii_case(token))
    }
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// By `Content-Length`.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection, or in HTTP/2 by the end of the stream.
    Close,
}

/// A request as an origin received it.
#[derive(Clone, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target, byte by byte.
    pub target: String,
    /// The version, such as `HTTP/1.1`.
    pub version: String,
    /// The header fields. In a request over HTTP/2 the pseudo-fields come first.
    pub headers: Headers,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// The part of the body that was read.
    pub body: Vec<u8>,
    /// The trailer fields.
    pub trailers: Headers,
    /// Whether the body was read to its end.
    pub complete: bool,
    /// The index of the origin's connection on which the request arrived, from 0.
    pub connection: usize,
}

/// A response as a client received it.
#[derive(Clone, Default)]
pub struct Response {
    /// The version, such as `HTTP/1.1`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// The reason phrase; empty in HTTP/2.
    pub phrase: String,
    /// The header fields.
    pub headers: Headers,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// The part of the body that was read.
    pub body: Vec<u8>,
    /// The trailer fields.
    pub trailers: Headers,
    /// The 1xx responses that preceded it.
    pub interim: Vec<Response>,
}

impl Response {
    /// Returns the first value of a field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the gateway's own reason, or `-` if the gateway did not generate the answer.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.header("Tollgate-Reason").unwrap_or("-")
    }

    /// Returns whether the sender announced that it closes the connection.
    #[must_use]
    pub fn says_close(&self) -> bool {
        self.headers.lists("Connection", "close")
    }
}

/// Writes the head as it was sent and the first bytes of the body, for the messages of failed assertions.
fn show(
    f: &mut fmt::Formatter<'_>,
    first: &str,
    headers: &Headers,
    body: &[u8],
    trailers: &Headers,
) -> fmt::Result {
    const SHOWN: usize = 300;
    writeln!(f, "{first}")?;
    for (name, value) in &headers.0 {
        writeln!(f, "    {name}: {}", value.chars().take(SHOWN).collect::<String>().escape_debug())?;
    }
    write!(f, "    [{} bytes: {}]", body.len(), body[..body.len().min(SHOWN)].escape_ascii())?;
    if trailers.0.is_empty() { Ok(()) } else { write!(f, " trailers {:?}", trailers.0) }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.complete { "complete" } else { "cut" };
        let first = format!(
            "{} {} {} (connection {}, {:?}, {whole})",
            self.method, self.target, self.version, self.connection, self.framing
        );
        show(f, &first, &self.headers, &self.body, &self.trailers)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for interim in &self.interim {
            writeln!(f, "{interim:?}")?;
        }
        let first = format!("{} {} {} ({:?})", self.version, self.status, self.phrase, self.framing);
        show(f, &first, &self.headers, &self.body, &self.trailers)
    }
}
