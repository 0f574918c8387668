//! The abilities of each tool, and the refusal of requests that exceed them. Some tools silently ignore what
//! they do not support, so [`Abilities::check`] refuses such a request before the tool is called. Each
//! refusal says what to ask for instead.

use crate::request::{HttpVersion, Length, Request};
use std::fmt;
use tollgate_lab_record::LoadModel;

/// How a tool supports a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateSupport {
    /// It does not.
    None,
    /// As a limit for each connection. A connection that waits for a response sends its next request later,
    /// and its times do not include that delay.
    Limit,
    /// Requests leave at their time as long as connections are free; times start when they really leave.
    Open,
    /// As `Open`, but times start when requests should have left: free of coordinated omission.
    Corrected,
}

/// How freely a number can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Any number.
    Any,
    /// Always one.
    One,
    /// Always the number of connections.
    Connections,
}

/// The abilities of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// How it supports a rate.
    pub rate: RateSupport,
    /// Whether it can run without a rate, with each connection as fast as it gets responses.
    pub closed: bool,
    /// Whether a run can end after a time.
    pub time: bool,
    /// The resolution of that time and of the timeout, in milliseconds.
    pub step_ms: u32,
    /// Whether a run can end after a number of requests.
    pub count: bool,
    /// Whether it accepts several URLs.
    pub several_urls: bool,
    /// Its HTTP version.
    pub version: HttpVersion,
    /// Whether it also speaks HTTP/2, with several concurrent requests on a connection.
    pub http2: bool,
    /// Whether the laboratory uses it over TLS: with the key exchange and the cipher of the built-in
    /// generator, and without verifying the certificate.
    pub tls: bool,
    /// How freely its threads can be chosen.
    pub threads: Choice,
    /// Whether it can send a header line verbatim.
    pub verbatim_headers: bool,
    /// The methods that it can send; empty for any.
    pub methods: &'static [&'static str],
    /// Whether it can open a connection for each request.
    pub close: bool,
    /// Whether its timeout can be set.
    pub timeout: bool,
}

/// The usual abilities, from which adapters differ.
pub(crate) const USUAL: Abilities = Abilities {
    rate: RateSupport::None,
    closed: true,
    time: true,
    step_ms: 1,
    count: true,
    several_urls: false,
    version: HttpVersion::Http11,
    http2: false,
    tls: false,
    threads: Choice::Any,
    verbatim_headers: true,
    methods: &[],
    close: true,
    timeout: true,
};

/// A request that a tool cannot carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The tool's name.
    pub tool: &'static str,
    /// Why, and what to ask for instead; for people.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool, self.reason)
    }
}

impl std::error::Error for Refused {}

impl Abilities {
    /// Returns the threads to ask for if `wanted` threads are wanted; if they cannot be chosen, the tool's
    /// own number.
    pub fn threads_for(&self, wanted: u32, connections: u32) -> u32 {
        match self.threads {
            Choice::Any => wanted.min(connections),
            Choice::One => 1,
            Choice::Connections => connections,
        }
    }

