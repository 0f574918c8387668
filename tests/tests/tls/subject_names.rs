//! TLS to endpoints whose certificates are accepted by a list of names (`subject_alt_names`).

use serde_json::json;
use tollgate_tests::api::{json_of, put};
use tollgate_tests::{Authority, Gateway, Issued, TlsOrigin, eventually, tollgate};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const SHOP: &str = "spiffe://example.org/ns/shop";

fn start(issued: &Issued) -> TlsOrigin {
    TlsOrigin::start(issued, None, OK, None)
}

/// A gateway whose upstreams come from its API.
fn stored() -> Gateway {
    Gateway::start("store: $DIR/store\nroutes: [{match: /*, to: up}]\nupstreams: {up: \"127.0.0.1:1\"}\n")
}

#[test]
fn one_of_the_names_is_required() {
    let authority = Authority::new();
    let gateway = Gateway::start("store: $DIR/store\nroutes: []\n");
    let ask = |issued: &Issued, names: serde_json::Value, more: serde_json::Value| {
        let origin = start(issued);
        let mut tls = json!({"ca": authority.pem(), "subject_alt_names": names});
        tls.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        let up = json!({"endpoints": format!("https://{}", origin.address()), "tls": tls, "retry": "off"});
        let answer = put(&gateway, "/upstreams/up", &up);
        assert!(answer.status < 300, "{}", answer.text());
        let answer = put(&gateway, "/routes/all", &json!({"match": "/*", "to": "up"}));
        assert!(answer.status < 300, "{}", answer.text());
        let answer = gateway.client().get("/");
        let said = if answer.status == 200 { answer.text() } else { answer.reason().to_owned() };
        (said, origin.names().first().cloned().flatten())
    };
    let names = || json!(["api.internal", SHOP]);
    let ok = || ("ok".to_owned(), None);
    let wrong = || ("tls_certificate_error".to_owned(), None);
    let none = || json!({});
    // The endpoint's own address is not in any of the certificates.
    assert_eq!(ask(&authority.issue(&["api.internal"]), names(), none()), ok());
    assert_eq!(ask(&authority.issue_uris(&[], &[SHOP]), names(), none()), ok());
    assert_eq!(ask(&authority.issue_uris(&["other"], &[SHOP]), names(), none()), ok());
    assert_eq!(ask(&authority.issue(&["127.0.0.1"]), json!("127.0.0.1"), none()), ok());
    // Not even the name of the connection helps.
    assert_eq!(ask(&authority.issue(&["127.0.0.1"]), names(), none()), wrong());
    assert_eq!(ask(&authority.issue_uris(&[], &["spiffe://example.org/ns/other"]), names(), none()), wrong());
    assert_eq!(ask(&authority.issue_uris(&[], &[SHOP, "spiffe://example.org/b"]), names(), none()), wrong());
    // The issuer counts as before.
    assert_eq!(ask(&Authority::new().issue(&["api.internal"]), names(), none()), wrong());
    assert_eq!(ask(&authority.issue_until(&["api.internal"], -3), names(), none()), wrong());
    // SNI is as configured, and does not count for the certificate.
    let named = || ("ok".to_owned(), Some("front.example".to_owned()));
    let issued = authority.issue(&["api.internal"]);
    assert_eq!(ask(&issued, names(), json!({"server_name": "front.example"})), named());
    assert_eq!(ask(&issued, names(), json!({"sni": "front.example"})), named());
    assert_eq!(ask(&issued, names(), json!({"server_name": "front.example", "sni": "off"})), ok());
    let detail = || {
        gateway
            .records()
            .iter()
            .any(|it| it["detail"].to_string().contains("certificate is for another name"))
    };
    eventually("the reason in the log", detail);
}

#[test]
fn errors_are_reported() {
    let gateway = stored();
    let up = |tls: serde_json::Value| {
        let value = json!({"endpoints": "https://127.0.0.1:1", "tls": tls});
        let answer = put(&gateway, "/upstreams/other", &value);
        (answer.status, json_of(&answer)["problems"].to_string())
    };
    for (names, words) in [
        (json!(["spiffe://"]), "is not a URI"),
        (json!(["Spiffe://a/b"]), "is not a URI"),
        (json!(["a b"]), "not allowed in host names"),
        (json!(["*.example.com"]), "not allowed in host names"),
        (json!([]), "empty list"),
    ] {
        let (status, said) = up(json!({ "subject_alt_names": names }));
        assert!(status == 422 && said.contains(words), "{names}: {said}");
    }
    let (status, said) = up(json!({"subject_alt_names": "a.b", "verify": "dangerously_off"}));
    assert!(status == 422 && said.contains("`subject_alt_names` has no effect"), "{said}");
    assert_eq!(up(json!({"subject_alt_names": [SHOP, "a.b", "10.0.0.1"]})).0, 201);
    let ran = tollgate(&["reference"]);
    assert!(ran.out.contains("`subject_alt_names`"));
}
