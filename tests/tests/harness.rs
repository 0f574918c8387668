//! The harness against itself: its client and its origin understand each other without a gateway.

use std::sync::Arc;

use tollgate_tests::{Client, Framing, Gate, Origin, ReadError};

fn direct(origin: &Origin) -> Client {
    Client::connect(origin.address(), Arc::default())
}

#[test]
fn a_client_and_an_origin_talk() {
    let origin = Origin::echo();
    let mut client = direct(&origin);
    assert_eq!(client.get("/a").text(), "GET /a ");
    assert_eq!(client.post("/b", b"body").text(), "POST /b body");
    assert_eq!((origin.count(), origin.connections()), (2, 1));
    assert!(origin.bytes(0).starts_with(b"GET /a HTTP/1.1\r\nHost: test.example\r\n\r\nPOST /b"));
}

#[test]
fn every_framing_is_read() {
    for (response, framing, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Framing::Length(2), "hi"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\nT: v\r\n\r\n",
            Framing::Chunked,
            "hi",
        ),
        ("HTTP/1.0 200 OK\r\n\r\nhi", Framing::Close, "hi"),
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Framing::None, ""),
    ] {
        let origin = Origin::fixed_then_close(response);
        let response = direct(&origin).get("/");
        assert_eq!((response.framing, response.text().as_str()), (framing, body));
    }
}

#[test]
fn the_strict_reader_reports_violations() {
    for response in [
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    ] {
        let origin = Origin::fixed_then_close(response);
        let mut client = direct(&origin);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(matches!(client.try_response("GET"), Err(ReadError::Malformed(_))), "{response:?}");
    }
}

#[test]
fn a_reset_is_a_reset() {
    let gate = Gate::new();
    let open = gate.clone();
    let origin = Origin::play(move |conn| {
        conn.head();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour");
        open.wait();
        conn.reset();
    });
    let mut client = direct(&origin);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut head = client.head();
    gate.open();
    assert_eq!(client.try_body(&mut head), Err(ReadError::Truncated));
    assert_eq!(head.text(), "four");
}
