//! `client_certificate`: consumers that are identified by a certificate.

use tollgate_tests::{Origin, TlsPeer, eventually};

use crate::tls::gateway;

#[test]
fn a_certificate_identifies_and_is_required() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: optional}}}}}}\n\
         consumers: {{alice: {{groups: admin, certificates: \"DNS:alice.example\"}}}}\nroutes:\n\
         - {{match: /any, to: \"{0}\", policies: {{client_certificate: on}}}}\n\
         - {{match: /some, to: \"{0}\", policies: {{client_certificate: {{allow: [\"DNS:alice.example\", \"IP:10.1.2.3\"]}}}}}}\n\
         - {{match: /admin, to: \"{0}\", policies: {{client_certificate: on, authorize: {{allow: {{groups: admin}}}}}}}}\n",
        origin.address()
    ));
    let spoofed = "X-Consumer-Name: root\r\nx_consumer_groups: admin\r\nConnection: X-Consumer-Name\r\n";
    let ask = |peer: &TlsPeer, path: &str| {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{spoofed}\r\n").as_bytes());
        let answer = client.answer().expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    let alice = TlsPeer::showing(&authority, &authority.issue(&["alice.example"]));
    let bob = TlsPeer::showing(&authority, &authority.issue(&["bob.example"]));
    let nobody = TlsPeer::trusting(&authority);
    for (peer, statuses) in
        [(&alice, ["200", "200", "200"]), (&bob, ["200", "403", "403"]), (&nobody, ["403", "403", "403"])]
    {
        assert_eq!(["/any", "/some", "/admin"].map(|path| ask(peer, path)), statuses);
    }
    let names: Vec<_> =
        origin.requests().iter().map(|got| got.headers.all("X-Consumer-Name").join("|")).collect();
    assert_eq!(names, ["alice", "alice", "alice", "CN=rcgen self signed cert"]);
    for got in origin.requests() {
        assert!(!got.headers.has("x_consumer_groups"), "{got:?}");
    }
}

#[test]
fn a_client_that_goes_in_the_middle_of_its_handshake_leaves_nothing_behind() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: required}}}}}}\n\
         routes: [{{to: \"{}\", policies: {{client_certificate: on}}}}]\n",
        origin.address()
    ));
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for cut in 1..hello.len() {
        let mut client = gateway.client();
        client.send(&hello[..cut]);
        client.reset();
    }
    let alice = TlsPeer::showing(&authority, &authority.issue(&["alice.example"]));
    let answer = alice.connect(gateway.address(), "a.example").expect("a handshake").get("a.example", "/");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(alice);
    eventually("no connection is left", || {
        gateway.metrics().sum("tollgate_client_connections", "").is_some_and(|open| open <= 1.0)
    });
    assert_eq!(origin.count(), 1);
}
