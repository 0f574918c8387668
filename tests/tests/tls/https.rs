//! Use of `https` by clients: `Strict-Transport-Security`, and redirects from plain text.

use std::io::Write;

use tollgate_tests::frames::PREFACE;
use tollgate_tests::{Authority, Gateway, Origin, Response, Signal, TlsPeer, eventually};

use super::{Files, gateway};

const TOLD: &str = "Strict-Transport-Security: max-age=31536000; includeSubDomains\r\n";

#[test]
fn every_tls_response_has_hsts_once() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let own = if request.target == "/own" { "strict-transport-security: max-age=5\r\n" } else { "" };
            conn.send(format!("HTTP/1.1 200 OK\r\n{own}Content-Length: 2\r\n\r\nok"));
        }
    });
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, strict_transport_security: {{include_subdomains: on}}}}}}\n\
         routes:\n  - {{match: \"/fixed\", respond: {{status: 200, body: x, headers: {{strict-transport-security: max-age=6}}}}}}\n  \
         - {{match: \"/short\", respond: 204}}\n  - {{match: \"/moved\", redirect: /own}}\n  - {{match: \"/x/*\", to: [{0}]}}\n  \
         - {{match: \"/own\", to: [{0}]}}\n",
        origin.address()
    ));
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    for path in ["/x/1", "/short", "/moved", "/nowhere", "/x/%zz"] {
        let answer = client.get("a.example", path);
        assert_eq!(answer.matches("Strict-Transport-Security").count(), 1, "{path}: {answer}");
        assert!(answer.contains(TOLD), "{path}: {answer}");
    }
    for (path, own) in [("/own", "max-age=5"), ("/fixed", "max-age=6")] {
        let answer = client.get("a.example", path);
        assert_eq!(answer.to_ascii_lowercase().matches("strict-transport-security").count(), 1, "{answer}");
        assert!(answer.contains(own), "{answer}");
    }
    // The answer to an invalid request has it too.
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert!(client.answer().expect("an answer").contains(TOLD));
}

fn redirects(extra: &str) -> (Gateway, Origin) {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, redirect_to_https: {extra}}}\n\
         forwarded: {{trusted_proxies: 127.0.0.9}}\nroutes: [{{match: \"a.example/*\", to: [{}]}}]\n",
        origin.address()
    ));
    (gateway, origin)
}

fn location(answer: &Response) -> (u16, &str) {
    (answer.status, answer.headers.get("Location").unwrap_or("-"))
}

#[test]
fn plain_text_is_sent_to_https_with_host_and_path_kept() {
    let (gateway, origin) = redirects("on");
    let mut client = gateway.client();
    for (head, to) in [
        ("GET /a/./b?c=d HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", "https://a.example/a/b?c=d"),
        ("POST /a HTTP/1.1\r\nHost: other.example\r\nContent-Length: 2\r\n\r\nhi", "https://other.example/a"),
        ("GET http://b.example:81/x HTTP/1.1\r\nHost: b.example:81\r\n\r\n", "https://b.example/x"),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "https://[::1]/"),
        // Only a trusted proxy can announce that it terminates TLS.
        ("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: https\r\n\r\n", "https://a.example/"),
    ] {
        let answer = client.ask(head);
        assert_eq!(location(&answer), (308, to), "{head}");
        assert!(!answer.headers.has("Strict-Transport-Security"));
    }
    let answer = client.ask("GET /../%zz HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(answer.status, 400);
    assert_eq!(origin.count(), 0);
    let answer = gateway.client().ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(answer.status, 400, "it has no host to be sent to");
}

#[test]
fn a_reload_holds_for_connections_that_are_open() {
    let origin = Origin::ok();
    let config = |listen: &str| {
        format!(
            "workers: 1\nlisten: {{bind: $LISTEN{listen}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
            origin.address()
        )
    };
    let gateway = Gateway::start(&config(""));
    let (mut plain, mut http2) = (gateway.client(), gateway.http2());
    assert_eq!((plain.get("/").status, http2.get("/").status), (200, 200));
    let reloads = |listen: &str, status: u16| {
        gateway.write_config(&config(listen));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get("/").status == status);
    };
    reloads(", redirect_to_https: on", 308);
    assert_eq!((plain.get("/").status, http2.get("/").status), (308, 308));
    reloads("", 200);
    assert_eq!((plain.get("/").status, http2.get("/").status), (200, 200));
}

