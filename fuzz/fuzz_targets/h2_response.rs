//! Response heads of HTTP/2: the forwarded fields are the received ones, and an HTTP/1 parser reads the same
//! from them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::h1::{BodyLength, Progress, ResponseParser};
use tollgate_http::h2::{decode_response, decode_switched, decode_trailers};
use tollgate_http::{HeadLimits, Method, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 200, head: 1000, fields: 20 };

fuzz_target!(|input: &[u8]| {
    // The status; the request's method and whether the stream is at its end; then fields, each with the
    // lengths of its name and value.
    let [high, low, how, rest @ ..] = input else { return };
    let status = u16::from_be_bytes([*high, *low]) % 1100;
    let (ended, asked) = (how & 1 == 1, if how & 2 == 2 { Method::Head } else { Method::Get });
    let fields = fields(rest);
    let given = || fields.iter().copied();
    let mut response = ResponseHead::default();
    if decode_response(&mut response, (status, "Fine"), given(), ended, asked, &LIMITS).is_ok() {
        assert_eq!(response.status, status);
        same(&response, &fields);
        as_http_1(&response, asked);
    }
    if decode_switched(&mut response, given(), b"websocket", Some(b"proof"), &LIMITS).is_ok() {
        let got = |name: &[u8]| {
            response.head.fields().iter().filter(|field| response.head.slice(field.name) == name).count()
        };
        assert_eq!((response.status, got(b"upgrade"), got(b"sec-websocket-accept")), (101, 1, 1));
        assert_eq!(got(b"content-length"), 0);
    }
    if let Ok(lines) = decode_trailers(given(), &LIMITS) {
        assert_eq!(
            lines.iter().filter(|byte| **byte == b'\n').count(),
            lines.split(|byte| *byte == b'\n').count() - 1
        );
        assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        assert!(
            !lines.contains(&0) && lines.len() <= fields.iter().map(|(n, v)| n.len() + v.len() + 4).sum()
        );
        assert_eq!(
            lines.iter().filter(|byte| **byte == b'\r').count(),
            lines.iter().filter(|byte| **byte == b'\n').count()
        );
    }
});

fn fields(mut rest: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut fields = Vec::new();
    while let [name, value, after @ ..] = rest {
        let Some((name, after)) = after.split_at_checked(usize::from(*name)) else { break };
        let Some((value, after)) = after.split_at_checked(usize::from(*value)) else { break };
        fields.push((name, value));
        rest = after;
    }
    fields
}

fn same(response: &ResponseHead, fields: &[(&[u8], &[u8])]) {
    let head = &response.head;
    let kept: Vec<_> =
        head.fields().iter().map(|field| (head.slice(field.name), head.slice(field.value))).collect();
    let zeros = |value: &[u8]| value.iter().take_while(|byte| **byte == b'0').count();
    let received: Vec<_> = fields
        .iter()
        .map(|(name, value)| match *name {
            b"content-length" => (*name, &value[zeros(value).min(value.len().saturating_sub(1))..]),
            _ => (*name, *value),
        })
        .collect();
    assert_eq!(kept, received, "forwarded is not what was received");
}

/// Parses the head as HTTP/1, with a start line in front, and asserts that it agrees.
fn as_http_1(response: &ResponseHead, asked: Method) {
    let text = [b"HTTP/1.1", &response.head.bytes()[8..]].concat();
    let mut again = ResponseHead::default();
    match ResponseParser::default().advance(&text, asked, &mut again, &LIMITS) {
        Ok(Progress::Complete(end)) => {
            assert_eq!(end, text.len(), "it ends elsewhere");
            assert_eq!(again.head.fields().len(), response.head.fields().len());
            match (response.length, again.length) {
                (BodyLength::Exactly(one), BodyLength::Exactly(other)) => assert_eq!(one, other),
                (one, other) => assert_eq!(one, other, "another end of the body"),
            }
        }
        Ok(Progress::Partial) => panic!("HTTP/1 finds no end: {:?}", text.escape_ascii().to_string()),
        Err(error) => panic!("HTTP/1 refuses it ({error:?}): {:?}", text.escape_ascii().to_string()),
    }
}
