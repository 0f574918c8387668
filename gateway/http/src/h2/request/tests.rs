//! Tests the conversion of HTTP/2 request heads.

use super::*;

const LIMITS: HeadLimits = HeadLimits { line: 64, head: 256, fields: 5 };

fn pseudo<'a>(method: &'a str, authority: &'a str, path: &'a str) -> Pseudo<'a> {
    let some = |text: &'a str| (!text.is_empty()).then_some(text.as_bytes());
    Pseudo {
        method: method.as_bytes(),
        authority: some(authority),
        scheme: Some(b"http"),
        path: some(path),
        protocol: None,
    }
}

fn decode(pseudo: Pseudo<'_>, fields: &[(&str, &str)], has_no_body: bool) -> Result<RequestHead, HeadError> {
    let mut request = RequestHead::default();
    let fields = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    decode_request(&mut request, pseudo, fields, has_no_body, &LIMITS).map(|()| request)
}

fn get(fields: &[(&str, &str)]) -> Result<RequestHead, HeadError> {
    decode(pseudo("GET", "a.example:80", "/p?q"), fields, true)
}

#[test]
fn heads_become_http1_lines() {
    let head = get(&[("accept", "*/*"), ("x-empty", ""), ("te", "trailers")]).expect("a head");
    assert_eq!(
        head.head.bytes().escape_ascii().to_string(),
        b"GET /p?q HTTP/1.1\r\nhost: a.example:80\r\naccept: */*\r\nx-empty: \r\nte: trailers\r\n\r\n"
            .escape_ascii()
            .to_string()
    );
    assert_eq!((head.version, head.method, head.form), (Version::Http2, Method::Get, TargetForm::Origin));
    assert_eq!((head.slice(head.path), head.slice(head.host)), (&b"/p"[..], &b"a.example"[..]));
    assert_eq!(head.query.map(|query| head.slice(query)), Some(&b"q"[..]));
    assert!(head.keep_alive && head.wants_trailers && head.length == BodyLength::None);
    // An HTTP/1 parser reads the same from these bytes.
    let mut parsed = RequestHead::default();
    let whole = crate::h1::RequestParser::default().advance(head.head.bytes(), &mut parsed, &LIMITS);
    assert_eq!(whole, Ok(crate::h1::Progress::Complete(head.head.bytes().len())));
    assert_eq!(parsed.head.fields(), head.head.fields());
    let parts = |head: &RequestHead| {
        (head.target, head.path, head.query, head.authority, head.host, head.method_text)
    };
    assert_eq!(parts(&parsed), parts(&head));
}

#[test]
fn cookies_become_one_line() {
    let head = get(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]).expect("a head");
    assert_eq!(head.head.get(Name::Cookie), Some(&b"a=1; b=2; c=3"[..]));
    assert_eq!(head.head.fields().len(), 3);
}

#[test]
fn body_lengths() {
    let length = |fields: &[(&str, &str)], has_no_body| {
        decode(pseudo("POST", "a", "/"), fields, has_no_body).map(|head| head.length)
    };
    assert_eq!(length(&[], true), Ok(BodyLength::None));
    assert_eq!(length(&[], false), Ok(BodyLength::UntilClose));
    assert_eq!(length(&[("content-length", "5")], false), Ok(BodyLength::Exactly(5)));
    assert_eq!(length(&[("content-length", "0")], true), Ok(BodyLength::Exactly(0)));
    assert_eq!(length(&[("content-length", "5")], true), Err(HeadError::Length));
    assert_eq!(length(&[("content-length", "+5")], false), Err(HeadError::Length));
    assert_eq!(length(&[("content-length", "5"), ("content-length", "5")], false), Err(HeadError::Length));
}

