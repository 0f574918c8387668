//! Tests the parser of request targets and hosts.

use crate::h1::{Progress, RequestParser};
use crate::{HeadError, HeadLimits, RequestHead, TargetForm};

fn parse(text: &str) -> Result<RequestHead, HeadError> {
    let mut head = RequestHead::default();
    let limits = HeadLimits { line: 1000, head: 1000, fields: 10 };
    let progress = RequestParser::default().advance(text.as_bytes(), &mut head, &limits)?;
    assert_eq!(progress, Progress::Complete(text.len()));
    Ok(head)
}

fn with_host(host: &str) -> Result<RequestHead, HeadError> {
    parse(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

#[test]
fn forms() {
    for (line, form, path, query) in [
        ("GET / HTTP/1.1", TargetForm::Origin, "/", None),
        ("GET /a?b?c HTTP/1.1", TargetForm::Origin, "/a", Some("b?c")),
        ("GET /? HTTP/1.1", TargetForm::Origin, "/", Some("")),
        ("GET /http://b/ HTTP/1.1", TargetForm::Origin, "/http://b/", None),
        ("GET //b/c HTTP/1.1", TargetForm::Origin, "//b/c", None),
        ("GET http://a HTTP/1.1", TargetForm::Absolute, "", None),
        ("GET HTTP://A/ HTTP/1.1", TargetForm::Absolute, "/", None),
        ("GET https://a?b/c HTTP/1.1", TargetForm::Absolute, "", Some("b/c")),
        ("GET http://a/b?c HTTP/1.1", TargetForm::Absolute, "/b", Some("c")),
        ("OPTIONS http://a HTTP/1.1", TargetForm::Absolute, "", None),
        ("OPTIONS * HTTP/1.1", TargetForm::Asterisk, "*", None),
        ("OPTIONS /* HTTP/1.1", TargetForm::Origin, "/*", None),
    ] {
        let head = parse(&format!("{line}\r\nHost: a\r\n\r\n")).unwrap();
        assert_eq!((head.form, head.slice(head.path)), (form, path.as_bytes()), "{line}");
        assert_eq!(head.query.map(|query| head.slice(query)), query.map(str::as_bytes), "{line}");
        assert_eq!(head.slice(head.host).to_ascii_lowercase(), b"a", "{line}");
    }
    let head = parse("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(
        (head.form, head.slice(head.authority), head.slice(head.host)),
        (TargetForm::Authority, &b"a:443"[..], &b"a"[..])
    );
    assert!(!head.keep_alive);
}

#[test]
fn hosts() {
    for (host, name) in [
        ("a", "a"),
        ("EXAMPLE.com", "EXAMPLE.com"),
        ("a.b-c_d~e", "a.b-c_d~e"),
        ("a.", "a."),
        ("a:80", "a"),
        ("a:", "a"),
        ("a:0", "a"),
        ("a:65535", "a"),
        ("10.0.0.1:8080", "10.0.0.1"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("[2001:DB8::ffff:10.0.0.1]:", "[2001:DB8::ffff:10.0.0.1]"),
    ] {
        let head = with_host(host).unwrap();
        assert_eq!(
            (head.slice(head.authority), head.slice(head.host)),
            (host.as_bytes(), name.as_bytes()),
            "{host}"
        );
    }
    for host in [
        "",
        ":80",
        "a b",
        "a,b",
        "a, a",
        "a/b",
        "a@b",
        "u:p@a",
        "a?b",
        "a#b",
        "a%41",
        "a\\b",
        "a\tb",
        "\u{e9}",
        "a;b",
        "a'",
        "a:b",
        "a:80:80",
        "a:-1",
        "a:+1",
        "a:65536",
        "a:99999",
        "a:000080",
        "a: 80",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[a]",
        "[::g]",
        "[::1]a",
        "[::1]80",
        "[::1]]",
        "[[::1]]",
        "[v1.a]",
        "[fe80::1%25eth0]",
        "[10.0.0.1]",
        "a[",
        "a[::1]",
        "http://a",
        "*",
    ] {
        assert_eq!(with_host(host).map(|_| ()), Err(HeadError::Host), "{host:?}");
    }
}

#[test]
fn hosts_that_are_missing_repeated_or_disagree() {
    for text in [
        "GET / HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.0\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost_: a\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "GET https://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:8080/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:/ HTTP/1.1\r\nHost: a:81\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a..\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a:80:80\r\n\r\n",
        "GET http://[::1]/ HTTP/1.1\r\nHost: [::2]\r\n\r\n",
        "GET http://a/ HTTP/1.0\r\nHost: b\r\n\r\n",
        "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://?a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:/// HTTP/1.0\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nHost: a:443\r\n\r\n",
        "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a\\b/ HTTP/1.1\r\nHost: a\\b\r\n\r\n",
    ] {
        assert_eq!(parse(text).map(|_| ()), Err(HeadError::Host), "{text:?}");
    }
}

#[test]
fn hosts_agree_after_normalisation_by_the_scheme() {
    for (target, host) in [
        ("http://a:80/", "a"),
        ("http://a/", "A:80"),
        ("http://a:/", "a"),
        ("http://a/", "a:"),
        ("http://a:/", "a:80"),
        ("http://a:080/", "a"),
        ("http://a./", "a"),
        ("HTTP://A.:80/", "a"),
        ("https://a:443/", "a"),
        ("HTTPS://a/", "a:443"),
        ("http://a:8080/", "A:8080"),
        ("http://[::1]:80/", "[0:0:0:0:0:0:0:1]"),
    ] {
        let head = parse(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let head = head.unwrap_or_else(|error| panic!("{target} {host}: {error:?}"));
        assert!(
            target
                .to_ascii_lowercase()
                .contains(&*String::from_utf8_lossy(head.slice(head.authority)).to_ascii_lowercase())
        );
    }
}

#[test]
fn http_10_needs_no_host() {
    let head = parse("GET /a HTTP/1.0\r\n\r\n").unwrap();
    assert!(head.host.is_empty() && head.authority.is_empty());
    let head = parse("GET http://A:80/a HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!((head.slice(head.authority), head.slice(head.host)), (&b"A:80"[..], &b"A"[..]));
    let head = parse("GET http://A/a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!((head.slice(head.host), head.slice(head.path)), (&b"A"[..], &b"/a"[..]));
}

#[test]
fn no_port_overflows() {
    for port in ["", "0", "00080", "65535"] {
        assert!(with_host(&format!("a:{port}")).is_ok(), "{port}");
    }
    for port in ["65536", "99999", "000080", "4294967376", "18446744073709551696", "-1", "+80", "8 0"] {
        assert_eq!(with_host(&format!("a:{port}")).map(drop), Err(HeadError::Host), "{port}");
    }
}
