//! Clients that use a connection well, badly, or not at all.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use tollgate_tests::{DEADLINE, Gateway, Origin, TlsPeer, eventually};

use super::gateway;

/// Returns whether the gateway has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    // An alert may come first.
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).is_ok()
}

fn to(origin: &Origin) -> String {
    format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    )
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let origin = Origin::echo();
    let (gateway, authority, _files) = gateway(&to(&origin));
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    for size in [0, 1, 16_383, 16_384, 16_385, 65_536, 300_000, 2_000_000] {
        let body: String = (0..size).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        client.send(
            format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n{body}").as_bytes(),
        );
        let answer = client.answer().expect("an answer");
        let (_, got) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(got.strip_prefix("POST / ") == Some(body.as_str()), "{size} bytes");
    }
}

#[test]
fn a_client_that_reads_late_gets_all_of_it() {
    let body = "x".repeat(20_000_000);
    let origin = Origin::fixed(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let (gateway, authority, _files) = gateway(&to(&origin));
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    // The origin sends more than both send queues hold, and the gateway buffers as much as it may.
    eventually("the request", || origin.requests().len() == 1);
    let before = gateway.memory_kib("VmRSS");
    let answer = client.answer().expect("an answer");
    assert!(answer.ends_with(&body));
    assert!(gateway.memory_kib("VmHWM") < before + 16 * 1024);
}

#[test]
fn close_notify_ends_a_body_and_a_bare_close_cuts_it() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&to(&origin));
    let peer = TlsPeer::trusting(&authority);
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    assert!(client.rest().expect("announced").ends_with(b"ok"));
    let yaml = to(&origin).replace("tls: {", "half_close: on, tls: {");
    let (patient, authority, _own_files) = super::gateway(&yaml);
    // Half-closed: the request is answered if the listener permits it.
    let other = TlsPeer::trusting(&authority);
    let mut client = other.connect(patient.address(), "a.example").expect("a handshake");
    client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.end();
    assert!(client.answer().expect("an answer").ends_with("ok"));
    // A body that is cut off is not a whole one.
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    client.send(b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nab");
    client.socket().shutdown(Shutdown::Both).expect("open");
    // The connection ends or is reset, depending on whether the gateway's session tickets arrive before.
    let cut = |reason: &serde_json::Value| reason == "client_closed" || reason == "incomplete_request";
    eventually("the end", || gateway.records().iter().any(|record| cut(&record["reason"])));
}

#[test]
fn clients_without_tls_are_closed_and_block_no_other() {
    let (gateway, authority, _files) = gateway(
        "timeouts: {handshake: 300ms}\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n",
    );
    let mut silent: Vec<_> =
        (0..20).map(|_| TcpStream::connect(gateway.address()).expect("accepted")).collect();
    let mut half = TcpStream::connect(gateway.address()).expect("accepted");
    half.write_all(&[22, 3, 1, 2, 0, 1]).expect("sent");
    let mut plain = TcpStream::connect(gateway.address()).expect("accepted");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
    assert!(is_closed(&mut plain));
    assert!(is_closed(&mut half));
    assert!(silent.iter_mut().all(is_closed));
    assert!(
        client.get("a.example", "/").starts_with("HTTP/1.1 204"),
        "a handshake's time is not a connection's"
    );
}

#[test]
fn records_that_are_not_genuine_end_the_connection() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
    let mut socket = client.socket().try_clone().expect("a clone");
    socket.write_all(&[23, 3, 3, 0, 32]).and_then(|()| socket.write_all(&[7; 32])).expect("sent");
    assert!(is_closed(&mut socket));
    still_serves(&gateway, &authority);
}

fn still_serves(gateway: &Gateway, authority: &tollgate_tests::Authority) {
    let mut client =
        TlsPeer::trusting(authority).connect(gateway.address(), "a.example").expect("a handshake");
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
}

#[test]
fn a_missing_required_certificate_is_refused() {
    let (gateway, authority, _files) = gateway(
        "listen: {bind: $LISTEN, tls: {$A, client_certificates: {ca: $FILES/ca.pem}}}\n\
         routes: [{match: \"/*\", respond: 204}]\n",
    );
    let (own, stranger) = (authority.issue(&["client.example"]), tollgate_tests::Authority::new());
    let ask = |peer: TlsPeer| {
        // With TLS 1.3 the refusal arrives after the client's end of the handshake.
        let mut client = peer.connect(gateway.address(), "a.example")?;
        client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        client.answer()
    };
    assert!(ask(TlsPeer::showing(&authority, &own)).expect("an answer").starts_with("HTTP/1.1 204"));
    assert!(ask(TlsPeer::trusting(&authority)).is_err());
    assert!(ask(TlsPeer::showing(&authority, &stranger.issue(&["client.example"]))).is_err());
}

#[test]
fn an_end_that_is_announced_while_the_answer_is_awaited_ends_the_exchange() {
    for behind in [b"".as_slice(), b"GET /b HTTP/1.1\r\nHost: a.example\r\n\r\n"] {
        let origin = Origin::play(|conn| while conn.request().is_some() {});
        let (gateway, authority, _files) = gateway(&to(&origin));
        let peer = TlsPeer::trusting(&authority);
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        client.send(b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
        eventually("the request at the origin", || origin.count() == 1);
        if !behind.is_empty() {
            client.send(behind);
        }
        client.end();
        eventually("the origin's connection to end", || origin.open() == 0);
        let record = &gateway.wait_records(1)[0];
        assert_eq!((&record["reason"], &record["status"]), (&"client_closed".into(), &0.into()));
        assert_eq!(origin.count(), 1);
    }
}