#[test]
fn hosts() {
    let host = |authority, fields: &[(&str, &str)]| {
        decode(pseudo("GET", authority, "/"), fields, true)
            .map(|head| String::from_utf8_lossy(head.slice(head.host)).into_owned())
    };
    assert_eq!(host("a", &[]).as_deref(), Ok("a"));
    assert_eq!(host("", &[("host", "b")]).as_deref(), Ok("b"));
    assert_eq!(host("a", &[("host", "A")]).as_deref(), Ok("a"));
    for (authority, field) in [("a:80", "a"), ("a", "a:80"), ("a:", "a"), ("a.", "a"), ("[::1]:80", "[0::1]")]
    {
        assert!(host(authority, &[("host", field)]).is_ok(), "{authority} {field}");
    }
    let secure = |authority, field: &str| {
        let pseudo = Pseudo { scheme: Some(b"https"), ..pseudo("GET", authority, "/") };
        decode(pseudo, &[("host", field)], true).map(drop)
    };
    assert_eq!(secure("a:443", "a"), Ok(()));
    assert_eq!(secure("a:80", "a"), Err(HeadError::Host));
    for (authority, fields) in [
        ("a:443", &[("host", "a")][..]),
        ("a:8080", &[("host", "a")]),
        ("", &[][..]),
        ("a", &[("host", "b")]),
        ("", &[("host", "b"), ("host", "b")]),
        ("user@a", &[]),
        ("a:b", &[]),
        ("a,b", &[]),
        ("a b", &[]),
    ] {
        assert_eq!(host(authority, fields).err(), Some(HeadError::Host), "{authority:?} {fields:?}");
    }
}

