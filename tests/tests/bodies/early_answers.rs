//! Attack class 4: an answer before the request is read whole, and the connection then used again.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin, ReadError};

/// Starts an origin that answers 401 to `POST /early` without reading the body, and echoes everything else.
fn impatient(close: bool) -> Origin {
    Origin::play(move |conn| {
        while let Some(mut request) = conn.head() {
            if request.target == "/early" {
                let connection = if close { "Connection: close\r\n" } else { "" };
                conn.send(format!("HTTP/1.1 401 Unauthorized\r\n{connection}Content-Length: 2\r\n\r\nno"));
                if close {
                    return;
                }
                // The next bytes must be the rest of the body or nothing, and never another request.
            }
            if !conn.body(&mut request) {
                return;
            }
            if request.target != "/early" {
                conn.ok(&format!("{} {}", request.target, String::from_utf8_lossy(&request.body)));
            }
        }
    })
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn the_client_gets_it_and_no_connection_is_used_wrongly() {
    for close in [false, true] {
        let origin = impatient(close);
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        // Half of the body is sent; it looks like a request.
        let length = SMUGGLED.len() * 2;
        client.send(format!("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{SMUGGLED}"));
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (401, "no"), "close {close}");
        // The other half follows. Either the gateway reads it as body and keeps the connection, or it closes.
        client.send(SMUGGLED);
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_response("GET") {
            Ok(response) => assert_eq!(response.text(), "/next "),
            Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
        }
        assert_eq!(gateway.client().get("/other").text(), "/other ");
        for request in origin.requests() {
            assert_ne!(request.target, "/smuggled", "close {close}");
        }
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn it_reaches_a_client_that_is_still_uploading() {
    // A 413 to an upload of 64 MiB of which the origin reads nothing.
    let origin = Origin::play(|conn| {
        if conn.head().is_some() {
            conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig");
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
    let mut writer = client.wire().stream().expect("open").try_clone().expect("clone");
    let uploading = std::thread::spawn(move || {
        use std::io::Write;
        for _ in 0..1024 {
            if writer.write_all(&[b'x'; 65536]).is_err() {
                break;
            }
        }
    });
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (413, "big"));
    drop(client);
    uploading.join().expect("the upload ends");
    gateway.reconcile(&[&origin]);
}

#[test]
fn an_early_response_before_a_reset_is_delivered() {
    let origin = Origin::play(|conn| {
        if conn.head().is_some() {
            conn.send("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow");
            conn.pause(Duration::from_millis(50));
            conn.reset();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\npart");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (429, "slow"));
    gateway.reconcile(&[&origin]);
}
