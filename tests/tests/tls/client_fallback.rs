//! Clients without a valid certificate that a listener lets in (`mode: insecure_fallback`).

use serde_json::json;
use tollgate_tests::api::{call, json_of};
use tollgate_tests::{Authority, Gateway, Issued, Origin, TlsPeer, eventually, tollgate};

use super::{Files, gateway, versions};

fn listening(origin: &Origin, mode: &str, more: &str) -> (Gateway, Authority, Files) {
    gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: {mode}}}}}}}\n\
         forwarded: {{client_certificate: {{X-Verified: verified, X-Subject: subject, X-Names: names, Client-Cert: certificate}}}}\n\
         routes:\n- {{match: \"/*\", to: [{}]{more}}}\n",
        origin.address()
    ))
}

/// The fields that tell the origin about the certificate of a client.
fn reported(origin: &Origin, gateway: &Gateway, peer: &TlsPeer) -> [Option<String>; 4] {
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    let forged = "X-Verified: true\r\nX-Subject: CN=forged\r\nX-Names: DNS:forged\r\nClient-Cert: :AA==:\r\n";
    client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{forged}\r\n").as_bytes());
    let answer = client.answer().expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let request = origin.requests().pop().expect("it arrived");
    ["X-Verified", "X-Subject", "X-Names", "Client-Cert"]
        .map(|name| request.headers.get(name).map(str::to_owned))
}

fn strangers(authority: &Authority) -> [Issued; 3] {
    [
        Authority::called("somebody else").issue(&["client.example"]),
        // Has the name of the trusted authority, but another key signed it.
        Authority::new().issue(&["client.example"]),
        authority.issue_until(&["client.example"], -1),
    ]
}

#[test]
fn invalid_certificates_are_admitted_and_marked() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = listening(&origin, "insecure_fallback", "");
    let own = authority.issue(&["client.example"]);
    for version in versions() {
        let peer = |own: Option<&Issued>| TlsPeer::speaking(&authority, &[version], own);
        let [verified, subject, names, certificate] = reported(&origin, &gateway, &peer(Some(&own)));
        assert_eq!((verified.as_deref(), names.as_deref()), (Some("true"), Some("DNS:client.example")));
        assert!(subject.is_some() && certificate.is_some());
        // Nothing that an invalid certificate says is passed on.
        for stranger in &strangers(&authority) {
            let marked = [Some("false".to_owned()), None, None, None];
            let peer = peer(Some(stranger));
            assert_eq!(reported(&origin, &gateway, &peer), marked, "{version:?}");
            // A second connection is a full handshake again: a session would not remember what was verified.
            assert_eq!(reported(&origin, &gateway, &peer), marked, "{version:?}");
        }
        assert_eq!(reported(&origin, &gateway, &peer(None)), [const { None }; 4]);
    }
    let records = gateway.wait_records(16);
    let marks: Vec<_> = records.iter().map(|record| record["client_unverified"].as_str()).collect();
    let each = [&[None][..], &[Some("true"); 6], &[None]].concat();
    assert_eq!(marks, [&each[..], &each].concat());
    for record in records.iter().filter(|record| !record["client_unverified"].is_null()) {
        assert!(record["client_subject"].is_null() && record["client_fingerprint"].is_null(), "{record}");
    }
    let listed = json_of(&call(&gateway, "GET", "/listeners", "", ""));
    let client = &listed["items"][0]["tls"]["client"];
    assert_eq!((&client["insecure_fallback"], &client["required"]), (&json!(true), &json!(false)));
}

#[test]
fn a_policy_that_asks_for_a_certificate_takes_an_invalid_one_for_none() {
    let origin = Origin::ok();
    let (gateway, authority, _files) =
        listening(&origin, "insecure_fallback", ", policies: {client_certificate: on}");
    let own = authority.issue(&["client.example"]);
    let ask = |own: Option<&Issued>| {
        let peer = TlsPeer::speaking(&authority, rustls::DEFAULT_VERSIONS, own);
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        client.get("a.example", "/").lines().next().unwrap_or_default().to_owned()
    };
    let none = ask(None);
    assert!(!none.contains("200"), "{none}");
    for stranger in &strangers(&authority) {
        assert_eq!(ask(Some(stranger)), none, "as without one");
    }
    assert_ne!(ask(Some(&own)), none);
}

#[test]
fn no_other_mode_lets_them_in() {
    let origin = Origin::ok();
    for mode in ["optional", "required"] {
        let (gateway, authority, _files) = listening(&origin, mode, "");
        for stranger in &strangers(&authority) {
            let peer = TlsPeer::showing(&authority, stranger);
            // In TLS 1.3 the client's handshake is complete before it learns of the refusal.
            if let Ok(mut client) = peer.connect(gateway.address(), "a.example") {
                client.rest().expect_err("refused");
            }
        }
        let name = "tollgate_tls_handshake_failures_total";
        let failures = || gateway.metrics().sum(name, "reason=\"certificate").unwrap_or_default();
        eventually("three failures", || failures() == 3.0);
        let own = authority.issue(&["client.example"]);
        let verified = reported(&origin, &gateway, &TlsPeer::showing(&authority, &own))[0].clone();
        assert_eq!(verified.as_deref(), Some("true"), "{mode}");
    }
    let requests = origin.requests().len();
    assert_eq!(requests, 2, "nothing of the strangers arrived");
}

#[test]
fn check_warns_and_the_admin_listener_refuses() {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example"]));
    files.write("ca.pem", &authority.pem());
    let tls =
        "tls: {certificate: a.pem, key: a.key, client_certificates: {ca: ca.pem, mode: insecure_fallback}}";
    let check = |yaml: &str| {
        files.write("tollgate.yaml", yaml);
        let ran = tollgate(&["check", &files.path().join("tollgate.yaml").display().to_string()]);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    let routes = "routes: [{match: /*, respond: 204}]\n";
    let (code, said) = check(&format!("listen: {{bind: 127.0.0.1:8443, {tls}}}\n{routes}"));
    assert!(
        code == Some(0) && said.contains("clients without a valid certificate are let in here"),
        "{said}"
    );
    let (code, said) =
        check(&format!("listen: 127.0.0.1:80\nadmin: {{bind: 127.0.0.1:9911, {tls}}}\n{routes}"));
    assert!(code == Some(1) && said.contains("the admin listener admits no client"), "{said}");
}
