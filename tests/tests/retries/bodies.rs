//! Bodies that can be sent again, and bodies that cannot.

use tollgate_tests::Origin;

use super::{addresses, gateway};

const ON: &str = ", retry: {on: [reset, 503]}";

/// Starts an origin that reads requests whole, and fails the first one for each target: without an answer, or
/// with 503.
fn bad_at_first(status: bool) -> Origin {
    let seen = std::sync::Mutex::new(std::collections::HashSet::new());
    Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if !seen.lock().expect("targets").insert(request.target.clone()) {
                conn.ok(&format!("{} bytes", request.body.len()));
            } else if status {
                conn.send("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
            } else {
                return;
            }
        }
    })
}

#[test]
fn a_body_that_came_with_its_head_is_sent_again() {
    for status in [false, true] {
        let origin = bad_at_first(status);
        let gateway = gateway(&addresses(&[&origin]), ON, "", "");
        let mut client = gateway.client();
        // Followed directly by the next request.
        client.send(
            "PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        assert_eq!(client.response().text(), "5 bytes");
        assert_eq!(client.response().text(), "0 bytes");
        let seen = origin.requests();
        assert_eq!(seen.len(), 4);
        assert_eq!((&seen[0].body, &seen[0].headers), (&seen[1].body, &seen[1].headers));
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_body_in_pieces_is_not_sent_again() {
    for status in [false, true] {
        let origin = bad_at_first(status);
        let gateway = gateway(&addresses(&[&origin]), ON, "", "");
        let mut client = gateway.client();
        client.send("PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
        tollgate_tests::eventually("the first half", || origin.bytes_received() > 0);
        client.send("hello");
        let response = client.response();
        let expected = if status { (503, "-") } else { (502, "connection_terminated") };
        assert_eq!((response.status, response.reason()), expected);
        assert_eq!(client.get("/2").text(), "0 bytes", "the client's connection is as good as before");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_collected_body_is_sent_again() {
    let long = "x".repeat(300_000);
    for status in [false, true] {
        let origin = bad_at_first(status);
        let gateway =
            gateway(&addresses(&[&origin]), ON, ", buffer: {request: {memory: 64KiB, file: 1MiB}}", "");
        let mut client = gateway.client();
        client.send("PUT /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        client.send("5\r\nhello\r\n0\r\n\r\n");
        assert_eq!(client.response().text(), "10 bytes");
        client.send(format!("PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{long}", long.len()));
        assert_eq!(client.response().text(), "300000 bytes");
        assert!(
            origin
                .requests()
                .iter()
                .filter(|request| request.target == "/2")
                .all(|r| r.body == long.as_bytes())
        );
        assert_eq!(origin.count(), 4);
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn the_connection_lives_on_after_the_last_failure() {
    let origin = Origin::play(|conn| {
        if let Some(request) = conn.request()
            && request.method == "GET"
        {
            conn.ok("ok");
        }
    });
    for buffer in ["", ", buffer: {request: {memory: 64KiB}}"] {
        let gateway = gateway(&addresses(&[&origin]), ON, buffer, "");
        let mut client = gateway.client();
        for _ in 0..3 {
            let response = client.ask("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
            assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
            assert!(!response.says_close());
            assert_eq!(client.get("/").text(), "ok");
        }
    }
}
