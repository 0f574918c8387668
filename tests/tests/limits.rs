//! Limits of sizes and counts. Each limit has its status and reason, and a request just below it passes.

use tollgate_tests::{Client, Gateway, Origin, ReadError, Response, eventually};

fn refused(client: &mut Client, status: u16, reason: &str) -> Response {
    let response = client.response();
    assert_eq!((response.status, response.reason()), (status, reason), "{response:?}");
    assert!(response.says_close(), "{response:?}");
    client.expect_close();
    response
}

#[test]
fn request_line() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {request_line: 1KiB}");
    let target = |n: usize| format!("/{}", "a".repeat(n));
    let line = |n: usize| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target(n));
    let mut client = gateway.client();
    assert_eq!(client.ask(line(990)).status, 200);
    for length in [1024, 1100, 5000, 100_000, 1_000_000] {
        for dribbled in [false, length < 5000] {
            let mut client = gateway.client();
            if dribbled {
                client.dribble(line(length));
            } else {
                client.send(line(length));
            }
            refused(&mut client, 414, "request_line_too_long");
        }
    }
    // A line without an end is refused as soon as it is too long.
    let mut client = gateway.client();
    client.send(format!("GET {}", target(3000)));
    refused(&mut client, 414, "request_line_too_long");
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn header_bytes() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {headers: 4KiB}");
    let head = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "b".repeat(n));
    assert_eq!(gateway.client().ask(head(3900)).status, 200);
    for length in [4096, 5000, 100_000, 1_000_000] {
        let mut client = gateway.client();
        client.send(head(length));
        refused(&mut client, 431, "headers_too_large");
    }
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Endless: {}", "c".repeat(5000)));
    refused(&mut client, 431, "headers_too_large");
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn header_count() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {header_count: 20}");
    let head = |n: usize| {
        let fields: String = (0..n).map(|i| format!("X-{i}: v\r\n")).collect();
        format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    };
    assert_eq!(gateway.client().ask(head(19)).status, 200);
    for count in [20, 21, 100, 1000] {
        let mut client = gateway.client();
        client.send(head(count));
        refused(&mut client, 431, "too_many_headers");
    }
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_defaults_hold() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let field = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "b".repeat(n));
    assert_eq!(gateway.client().ask(field(31 * 1024)).status, 200);
    let mut client = gateway.client();
    client.send(field(33 * 1024));
    refused(&mut client, 431, "headers_too_large");
    let mut client = gateway.client();
    client.send(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(8200)));
    refused(&mut client, 414, "request_line_too_long");
    gateway.reconcile(&[&origin]);
}

mod body {
    use super::*;

    fn gateway(origin: &Origin) -> Gateway {
        Gateway::start(&format!(
            "limits: {{body: 100}}\nroutes:\n  - {{match: \"/big/*\", to: [{0}], limits: {{body: 1000}}}}\n  - {{match: \"/*\", to: [{0}]}}\n",
            origin.address()
        ))
    }

    #[test]
    fn by_length_is_refused_at_once() {
        let origin = Origin::ok();
        let gateway = gateway(&origin);
        assert_eq!(gateway.client().post("/", &[b'x'; 100]).status, 200);
        assert_eq!(gateway.client().post("/big/", &[b'x'; 1000]).status, 200);
        for (target, length) in [("/", 101_u64), ("/big/", 1001), ("/", 1 << 60)] {
            let mut client = gateway.client();
            // Only the head is sent: the answer does not wait for a body.
            client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
            refused(&mut client, 413, "body_too_large");
        }
        assert_eq!(origin.count(), 2);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn by_chunks_is_refused_when_it_passes_the_limit() {
        let origin = Origin::ok();
        let gateway = gateway(&origin);
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let fits = format!("{head}{}0\r\n\r\n", format!("a\r\n{}\r\n", "x".repeat(10)).repeat(10));
        assert_eq!(gateway.client().ask(fits).status, 200);
        for body in [format!("65\r\n{}\r\n", "x".repeat(101)), "1\r\nx\r\n".repeat(101)] {
            let mut client = gateway.client();
            client.send(format!("{head}{body}"));
            refused(&mut client, 413, "body_too_large");
        }
        // The whole body is here, so the connection stays open.
        let mut client = gateway.client();
        client.send(format!("{head}65\r\n{}\r\n0\r\n\r\n", "x".repeat(101)));
        let response = client.response();
        assert_eq!(
            (response.status, response.reason(), response.says_close()),
            (413, "body_too_large", false)
        );
        client.expect_silence(std::time::Duration::from_millis(20));
        for request in &origin.requests()[1..] {
            assert!(!request.complete, "{request:?}");
        }
        eventually("the origin's connections to end", || origin.open() <= 1);
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_refusal_reaches_a_client_that_still_sends() {
    // Without a lingering close, the client's further bytes would trigger a reset, and the answer could be
    // lost.
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {body: 1000}");
    for _ in 0..10 {
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
        let mut writer = client.wire().stream().expect("open").try_clone().expect("clone");
        let sending = std::thread::spawn(move || {
            use std::io::Write;
            // A reset may stop the writer, but only after the client could read the answer.
            let _ = writer.write_all(&vec![b'x'; 4_000_000]);
        });
        assert_eq!(client.response().status, 413);
        drop(client);
        sending.join().expect("no panic");
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn connections() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {connections: 5}");
    let mut kept: Vec<Client> = Vec::new();
    // The connections by which the harness checked the gateway's readiness may still be closing.
    eventually("five connections", || {
        kept.clear();
        for _ in 0..5 {
            let mut client = gateway.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            match client.try_response("GET") {
                Ok(response) if response.status == 200 => kept.push(client),
                _ => break,
            }
        }
        kept.len() == 5
    });
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_response("GET") {
            Ok(response) => assert_eq!((response.status, response.reason()), (503, "connection_limit")),
            Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
        }
        client.expect_close();
    }
    for client in &mut kept {
        assert_eq!(client.get("/").status, 200);
    }
    kept.pop();
    eventually("the place to be free again", || {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
}
