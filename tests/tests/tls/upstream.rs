//! TLS to endpoints: the gateway verifies their identity, and reports what is missing.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use tollgate_tests::{Authority, Gateway, TlsOrigin, eventually};

use super::Files;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Starts a gateway whose upstream `up` has one endpoint and this `tls`.
fn gateway(endpoint: &str, tls: &str) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{up: {{endpoints: [\"{endpoint}\"], tls: {{{tls}}}, retry: off}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n"
    ))
}

#[test]
fn an_endpoint_proves_who_it_is() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let ca = format!("ca: {}/ca.pem", files.path().display());
    let good = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), None, OK, None);
    let named = TlsOrigin::start(&authority.issue(&["up.example"]), None, OK, None);
    let stranger = TlsOrigin::start(&Authority::new().issue(&["127.0.0.1"]), None, OK, None);
    let plain = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let plain_address = plain.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in plain.incoming().map_while(Result::ok) {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let at = |address: std::net::SocketAddr| format!("https://{address}");

    let gateway_good = gateway(&at(good.address()), &ca);
    let mut client = gateway_good.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!(good.heads().len(), 3);
    assert_eq!(
        gateway_good.metrics().sum("tollgate_upstream_connections_opened_total", "upstream=\"up\""),
        Some(1.0),
        "it is kept"
    );
    for (endpoint, tls, reason) in [
        (at(named.address()), ca.clone(), "tls_certificate_error"),
        (at(stranger.address()), ca.clone(), "tls_certificate_error"),
        (at(good.address()), format!("{ca}, server_name: other.example"), "tls_certificate_error"),
        (at(plain_address), ca.clone(), "tls_protocol_error"),
    ] {
        let gateway = gateway(&endpoint, &tls);
        let answer = gateway.client().get("/");
        assert_eq!((answer.status, answer.reason()), (502, reason), "{endpoint} {tls}");
    }
    let named_gateway = gateway(&at(named.address()), &format!("{ca}, server_name: up.example"));
    // Rates can be computed from the first failure on, since the counters exist before it.
    let expired =
        named_gateway.metrics().sum("tollgate_upstream_tls_failures_total", "kind=\"certificate_expired\"");
    assert_eq!(expired, Some(0.0));
    assert_eq!(named_gateway.client().get("/").text(), "ok");
    // Without `ca` the system's trust store applies.
    let gateway = Gateway::start(&format!("routes: [{{match: \"/*\", to: \"{}\"}}]\n", at(good.address())));
    assert_eq!(gateway.client().get("/").reason(), "tls_certificate_error");
}

/// Asserts that the TLS failure of the upstream `up` is shown in every place where an operator looks for it.
fn reported(gateway: &Gateway, kind: &str, words: &str) {
    eventually("the record", || !gateway.records().is_empty());
    let detail = gateway.records()[0]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains(words), "{kind}: {detail}");
    let upstreams = gateway.admin("/upstreams").text();
    assert!(upstreams.contains(&format!("\"kind\": \"{kind}\"")), "{kind}: {upstreams}");
    assert!(upstreams.contains(words), "{kind}: {upstreams}");
    let count = gateway.metrics().sum("tollgate_upstream_tls_failures_total", &format!("kind=\"{kind}\""));
    assert!(count >= Some(1.0), "{kind}: {count:?}");
    eventually("the notice", || gateway.stderr().contains(words));
    gateway.await_message("cannot be spoken to by TLS");
}

#[test]
fn tls_failures_are_explained() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let ca = format!("ca: {}/ca.pem", files.path().display());
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let closes = silent.local_addr().expect("bound");
    thread::spawn(move || silent.incoming().map_while(Result::ok).for_each(drop));
    let plain = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let answers = plain.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in plain.incoming().map_while(Result::ok) {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let here = &["127.0.0.1"];
    let start = |issued| TlsOrigin::start(&issued, None, OK, None);
    let expired = start(authority.issue_until(here, -3));
    let early = start(authority.issue_from(here, 5));
    let named = start(authority.issue(&["a.example", "b.example"]));
    let stranger = start(Authority::new().issue(here));
    let cases = [
        (
            expired.address(),
            "tls_certificate_error",
            "certificate_expired",
            "certificate expired 3 days ago (20",
        ),
        (
            early.address(),
            "tls_certificate_error",
            "certificate_not_yet_valid",
            "certificate is not valid for another 4 days",
        ),
        (
            named.address(),
            "tls_certificate_error",
            "certificate_wrong_name",
            "certificate is for a.example, b.example; expected 127.0.0.1",
        ),
        (
            stranger.address(),
            "tls_certificate_error",
            "certificate_unknown_issuer",
            "certificate is from an issuer that is not trusted",
        ),
        (answers, "tls_protocol_error", "not_tls", "the endpoint does not speak TLS on this port"),
        (closes, "tls_protocol_error", "closed", "the endpoint closed the connection in the TLS handshake"),
    ];
    for (address, reason, kind, words) in cases {
        let gateway = gateway(&format!("https://{address}"), &ca);
        let answer = gateway.client().get("/");
        assert_eq!((answer.status, answer.reason()), (502, reason), "{kind}");
        reported(&gateway, kind, words);
        // Probes report the same, and so do requests in HTTP/2.
        let gateway = Gateway::start(&format!(
            "upstreams: {{up: {{endpoints: [\"https://{address}\"], tls: {{{ca}}}, health: /healthz, http2: on, retry: off}}}}\n\
             routes: [{{match: \"/*\", to: up}}]\n"
        ));
        eventually("the notice of the probe", || gateway.stderr().contains("is unhealthy"));
        gateway.await_message(&format!("no TLS connection: {words}"));
        let answer = gateway.client().get("/");
        assert_eq!((answer.status, answer.reason()), (502, reason), "{kind}, HTTP/2");
        reported(&gateway, kind, words);
    }
}

