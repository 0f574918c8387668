//! Class 7: hosts that are missing, repeated, malformed, or that disagree with the target.

use tollgate_tests::{Gateway, Origin, http2};

use super::all_refused;

#[test]
fn none_several_or_malformed() {
    all_refused(
        &[
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: y\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a?b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a#b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:http\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a<b>\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\xe9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: admin.example..\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: .admin.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: admin..example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: admin.example..:80\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a-name-of-more-than-a-block.of-sixteen-bytes..example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: .\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: ..\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: .a\r\n\r\n",
            b"GET http://a..b/ HTTP/1.1\r\nHost: a..b\r\n\r\n",
            b"GET http://a../ HTTP/1.1\r\nHost: a..\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn valid_ones_pass() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for host in [
        "a",
        "A.Example.ORG",
        "a:80",
        "a:",
        "a_b.example",
        "127.0.0.1:8080",
        "[::1]",
        "[2001:DB8::1]:443",
        "xn--bcher-kva.example",
        "a-b.c.",
        "1",
    ] {
        let response = client.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 200, "{host}");
        let seen = origin.requests().pop().expect("a request");
        assert!(
            seen.headers.get("Host").is_some_and(|seen| seen.eq_ignore_ascii_case(host)),
            "{host}: {seen:?}"
        );
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn absolute_form_that_disagrees_or_is_malformed() {
    all_refused(
        &[
            b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a.evil/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a:81/ HTTP/1.1\r\nHost: a:82\r\n\r\n",
            b"GET http://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n",
            b"GET http://a:443/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET https://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a:80/ HTTP/1.1\r\nHost: a:81\r\n\r\n",
            b"GET http://a/ HTTP/1.1\r\n\r\n",
            b"GET http://user:pw@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http:a HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://a#b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET //a/x http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn absolute_form_that_agrees_reaches_the_origin_in_origin_form() {
    for (line, host) in [
        ("GET http://a.example:80/", "a.example"),
        ("GET http://a.example/", "a.example:80"),
        ("GET http://a.example:/", "A.Example"),
        ("GET http://a.example/", "a.example:"),
        ("GET HTTP://a.example:080/", "a.example"),
        ("GET https://a.example:443/", "a.example"),
        ("GET https://a.example/", "a.example:443"),
        ("GET http://a.example./", "a.example"),
        ("GET http://a.example:81/", "A.EXAMPLE:81"),
    ] {
        let origin = Origin::ok();
        let gateway = Gateway::start(&format!(
            "routes: [{{match: {{host: a.example, path: /*}}, to: \"{}\"}}]",
            origin.address()
        ));
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.ask(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(response.status, 200, "{line} {host}");
        }
        let target = line.split("//").nth(1).expect("a target").trim_end_matches('/');
        assert_eq!(origin.requests()[0].headers.all("Host"), [target], "the target's counts");
    }
    for (line, target) in [
        ("GET http://a.example/x?y=1", "/x?y=1"),
        ("GET HTTP://A.EXAMPLE/x", "/x"),
        ("GET http://a.example", "/"),
        ("GET http://a.example?q", "/?q"),
        ("GET http://a.example/", "/"),
        ("OPTIONS http://a.example", "*"),
    ] {
        let origin = Origin::ok();
        let gateway = Gateway::to(&origin);
        let response = gateway.client().ask(format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        assert_eq!(response.status, 200, "{line}");
        let request = origin.request();
        assert_eq!(
            (request.target.as_str(), request.headers.get("Host").map(str::to_ascii_lowercase).as_deref()),
            (target, Some("a.example")),
            "{line}"
        );
    }
}

#[test]
fn a_host_with_an_empty_label_is_none_in_http2_either() {
    let gateway = Gateway::start(
        "routes:\n  - {match: admin.example/*, respond: 403}\n  - {match: '*.example/*', respond: 401}\n  - {respond: 200}\n",
    );
    let mut client = gateway.http2();
    for (host, status) in [
        ("admin.example", 403),
        ("admin.example.", 403),
        ("x.example", 401),
        ("other", 200),
        ("admin.example..", 400),
        (".admin.example", 400),
        ("admin..example", 400),
        ("a..b", 400),
        (".", 400),
    ] {
        let mut request = http2::request("GET", "/", &[]);
        *request.uri_mut() = format!("http://{host}/").parse().expect("an URI");
        assert_eq!(client.ask(request).status, status, "{host}");
        let response = gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, status, "{host}");
    }
}

#[test]
fn in_http2_the_default_port_of_plain_text_is_no_difference() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    for (authority, host, status) in [
        ("x.example:80", "x.example", 200),
        ("x.example", "x.example:80", 200),
        ("X.example:80", "x.EXAMPLE", 200),
        ("x.example:81", "x.example:81", 200),
        ("x.example:443", "x.example", 400),
        ("x.example", "x.example:443", 400),
        ("x.example:81", "x.example", 400),
        ("x.example:80", "y.example", 400),
    ] {
        let mut request = http2::request("GET", "/", &[("host", host)]);
        *request.uri_mut() = format!("http://{authority}/").parse().expect("an URI");
        assert_eq!(client.ask(request).status, status, "{authority} {host}");
    }
    assert_eq!(origin.count(), 4);
}