#[test]
fn hsts_changes_with_a_reload() {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("own", &authority.issue(&["a.example"]));
    let config = |more: &str| {
        format!(
            "workers: 1\nlisten: {{bind: $LISTEN, tls: {{{}{more}}}}}\nroutes: [{{match: \"/*\", respond: 204}}]\n",
            files.pair("own")
        )
    };
    let gateway = Gateway::start(&config(""));
    let open = || TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    let mut kept = open();
    assert!(!kept.get("a.example", "/").contains("Strict-Transport-Security"));
    gateway.write_config(&config(", strict_transport_security: {include_subdomains: on}"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || open().get("a.example", "/").contains(TOLD));
    assert!(kept.get("a.example", "/").contains(TOLD));
}

#[test]
fn challenges_for_certificates_are_served() {
    let (gateway, origin) = redirects("{status: 301, port: 8443}");
    let mut client = gateway.client();
    let answer = client.ask("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(location(&answer), (301, "https://a.example:8443/x"));
    let answer = client.ask("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!((answer.status, origin.count()), (200, 1));
    let answer = client.ask("GET /.well-known/acme-challenge/../x HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(location(&answer), (301, "https://a.example:8443/.well-known/x"));
}

#[test]
fn a_trusted_proxy_that_has_the_tls_is_not_sent_in_a_circle() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, redirect_to_https: on}}\nforwarded: {{trusted_proxies: 127.0.0.0/8}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n");
    assert_eq!(answer.status, 200);
    let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: http\r\n\r\n");
    assert_eq!(answer.status, 308);
}

#[test]
fn http2_responses_have_hsts() {
    let (gateway, _origin) = redirects("on");
    let answer = gateway.http2().get("/a?b");
    let (status, to) = location(&answer);
    assert_eq!(status, 308);
    assert!(to.starts_with("https://") && to.ends_with("/a?b"), "{to}");
}

#[test]
fn hosts_of_one_certificate_share_a_connection() {
    let (authority, files) = (tollgate_tests::Authority::new(), super::Files::new());
    files.put("a", &authority.issue(&["a.example", "b.example", "*.c.example"]));
    files.put("d", &authority.issue(&["d.example"]));
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{certificates: [{{{}}}, {{{}}}]}}}}\nroutes: [{{match: \"/*\", respond: 204}}]\n",
        files.pair("a"),
        files.pair("d")
    ));
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    for (host, status) in [
        ("a.example", 204),
        ("B.example:443", 204),
        ("x.c.example", 204),
        ("c.example", 421),
        ("x.y.c.example", 421),
        ("d.example", 421),
        ("e.example", 421),
        // A host with an empty label is refused, and the connection ends.
        (".c.example", 400),
    ] {
        let answer = client.get(host, "/");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
}

#[test]
fn http2_needs_alpn() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    for offered in [&["http/1.1"][..], &[]] {
        let peer = TlsPeer::trusting(&authority).offering(offered);
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        client.send(PREFACE);
        let answer = client.answer().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 505"), "{answer}");
    }
}

#[test]
fn a_request_in_half_a_record_is_served_though_a_drain_begins() {
    let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-Long: {}\r\n\r\n", "x".repeat(3000));
    // The rest must arrive within the half second that an idle connection has in a drain. A slow machine may
    // need several attempts.
    let served = (0..5).any(|_| {
        let origin = Origin::ok();
        let (gateway, authority, _files) = gateway(&format!(
            "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
            origin.address()
        ));
        let mut client =
            TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
        assert!(client.get("a.example", "/").contains("200 OK"));
        let record = client.sealed(request.as_bytes());
        let (begin, end) = record.split_at(1000);
        client.socket().write_all(begin).expect("the gateway takes it");
        gateway.signal(Signal::TERM);
        eventually("the drain to begin", || std::net::TcpStream::connect(gateway.address()).is_err());
        let sent = client.socket().write_all(end).is_ok();
        sent && client.answer().is_ok_and(|answer| answer.contains("200 OK") && answer.contains("close"))
    });
    assert!(served);
}
