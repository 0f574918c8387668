//! The server name (SNI) that endpoints receive. Each origin's certificate is for one name only, so an answer
//! shows that the gateway also verified this name.

use std::net::Ipv4Addr;

use tollgate_tests::{Authority, Dns, DnsSays, Gateway, TlsOrigin, eventually};

use super::Files;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Starts an origin with a certificate for this host. Returns it with the `ca.pem` that has signed the
/// certificate.
fn origin(host: &str) -> (TlsOrigin, Files) {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    (TlsOrigin::start(&authority.issue(&[host]), None, OK, None), files)
}

/// Starts a gateway whose upstream has these keys, and these further keys in its `tls`.
fn gateway(files: &Files, keys: &str, tls: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{up: {{{keys}, tls: {{ca: {}/ca.pem{tls}}}, retry: off}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n",
        files.path().display()
    ))
}

/// Returns the server name that the origin received for one request with another Host.
fn asked(gateway: &Gateway, origin: &TlsOrigin) -> Option<String> {
    let answer = gateway.client().get("/");
    assert_eq!(answer.text(), "ok", "{answer:?}");
    let mut names = origin.names();
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

#[test]
fn sni_is_the_endpoints_host_or_server_name_and_never_an_address() {
    for (host, tls, name, expected) in [
        ("localhost", "", "localhost", Some("localhost")),
        ("localhost", ", server_name: up.example", "up.example", Some("up.example")),
        ("127.0.0.1", ", server_name: up.example", "up.example", Some("up.example")),
        // An address is not a valid server name (RFC 6066, 3).
        ("127.0.0.1", "", "127.0.0.1", None),
        ("localhost", ", server_name: 127.0.0.1", "127.0.0.1", None),
    ] {
        let (origin, files) = origin(name);
        let endpoint = format!("endpoints: [\"https://{host}:{}\"]", origin.address().port());
        let asked = asked(&gateway(&files, &endpoint, tls), &origin);
        assert_eq!(asked.as_deref(), expected, "{host}{tls}");
    }
}

#[test]
fn endpoints_that_were_looked_up_are_asked_for_by_the_name_that_was() {
    let dns = Dns::start();
    dns.say_addresses("app.test", 60, &[Ipv4Addr::LOCALHOST]);
    for (tls, name) in [("", "app.test"), (", server_name: up.example", "up.example")] {
        let (origin, files) = origin(name);
        let port = origin.address().port();
        let discover = format!("discover: {{dns: app.test, port: {port}, servers: \"{}\"}}", dns.address());
        assert_eq!(asked(&gateway(&files, &discover, tls), &origin).as_deref(), Some(name), "{tls}");
    }
}

#[test]
fn endpoints_of_srv_records_are_asked_for_by_the_domain_whose_service_they_are() {
    let dns = Dns::start();
    let (origin, files) = origin("orders.test");
    let services = vec![(1, 1, origin.address())];
    dns.say("_https._tcp.orders.test", DnsSays::Services { ttl: 60, services });
    let discover = format!("discover: {{srv: _https._tcp.orders.test, servers: \"{}\"}}", dns.address());
    assert_eq!(asked(&gateway(&files, &discover, ""), &origin).as_deref(), Some("orders.test"));
}

#[test]
fn a_named_endpoint_keeps_its_name_beside_discovered_ones() {
    let dns = Dns::start();
    dns.say_addresses("app.test", 60, &[]);
    let (origin, files) = origin("localhost");
    let port = origin.address().port();
    let keys = format!(
        "endpoints: [\"https://localhost:{port}\"], discover: {{dns: app.test, port: {port}, servers: \"{}\"}}",
        dns.address()
    );
    assert_eq!(asked(&gateway(&files, &keys, ""), &origin).as_deref(), Some("localhost"));
}

#[test]
fn probes_ask_for_the_same_name() {
    let (origin, files) = origin("up.example");
    let keys = format!("endpoints: [\"https://{}\"], health: /healthz", origin.address());
    let _gateway = gateway(&files, &keys, ", server_name: up.example");
    eventually("a probe", || !origin.heads().is_empty());
    assert!(origin.heads()[0].starts_with("GET /healthz "), "{:?}", origin.heads());
    assert_eq!(origin.names()[0].as_deref(), Some("up.example"));
}
