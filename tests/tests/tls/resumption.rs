//! Resumed sessions: where tickets are valid, and the state that a resumed session restores.

use std::net::SocketAddr;

use rustls::HandshakeKind;
use tollgate_tests::{Origin, Signal, TlsClient, TlsPeer, eventually, free_address};

use super::{gateway, versions};

/// Opens a connection and carries a request on it, because in TLS 1.3 the tickets arrive with the answer.
fn visit(peer: &TlsPeer, to: SocketAddr) -> TlsClient {
    let mut client = peer.connect(to, "a.example").expect("a handshake");
    let answer = client.get("a.example", "/");
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    client
}

fn kind(client: &TlsClient) -> Option<HandshakeKind> {
    client.connection().handshake_kind()
}

#[test]
fn a_ticket_of_tls_1_2_is_good_at_every_worker_and_outlives_a_certificate() {
    let (gateway, authority, files) =
        gateway("workers: 2\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let client = || TlsPeer::speaking(&authority, &[&rustls::version::TLS12], None);
    let (peer, address) = (client(), gateway.address());
    assert_eq!(kind(&visit(&peer, address)), Some(HandshakeKind::Full));
    // The connections stay open. Each goes to the less loaded worker, so both workers get some.
    let open: Vec<_> = (0..8).map(|_| visit(&peer, address)).collect();
    let kinds: Vec<_> = open.iter().map(kind).collect();
    assert_eq!(kinds, [Some(HandshakeKind::Resumed); 8]);
    let next = authority.issue(&["a.example"]);
    files.put("a", &next);
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    let anew = visit(&client(), address);
    assert_eq!(anew.connection().peer_certificates().expect("shown")[0].to_vec(), next.der());
    assert_eq!(kind(&visit(&peer, address)), Some(HandshakeKind::Resumed));
    eventually("the count", || {
        let labels = "version=\"1.2\",kind=\"resumed\"";
        gateway.metrics().sum("tollgate_tls_handshakes_total", labels) == Some(9.0)
    });
}

#[test]
fn a_ticket_is_good_only_where_the_same_is_asked_of_clients() {
    let (same, asking) = (free_address(), free_address());
    let (gateway, authority, _files) = gateway(&format!(
        "listen:\n  - {{bind: $LISTEN, tls: {{$A}}}}\n  - {{bind: \"{same}\", tls: {{$A}}}}\n  \
         - {{bind: \"{asking}\", tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: optional}}}}}}\n\
         routes: [{{match: \"/*\", respond: 204}}]\n"
    ));
    for version in versions() {
        let peer = TlsPeer::speaking(&authority, &[version], None);
        // The fourth shows that the third was a full handshake because of its ticket, not because of the
        // listener.
        let kinds = [gateway.address(), same, asking, asking].map(|to| kind(&visit(&peer, to)));
        let expected =
            [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Full, HandshakeKind::Resumed];
        assert_eq!(kinds, expected.map(Some), "{version:?}");
    }
}

#[test]
fn a_resumed_session_has_the_clients_certificate_of_the_first_one() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem}}}}}}\n\
         forwarded: {{client_certificate: {{X-Client-Names: names}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let own = authority.issue(&["client.example"]);
    for version in versions() {
        let peer = TlsPeer::speaking(&authority, &[version], Some(&own));
        let visits = [visit(&peer, gateway.address()), visit(&peer, gateway.address())];
        let kinds = visits.each_ref().map(kind);
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed].map(Some), "{version:?}");
    }
    let reported: Vec<_> =
        origin.requests().iter().map(|request| request.headers.all("X-Client-Names").join("|")).collect();
    assert_eq!(reported, ["DNS:client.example"; 4]);
}

#[test]
fn a_resumed_connection_is_for_its_own_host_as_the_first_one_was() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    for version in versions() {
        let peer = TlsPeer::speaking(&authority, &[version], None);
        visit(&peer, gateway.address());
        let mut resumed = visit(&peer, gateway.address());
        assert_eq!(kind(&resumed), Some(HandshakeKind::Resumed), "{version:?}");
        let answer = resumed.get("b.example", "/");
        assert!(answer.starts_with("HTTP/1.1 421"), "{version:?}: {answer}");
    }
}