/// The endpoint requires a certificate that the gateway does not have. The probe reports this over TLS 1.3,
/// whatever protocol the endpoint speaks above it.
#[test]
fn probes_of_an_endpoint_that_demands_a_certificate_say_so() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let origin = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), Some(&authority), OK, None);
    let gateway = Gateway::start(&format!(
        "upstreams: {{up: {{endpoints: [\"https://{}\"], tls: {{ca: {}/ca.pem}}, health: /healthz, retry: off}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n",
        origin.address(),
        files.path().display()
    ));
    let words = "no TLS connection: the endpoint demands a client certificate, and the gateway showed none";
    eventually("the probe to say so", || gateway.admin("/upstreams").text().contains(words));
    eventually("the notice", || gateway.stderr().contains("cannot be spoken to by TLS"));
    assert!(!gateway.stderr().contains("by TLS again"), "{}", gateway.stderr());
}

#[test]
fn the_gateway_shows_its_own_certificate() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    files.put("own", &authority.issue(&["gateway.example"]));
    let origin = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), Some(&authority), OK, None);
    let (ca, address) = (format!("ca: {}/ca.pem", files.path().display()), origin.address());
    let shows = gateway(&format!("https://{address}"), &format!("{ca}, {}", files.pair("own")));
    assert_eq!(shows.client().get("/").text(), "ok");
    let shows_none = gateway(&format!("https://{address}"), &ca);
    let answer = shows_none.client().get("/");
    // With TLS 1.3 the refusal arrives after the handshake has completed on this side.
    assert_eq!((answer.status, answer.reason()), (502, "tls_alert_received"));
    reported(
        &shows_none,
        "client_certificate_required",
        "the endpoint demands a client certificate, and the gateway showed none",
    );
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole_only_if_that_is_announced() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let (ca, own) = (format!("ca: {}/ca.pem", files.path().display()), authority.issue(&["127.0.0.1"]));
    let open_ended = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf";
    let said = TlsOrigin::start(&own, None, open_ended, Some(true));
    let cut = TlsOrigin::start(&own, None, open_ended, Some(false));
    let answer = gateway(&format!("https://{}", said.address()), &ca).client().get("/");
    assert_eq!(answer.text(), "half");
    let mut client_of_cut = gateway(&format!("https://{}", cut.address()), &ca);
    let mut client = client_of_cut.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_response("GET").is_err(), "the client can tell");
    client_of_cut.signal(tollgate_tests::Signal::TERM);
    client_of_cut.wait_exit();
}

#[test]
fn probes_use_tls() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let origin = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), None, OK, None);
    let gateway = Gateway::start(&format!(
        "upstreams: {{up: {{endpoints: [\"https://{}\"], tls: {{ca: {}/ca.pem}}, health: /healthz}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n",
        origin.address(),
        files.path().display()
    ));
    tollgate_tests::eventually("a probe", || {
        origin.heads().iter().any(|head| head.starts_with("GET /healthz "))
    });
    assert_eq!(gateway.client().get("/").text(), "ok");
}

#[test]
fn an_endpoint_may_be_asked_for_one_name_and_hold_another() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let ca = format!("ca: {}/ca.pem", files.path().display());
    let origin = TlsOrigin::start(&authority.issue(&["held.example", "127.0.0.1"]), None, OK, None);
    let at = format!("https://{}", origin.address());
    for (tls, asked) in [
        ("server_name: held.example, sni: asked.example", Some("asked.example")),
        ("sni: asked.example", Some("asked.example")),
        ("server_name: held.example, sni: off", None),
        ("server_name: held.example", Some("held.example")),
    ] {
        let gateway = gateway(&at, &format!("{ca}, {tls}"));
        assert_eq!(gateway.client().get("/").text(), "ok", "{tls}");
        assert_eq!(origin.names().last().cloned().flatten().as_deref(), asked, "{tls}");
    }
    // The verified name differs from the requested one.
    let gateway = gateway(&at, &format!("{ca}, server_name: other.example, sni: held.example"));
    assert_eq!(gateway.client().get("/").reason(), "tls_certificate_error");
    reported(&gateway, "certificate_wrong_name", "expected other.example");
}

#[test]
fn certificates_are_not_verified_only_where_that_is_called_dangerous() {
    let origin = TlsOrigin::start(&Authority::new().issue_until(&["other.example"], -3), None, OK, None);
    let at = format!("https://{}", origin.address());
    let gateway = gateway(&at, "verify: dangerously_off");
    assert_eq!(gateway.client().get("/").text(), "ok");
    gateway.await_message("certificates are not verified here");
}

#[test]
fn a_hedged_attempt_reports_a_late_refusal_too() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    let origin = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), Some(&authority), OK, None);
    // Without retries there is no other attempt than the hedged one.
    let gateway = Gateway::start(&format!(
        "upstreams: {{up: {{endpoints: [\"https://{}\"], tls: {{ca: {}/ca.pem}}, hedge: 10s, retry: off}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n",
        origin.address(),
        files.path().display()
    ));
    let answer = gateway.client().get("/");
    assert_eq!((answer.status, answer.reason()), (502, "tls_alert_received"));
    reported(
        &gateway,
        "client_certificate_required",
        "the endpoint demands a client certificate, and the gateway showed none",
    );
    assert_eq!(origin.heads().len(), 0);
}
