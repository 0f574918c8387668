//! HTTP/2 over TLS: the hosts that may share a connection, and the fields for browsers.

use std::sync::Arc;

use http::Request;
use tollgate_tests::http2::Http2;
use tollgate_tests::{Authority, Gateway, Http2Origin, Origin, TlsFront, TlsPeer};

use super::{Files, gateway};

/// The size of a stream's window.
const WINDOW: u32 = 1 << 20;

/// Opens an HTTP/2 connection with `name` as its server name.
fn connect(gateway: &Gateway, authority: &Authority, name: &'static str) -> Http2 {
    let front = TlsFront::start(gateway.address(), name, || TlsPeer::trusting(authority));
    Http2::connect(front.address(), Arc::default(), WINDOW)
}

/// Returns a `GET` whose `:authority` is `host`.
fn get(host: &str, path: &str) -> Request<()> {
    Request::get(format!("https://{host}{path}")).body(()).expect("a request")
}

/// Sends a request to each host in turn on one connection. A misdirected request gets 421, and the others
/// their answers.
fn expect_statuses(client: &mut Http2, hosts: &[(&str, u16)]) {
    for (host, status) in hosts {
        let answer = client.ask(get(host, "/"));
        let reason = if *status == 421 { "misdirected_request" } else { "-" };
        assert_eq!((answer.status, answer.reason()), (*status, reason), "{host}: {answer:?}");
    }
    assert!(client.is_open(), "what is misdirected ends its stream and no more");
}

#[test]
fn an_authority_that_the_connections_certificate_is_not_for_is_misdirected() {
    let origin = Origin::ok();
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example", "b.example", "*.c.example"]));
    files.put("d", &authority.issue(&["d.example"]));
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{certificates: [{{{}}}, {{{}}}]}}}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        files.pair("a"),
        files.pair("d"),
        origin.address()
    ));
    expect_statuses(
        &mut connect(&gateway, &authority, "a.example"),
        &[
            ("a.example", 200),
            ("d.example", 421),
            ("A.example:443", 200),
            ("b.example", 200),
            ("x.c.example", 200),
            ("c.example", 421),
            ("x.y.c.example", 421),
            ("e.example", 421),
        ],
    );
    expect_statuses(
        &mut connect(&gateway, &authority, "d.example"),
        &[("a.example", 421), ("d.example", 200), ("b.example", 421)],
    );
    let hosts: Vec<_> =
        origin.requests().iter().map(|request| request.headers.all("Host").join("|")).collect();
    assert_eq!(hosts, ["a.example", "A.example:443", "b.example", "x.c.example", "d.example"]);
}

#[test]
fn without_sni_any_host_is_served() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    // An address is not a valid server name (RFC 6066, 3).
    expect_statuses(
        &mut connect(&gateway, &authority, "127.0.0.1"),
        &[("a.example", 204), ("b.example", 204), ("127.0.0.1", 204)],
    );
}

#[test]
fn every_response_has_hsts_once() {
    const TOLD: &str = "max-age=31536000; includeSubDomains";
    let http1 = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let own = if request.target == "/own" { "Strict-Transport-Security: max-age=5\r\n" } else { "" };
            conn.send(format!("HTTP/1.1 200 OK\r\n{own}Content-Length: 2\r\n\r\nok"));
        }
    });
    let http2 = Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/h2/own" => stream.head(200, &[("strict-transport-security", "max-age=6")], true),
        _ => stream.echo(),
    });
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, strict_transport_security: {{include_subdomains: on}}}}}}\nroutes:\n  \
         - {{match: \"/fixed\", respond: {{status: 200, body: x, headers: {{strict-transport-security: max-age=7}}}}}}\n  \
         - {{match: \"/short\", respond: 204}}\n  - {{match: \"/moved\", redirect: /own}}\n  \
         - {{match: \"/own\", to: [{0}]}}\n  - {{match: \"/x/*\", to: [{0}]}}\n  \
         - {{match: \"/h2/*\", to: \"h2c://{1}\"}}\n",
        http1.address(),
        http2.address()
    ));
    let mut client = connect(&gateway, &authority, "a.example");
    for (host, path, status, reported) in [
        ("a.example", "/x/1", 200, TOLD),
        ("a.example", "/h2/1", 200, TOLD),
        ("a.example", "/short", 204, TOLD),
        ("a.example", "/moved", 302, TOLD),
        ("a.example", "/nowhere", 404, TOLD),
        ("a.example", "/x/%zz", 400, TOLD),
        ("b.example", "/short", 421, TOLD),
        // A value that the endpoint or route itself sets is kept.
        ("a.example", "/own", 200, "max-age=5"),
        ("a.example", "/h2/own", 200, "max-age=6"),
        ("a.example", "/fixed", 200, "max-age=7"),
    ] {
        let answer = client.ask(get(host, path));
        assert_eq!(answer.status, status, "{host}{path}: {answer:?}");
        assert_eq!(answer.headers.all("Strict-Transport-Security"), [reported], "{host}{path}: {answer:?}");
    }
    // A request with two different hosts is invalid. Its answer has the field too.
    let mut request = get("a.example", "/short");
    request.headers_mut().insert("host", "b.example".parse().expect("a value"));
    let answer = client.ask(request);
    assert_eq!((answer.status, answer.reason()), (400, "bad_host"));
    assert_eq!(answer.headers.all("Strict-Transport-Security"), [TOLD]);
}

#[test]
fn over_tls_the_port_443_is_no_difference_between_target_and_host() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let mut http2 = connect(&gateway, &authority, "a.example");
    let peer = TlsPeer::trusting(&authority);
    let mut accepted = 0;
    for (target, host, status) in [
        ("a.example:443", "a.example", 200),
        ("a.example", "a.example:443", 200),
        ("A.example:443", "a.EXAMPLE", 200),
        ("a.example:80", "a.example", 400),
        ("a.example", "a.example:80", 400),
        ("a.example:443", "a.example:80", 400),
    ] {
        let mut request = get(target, "/");
        request.headers_mut().insert("host", host.parse().expect("a value"));
        assert_eq!(http2.ask(request).status, status, "HTTP/2 {target} {host}");
        let mut http1 = peer.connect(gateway.address(), "a.example").expect("a handshake");
        http1.send(format!("GET https://{target}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        let answer = http1.answer().expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {host}: {answer}");
        accepted += if status == 200 { 2 } else { 0 };
    }
    assert_eq!(origin.count(), accepted);
}
