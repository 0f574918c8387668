//! Clients and origins of other versions of HTTP, and what is never cached.

use tollgate_tests::{Http2Origin, http2};

use super::{gateway, numbered, outcomes};

#[test]
fn clients_of_both_versions_share_what_is_stored() {
    let origin = numbered("Cache-Control: max-age=60\r\nETag: \"a\"\r\n");
    let gateway = gateway(&origin, "on");
    let mut client = gateway.http2();
    let first = client.ask(http2::request("GET", "/", &[]));
    let second = client.ask(http2::request("GET", "/", &[]));
    assert_eq!((first.text().as_str(), second.text().as_str()), ("1", "1"));
    assert!(second.header("age").is_some() && second.header("content-length") == Some("1"), "{second:?}");
    assert_eq!(client.ask(http2::request("GET", "/", &[("if-none-match", "\"a\"")])).status, 304);
    let head = client.ask(http2::request("HEAD", "/", &[]));
    assert_eq!((head.status, head.body.len()), (200, 0));
    let plain = gateway.client().ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!((plain.text().as_str(), origin.count()), ("1", 1));
    let part = client.ask(http2::request("GET", "/", &[("range", "bytes=0-0")]));
    assert_eq!((part.status, part.text().as_str()), (206, "1"));
}

#[test]
fn large_responses_respect_the_windows_of_http2() {
    let body = "0123456789abcdef".repeat(20_000);
    let origin = tollgate_tests::Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let gateway = gateway(&origin, "on");
    let mut client = gateway.http2_with(20_000);
    for _ in 0..3 {
        assert!(client.get("/").text() == body);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn responses_of_http2_endpoints_are_stored() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        stream.head(200, &[("cache-control", "max-age=60"), ("x-own", "yes")], false);
        stream.send("body", true);
    });
    let gateway = tollgate_tests::Gateway::start(&format!(
        "routes: [{{name: r, match: \"/*\", to: u, policies: {{cache: on}}}}]\n\
         upstreams: {{u: \"h2c://{}\"}}\n",
        origin.address()
    ));
    for _ in 0..2 {
        let response = super::get(&gateway, "/", "");
        assert_eq!((response.text().as_str(), response.header("x-own")), ("body", Some("yes")));
    }
    assert_eq!(outcomes(&gateway, 2), ["miss", "hit"]);
}

#[test]
fn an_upgrade_is_never_answered_from_the_cache() {
    let origin = tollgate_tests::Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.headers.has("Upgrade") {
                conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
                conn.echo_bytes();
                return;
            }
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = tollgate_tests::Gateway::start(&format!(
        "routes: [{{name: r, match: \"/*\", to: \"{}\", upgrade: echo, policies: {{cache: on}}}}]\n",
        origin.address()
    ));
    assert_eq!(super::get(&gateway, "/", "").text(), "ok");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.head().status, 101);
    assert_eq!(super::get(&gateway, "/", "").text(), "ok");
    assert_eq!(origin.count(), 2);
}

/// RFC 9111, 3.3: what is incomplete is not stored as a whole. A length that is declared wrongly is an error, too.
#[test]
fn incomplete_responses_of_http2_endpoints_are_not_stored() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        let is_short = stream.request.target == "/short";
        let length: &[_] = if is_short { &[("content-length", "9")] } else { &[] };
        stream.head(200, &[&[("cache-control", "max-age=60")][..], length].concat(), false);
        match stream.request.target.as_str() {
            "/reset" => {
                stream.send("part", false);
                stream.reset(h2::Reason::INTERNAL_ERROR);
            }
            "/trailers" => {
                stream.send("body", false);
                stream.trailers(&[("x-sum", "1")]);
            }
            _ => drop(stream.send("body", true)),
        }
    });
    let gateway = tollgate_tests::Gateway::start(&format!(
        "routes: [{{name: r, match: \"/*\", to: u, policies: {{cache: on}}}}]\n\
         upstreams: {{u: \"h2c://{}\"}}\n",
        origin.address()
    ));
    for (target, is_whole) in [("/reset", false), ("/short", false), ("/trailers", true), ("/", true)] {
        let before = origin.count();
        for _ in 0..2 {
            let answer = gateway.client().try_exchange(target);
            let is_it = answer.is_ok_and(|answer| answer.text() == "body" && !answer.headers.has("x-sum"));
            assert_eq!(is_it, is_whole, "{target}");
        }
        assert_eq!(origin.count() - before, if is_whole { 1 } else { 2 }, "{target}");
    }
}
