//! Unusable files for TLS to endpoints: the gateway does not start or reload with them, and names the file.

use tollgate_tests::{Authority, Gateway, Signal, TlsOrigin, eventually, tollgate};

use super::Files;

#[test]
fn run_does_not_start_and_names_the_file() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    files.put("own", &authority.issue(&["gateway.example"]));
    files.put("other", &authority.issue(&["gateway.example"]));
    files.write("words.pem", "no certificate\n");
    files.write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for (tls, said) in [
        ("ca: none.pem", "cannot read `none.pem`: there is no such file"),
        ("ca: words.pem", "cannot use `words.pem`: there is no certificate in it"),
        ("ca: broken.pem", "cannot use `broken.pem`: one of its certificates cannot be used"),
        ("ca: own.key", "cannot use `own.key`: there is no certificate in it"),
        (
            "ca: ca.pem, certificate: own.pem, key: other.key",
            "cannot use `other.key`: it is not the key of the certificate",
        ),
        ("ca: ca.pem, certificate: own.pem, key: none.key", "cannot read `none.key`: there is no such file"),
        ("ca: ca.pem, certificate: own.pem", "cannot use `own.pem`: there is no private key in it"),
        (
            "ca: ca.pem, certificate: words.pem, key: own.key",
            "cannot use `words.pem`: there is no certificate in it",
        ),
    ] {
        // No machine has this address (RFC 5737): a gateway that ignored the file would fail with another
        // message.
        let yaml = format!(
            "listen: 192.0.2.1:80\nadmin: off\nroutes: [{{match: \"/*\", to: up}}]\n\
             upstreams: {{up: {{endpoints: [\"https://127.0.0.1:1\"], tls: {{{tls}}}}}}}\n"
        );
        files.write("tollgate.yaml", &yaml);
        let ran = tollgate(&["run", files.path().join("tollgate.yaml").to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(1), "{tls}: {ran:?}");
        assert!(ran.err.contains(said) && ran.err.contains("tollgate.yaml:4:"), "{tls}: {}", ran.err);
    }
}

#[test]
fn a_reload_replaces_the_authority_and_rejects_an_unusable_one() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    // Each request has a connection of its own, because certificates are not checked again on an idle
    // connection.
    let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let origin = TlsOrigin::start(&authority.issue(&["127.0.0.1"]), None, last, Some(true));
    let gateway = Gateway::start(&format!(
        "upstreams: {{up: {{endpoints: [\"https://{}\"], tls: {{ca: {}/ca.pem}}, retry: off}}}}\n\
         routes: [{{match: \"/*\", to: up}}]\n",
        origin.address(),
        files.path().display()
    ));
    assert_eq!(gateway.client().get("/").text(), "ok");
    files.write("ca.pem", "no certificate\n");
    gateway.signal(Signal::HUP);
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    gateway.await_message("ca.pem`: there is no certificate in it");
    assert_eq!(gateway.client().get("/").text(), "ok", "the old one goes on");
    files.write("ca.pem", &Authority::called("somebody else").pem());
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    let answer = gateway.client().get("/");
    // No earlier session is resumed either; it would bring no certificate.
    assert_eq!((answer.status, answer.reason()), (502, "tls_certificate_error"));
    assert_eq!(origin.heads().len(), 2);
}
