//! `cors`: the web pages that may read the answers. The requests are those of browsers.

use tollgate_tests::{Gateway, Origin, Response, http2, tollgate};

const CORS: &str = "policies: {cors: {origins: [https://app.example, \"https://*.example.com\"], \
    regex: \"https://pr-[0-9]+\\\\.example\\\\.org\", methods: [GET, PUT], headers: [Content-Type, X-A], \
    expose: X-Id, credentials: on, max_age: 10m}}\n";

fn preflight(origin: &str) -> String {
    format!(
        "OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\
         Access-Control-Request-Headers: content-type\r\n\r\n"
    )
}

fn simple(origin: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n")
}

/// Returns whether a browser would permit a page of this origin to read the answer.
fn reads(answer: &Response, origin: &str) -> bool {
    answer.headers.all("Access-Control-Allow-Origin") == [origin]
        && answer.headers.all("Access-Control-Allow-Credentials") == ["true"]
}

/// Returns whether the answer contains no field that would permit any page to read it.
fn is_silent(answer: &Response) -> bool {
    answer.headers.names().iter().all(|name| !name.to_ascii_lowercase().starts_with("access-control-"))
}

#[test]
fn a_preflight_is_answered_and_goes_no_further() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, CORS);
    let mut client = gateway.client();
    for page in ["https://app.example", "https://x.example.com", "https://pr-17.example.org"] {
        let answer = client.ask(preflight(page));
        assert_eq!(answer.status, 204);
        assert!(reads(&answer, page), "{answer:?}");
        assert_eq!(answer.headers.get("Access-Control-Allow-Methods"), Some("GET, PUT"));
        assert_eq!(answer.headers.get("Access-Control-Allow-Headers"), Some("Content-Type, X-A"));
        assert_eq!(answer.headers.get("Access-Control-Max-Age"), Some("600"));
        assert!(answer.headers.lists("Vary", "Origin"), "{answer:?}");
    }
    for page in [
        "https://evil.example",
        "https://app.example.evil.example",
        "null",
        "https://evil.example#.example.com",
    ] {
        let answer = client.ask(preflight(page));
        assert!(
            answer.status == 204 && is_silent(&answer) && answer.headers.lists("Vary", "Origin"),
            "{answer:?}"
        );
    }
    assert_eq!(origin.count(), 0);
    let mut client = gateway.http2();
    let fields = [("origin", "https://app.example"), ("access-control-request-method", "GET")];
    let answer = client.ask(http2::request("OPTIONS", "/x", &fields));
    assert!(answer.status == 204 && reads(&answer, "https://app.example"), "{answer:?}");
}

#[test]
fn cors_fields_of_the_upstream_are_replaced() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\nVary: Accept\r\n\
         Content-Length: 2\r\n\r\nhi",
    );
    let gateway = Gateway::with(&origin, CORS);
    let mut client = gateway.client();
    let answer = client.ask(simple("https://x.example.com"));
    assert!(reads(&answer, "https://x.example.com"), "{answer:?}");
    assert_eq!(answer.headers.get("Access-Control-Expose-Headers"), Some("X-Id"));
    assert_eq!(answer.headers.all("Vary"), ["Accept", "Origin"]);
    for request in [simple("https://evil.example"), "GET /x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()] {
        let answer = client.ask(request);
        assert!(answer.status == 200 && is_silent(&answer), "{answer:?}");
        assert_eq!(answer.headers.all("Vary"), ["Accept", "Origin"]);
    }
    let ordinary = client.ask("OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n");
    assert_eq!((ordinary.status, origin.count()), (200, 4), "no preflight: it goes upstream");
}

#[test]
fn errors_can_be_read_and_every_origin_may_be_let_in() {
    let gateway =
        Gateway::start("policies: {cors: {origins: \"*\"}}\nroutes: [{match: /x, to: \"127.0.0.1:1\"}]\n");
    let answer = gateway.client().ask(simple("https://any.example"));
    assert_eq!((answer.status, answer.headers.all("Access-Control-Allow-Origin")), (502, vec!["*"]));
    assert!(
        !answer.headers.has("Access-Control-Allow-Credentials") && !answer.headers.has("Vary"),
        "{answer:?}"
    );
}

/// Returns a preflight for this target and method, with further header lines.
fn asking(target: &str, method: &str, more: &str) -> String {
    format!(
        "OPTIONS {target} HTTP/1.1\r\nHost: a.example\r\nOrigin: https://app.example\r\n\
         Access-Control-Request-Method: {method}\r\n{more}\r\n"
    )
}