#[test]
fn heads_without_an_http1_form_are_rejected() {
    for (name, value) in [
        ("x", "a\r\nb: c"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x", "a\u{7f}"),
        ("x", " a"),
        ("x", "a\t"),
        ("X", "a"),
        ("x y", "a"),
        ("x:", "a"),
        (":path", "/"),
        ("x\r\ny", "a"),
        ("", "a"),
        ("connection", "close"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("cookie", "a\r\nb"),
    ] {
        assert_eq!(get(&[(name, value)]).err(), Some(HeadError::Field), "{name:?}: {value:?}");
        if !matches!(
            name,
            "connection"
                | "keep-alive"
                | "proxy-connection"
                | "transfer-encoding"
                | "upgrade"
                | "te"
                | "cookie"
        ) || value.contains('\r')
        {
            let trailers = decode_trailers([(name.as_bytes(), value.as_bytes())].into_iter(), &LIMITS);
            assert_eq!(trailers, Err(HeadError::Field), "{name:?}: {value:?}");
        }
    }
    assert_eq!(get(&[("expect", "200-ok")]).err(), Some(HeadError::Expect));
}

#[test]
fn targets() {
    let form = |method, path| decode(pseudo(method, "a:1", path), &[], true).map(|head| head.form);
    assert_eq!(form("OPTIONS", "*"), Ok(TargetForm::Asterisk));
    assert_eq!(form("CONNECT", ""), Ok(TargetForm::Authority));
    for (method, path) in [
        ("GET", ""),
        ("GET", "*"),
        ("GET", "a"),
        ("GET", "http://a:1/"),
        ("GET", "/ HTTP/1.1\r\nx: y\r\n\r\n"),
        ("GET", "/a b"),
        ("GET", "/a#b"),
        ("GET", "/\u{e9}"),
        ("GET /", "/"),
        ("", "/"),
    ] {
        assert_eq!(form(method, path), Err(HeadError::StartLine), "{method:?} {path:?}");
    }
}

#[test]
fn schemes() {
    let scheme =
        |scheme| decode(Pseudo { scheme, ..pseudo("GET", "a", "/") }, &[], true).map(|head| head.form);
    for good in [None, Some(&b"http"[..]), Some(b"https"), Some(b"HTTP")] {
        assert_eq!(scheme(good), Ok(TargetForm::Origin));
    }
    for bad in [&b""[..], b"ftp", b"http\r\n"] {
        assert_eq!(scheme(Some(bad)), Err(HeadError::StartLine));
    }
}

#[test]
fn limits() {
    let line = |length: usize| {
        let path = format!("/{}", "p".repeat(length - "GET / HTTP/1.1".len()));
        decode(pseudo("GET", "a", &path), &[], true).map(|head| head.target.end)
    };
    assert_eq!(line(64), Ok(64 - 9));
    assert_eq!(line(65), Err(HeadError::LineTooLong));
    // `GET / HTTP/1.1`, `host: a`, `x: ...` and the empty line.
    let head = |length: usize| {
        let value = "v".repeat(length - 16 - 9 - 5 - 2);
        decode(pseudo("GET", "a", "/"), &[("x", &value)], true).map(|head| head.head.bytes().len())
    };
    assert_eq!(head(256), Ok(256));
    assert_eq!(head(257), Err(HeadError::TooLarge));
    assert!(get(&[("x", "y"); 4]).is_ok());
    assert_eq!(get(&[("x", "y"); 5]).err(), Some(HeadError::TooMany));
    let trailers = |length: usize, fields: usize| {
        let long = "v".repeat(length - 5 - 5 * (fields - 1));
        let short = std::iter::repeat_n((&b"x"[..], &b""[..]), fields - 1);
        decode_trailers(short.chain([(&b"x"[..], long.as_bytes())]), &LIMITS).map(|lines| lines.len())
    };
    assert_eq!(trailers(256, 1), Ok(256));
    assert_eq!(trailers(257, 1), Err(HeadError::TooLarge));
    assert!(trailers(100, LIMITS.fields).is_ok());
    assert_eq!(trailers(100, LIMITS.fields + 1), Err(HeadError::TooLarge));
}

#[test]
fn trailers_that_go_on() {
    let fields = [("x-sum", "1"), ("host", "a"), ("content-length", "5"), ("x_real_ip", "1"), ("y", "")];
    let given = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let lines = decode_trailers(given, &LIMITS);
    assert_eq!(lines.as_deref(), Ok(&b"x-sum: 1\r\ny: \r\n"[..]));
}

#[test]
fn extended_connect_becomes_an_upgrade() {
    let asks = |pseudo: Pseudo<'static>, name: &'static str, fields: &[(&str, &str)]| {
        let protocol = Some(UpgradeProtocol { name: name.as_bytes(), key: b"a2V5" });
        decode(Pseudo { protocol, ..pseudo }, fields, false)
    };
    let connect = pseudo("CONNECT", "a.example", "/chat?x");
    let fields = [("sec-websocket-version", "13"), ("sec-websocket-key", "own"), ("origin", "http://a")];
    let head = asks(connect, "websocket", &fields).expect("a head");
    assert_eq!(
        head.head.bytes().escape_ascii().to_string(),
        b"GET /chat?x HTTP/1.1\r\nhost: a.example\r\nsec-websocket-version: 13\r\norigin: http://a\r\n\
          sec-websocket-key: a2V5\r\nupgrade: websocket\r\n\r\n"
            .escape_ascii()
            .to_string()
    );
    assert!(head.extended && head.length == BodyLength::None && head.method == Method::Get);
    assert_eq!(head.upgrade.map(|upgrade| head.slice(upgrade)), Some(&b"websocket"[..]));
    assert!(
        asks(connect, "other", &[]).is_ok_and(|head| !head.head.bytes().windows(3).any(|it| it == b"key"))
    );
    let refused = |pseudo, name, fields| asks(pseudo, name, fields).map(drop);
    assert_eq!(refused(pseudo("GET", "a", "/"), "websocket", &[]), Err(HeadError::StartLine));
    assert_eq!(refused(pseudo("CONNECT", "a", ""), "websocket", &[]), Err(HeadError::StartLine));
    assert_eq!(refused(pseudo("CONNECT", "", "/"), "websocket", &[]), Err(HeadError::StartLine));
    assert_eq!(refused(connect, "web socket", &[]), Err(HeadError::Field));
    assert_eq!(refused(connect, "", &[]), Err(HeadError::Field));
    assert_eq!(refused(connect, "websocket", &[("content-length", "0")]), Err(HeadError::Length));
}
