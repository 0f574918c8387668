//! The bytes of one request are never read as another, even if something fails half-way.

use std::time::Duration;

use tollgate_observe::Reason;

use crate::gateway::Gateway;
use crate::origin::Origin;

const SOON: Duration = Duration::from_secs(5);

fn refused() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// The write of the head fails with a reset. The body, which was already here, goes with it.
#[test]
fn the_body_of_a_request_that_could_not_be_written_is_not_the_next_request() {
    const TRIES: usize = 5000;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let gateway = Gateway::to(&listener.local_addr().expect("an address").to_string(), "", "");
    // Accepted sockets inherit this: each is reset at once.
    socket2::SockRef::from(&listener).set_linger(Some(Duration::ZERO)).expect("linger");
    std::thread::spawn(move || while listener.accept().is_ok() {});
    let inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    // The scheduler decides whether the reset or the write comes first: with this number of tries, both
    // occur.
    for _ in 0..TRIES {
        let mut client = gateway.client();
        let head = format!("POST /outer HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", inner.len());
        let answer = client.ask(format!("{head}{inner}"));
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
    let ended = gateway.end(SOON);
    assert_eq!(ended.lines.iter().filter(|line| line.contains("/smuggled")).count(), 0);
    assert_eq!(ended.lines.len(), TRIES);
}

/// The gateway has read the body when the endpoint refuses, so the next bytes in the inbox are the next
/// request.
#[test]
fn a_pipelined_request_behind_a_collected_body_is_not_taken_for_the_body() {
    let gateway = Gateway::to(&refused(), ", buffer: {request: true}", "");
    let mut client = gateway.client();
    let first = "POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n123456789012345678901234567890";
    client.send(format!("{first}GET /two HTTP/1.1\r\nHost: a\r\nX-Padding: 0123456789\r\n\r\n"));
    assert!(client.answer().starts_with("HTTP/1.1 502 "));
    assert!(client.answer().starts_with("HTTP/1.1 502 "));
    drop(client);
    let ended = gateway.end(SOON);
    assert_eq!(
        ended.lines,
        ["502 connection_refused 30 36 0 POST /one", "502 connection_refused 0 36 0 GET /two"]
    );
}

/// An HTTP/1.0 client reads to the end of the stream: only a reset shows that the response was cut, even if
/// the client has sent more.
#[test]
fn a_cut_answer_never_ends_like_a_whole_one() {
    let origin = Origin::new(|mut connection, _| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    });
    for more in ["", "GET /more HTTP/1.0\r\n\r\n"] {
        let gateway = Gateway::to(&origin.to(), "", "");
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.0\r\n\r\n{more}"));
        let error = client.rest().expect_err("a reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        drop(client);
        assert_eq!(gateway.end(SOON).reason(Reason::HttpResponseIncomplete), 1);
    }
}

/// A gateway that closes on its own must not destroy its last response with a reset.
#[test]
fn the_last_answer_arrives_though_more_requests_were_sent() {
    let origin = Origin::new(|mut connection, _| {
        connection.request();
        std::thread::sleep(Duration::from_millis(100));
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let gateway = Gateway::to(&origin.to(), "", "limits: {requests_per_connection: 1}");
    for _ in 0..5 {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        std::thread::sleep(Duration::from_millis(30));
        // These bytes stay in the kernel, unread, while the response is on its way.
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        std::thread::sleep(Duration::from_millis(150));
        let all = client.rest().expect("an end, not a reset");
        assert!(String::from_utf8_lossy(&all).ends_with("\r\nok"));
    }
    assert_eq!(gateway.end(SOON).counts.requests, 5);
}

#[test]
fn one_empty_line_may_precede_a_request() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {header: 100ms}");
    let mut client = gateway.client();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\r\n";
    assert!(client.ask(post).ends_with("\r\nok"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(gateway.counts().in_flight, 0);
    assert!(client.ask(post.trim_end()).ends_with("\r\nok"));
    // The same in a read of its own.
    client.send("\r\n");
    std::thread::sleep(Duration::from_millis(300));
    assert!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\nok"));
    drop(client);
    assert_eq!(gateway.end(SOON).reason(Reason::None), 3);
}

#[test]
fn an_upgrade_response_has_one_upgrade_field_and_no_length() {
    let origin = Origin::new(|mut connection, _| {
        connection.request();
        connection.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Content-Length: 5\r\n\r\nhello",
        );
    });
    let gateway = Gateway::to(&origin.to(), "", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).expect("half-closed");
    let answer = String::from_utf8(client.rest().expect("an end")).expect("text");
    assert_eq!(
        answer,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
    );
    gateway.end(SOON);
}
