//! What a load tool is asked to send.

use std::time::Duration;
use tollgate_lab_record::LoadModel;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// After so many requests over all connections.
    Count(u64),
}

/// The protocol version of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0, as ab speaks it.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2: by ALPN over TLS, by prior knowledge in plain text.
    Http2,
}

/// A header line of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// A name and its value; each tool gets it in the form that it understands.
    Field {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// Handed to the tool exactly as it stands, right or wrong. The ingress study was published with
    /// `Connection:Close`, which wrk takes without a word and does not send.
    Verbatim(String),
}

impl Header {
    /// A name and its value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Field { name: name.into(), value: value.into() }
    }

    /// As a command line says it: `Name: value`, with the space that wrk needs.
    pub fn line(&self) -> String {
        match self {
            Self::Field { name, value } => format!("{name}: {value}"),
            Self::Verbatim(text) => text.clone(),
        }
    }

    /// The value, when this is the named field.
    pub fn value_of(&self, wanted: &str) -> Option<&str> {
        match self {
            Self::Field { name, value } if name.eq_ignore_ascii_case(wanted) => Some(value),
            _ => None,
        }
    }
}

/// A load, for any tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Where to; tools that take several send them in turn.
    pub urls: Vec<String>,
    /// Connections at once.
    pub connections: u32,
    /// Threads of the tool. Tools whose threads cannot be set refuse other numbers than they have.
    pub threads: u32,
    /// When to end.
    pub length: Length,
    /// Requests at once on each connection; more than one over HTTP/2 alone.
    pub streams: u32,
    /// Load before the time that counts, by tools that tell when that begins ([`crate::Tool::phases`]).
    pub warm_up: Duration,
    /// How requests are offered.
    pub model: LoadModel,
    /// Whether connections are kept between requests.
    pub keep_alive: bool,
    /// HTTP version; ab speaks only 1.0, h2load 1.1 and 2, all others only 1.1.
    pub version: HttpVersion,
    /// The method.
    pub method: String,
    /// Header lines beside those that the tool sends by itself.
    pub headers: Vec<Header>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// How long to wait for a response.
    pub timeout: Duration,
    /// The status that is right; `None` for every 2xx. Tools that tell only "an error status" can take any other
    /// error status for the expected one: their result then says `Presence`.
    pub status: Option<u16>,
}

impl Request {
    /// A closed loop of GET requests over kept connections, with a limit of 10 s a response.
    pub fn new(url: impl Into<String>, connections: u32, length: Length) -> Self {
        Self {
            urls: vec![url.into()],
            connections,
            threads: 1,
            length,
            streams: 1,
            warm_up: Duration::ZERO,
            model: LoadModel::Closed,
            keep_alive: true,
            version: HttpVersion::Http11,
            method: "GET".into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(10),
            status: None,
        }
    }

    /// The header lines, with `Connection: close` when connections are not to be kept and no header says so.
    pub(crate) fn lines_with_close(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.headers.iter().map(Header::line).collect();
        if !self.keep_alive && !self.headers.iter().any(|header| header.value_of("connection").is_some()) {
            lines.push("Connection: close".into());
        }
        lines
    }

    /// Whether a response with this status is the expected one.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.status.map_or((200..300).contains(&status), |expected| expected == status)
    }
}