#[test]
fn a_preflight_takes_the_route_of_the_request_that_it_asks_about() {
    let cors = |max_age: u32| {
        format!(
            "policies: {{cors: {{origins: https://app.example, methods: [GET, PUT, POST, DELETE], max_age: {max_age}s}}}}"
        )
    };
    let origin = Origin::ok();
    let to = origin.address();
    let routes = [
        format!("match: {{path: /a, method: [GET, PUT]}}, to: \"{to}\", {}", cors(1)),
        format!("match: {{path: /a, method: DELETE}}, to: \"{to}\""),
        format!("match: {{path: /h, headers: {{X-Version: \"2\"}}}}, to: \"{to}\", {}", cors(2)),
        format!("match: {{path: /h, headers: {{X-Version: {{present: false}}}}}}, to: \"{to}\", {}", cors(3)),
        format!("match: {{path: /q, query: {{v: \"2\"}}, method: PUT}}, to: \"{to}\", {}", cors(4)),
        format!(
            "match: {{path: /c, method: PUT, headers: {{Cookie: {{regex: \".*beta.*\"}}}}}}, to: \"{to}\", {}",
            cors(5)
        ),
        format!("match: {{grpc: shop.Orders}}, to: \"h2c://{to}\", {}", cors(6)),
        "match: {path: /own, method: OPTIONS}, respond: 299".to_owned(),
        format!("match: {{path: /own, method: PUT}}, to: \"{to}\""),
        format!("match: {{host: b.example, path: /b, method: PUT}}, to: \"{to}\", {}", cors(7)),
    ];
    let gateway = Gateway::start(&format!("routes:\n  - {{{}}}\n", routes.join("}\n  - {")));
    let (mut http1, mut http2) = (gateway.client(), gateway.http2());
    for (target, method, headers, expected) in [
        ("/a", "PUT", "", Ok("1")),
        ("/a", "GET", "", Ok("1")),
        ("/a", "DELETE", "", Err(404)),
        ("/a", "PATCH", "", Err(404)),
        ("/h", "PUT", "x-version", Ok("2")),
        ("/h", "PUT", "content-type, X-Version", Ok("2")),
        ("/h", "PUT", "x-versions", Ok("3")),
        ("/h", "PUT", "", Ok("3")),
        ("/q?v=2", "PUT", "", Ok("4")),
        ("/q?v=1", "PUT", "", Err(404)),
        ("/q?v=2", "POST", "", Err(404)),
        ("/c", "PUT", "", Ok("5")),
        ("/shop.Orders/Place", "POST", "content-type", Ok("6")),
        ("/shop.Orders/Place", "PUT", "content-type", Err(404)),
        ("/own", "PUT", "", Err(299)),
        ("/b", "PUT", "", Err(404)),
    ] {
        let more = if headers.is_empty() {
            String::new()
        } else {
            format!("Access-Control-Request-Headers: {headers}\r\n")
        };
        let mut fields = vec![("origin", "https://app.example"), ("access-control-request-method", method)];
        if !headers.is_empty() {
            fields.push(("access-control-request-headers", headers));
        }
        for answer in
            [http1.ask(asking(target, method, &more)), http2.ask(http2::request("OPTIONS", target, &fields))]
        {
            let got = match answer.status {
                204 => Ok(answer.header("Access-Control-Max-Age").unwrap_or_default()),
                other => Err(other),
            };
            assert_eq!(got, expected, "{method} {target} {headers}: {answer:?}");
        }
    }
    // Without these fields it is an ordinary OPTIONS.
    assert_eq!(
        http1.ask("OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n").status,
        404
    );
    assert_eq!(
        http1.ask("OPTIONS /a HTTP/1.1\r\nHost: a\r\nAccess-Control-Request-Method: PUT\r\n\r\n").status,
        404
    );
    assert_eq!(origin.count(), 0, "none of them goes on");
    let mut explain = vec!["explain", "FILE", "OPTIONS", "http://a.example/a"];
    let file = gateway.config();
    explain[1] = file.to_str().expect("text");
    explain.extend(["-H", "Origin: https://app.example", "-H", "Access-Control-Request-Method: PUT"]);
    let ran = tollgate(&explain);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("it takes the route that PUT would take"), "{}", ran.out);
}

#[test]
fn a_preflight_is_answered_wherever_cors_is_written() {
    let origin = Origin::ok();
    let cors = "cors: {origins: https://app.example, methods: PUT}";
    let route = format!(
        "routes: [{{match: {{path: /a, method: PUT}}, to: up}}]\nupstreams: {{up: [\"{}\"]}}\n",
        origin.address()
    );
    for place in [
        format!("policies: {{{cors}}}\n{route}"),
        format!("listen: {{bind: $LISTEN, policies: {{{cors}}}}}\n{route}"),
        route.replace(
            &format!("[\"{}\"]", origin.address()),
            &format!("{{endpoints: [\"{}\"], policies: {{{cors}}}}}", origin.address()),
        ),
    ] {
        let gateway = Gateway::start(&place);
        let answer = gateway.client().ask(asking("/a", "PUT", ""));
        assert_eq!(answer.status, 204, "{place}: {answer:?}");
        assert_eq!(gateway.client().ask(asking("/a", "POST", "")).status, 404, "{place}");
    }
    assert_eq!(origin.count(), 0);
}