    /// Checks that the tool supports the request, and that the request is valid for any tool.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self, tool: &'static str, request: &Request) -> Result<(), Refused> {
        let reason = self.load(request).or_else(|| self.length(request)).or_else(|| self.message(request));
        reason.map_or(Ok(()), |reason| Err(Refused { tool, reason }))
    }

    fn load(&self, request: &Request) -> Option<String> {
        let Request { connections, threads, .. } = *request;
        if connections == 0 || threads == 0 {
            return Some("needs at least one connection and one thread".into());
        }
        let few = match self.threads {
            Choice::Any => threads > connections,
            Choice::One => threads != 1,
            Choice::Connections => threads != connections,
        };
        if few {
            let has = match self.threads {
                Choice::Any => "needs a connection for each thread",
                Choice::One => "has one thread",
                Choice::Connections => "has a thread for each connection",
            };
            return Some(format!("{has}: {threads} threads and {connections} connections were asked for"));
        }
        match request.model {
            LoadModel::Closed if !self.closed => {
                Some("needs a rate: it has no closed loop, so give requests a second".into())
            }
            LoadModel::Poisson { .. } => {
                Some("spaces requests evenly: only the built-in generator has Poisson arrivals".into())
            }
            LoadModel::Constant { .. } if self.rate == RateSupport::None => Some(
                "has no rate: it sends as fast as it is answered; use the built-in generator, vegeta, oha or k6"
                    .into(),
            ),
            LoadModel::Constant { rps } if !(rps.is_finite() && rps > 0.0) => {
                Some(format!("needs a rate above 0 requests a second, not {rps}"))
            }
            _ => None,
        }
    }

    fn length(&self, request: &Request) -> Option<String> {
        let step = u128::from(self.step_ms) * 1_000_000;
        let odd = |nanos: u128| nanos == 0 || !nanos.is_multiple_of(step);
        match request.length {
            Length::Count(_) if !self.count => {
                Some("ends after a time, not after a number of requests: give seconds".into())
            }
            Length::Count(0) => Some("needs at least one request".into()),
            Length::Time(_) if !self.time => {
                Some("ends after a number of requests, not after a time: give requests".into())
            }
            Length::Time(time) if odd(time.as_nanos()) => {
                Some(format!("takes times in steps of {} ms above 0, not {time:?}", self.step_ms))
            }
            _ if self.timeout && odd(request.timeout.as_nanos()) => Some(format!(
                "takes a time-out in steps of {} ms above 0, not {:?}",
                self.step_ms, request.timeout
            )),
            _ => None,
        }
    }

    fn message(&self, request: &Request) -> Option<String> {
        match &request.urls[..] {
            [] => return Some("needs a URL".into()),
            [_, _, ..] if !self.several_urls => {
                return Some(format!("takes one URL, not {}", request.urls.len()));
            }
            _ => {}
        }
        if let Some(url) = request.urls.iter().find(|url| !is_plain_url(url)) {
            return Some(format!("needs http:// or https:// and no blanks in a URL, not {url:?}"));
        }
        if !self.tls && request.urls.iter().any(|url| url.starts_with("https:")) {
            return Some("is used in plain text alone: the built-in generator and h2load speak TLS".into());
        }
        if request.version == HttpVersion::Http2 {
            if !self.http2 {
                return Some("speaks no HTTP/2 here: h2load is the tool".into());
            }
            if !request.keep_alive {
                return Some("keeps its connections over HTTP/2: it cannot open one a request".into());
            }
        } else if request.version != self.version {
            return Some(match self.version {
                HttpVersion::Http10 => "speaks only HTTP/1.0: ask for that".into(),
                _ => "speaks only HTTP/1.1: ab is the tool for HTTP/1.0".into(),
            });
        }
        if request.streams == 0 || (request.streams > 1 && request.version != HttpVersion::Http2) {
            return Some(format!(
                "sends one request at a time on a connection of HTTP/1, not {}",
                request.streams
            ));
        }
        if !request.keep_alive && !self.close {
            return Some("keeps its connections: it cannot open one a request".into());
        }
        let method = request.method.as_str();
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Some(format!("needs a method in capital letters, not {method:?}"));
        }
        if !self.methods.is_empty() && !self.methods.contains(&method) {
            return Some(format!("sends {}, not {method}", self.methods.join(", ")));
        }
        if !request.body.is_empty() && matches!(method, "GET" | "HEAD") {
            return Some(format!("sends no body with {method}: use POST or PUT"));
        }
        request.headers.iter().find_map(|header| {
            let line = header.line();
            if line.contains(['\r', '\n', '\0']) {
                return Some(format!("takes header lines without line ends, not {line:?}"));
            }
            let verbatim = matches!(header, crate::Header::Verbatim(_));
            (verbatim && !self.verbatim_headers).then(|| {
                format!("cannot hand over the header {line:?} as it stands: give a name and a value")
            })
        })
    }
}

