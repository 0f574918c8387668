//! Requests and responses as the harness reads them.

use std::fmt;

/// Header fields in order, with their case as received. Values are mapped byte by byte to characters
/// (ISO 8859-1), so that none is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value of a field; case does not matter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// All values of a field, in order.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// Whether the field is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The names in order, with their case.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(n, _)| n.as_str()).collect()
    }

    /// Whether a comma-separated field lists `token`.
    #[must_use]
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.all(name).iter().flat_map(|v| v.split(',')).any(|t| t.trim().eq_ignore_ascii_case(token))
    }
}

/// How a body's end is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    #[default]
    None,
    /// By `Content-Length`.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// A request as an origin got it.
#[derive(Clone, Default)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Request target, byte by byte.
    pub target: String,
    /// `HTTP/1.1`, say.
    pub version: String,
    /// Fields.
    pub headers: Headers,
    /// How the end of the body is told.
    pub framing: Framing,
    /// The body, as far as it was read.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Headers,
    /// Whether the body was read to its end.
    pub complete: bool,
    /// Which connection of the origin it came on, from 0.
    pub connection: usize,
}

/// A response as a client got it.
#[derive(Clone, Default)]
pub struct Response {
    /// `HTTP/1.1`, say.
    pub version: String,
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub phrase: String,
    /// Fields.
    pub headers: Headers,
    /// How the end of the body is told.
    pub framing: Framing,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Headers,
    /// The 1xx responses that came before it.
    pub interim: Vec<Response>,
}

impl Response {
    /// The first value of a field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The gateway's own reason, or `-` when the answer is not of its making.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.header("Tollgate-Reason").unwrap_or("-")
    }

    /// Whether the sender said that it closes the connection.
    #[must_use]
    pub fn says_close(&self) -> bool {
        self.headers.lists("Connection", "close")
    }
}

/// The head as it was sent and the first bytes of the body: what a failed assertion should show.
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
