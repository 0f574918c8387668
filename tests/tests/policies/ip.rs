//! `ip`: the client addresses that are admitted.

use tollgate_tests::{Gateway, Origin};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn an_address_that_may_not_come_gets_403_and_nothing_goes_upstream() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {ip: {allow: [10.0.0.0/8, \"2001:db8::/32\"]}}");
    let mut client = gateway.client();
    let answer = client.ask(format!("{ASK}X-Forwarded-For: 10.0.0.1\r\nX-Real-IP: 10.0.0.1\r\n\r\n"));
    assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), (403, Some("address_denied")));
    client.expect_alive();
    assert_eq!(origin.count(), 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn behind_a_trusted_proxy_the_client_counts() {
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        "forwarded: {trusted_proxies: 127.0.0.0/8}\npolicies: {ip: {deny: 192.0.2.0/24}}",
    );
    let mut client = gateway.client();
    for (reported, status) in [("192.0.2.7", 403), ("198.51.100.1", 200), ("198.51.100.1, 192.0.2.7", 403)] {
        let answer = client.ask(format!("{ASK}X-Forwarded-For: {reported}\r\n\r\n"));
        assert_eq!(answer.status, status, "{reported}");
    }
}

#[test]
fn http2_clients_are_checked() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {ip: {deny: 127.0.0.1}}");
    let mut client = gateway.http2();
    assert_eq!(client.get("/").status, 403);
    assert_eq!(origin.count(), 0);
}
