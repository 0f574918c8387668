//! A page that the gateway fetches from an upstream.

use h2::ext::Protocol;
use http::Request;
use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Http2Origin, Origin, refused_address};

use super::{by_target, field, gateway, reported};

/// Starts an origin that answers with its request's target and a content type.
fn pages() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let body = format!("page {}", request.target);
            let shown = if request.method == "HEAD" { "" } else { body.as_str() };
            let head = format!("Content-Type: text/html\r\nContent-Length: {}", body.len());
            if !conn.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{shown}")) {
                return;
            }
        }
    })
}

#[test]
fn it_is_asked_for_without_what_the_client_has_shown() {
    let (origin, pages) = (by_target(), pages());
    let gateway = gateway(
        &origin.address().to_string(),
        "{on: [404, 5xx], to: pages, path: '/errors/{status}.html?for={status}'}",
        "",
        &format!("request_id: on\nupstreams: {{pages: \"{}\"}}", pages.address()),
    );
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.ask(
            "POST /503 HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer x\r\nCookie: a=b\r\nIf-Match: x\r\n\
             Range: bytes=0-1\r\nAccept-Language: de\r\nContent-Length: 4\r\n\r\nbody",
        );
        assert_eq!(reported(&response), (503, "page /errors/503.html?for=503".to_owned()));
        assert_eq!((response.header("content-type"), response.header("x-own")), (Some("text/html"), None));
        assert_eq!(response.header("retry-after"), Some("7"));
    }
    let asked = pages.requests().remove(0);
    assert_eq!((asked.method.as_str(), asked.body.len()), ("GET", 0));
    let names: Vec<_> = asked.headers.names().iter().map(|name| name.to_ascii_lowercase()).collect();
    assert_eq!(
        names,
        [
            "host",
            "accept-language",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "x-request-id"
        ]
    );
    assert_eq!(asked.headers.get("host"), Some("shop.example"));
    let head =
        client.wire().send(b"HEAD /404 HTTP/1.1\r\nHost: a\r\n\r\n").map(|()| client.response_to("HEAD"));
    let head = head.expect("sent");
    assert_eq!((head.status, head.header("content-length")), (404, Some("29")));
    assert_eq!(pages.requests()[2].method, "HEAD");
    assert_eq!(client.get("/200").status, 200);
    assert_eq!((origin.connections(), pages.connections()), (1, 1));
    let records = gateway.wait_records(4);
    assert_eq!((field(&records[0], "upstream"), field(&records[0], "method")), ("pages", "POST"));
    assert_eq!((records[0]["status"].as_u64(), records[0]["attempts"].as_u64()), (Some(503), Some(2)));
    assert_eq!(records[0]["endpoint_statuses"][0], 503);
    gateway.reconcile(&[&origin, &pages]);
}

#[test]
fn another_status_and_no_upstream() {
    let pages = pages();
    let gateway = gateway(
        &refused_address().to_string(),
        "{on: 502, to: pages, path: /sorry, status: 200}",
        "",
        &format!("upstreams: {{pages: \"{}\"}}", pages.address()),
    );
    let mut client = gateway.client();
    assert_eq!(reported(&client.get("/")), (200, "page /sorry".to_owned()));
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    assert_eq!(reported(&client.response()), (200, "page /sorry".to_owned()));
    client.send("halfGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reported(&client.response()), (200, "page /sorry".to_owned()), "nothing is left of the body");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nhalf");
    let response = client.response();
    assert!(response.says_close() && response.text() == "page /sorry", "{response:?}");
    client.expect_close();
}

#[test]
fn both_versions_of_http_on_every_side() {
    let origin = by_target();
    let (plain, http2) = (
        pages(),
        Http2Origin::play(|stream| {
            stream.body();
            stream.head(200, &[("content-type", "text/html")], false);
            stream.send(format!("page {}", stream.request.target), true);
        }),
    );
    for pages in [plain.address().to_string(), format!("h2c://{}", http2.address())] {
        let gateway = gateway(
            &origin.address().to_string(),
            "{on: 5xx, to: pages, path: '/{status}'}",
            "",
            &format!("upstreams: {{pages: \"{pages}\"}}"),
        );
        let (mut one, mut two) = (gateway.client(), gateway.http2());
        for _ in 0..2 {
            assert_eq!(reported(&one.get("/503")), (503, "page /503".to_owned()));
            assert_eq!(reported(&two.get("/503")), (503, "page /503".to_owned()));
            let mut stream =
                two.begin(request("POST", "/500", &[("content-length", "4")]), false).expect("begun");
            stream.send("body", true).expect("sent");
            assert_eq!(reported(&stream.response().expect("an answer")), (500, "page /500".to_owned()));
        }
        let mut old = gateway.client();
        let response = old.ask("GET /503 HTTP/1.0\r\nHost: a\r\n\r\n");
        assert_eq!(reported(&response), (503, "page /503".to_owned()));
    }
}

