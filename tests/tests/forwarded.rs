//! The client's data in requests to the origin: `X-Forwarded-*`, `Forwarded` (RFC 7239), `Via`, request ids.

mod client;

use tollgate_tests::{Gateway, Origin, Request};

fn last(origin: &Origin) -> Request {
    origin.requests().pop().expect("a request")
}

const SPOOFED: &str = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
    x-forwarded-for: 7.7.7.7\r\nForwarded: for=6.6.6.6;host=evil\r\nX_Forwarded_For: 8.8.8.8\r\n";

#[test]
fn x_forwarded_is_set_by_default_and_replaces_what_the_client_claims() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for extra in ["", SPOOFED] {
        let mut client = gateway.client();
        client.ask(format!("GET / HTTP/1.1\r\nHost: Www.Example.org:81\r\n{extra}\r\n"));
        let request = last(&origin);
        assert_eq!(request.headers.all("X-Forwarded-For"), [client.address().ip().to_string()]);
        assert_eq!(request.headers.all("X-Forwarded-Proto"), ["http"]);
        let host = request.headers.all("X-Forwarded-Host");
        assert!(host.len() == 1 && host[0].eq_ignore_ascii_case("www.example.org:81"), "{host:?}");
        // An untrusted peer cannot announce other peers, in any spelling of the field.
        assert!(!request.headers.has("Forwarded"), "{request:?}");
        let same = |name: &&str| name.to_ascii_lowercase().replace('_', "-") == "x-forwarded-for";
        assert_eq!(request.headers.names().into_iter().filter(same).count(), 1, "{request:?}");
    }
}

#[test]
fn a_trusted_proxy_is_appended_to() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "forwarded: {trusted_proxies: [127.0.0.0/8], forwarded: true}");
    let mut client = gateway.client();
    let ip = client.address().ip();
    client.ask(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9, 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: public.example\r\nForwarded: for=9.9.9.9\r\n\r\n",
    );
    let request = last(&origin);
    let chain = request.headers.all("X-Forwarded-For").join(", ");
    assert_eq!(chain, format!("9.9.9.9, 10.0.0.1, 10.0.0.2, {ip}"));
    assert!(request.headers.all("X-Forwarded-Proto").join(", ").starts_with("https"), "{request:?}");
    assert!(request.headers.all("X-Forwarded-Host").join(", ").starts_with("public.example"), "{request:?}");
    let forwarded = request.headers.all("Forwarded").join(", ");
    assert!(forwarded.starts_with("for=9.9.9.9, "), "{forwarded}");
    assert!(
        forwarded.contains(&format!("for={ip}")) || forwarded.contains(&format!("for=\"{ip}\"")),
        "{forwarded}"
    );
}

#[test]
fn a_proxy_outside_the_trusted_blocks_is_replaced() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "forwarded: {trusted_proxies: [10.0.0.0/8, \"::1/128\"]}");
    let mut client = gateway.client();
    client.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{SPOOFED}\r\n"));
    assert_eq!(last(&origin).headers.all("X-Forwarded-For"), [client.address().ip().to_string()]);
}

#[test]
fn forwarded_can_be_on_and_x_forwarded_off() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "forwarded: {x_forwarded: false, forwarded: true}");
    let mut client = gateway.client();
    client.ask("GET / HTTP/1.1\r\nHost: a.example:8080\r\nForwarded: for=6.6.6.6\r\n\r\n");
    let request = last(&origin);
    let forwarded = request.headers.all("Forwarded");
    assert_eq!(forwarded.len(), 1, "{request:?}");
    let pairs: Vec<String> = forwarded[0].split(';').map(|pair| pair.trim().to_ascii_lowercase()).collect();
    assert!(pairs.contains(&format!("for={}", client.address().ip())), "{pairs:?}");
    assert!(pairs.contains(&"proto=http".to_owned()), "{pairs:?}");
    // A colon is no token character, so a host with a port must be quoted (RFC 7239, section 4).
    assert!(pairs.contains(&"host=\"a.example:8080\"".to_owned()), "{pairs:?}");
    assert!(!request.headers.has("X-Forwarded-Host"), "{request:?}");
}

#[test]
fn via_names_the_gateway_on_both_ways_when_asked_to() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\r\nVia: 1.0 inner\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::with(&origin, "forwarded: {via: gate}");
    let mut client = gateway.client();
    let response = client.ask("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 outer\r\n\r\n");
    assert_eq!(response.headers.all("Via").join(", "), "1.0 inner, 1.1 gate");
    assert_eq!(last(&origin).headers.all("Via").join(", "), "1.1 outer, 1.1 gate");
    client.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(last(&origin).headers.all("Via").join(", "), "1.0 gate");
}

#[test]
fn no_via_by_default() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let response = gateway.client().get("/");
    assert!(!response.headers.has("Via") && !origin.request().headers.has("Via"));
}

mod request_id {
    use super::*;

    #[test]
    fn is_off_by_default_and_passes_as_any_field() {
        let origin = Origin::ok();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.get("/");
        assert!(!last(&origin).headers.has("X-Request-Id"));
        client.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n");
        assert_eq!(last(&origin).headers.all("X-Request-Id"), ["mine"]);
    }

    #[test]
    fn is_generated_unique_and_logged() {
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, "request_id: true");
        let mut client = gateway.client();
        for _ in 0..50 {
            assert_eq!(client.get("/").status, 200);
        }
        let mut ids: Vec<String> = origin
            .requests()
            .iter()
            .map(|r| r.headers.get("X-Request-Id").expect("an id").to_owned())
            .collect();
        let logged: Vec<String> = gateway
            .wait_records(50)
            .iter()
            .map(|record| record["request_id"].as_str().expect("an id").to_owned())
            .collect();
        assert_eq!(ids, logged);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 50);
    }

    #[test]
    fn fields_of_a_client_are_passed_on_or_replaced_as_configured() {
        for (accept, kept) in [(true, true), (false, false)] {
            let origin = Origin::ok();
            let gateway = Gateway::with(
                &origin,
                &format!("request_id: {{enabled: true, header: X-Trace, accept: {accept}}}"),
            );
            gateway.client().ask("GET / HTTP/1.1\r\nHost: a\r\nX-Trace: abc-123\r\n\r\n");
            let ids = last(&origin).headers.all("X-Trace").join("|");
            assert_eq!(ids == "abc-123", kept, "{ids}");
            assert!(!ids.contains('|') && !ids.is_empty(), "{ids}");
            assert_eq!(gateway.wait_records(1)[0]["request_id"], ids.as_str());
        }
    }

    #[test]
    fn a_hostile_id_does_not_get_into_the_log_as_it_is() {
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, "request_id: true");
        let id = format!("\"}}{{\\{}", "x".repeat(3000));
        let response =
            gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id}\r\n\r\n"));
        assert_eq!(response.status, 200);
        // The record must be JSON; reading it is the test.
        assert_eq!(gateway.wait_records(1).len(), 1);
    }
}
