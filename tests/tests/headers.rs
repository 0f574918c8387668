//! Header fields: order and case are kept, hop-by-hop fields stay on their hop (RFC 9110, section 7.6.1).

use tollgate_tests::{Gateway, Origin};

/// Fields that the gateway adds itself.
const OWN: [&str; 3] = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"];

fn passed(origin: &Origin) -> Vec<(String, String)> {
    let request = origin.requests().pop().expect("a request");
    request.headers.0.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str())).collect()
}

fn fields(text: &str) -> Vec<(String, String)> {
    let split = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned()));
    text.split("\r\n").filter_map(split).collect()
}

#[test]
fn order_and_case_of_a_request_are_kept() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let text = "hOST: Example.org\r\nUser-Agent: x/1 (y; z)\r\nx-LOWER-upper: 1\r\nAccept: a, b\r\nCookie: a=b; c=d\r\n\
        Cookie: e=f\r\nX-Empty-Not: \"q, r\"\r\nacCEPt: c\r\nAuthorization: Basic Zm9v\r\nX-Same: 1\r\nX-Other: 2\r\nX-Same: 3\r\n";
    assert_eq!(client.ask(format!("GET / HTTP/1.1\r\n{text}\r\n")).status, 200);
    assert_eq!(passed(&origin), fields(text));
}

#[test]
fn order_and_case_of_a_response_are_kept() {
    let text = "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\nserVER: x\r\nSet-Cookie: a=b\r\nX-Same: 1\r\nSet-Cookie: c=d\r\n\
        X-Same: 2\r\nCONTENT-length: 2\r\nETag: W/\"x\"\r\n";
    let origin = Origin::fixed(format!("HTTP/1.1 299 Very Odd Phrase\r\n{text}\r\nok"));
    let gateway = Gateway::to(&origin);
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.phrase.as_str()), (299, "Very Odd Phrase"));
    assert_eq!(response.headers.0, fields(text));
}

#[test]
fn odd_but_valid_values_pass() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let long = "v".repeat(7000);
    for (sent, got) in [
        ("", ""),
        ("   ", ""),
        ("\t x \t", "x"),
        ("a\tb", "a\tb"),
        ("!#$%&'()*+-./:;<=>?@[]^_`{|}~", "!#$%&'()*+-./:;<=>?@[]^_`{|}~"),
        (long.as_str(), long.as_str()),
    ] {
        assert_eq!(
            client.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX-V:{sent}\r\n\r\n")).status,
            200,
            "{sent:?}"
        );
        let request = origin.requests().pop().expect("a request");
        assert_eq!(request.headers.get("X-V"), Some(got), "{sent:?}");
    }
    // Bytes above 0x7F are opaque data (RFC 9110, section 5.5).
    let response = client.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX-V: \xe9\xff\x80\r\n\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(origin.requests().pop().expect("a request").headers.get("X-V"), Some("\u{e9}\u{ff}\u{80}"));
    gateway.reconcile(&[&origin]);
}

#[test]
fn hop_by_hop_fields_of_a_request_stay() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let response = client.ask(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Private , x-second,\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Connection: keep-alive\r\nX-Private: 1\r\nX-SECOND: 2\r\nTE: gzip\r\nUpgrade: foo\r\nX-Stays: 3\r\n\
         Proxy-Authorization: Basic eA==\r\nConnection: X-Third\r\nX-Third: 4\r\n\r\n",
    );
    assert_eq!(response.status, 200);
    let request = origin.request();
    for gone in ["Keep-Alive", "Proxy-Connection", "X-Private", "X-Second", "X-Third", "TE", "Upgrade"] {
        assert!(!request.headers.has(gone), "{gone} got through: {request:?}");
    }
    assert!(!request.headers.lists("Connection", "x-private"));
    assert_eq!(request.headers.get("X-Stays"), Some("3"));
}

#[test]
fn hop_by_hop_fields_of_a_response_stay() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nConnection: X-Private, keep-alive\r\nKeep-Alive: timeout=5, max=100\r\nX-Private: 1\r\n\
         Proxy-Connection: keep-alive\r\nX-Stays: 2\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let response = client.get("/");
    for gone in ["Keep-Alive", "Proxy-Connection", "X-Private"] {
        assert!(!response.headers.has(gone), "{gone} got through: {response:?}");
    }
    assert_eq!(response.header("X-Stays"), Some("2"));
    client.expect_alive();
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_keep_alive_field_alone_keeps_nothing() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.ask("GET / HTTP/1.0\r\nHost: a\r\nKeep-Alive: timeout=5\r\n\r\n").status, 200);
    client.expect_close();
}

mod connection_deletes {
    //! Attack class 9: `Connection` names a field that the gateway itself adds, or that frames the message.

    use super::*;

    #[test]
    fn the_gateway_s_own_fields_survive() {
        let origin = Origin::ok();
        let gateway = Gateway::with(
            &origin,
            "forwarded: {x_forwarded: true, forwarded: true, via: gate}\nrequest_id: true",
        );
        for named in [
            "x-forwarded-for",
            "X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host",
            "forwarded, via",
            "x-request-id",
        ] {
            let mut client = gateway.client();
            let response = client.ask(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, {named}\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
            ));
            assert_eq!(response.status, 200, "{named}");
            let request = origin.requests().pop().expect("a request");
            assert_eq!(
                request.headers.all("X-Forwarded-For"),
                [client.address().ip().to_string()],
                "{named}"
            );
            assert_eq!(request.headers.all("X-Forwarded-Proto"), ["http"], "{named}");
            assert_eq!(request.headers.all("X-Forwarded-Host"), ["a"], "{named}");
            for name in ["Forwarded", "Via", "X-Request-Id"] {
                assert_eq!(request.headers.all(name).len(), 1, "{named} deleted {name}");
            }
        }
    }

    #[test]
    fn framing_and_routing_fields_survive() {
        // The message must reach the origin whole, or be refused.
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        for named in ["content-length", "host", "transfer-encoding", "Content-Length, Host"] {
            for body in
                ["Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"]
            {
                let mut client = gateway.client();
                let before = origin.count();
                let response =
                    client.ask(format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: {named}\r\n{body}"));
                if response.status == 200 {
                    let request = origin.requests().pop().expect("a request");
                    assert_eq!(
                        (request.body.as_slice(), request.headers.get("Host")),
                        (&b"body"[..], Some("a"))
                    );
                } else {
                    assert_eq!((response.status, origin.count()), (400, before), "{named}");
                }
            }
        }
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn date_is_added_where_the_origin_has_none() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let response = gateway.client().get("/");
    assert_eq!(response.headers.names(), ["Content-Length", "Date"]);
}

#[test]
fn options_star_and_asterisk_form() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let response = client.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(response.text(), "OPTIONS * ");
    // The asterisk is valid for OPTIONS only (RFC 9112, section 3.2.4).
    let response = client.ask("GET * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(response.status, 400);
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn methods_pass_as_they_are() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for method in ["GET", "get", "PATCH", "M-SEARCH", "PROPFIND", "X", "A!#$%&'*+-.^_`|~9"] {
        let response = client.ask(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(response.text(), format!("{method} / "));
    }
}