/// Returns whether a URL is safe in command lines, in URL lists that blanks separate, and in scripts.
fn is_plain_url(url: &str) -> bool {
    (url.starts_with("http://") || url.starts_with("https://"))
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use crate::{Choice, Header, HttpVersion, Length, Request, Tool};
    use std::time::Duration;
    use tollgate_lab_record::LoadModel;

    const SECONDS: Length = Length::Time(Duration::from_secs(2));

    /// Returns a load that the tool supports.
    fn plain(tool: Tool) -> Request {
        let able = tool.abilities();
        let mut request = Request::new("http://127.0.0.1/", 4, SECONDS);
        request.threads = able.threads_for(2, 4);
        request.version = able.version;
        if !able.closed {
            request.model = LoadModel::Constant { rps: 10.0 };
        }
        request
    }

    #[track_caller]
    fn refused(tool: Tool, change: impl FnOnce(&mut Request), reason: &str) {
        let mut request = plain(tool);
        change(&mut request);
        let error = tool.command(&request).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{tool}: ")) && error.contains(reason), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_all() {
        for tool in Tool::ALL.iter().copied() {
            assert!(tool.command(&plain(tool)).is_ok(), "{tool}");
            refused(tool, |request| request.connections = 0, "at least one connection");
            refused(tool, |request| request.urls.clear(), "needs a URL");
            refused(tool, |request| request.urls = vec!["ftp://x".into()], "needs http://");
            refused(tool, |request| request.urls = vec!["http://x/a b".into()], "no blanks");
            refused(tool, |request| request.length = Length::Time(Duration::ZERO), "above 0");
            refused(
                tool,
                |request| request.model = LoadModel::Poisson { rps: 9.0 },
                "spaces requests evenly",
            );
            refused(tool, |request| request.method = "get".into(), "capital letters");
            refused(tool, |request| request.body = b"x".to_vec(), "no body with GET");
            refused(
                tool,
                |request| request.headers = vec![Header::new("A", "b\r\nC: d")],
                "without line ends",
            );
        }
    }

    #[test]
    fn what_one_cannot_do_is_refused_with_what_to_do() {
        let rate = |rps| move |request: &mut Request| request.model = LoadModel::Constant { rps };
        let odd_time = |request: &mut Request| request.length = Length::Time(Duration::from_millis(1500));
        let count = |request: &mut Request| request.length = Length::Count(10);
        let verbatim = |request: &mut Request| request.headers = vec![Header::Verbatim("A:b".into())];
        for tool in [Tool::Wrk, Tool::Ab, Tool::Siege] {
            refused(tool, rate(10.0), "has no rate");
            refused(tool, odd_time, "steps of 1000 ms");
        }
        refused(Tool::Vegeta, rate(f64::NAN), "a rate above 0");
        refused(Tool::Oha, rate(0.5), "whole number of requests a second");
        refused(Tool::Wrk2, |request| request.model = LoadModel::Closed, "needs a rate");
        refused(Tool::Wrk, count, "ends after a time");
        refused(Tool::Vegeta, count, "closed loop only after a time");
        refused(Tool::Gatling, count, "10 is no multiple of 4");
        refused(Tool::K6, verbatim, "give a name and a value");
        refused(Tool::Wrk, |request| request.version = HttpVersion::Http10, "ab is the tool");
        refused(Tool::Ab, |request| request.version = HttpVersion::Http11, "only HTTP/1.0");
        refused(Tool::Ab, |request| request.threads = 2, "has one thread");
        refused(Tool::Wrk, |request| request.threads = 5, "a connection for each thread");
        refused(Tool::Wrk, |request| request.version = HttpVersion::Http2, "h2load is the tool");
        refused(Tool::H2load, |request| request.streams = 2, "one request at a time");
        refused(Tool::Hey, |request| request.urls = vec!["https://x/".into()], "plain text alone");
        refused(Tool::Wrk, |request| request.urls.push("http://y/".into()), "takes one URL, not 2");
        refused(Tool::H2load, |request| request.method = "PUT".into(), "sends GET, POST, not PUT");
        assert_eq!(Tool::Siege.abilities().threads, Choice::Connections);
    }
}
