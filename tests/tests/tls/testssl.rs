//! testssl.sh against a listener with only a certificate configured: it finds no problem.

use std::process::Command;

use serde_json::Value;

use super::gateway;

/// Findings about the test's own certificate and host, which no gateway can change.
const OF_THE_CERTIFICATE: [&str; 6] = [
    // It is valid for two thousand years.
    "cert_validityPeriod",
    // It has no revocation service, and no transparency log contains it.
    "cert_revocation",
    "cert_crlDistributionPoints",
    "OCSP_stapling",
    "DNS_CAArecord",
    "cert_chain_of_trust",
];

/// All checks except two: the simulation of every client, and every cipher one by one. Both take minutes and
/// repeat what the others find, because neither is configurable here.
const CHECKS: [&str; 7] =
    ["--protocols", "--std", "--fs", "--server-preference", "--server-defaults", "--headers", "--vulnerable"];

#[test]
fn nothing_above_low_is_found() {
    let (gateway, _authority, files) = gateway(
        "listen: {bind: $LISTEN, tls: {$A, strict_transport_security: on}}\nroutes: [{match: \"/*\", respond: {status: 200, body: ok, headers: {X-Frame-Options: DENY}}}]\n",
    );
    let found = files.path().join("found.json");
    let address = gateway.address();
    let ran = Command::new("testssl")
        .args([
            "--quiet",
            "--color",
            "0",
            "--warnings",
            "batch",
            "--nodns",
            "none",
            "--connect-timeout",
            "20",
        ])
        .args(["--openssl-timeout", "20", "--ip", &address.ip().to_string()])
        .args(CHECKS)
        .arg("--jsonfile")
        .arg(&found)
        .arg(format!("a.example:{}", address.port()))
        .env("ADDITIONAL_CA_FILES", files.path().join("ca.pem"))
        .output()
        .expect("testssl is there: run scripts/install-test-tools");
    let said = String::from_utf8_lossy(&ran.stdout);
    let text = std::fs::read_to_string(&found).unwrap_or_else(|_| panic!("it found nothing at all: {said}"));
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let field = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let bad: Vec<_> = all
        .iter()
        .filter(|finding| {
            ["LOW", "MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains(&field(finding, "severity").as_str())
        })
        .filter(|finding| !OF_THE_CERTIFICATE.iter().any(|id| field(finding, "id").starts_with(id)))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}\n{said}");
    for (id, finding) in
        [("TLS1_3", "offered"), ("TLS1_2", "offered"), ("TLS1", "not offered"), ("HSTS", "given")]
    {
        let of_it =
            all.iter().filter(|it| field(it, "id") == id || field(it, "id").starts_with(&format!("{id}_")));
        let reported: Vec<_> = of_it.map(|it| field(it, "finding")).collect();
        assert!(
            !reported.is_empty() && reported.iter().any(|it| it.contains(finding) || id == "HSTS"),
            "{id}: {reported:?}"
        );
    }
}
