//! Tests the conversion of HTTP/2 response heads.

use super::*;

const LIMITS: HeadLimits = HeadLimits { line: 64, head: 256, fields: 5 };

fn decode(
    status: u16,
    fields: &[(&str, &str)],
    ended: bool,
    request_method: Method,
) -> Result<ResponseHead, HeadError> {
    let mut response = ResponseHead::default();
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    decode_response(&mut response, (status, "Fine"), fields, ended, request_method, &LIMITS)
        .map(|()| response)
}

fn got(fields: &[(&str, &str)], ended: bool) -> Result<BodyLength, HeadError> {
    decode(200, fields, ended, Method::Get).map(|response| response.length)
}

#[test]
fn heads_become_http1_lines() {
    let response =
        decode(200, &[("a", "b"), ("set-cookie", "c=1"), ("set-cookie", "d=2")], false, Method::Get);
    let response = response.expect("a head");
    assert_eq!(
        response.head.bytes().escape_ascii().to_string(),
        b"HTTP/2.0 200 Fine\r\na: b\r\nset-cookie: c=1\r\nset-cookie: d=2\r\n\r\n".escape_ascii().to_string()
    );
    assert_eq!(response.head.slice(response.status_line), b"200 Fine");
    assert_eq!((response.status, response.version), (200, Version::Http2));
    assert!(response.keep_alive && !response.nominates && !response.is_interim());
    assert_eq!(response.head.fields().len(), 3);
}

#[test]
fn body_lengths() {
    assert_eq!(got(&[], true), Ok(BodyLength::UntilClose));
    assert_eq!(got(&[], false), Ok(BodyLength::UntilClose));
    assert_eq!(got(&[("content-length", "5")], false), Ok(BodyLength::Exactly(5)));
    assert_eq!(got(&[("content-length", "0")], true), Ok(BodyLength::Exactly(0)));
    assert_eq!(got(&[("content-length", "5")], true), Err(HeadError::Length));
    for value in ["+5", "0x5", "5,5", "", "-1", "9223372036854775808", "0+5"] {
        assert_eq!(got(&[("content-length", value)], false), Err(HeadError::Length), "{value:?}");
    }
    assert_eq!(got(&[("content-length", "5"), ("content-length", "5")], false), Err(HeadError::Length));
    let padded = decode(200, &[("content-length", "0005")], false, Method::Get).expect("a head");
    assert_eq!(
        (padded.length, padded.head.get(Name::ContentLength)),
        (BodyLength::Exactly(5), Some(&b"5"[..]))
    );
}

#[test]
fn bodiless_responses_may_declare_a_length() {
    let declared_length = [("content-length", "5")];
    for (status, request_method) in
        [(200, Method::Head), (304, Method::Get), (204, Method::Get), (103, Method::Get)]
    {
        let length = decode(status, &declared_length, true, request_method).map(|response| response.length);
        assert_eq!(length, Ok(BodyLength::None), "{status}");
    }
}

#[test]
fn heads_that_http1_would_read_differently_are_rejected() {
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("Upper", "case"),
        ("", "empty"),
        ("a b", "c"),
        (":status", "200"),
        ("a", "b\r\nc: d"),
        ("a", "b\nc"),
        ("a", "b\0"),
        ("a", " b"),
        ("a", "b\t"),
    ] {
        assert_eq!(got(&[(name, value)], false), Err(HeadError::Field), "{name}: {value:?}");
    }
    for status in [0, 99, 101, 1000] {
        let result = decode(status, &[], true, Method::Get).map(drop);
        assert_eq!(result, Err(HeadError::StartLine), "{status}");
    }
}

#[test]
fn limits_hold() {
    let many = [("a", "b"); 6];
    assert_eq!(got(&many[..5], false), Ok(BodyLength::UntilClose));
    assert_eq!(got(&many, false), Err(HeadError::TooMany));
    let long = "x".repeat(250);
    assert_eq!(got(&[("a", &long)], false), Err(HeadError::TooLarge));
}
