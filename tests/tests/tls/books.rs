//! TLS in metrics and logs: handshakes and why they failed, fields of the log, certificates that expire.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_tests::{Authority, DEADLINE, Gateway, Issued, TlsPeer, eventually, tollgate};

use super::{Files, gateway};

/// Returns how many handshakes have failed for this reason.
pub(super) fn failures(gateway: &Gateway, reason: &str) -> f64 {
    let metrics = gateway.metrics();
    metrics.sum("tollgate_tls_handshake_failures_total", &format!("reason=\"{reason}\"")).expect("counted")
}

#[test]
fn handshakes_are_counted_by_version_and_kind() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let old = TlsPeer::speaking(&authority, &[&rustls::version::TLS12], None);
    let new = TlsPeer::trusting(&authority);
    for peer in [&old, &new, &new, &new] {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
    }
    // A client may get its answer before the request is counted.
    eventually("the requests are counted", || {
        gateway.metrics().sum("tollgate_protocol_requests_total", "protocol=\"HTTP/1.1\"") == Some(4.0)
    });
    let metrics = gateway.metrics();
    for (version, kind, count) in
        [("1.2", "full", 1.0), ("1.2", "resumed", 0.0), ("1.3", "full", 1.0), ("1.3", "resumed", 2.0)]
    {
        let labels = format!("version=\"{version}\",kind=\"{kind}\"");
        assert_eq!(metrics.sum("tollgate_tls_handshakes_total", &labels), Some(count), "{labels}");
    }
    let ends = metrics.sum("tollgate_tls_certificate_not_after_timestamp_seconds", "a.pem").expect("known");
    assert!(ends > 1.9e9, "{ends}");
}

#[test]
fn failures_are_counted_by_reason() {
    let (gateway, authority, _files) = gateway(
        "listen: {bind: $LISTEN, tls: {$A, min_version: 1.3, client_certificates: {ca: $FILES/ca.pem}}}\n\
         timeouts: {handshake: 2s}\nroutes: [{match: \"/*\", respond: 204}]\n",
    );
    let stream = || {
        let stream = TcpStream::connect(gateway.address()).expect("the gateway accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    };
    stream().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    eventually("plain text", || failures(&gateway, "not_tls") == 1.0);
    // The harness's readiness check also connects and closes.
    let before = failures(&gateway, "closed");
    drop(stream());
    eventually("the end", || failures(&gateway, "closed") > before);
    let mut silent = stream();
    let _ = silent.read(&mut [0; 64]);
    eventually("the timeout", || failures(&gateway, "timeout") == 1.0);
    let ask = |peer: &TlsPeer| {
        // In TLS 1.3 the client's handshake is complete before it learns of the refusal.
        if let Ok(mut client) = peer.connect(gateway.address(), "a.example") {
            client.rest().expect_err("refused");
        }
    };
    ask(&TlsPeer::speaking(&authority, &[&rustls::version::TLS12], None));
    eventually("the version", || failures(&gateway, "version") == 1.0);
    ask(&TlsPeer::trusting(&authority));
    eventually("no certificate", || failures(&gateway, "certificate_missing") == 1.0);
    let stranger = Authority::called("somebody else").issue(&["client.example"]);
    ask(&TlsPeer::showing(&authority, &stranger));
    eventually("a stranger's", || failures(&gateway, "certificate_unknown_issuer") == 1.0);
    ask(&TlsPeer::showing(&authority, &authority.issue_until(&["client.example"], -1)));
    eventually("one that has ended", || failures(&gateway, "certificate_expired") == 1.0);
    ask(&TlsPeer::trusting(&Authority::new()));
    eventually("who trusts somebody else", || failures(&gateway, "alert") == 1.0);
    ask(&TlsPeer::showing(&authority, &stranger).offering(&["h9"]));
    eventually("another protocol", || failures(&gateway, "application_protocol") == 1.0);
    let done = gateway.metrics().sum("tollgate_tls_handshakes_total", "");
    assert_eq!(done, Some(0.0));
}

#[test]
fn the_log_tells_of_it() {
    let (gateway, authority, _files) = gateway(
        "listen: {bind: $LISTEN, tls: {$A, client_certificates: {ca: $FILES/ca.pem, mode: optional}}}\n\
         routes: [{match: \"/*\", respond: 204}]\n",
    );
    let own = authority.issue(&["client.example"]);
    for peer in [TlsPeer::showing(&authority, &own), TlsPeer::trusting(&authority)] {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
    }
    let records = gateway.wait_records(2);
    for (record, subject) in records.iter().zip([Some("CN=rcgen self signed cert"), None]) {
        assert_eq!(
            (&record["tls_version"], &record["sni"]),
            (&"1.3".into(), &"a.example".into()),
            "{record}"
        );
        assert!(record["tls_cipher"].as_str().is_some_and(|name| name.starts_with("TLS_")), "{record}");
        assert_eq!(record["client_subject"].as_str(), subject, "{record}");
        let hash = record["client_fingerprint"].as_str();
        assert_eq!(hash.map(str::len), subject.map(|_| 64), "{record}");
    }
}

#[test]
fn check_warns_of_certificates_that_end() {
    let (authority, files) = (Authority::new(), Files::new());
    let check = |issued: &Issued| {
        files.put("a", issued);
        let yaml = "listen: {bind: 127.0.0.1:0, tls: {certificate: a.pem, key: a.key}}\nroutes: [{match: /*, respond: 204}]\n";
        files.write("tollgate.yaml", yaml);
        let ran = tollgate(&["check", files.path().join("tollgate.yaml").to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.err
    };
    assert_eq!(check(&authority.issue_until(&["a.example"], 20)), "");
    let said = check(&authority.issue_until(&["a.example"], 5));
    // A part of a day does not count.
    assert!(["4", "5"].iter().any(|days| said.contains(&format!("`a.pem` ends in {days} days"))), "{said}");
    assert!(
        check(&authority.issue_until(&["a.example"], -1)).contains("the certificate in `a.pem` has ended")
    );
}
