//! Certificates as resources: the gateway serves them by SNI, next to the file's certificates, as soon as
//! they are written.

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Authority, Gateway, Issued, Signal, TlsPeer, eventually};

use crate::tls::{Files, gateway};

/// Starts a gateway with a store, and with a certificate from its file for `a.example`.
fn secure() -> (Gateway, Authority, Files) {
    gateway(
        "workers: 2\nstore: $DIR/store\nadmin: {bind: $ADMIN, files: $FILES}\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: here}]\n",
    )
}

fn value(issued: &Issued) -> Value {
    json!({ "certificate": issued.chain, "key": issued.key })
}

/// Returns the certificate that a client gets for this name; `None` if it is not trusted. All workers must
/// agree.
fn shown(gateway: &Gateway, authority: &Authority, name: &str) -> Option<Vec<u8>> {
    let all: Vec<_> = (0..4)
        .map(|_| {
            let client = TlsPeer::trusting(authority).connect(gateway.address(), name).ok()?;
            Some(client.connection().peer_certificates().expect("shown")[0].to_vec())
        })
        .collect();
    assert!(all.iter().all(|one| *one == all[0]), "on every worker");
    all[0].clone()
}

#[test]
fn a_certificate_serves_by_name_when_it_is_answered() {
    let (mut gateway, authority, _files) = secure();
    let (first, second) = (authority.issue(&["b.example"]), authority.issue(&["b.example"]));
    let mut before =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    assert!(before.get("a.example", "/").ends_with("here"));
    let own = shown(&gateway, &authority, "a.example").expect("the file's");
    assert_eq!(shown(&gateway, &authority, "b.example"), None);
    assert_eq!(put(&gateway, "/certificates/b", &value(&first)).status, 201);
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(first.der()));
    assert_eq!(shown(&gateway, &authority, "a.example"), Some(own.clone()), "the file's stays");
    // A replacement leaves open connections as they are.
    assert_eq!(put(&gateway, "/certificates/b", &value(&second)).status, 200);
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(second.der()));
    assert!(before.get("a.example", "/").ends_with("here"), "no connection was dropped");
    let ends =
        gateway.metrics().sum("tollgate_tls_certificate_not_after_timestamp_seconds", "certificates/b");
    assert!(ends.is_some_and(|ends| ends > 1.0), "{ends:?}");
    assert_eq!(call(&gateway, "POST", "/rollback/1", "", "").status, 200);
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(first.der()));
    gateway.kill_and_restart();
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(first.der()));
    assert_eq!(call(&gateway, "DELETE", "/certificates/b", "", "").status, 200);
    assert_eq!(shown(&gateway, &authority, "b.example"), None);
    assert_eq!(shown(&gateway, &authority, "a.example"), Some(own));
}

#[test]
fn files_are_named_and_listeners_are_chosen() {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example"]));
    let (b, c) = (authority.issue(&["b.example"]), authority.issue(&["c.example"]));
    files.put("b", &b);
    let other = tollgate_tests::free_address();
    let gateway = Gateway::start(&format!(
        "store: $DIR/store\nadmin: {{bind: $ADMIN, files: {2}}}\nlisten:\n- {{bind: $LISTEN, tls: {{{0}}}}}\n- {{bind: \"{other}\", tls: {{{0}}}}}\n\
         certificates: {{everywhere: {{{1}}}}}\nroutes: [{{match: \"/*\", respond: here}}]\n",
        files.pair("a"),
        files.pair("b"),
        files.path().display()
    ));
    let at = |address, name: &str| {
        let client = TlsPeer::trusting(&authority).connect(address, name).ok()?;
        Some(client.connection().peer_certificates().expect("shown")[0].to_vec())
    };
    for address in [gateway.address(), other] {
        assert_eq!(at(address, "b.example"), Some(b.der()), "the file's");
    }
    files.put("c", &c);
    let path = files.path().display();
    let mut paths = json!({"certificate": format!("{path}/c.pem"), "key": format!("{path}/c.key"), "listeners": other.to_string()});
    assert_eq!(put(&gateway, "/certificates/c", &paths).status, 201);
    assert_eq!((at(other, "c.example"), at(gateway.address(), "c.example")), (Some(c.der()), None));
    let read = json_of(&call(&gateway, "GET", "/certificates/c", "", ""));
    assert_eq!(read, paths, "a path tells nothing");
    // An address without a listener, and a name that the file uses.
    paths["listeners"] = json!([other.to_string(), "127.0.0.1:1"]);
    let answer = json_of(&put(&gateway, "/certificates/c", &paths));
    let problem = &answer["problems"][0];
    assert_eq!(
        (&problem["pointer"], &problem["message"]),
        (&json!("/listeners/1"), &json!("no listener with `tls` has the address 127.0.0.1:1"))
    );
    assert_eq!(json_of(&put(&gateway, "/certificates/everywhere", &value(&c)))["error"], "of_the_file");
}

