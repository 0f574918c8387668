//! The load that a tool is asked to send.

use std::time::Duration;
use tollgate_lab_record::LoadModel;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// After this number of requests over all connections.
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
    /// A name and its value; each tool gets them in its own form.
    Field {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// Given to the tool exactly as it is, valid or not. The ingress study was published with
    /// `Connection:Close`, which wrk accepts silently and does not send.
    Verbatim(String),
}

impl Header {
    /// Creates a field of a name and its value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Field { name: name.into(), value: value.into() }
    }

    /// Returns the line for a command line: `Name: value`, with the space that wrk needs.
    pub fn line(&self) -> String {
        match self {
            Self::Field { name, value } => format!("{name}: {value}"),
            Self::Verbatim(text) => text.clone(),
        }
    }

    /// Returns the value if this is the named field.
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
    /// The URLs; tools that support several send them in turn.
    pub urls: Vec<String>,
    /// The number of connections.
    pub connections: u32,
    /// The tool's threads. Tools whose threads cannot be set refuse any other number.
    pub threads: u32,
    /// When to end.
    pub length: Length,
    /// Concurrent requests on each connection; more than one over HTTP/2 only.
    pub streams: u32,
    /// Load before the measured time, for tools that report when that begins ([`crate::Tool::phases`]).
    pub warm_up: Duration,
    /// Whether requests are sent in a closed loop or at a rate.
    pub model: LoadModel,
    /// Whether connections are reused for several requests.
    pub keep_alive: bool,
    /// The HTTP version; ab speaks only 1.0, h2load 1.1 and 2, all others only 1.1.
    pub version: HttpVersion,
    /// The method.
    pub method: String,
    /// Header lines in addition to the ones that the tool sends by default.
    pub headers: Vec<Header>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// The timeout of a response.
    pub timeout: Duration,
    /// The expected status; `None` for every 2xx. If a tool reports only "an error status", it may take any
    /// other error status for the expected one; its result then has `Presence`.
    pub status: Option<u16>,
}

impl Request {
    /// Creates a closed loop of GET requests over kept connections, with a timeout of 10 s.
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

    /// Returns the header lines, with `Connection: close` if connections are not to be reused and no header
    /// sets it.
    pub(crate) fn lines_with_close(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.headers.iter().map(Header::line).collect();
        if !self.keep_alive && !self.headers.iter().any(|header| header.value_of("connection").is_some()) {
            lines.push("Connection: close".into());
        }
        lines
    }

    /// Returns whether a response with this status is the expected one.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.status.map_or((200..300).contains(&status), |expected| expected == status)
    }
}