#[test]
fn no_page_leaves_the_error() {
    let origin = by_target();
    let bad = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            match request.target.as_str() {
                "/500" => conn.send("HTTP/1.1 404 X\r\nContent-Length: 4\r\n\r\nnone"),
                "/502" => conn.send("HTTP/1.1 204 X\r\n\r\n"),
                "/503" => conn.send("HTTP/1.1 304 X\r\n\r\n"),
                _ => return,
            };
        }
    });
    let with = |fallback: &str, to: &str| {
        gateway(to, fallback, "", &format!("upstreams: {{pages: \"{}\"}}", bad.address()))
    };
    let gateway_1 = with("{on: 5xx, to: pages, path: '/{status}'}", &origin.address().to_string());
    let mut client = gateway_1.client();
    for status in [500, 502, 503, 504] {
        let response = client.get(&format!("/{status}"));
        assert_eq!((response.status, response.reason()), (status, "error_page_unavailable"));
        assert_eq!(response.header("retry-after"), Some("7"));
    }
    let records = gateway_1.wait_records(4);
    assert_eq!(field(&records[0], "detail"), "no error page: status 404");
    assert_eq!(field(&records[3], "detail"), "no error page: connection_terminated");
    // If the page fails, the next fallback applies, with the status of the first error.
    let gateway_2 = with(
        "[{on: 500, to: pages, path: '/{status}'}, {on: 404, respond: wrong}, {on: 5xx, respond: sorry}]",
        &origin.address().to_string(),
    );
    assert_eq!(reported(&gateway_2.client().get("/500")), (500, "sorry".to_owned()));
    let gateway_3 = with("{on: 502, to: pages, path: '/{status}'}", &refused_address().to_string());
    let response = gateway_3.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
}

#[test]
fn a_timeout_leaves_time_for_the_page() {
    let pages = pages();
    let silent = Origin::play(|conn| {
        conn.request();
        conn.wait_close();
    });
    let gateway = gateway(
        &silent.address().to_string(),
        "{on: 504, to: pages, path: /slow}",
        ", timeouts: {total: 300ms}",
        &format!("upstreams: {{pages: \"{}\"}}", pages.address()),
    );
    assert_eq!(reported(&gateway.client().get("/")), (504, "page /slow".to_owned()));
    assert_eq!(reported(&gateway.http2().get("/")), (504, "page /slow".to_owned()));
}

#[test]
fn a_page_on_a_stale_connection() {
    let origin = by_target();
    // The origin closes each connection after its answer, without announcing it.
    let pages = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage");
        }
    });
    let gateway = gateway(
        &origin.address().to_string(),
        "{on: 5xx, to: pages, path: /}",
        "",
        &format!("upstreams: {{pages: \"{}\"}}", pages.address()),
    );
    let mut client = gateway.client();
    for _ in 0..20 {
        assert_eq!(reported(&client.post("/503", b"body")), (503, "page".to_owned()));
    }
}

#[test]
fn a_websocket_that_is_refused() {
    let (origin, pages) = (by_target(), pages());
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"{}\", fallback: {{on: 5xx, to: \"{}\", path: /x}}}}]",
        origin.address(),
        pages.address()
    ));
    let ask = "GET /503 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(reported(&gateway.client().ask(ask)), (503, "page /x".to_owned()));
    let connect = Request::builder()
        .method("CONNECT")
        .uri("http://a.example/503")
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .body(())
        .expect("a request");
    let mut client = gateway.http2();
    let stream = client.begin(connect, false).expect("begun");
    assert_eq!(reported(&stream.response().expect("an answer")), (503, "page /x".to_owned()));
    assert_eq!(reported(&client.get("/503")), (503, "page /x".to_owned()));
}

#[test]
fn a_page_of_the_gateways_own_that_fails_is_asked_for_a_few_times() {
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"{}\", fallback: {{on: 5xx, to: $LISTEN, path: /page}}}}]",
        refused_address()
    ));
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
    assert_eq!(gateway.wait_records(3).len(), 3);
}