#[test]
fn a_certificate_that_cannot_be_used_changes_nothing() {
    let (gateway, authority, files) = secure();
    let none = files.path().join("no-such.pem");
    let (one, other) = (authority.issue(&["b.example"]), authority.issue(&["b.example"]));
    assert_eq!(put(&gateway, "/certificates/b", &value(&one)).status, 201);
    for (value, pointer, words) in [
        (json!({"certificate": one.chain, "key": other.key}), "/key", "it is not the key of the certificate"),
        (json!({"certificate": one.chain}), "/certificate", "there is no private key in it"),
        (json!({"certificate": one.key, "key": one.key}), "/certificate", "there is no certificate in it"),
        (json!({"certificate": none, "key": one.key}), "/certificate", "there is no such file"),
        (json!({"certificate": one.chain, "key": one.key, "kay": 1}), "/kay", "unknown key"),
    ] {
        let answer = put(&gateway, "/certificates/b", &value);
        let reported = json_of(&answer);
        let problem = &reported["problems"][0];
        assert_eq!((answer.status, &problem["pointer"]), (422, &json!(pointer)), "{reported}");
        assert!(problem["message"].as_str().is_some_and(|message| message.contains(words)), "{reported}");
        assert!(!answer.text().contains("PRIVATE KEY---"), "{reported}");
    }
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(one.der()));
    assert_eq!(json_of(&call(&gateway, "GET", "", "", ""))["version"], 1);
    // The API checks the certificate even if no listener speaks TLS.
    let plain = Gateway::start("store: $DIR/store\nroutes: []");
    let wrong = json!({"certificate": one.chain, "key": other.key});
    assert_eq!(put(&plain, "/certificates/b", &wrong).status, 422);
    assert_eq!(put(&plain, "/certificates/b", &value(&one)).status, 201);
}

#[test]
fn private_keys_are_never_shown() {
    let (gateway, authority, _files) = secure();
    let issued = authority.issue(&["b.example"]);
    let secret = issued.key.lines().nth(1).expect("a line of the key");
    let answer = put(&gateway, "/certificates/b", &value(&issued));
    let mut reported = answer.text() + &gateway.stderr();
    for path in ["/certificates/b", "/certificates", "/config", "/history/1", "/history"] {
        reported += &call(&gateway, "GET", path, "", "").text();
    }
    assert!(!reported.contains(secret) && !reported.contains("PRIVATE KEY"), "{reported}");
    let read = json_of(&call(&gateway, "GET", "/certificates/b", "", ""));
    assert_eq!((&read["key"], &read["certificate"]), (&json!("(secret)"), &json!(issued.chain)));
    let other = put(&gateway, "/certificates/other", &read);
    assert_eq!((other.status, &json_of(&other)["problems"][0]["pointer"]), (422, &json!("/key")));
    // The masked value can be written back without a change, and so can a patch without the key.
    assert_eq!(put(&gateway, "/certificates/b", &read).status, 200);
    let patch = json!({"listeners": gateway.address().to_string()});
    assert_eq!(call(&gateway, "PATCH", "/certificates/b", JSON, &patch.to_string()).status, 200);
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(issued.der()));
}

#[test]
fn a_reload_keeps_what_the_store_has_and_reads_its_files_again() {
    let (gateway, authority, files) = secure();
    let (first, second) = (authority.issue(&["b.example"]), authority.issue(&["b.example"]));
    files.put("b", &first);
    let path = files.path().display();
    let paths = json!({"certificate": format!("{path}/b.pem"), "key": format!("{path}/b.key")});
    assert_eq!(put(&gateway, "/certificates/b", &paths).status, 201);
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(first.der()));
    let reload = |word: &str| {
        let before = gateway.stderr().len();
        gateway.signal(Signal::HUP);
        eventually("word of the reload", || gateway.stderr()[before..].contains(word));
        gateway.stderr()[before..].to_owned()
    };
    files.put("b", &second);
    reload("reloaded");
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(second.der()));
    // An unusable file is refused, and the old certificate stays in use.
    files.write("b.key", "nothing");
    let reported = reload("not loaded");
    assert!(
        reported.contains("there is no private key in it") && reported.contains("store: certificates/b"),
        "{reported}"
    );
    assert_eq!(shown(&gateway, &authority, "b.example"), Some(second.der()));
}
