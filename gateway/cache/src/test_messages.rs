//! Messages for tests, parsed as the gateway parses them.

use tollgate_http::h1::{Progress, RequestParser, ResponseParser};
use tollgate_http::{HeadLimits, Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 4096, head: 65_536, fields: 100 };

/// A request for `a.example`. `fields` are lines, each with its CRLF.
pub fn request(method: &str, target: &str, fields: &str) -> RequestHead {
    let text = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let mut request = RequestHead::default();
    let parsed = RequestParser::default().advance(text.as_bytes(), &mut request, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())), "{text}");
    request
}

/// A response to a GET.
pub fn response(status: u16, fields: &str) -> ResponseHead {
    let text = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
    let mut response = ResponseHead::default();
    let parsed = ResponseParser::default().advance(text.as_bytes(), Method::Get, &mut response, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())), "{text}");
    response
}
