//! Authorities of client certificates: replaced on disk, and certificates that none of them has signed.

use std::io::Write;

use tollgate_tests::{Authority, Gateway, Origin, Signal, TlsPeer, eventually};

use super::books::failures;
use super::{gateway, versions};

/// A client without a certificate signed by `ca.pem` is refused. At first the file holds the test's own
/// authority.
const STRICT: &str = "listen: {bind: $LISTEN, tls: {$A, client_certificates: {ca: $FILES/ca.pem}}}\n\
    routes: [{match: \"/*\", respond: 204}]\n";

/// Sends one request on a connection of its own. An error means that the client was refused. It learns this
/// in the handshake (TLS 1.2), or after its own end of the handshake (TLS 1.3).
fn ask(peer: &TlsPeer, gateway: &Gateway) -> std::io::Result<String> {
    let mut client = peer.connect(gateway.address(), "a.example")?;
    let request = client.sealed(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.socket().write_all(&request)?;
    client.answer()
}

fn is_let_in(peer: &TlsPeer, gateway: &Gateway) -> bool {
    ask(peer, gateway).is_ok_and(|answer| answer.starts_with("HTTP/1.1 204"))
}

#[test]
fn a_reload_replaces_the_trusted_authority() {
    for version in versions() {
        let (gateway, authority, files) = gateway(STRICT);
        let next = Authority::called("the next authority");
        let of = |signer: &Authority| {
            TlsPeer::speaking(&authority, &[version], Some(&signer.issue(&["client.example"])))
        };
        let (old, new) = (of(&authority), of(&next));
        let mut open = old.connect(gateway.address(), "a.example").expect("a handshake");
        assert!(open.get("a.example", "/").starts_with("HTTP/1.1 204"));
        assert!(!is_let_in(&new, &gateway), "{version:?}: nobody has signed it yet");
        files.write("ca.pem", &next.pem());
        gateway.signal(Signal::HUP);
        eventually("the reload", || gateway.stderr().contains("generation 2"));
        assert!(is_let_in(&new, &gateway), "{version:?}");
        // The client has old tickets, which are not accepted without a valid certificate.
        assert!(!is_let_in(&old, &gateway), "{version:?}");
        eventually("both in the books", || failures(&gateway, "certificate_unknown_issuer") == 2.0);
        assert!(open.get("a.example", "/").starts_with("HTTP/1.1 204"), "what is open lives on");
    }
}

#[test]
fn an_authority_that_cannot_be_used_changes_nothing() {
    let (gateway, authority, files) = gateway(STRICT);
    let own = authority.issue(&["client.example"]);
    // A client without a ticket each time: the gateway does not check the authority again for a client with
    // one.
    let goes_on = || {
        is_let_in(&TlsPeer::showing(&authority, &own), &gateway)
            && !is_let_in(&TlsPeer::trusting(&authority), &gateway)
    };
    let refusals = || gateway.stderr().matches("is not loaded").count();
    files.write("ca.pem", "no certificate\n");
    gateway.signal(Signal::HUP);
    eventually("the refusal", || refusals() == 1);
    gateway.await_message("ca.pem`: there is no certificate in it");
    assert!(goes_on());
    std::fs::remove_file(files.path().join("ca.pem")).expect("removed");
    gateway.signal(Signal::HUP);
    eventually("the second refusal", || refusals() == 2);
    gateway.await_message("ca.pem`: there is no such file");
    assert!(goes_on());
}

#[test]
fn an_authority_is_watched_as_certificates_are() {
    let (gateway, authority, files) = gateway(&format!("watch: on\n{STRICT}"));
    let next = Authority::called("the next authority");
    let old = TlsPeer::showing(&authority, &authority.issue(&["client.example"]));
    let new = TlsPeer::showing(&authority, &next.issue(&["client.example"]));
    assert!(is_let_in(&old, &gateway) && !is_let_in(&new, &gateway));
    files.write("ca.pem", &next.pem());
    eventually("the new authority", || is_let_in(&new, &gateway));
    assert!(!is_let_in(&old, &gateway));
}

#[test]
fn an_invalid_optional_certificate_is_refused() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: optional}}}}}}\n\
         forwarded: {{client_certificate: {{Client-Cert: certificate, X-Client-Names: names}}}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let stranger = Authority::called("somebody else").issue(&["client.example"]);
    let ended = authority.issue_until(&["client.example"], -1);
    for version in versions() {
        for own in [&stranger, &ended] {
            let answer = ask(&TlsPeer::speaking(&authority, &[version], Some(own)), &gateway);
            assert!(answer.is_err(), "{version:?}: {answer:?}");
        }
    }
    for reason in ["certificate_unknown_issuer", "certificate_expired"] {
        eventually(reason, || failures(&gateway, reason) == 2.0);
    }
    assert_eq!(origin.count(), 0, "nothing of theirs has gone on, with a name or without");
    let answer = ask(&TlsPeer::trusting(&authority), &gateway).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let headers = origin.request().headers;
    assert!(!headers.has("Client-Cert") && !headers.has("X-Client-Names"), "{headers:?}");
}
