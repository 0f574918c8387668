//! Requests for tests of policies, of this crate and of plugins.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tollgate_http::h1::{Progress, RequestParser};
use tollgate_http::{HeadLimits, RequestHead};

use tollgate_route::PathRules;

use crate::{Compilation, Consumers, Context, Origin, Planned, Request, built_in, register};

/// A parsed request.
#[derive(Debug)]
pub struct Sent {
    /// The head of the request.
    pub head: RequestHead,
    /// The origin: client 192.0.2.1, route `r`.
    pub origin: Origin<'static>,
}

impl Sent {
    /// Parses a GET with these fields, each with its CRLF.
    ///
    /// # Panics
    /// When the text is not a valid request.
    #[must_use]
    pub fn new(fields: &str) -> Self {
        Self::with("GET /a?b=c HTTP/1.1", fields)
    }

    /// Parses a request with this request line.
    ///
    /// # Panics
    /// When the text is not a valid request.
    #[must_use]
    pub fn with(line: &str, fields: &str) -> Self {
        Self::at("a.example", line, fields)
    }

    /// Parses a request for this host.
    ///
    /// # Panics
    /// When the text is not a valid request.
    #[must_use]
    pub fn at(host: &str, line: &str, fields: &str) -> Self {
        let bytes = format!("{line}\r\nHost: {host}\r\n{fields}\r\n");
        let mut head = RequestHead::default();
        let limits = HeadLimits { line: 8192, head: 65_536, fields: 100 };
        match RequestParser::default().advance(bytes.as_bytes(), &mut head, &limits) {
            Ok(Progress::Complete { .. }) => Self { head, origin: origin() },
            other => panic!("{bytes}: {other:?}"),
        }
    }

    /// Returns the request as policies see it.
    pub fn request<'a>(&'a mut self, context: &'a mut Context) -> Request<'a> {
        self.origin.now = Instant::now();
        Request::new(&mut self.head, &[], &self.origin, context, b"")
    }
}

/// Returns the fields of a response head after the registered actions. The body is absent or fixed.
#[cfg(test)]
pub(crate) fn fields_without_body(mut context: Context, line: &str, status: u16, fields: &str) -> String {
    let begin = format!("HTTP/1.1 {status} X\r\n");
    let mut head = format!("{begin}{fields}\r\n").into_bytes();
    let is_absent = status == 304 || line.starts_with("HEAD");
    let body = if is_absent { crate::BodyKind::Absent } else { crate::BodyKind::Fixed };
    assert!(context.respond(&mut head, body, false).is_none());
    let head = String::from_utf8(head).expect("text");
    let fields = head.strip_prefix(&begin).and_then(|rest| rest.strip_suffix("\r\n"));
    fields.expect("a head as before").to_owned()
}

fn origin() -> Origin<'static> {
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    Origin {
        peer: SocketAddr::new(client, 4711),
        client,
        client_port: Some(4711),
        secure: false,
        certificate: None,
        route: "r",
        worker: 0,
        now: Instant::now(),
        forwarding: &(),
    }
}

/// Returns the policy that a file would have: `planned("ip: {deny: 10.0.0.0/8}", ..)`.
///
/// # Panics
/// If the settings are not valid.
#[must_use]
pub fn planned(written: &str, consumers: &Arc<Consumers>) -> Arc<dyn Planned> {
    register();
    let text = format!("listen: 127.0.0.1:0\nroutes: []\npolicies: {{{written}}}\n");
    let loaded = tollgate_config::from_text("policy.yaml", &text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    let [attached] = config.policies.list.as_slice() else { panic!("{written} is not one policy") };
    let (paths, mut problems) = (PathRules::default(), Vec::new());
    let mut compilation = Compilation { consumers, paths: &paths, problems: &mut problems };
    let (kind, settings) = (built_in(attached.kind), attached.spec.as_deref());
    let policy = kind.zip(settings).map(|(kind, settings)| kind.compile(settings, &mut compilation));
    assert!(problems.is_empty(), "{problems:?}");
    policy.expect("a built-in policy that is on")
}
