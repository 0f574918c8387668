//! However an exchange ends, its record is closed exactly once, and every connection that was opened is
//! closed.

use std::io::Write;
use std::time::Duration;

use tollgate_observe::Reason;

use crate::gateway::{Gateway, eventually};
use crate::origin::Origin;

const SOON: Duration = Duration::from_secs(5);
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An origin that misbehaves as the path demands.
fn hostile() -> Origin {
    Origin::new(|mut connection, _| {
        let mut buffer = [0; 65536];
        loop {
            let count = connection.read(&mut buffer);
            if count == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            match text.split(' ').nth(1).unwrap_or_default() {
                "/ok" => connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
                "/chunked" => {
                    connection
                        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
                }
                "/extra" => {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n");
                }
                "/late-interim" => {
                    connection.send("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
                }
                "/unasked" => {
                    connection.send("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                }
                "/no-http" => connection.send("220 mail.example.com\r\n\r\n"),
                "/cut" => return connection.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok"),
                "/cut-chunk" => {
                    return connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok");
                }
                "/cut-head" => return connection.send("HTTP/1.1 200 OK\r\nContent-"),
                "/reset" => return connection.reset(),
                "/reset-body" => {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok");
                    return connection.reset();
                }
                "/until-close" => return connection.send("HTTP/1.1 200 OK\r\n\r\nok"),
                "/endless-interim" => {
                    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(100);
                    connection.send(interim);
                }
                // No response.
                _ => connection.wait_for_end(),
            }
        }
    })
}

#[test]
fn every_way_that_an_origin_can_end_an_exchange() {
    let origin = hostile();
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {response_header: 200ms}");
    let mut requests = 0;
    for path in [
        "/ok",
        "/chunked",
        "/extra",
        "/late-interim",
        "/unasked",
        "/no-http",
        "/cut",
        "/cut-chunk",
        "/cut-head",
        "/reset",
        "/reset-body",
        "/until-close",
        "/endless-interim",
        "/silent",
    ] {
        for (version, body) in [("1.1", ""), ("1.0", ""), ("1.1", "hello")] {
            let mut client = gateway.client();
            let length =
                if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            client.send(format!(
                "PUT {path} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n{length}\r\n{body}"
            ));
            let _ = client.rest();
            requests += 1;
        }
    }
    let ended = gateway.end(SOON);
    assert_eq!(ended.counts.requests, requests, "{:#?}", ended.lines);
    assert_eq!(ended.reason(Reason::ProxyInternalError), 0);
    assert_eq!(ended.reason(Reason::None), 3 * 5, "{:#?}", ended.lines);
}

#[test]
fn every_way_that_a_client_can_end_an_exchange() {
    let origin = hostile();
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {header: 200ms, body: 200ms}");
    let waiting = |wanted: u64| {
        eventually("requests to begin", || gateway.counts().in_flight + gateway.counts().requests >= wanted);
    };
    // Resets: within a head, within a body, and while the origin is silent.
    for (number, part) in [
        "GET / HT",
        "POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf",
        "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /silent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = gateway.client();
        client.send(part);
        waiting(number as u64 + 1);
        client.reset();
    }
    eventually("the resets to be seen", || gateway.counts().requests == 4);
    assert_eq!(gateway.counts().reasons[Reason::ClientClosed as usize], 4);
    // Ends and stalls in the same places.
    for (part, status) in [
        ("GET / HT", "400"),
        ("POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", "400"),
        ("POST /silent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", "400"),
    ] {
        for half_closed in [true, false] {
            let mut client = gateway.client();
            client.send(part);
            if half_closed {
                client.stream.shutdown(std::net::Shutdown::Write).expect("half-closed");
            }
            let answer = client.answer();
            let expected = if half_closed || part.ends_with('x') { status } else { "408" };
            assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{answer}");
            assert!(client.rest().expect("an end").is_empty());
        }
    }
    // Nothing at all, an empty line, and a half-close after a whole request.
    drop(gateway.client());
    gateway.client().send("\r\n");
    let mut client = gateway.client();
    client.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).expect("half-closed");
    assert!(String::from_utf8_lossy(&client.rest().expect("an end")).ends_with("\r\nok"));
    let ended = gateway.end(SOON);
    assert_eq!(ended.counts.requests, 4 + 6 + 1, "{:#?}", ended.lines);
}

/// The parsed part of a refused request is in the log.
#[test]
fn a_refused_request_is_named_in_the_log() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {header: 100ms}");
    for request in [
        "GET /line HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
        "GET /length HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
        "GET /slow HTTP/1.1\r\nHost: a\r\nX: ",
        "G@T /bad HTTP/1.1\r\n\r\n",
    ] {
        let mut client = gateway.client();
        client.send(request);
        let _ = client.rest();
    }
    let ended = gateway.end(SOON);
    let starts = |line: usize, start: &str, end: &str| {
        let line = &ended.lines[line];
        assert!(line.starts_with(start) && line.ends_with(end), "{line}");
    };
    starts(0, "400 bad_header ", "GET /line");
    starts(1, "400 ambiguous_length ", "GET /length");
    starts(2, "408 header_timeout ", "GET /slow");
    starts(3, "400 bad_request_line ", "");
    assert!(!ended.lines[3].contains("bad "), "{}", ended.lines[3]);
}

/// Connections of an upstream that a new plan does not name are closed; the others are kept.
#[test]
fn a_plan_that_goes_takes_its_idle_connections_along() {
    let (first, second) = (Origin::ok(), Origin::ok());
    let routes =
        |to: &Origin, more: &str| format!("routes: [{{match: \"/*\", to: \"{}\"}}]\n{more}", to.to());
    let gateway = Gateway::start(&routes(&first, ""));
    let mut client = gateway.client();
    assert!(client.ask(GET).ends_with("\r\nok"));
    let idle = |name: &str| {
        let counts = gateway.counts();
        counts.upstreams.iter().find(|upstream| *upstream.name == *name).map_or(0, |upstream| upstream.idle)
    };
    eventually("the connection to be idle", || idle(&first.to()) == 1);
    // Other settings but the same endpoint: its connection stays.
    gateway.change(&routes(&first, "timeouts: {total: 9s}"));
    assert!(client.ask(GET).ends_with("\r\nok"));
    assert_eq!(first.connections(), 1);
    gateway.change(&routes(&second, ""));
    eventually("the idle connection to be closed", || idle(&first.to()) == 0);
    assert!(client.ask(GET).ends_with("\r\nok"));
    assert_eq!(second.connections(), 1);
    drop(client);
    gateway.end(SOON);
}

/// A pool's new settings apply to its existing connections.
#[test]
fn a_shorter_idle_timeout_reaches_idle_connections() {
    let origin = Origin::ok();
    let yaml = |pool: &str| {
        format!(
            "routes: [{{match: \"/*\", to: up}}]\nupstreams: {{up: {{endpoints: [\"{}\"], pool: {{{pool}}}}}}}\n",
            origin.to()
        )
    };
    let gateway = Gateway::start(&yaml("idle_timeout: off"));
    let mut client = gateway.client();
    assert!(client.ask(GET).ends_with("\r\nok"));
    eventually("the connection to be idle", || gateway.counts().upstreams[0].idle == 1);
    gateway.change(&yaml("idle_timeout: 50ms"));
    eventually("the idle connection to be closed", || gateway.counts().upstreams[0].idle == 0);
    drop(client);
    gateway.end(SOON);
}

#[test]
fn a_unix_socket_has_no_host_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut buffer = [0; 4096];
        let count = std::io::Read::read(&mut stream, &mut buffer).expect("a request");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("sent");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    });
    let gateway = Gateway::to(&format!("unix:{}", path.display()), "", "");
    assert!(gateway.client().ask("GET / HTTP/1.0\r\n\r\n").ends_with("\r\nok"));
    let request = origin.join().expect("the origin");
    assert!(request.contains("\r\nHost: localhost\r\n"), "{request}");
    gateway.end(SOON);
}

/// Connections of one burst are spread over the workers, and no more than the limit are accepted.
#[test]
fn a_burst_spreads_and_stays_within_the_limit() {
    let origin = Origin::ok();
    let routes = format!("routes: [{{match: \"/*\", to: \"{}\"}}]\nlimits: {{connections: 40}}", origin.to());
    let gateway = Gateway::start_workers(2, &routes);
    let clients: Vec<_> = (0..100).map(|_| gateway.client()).collect();
    eventually("all to be let in or refused", || {
        let counts = gateway.counts();
        counts.client_connections + counts.client_connections_rejected == 100
    });
    assert_eq!(gateway.counts().client_connections, 40);
    drop(clients);
    eventually("all to be gone", || gateway.counts().client_connections == 0);
    assert!(gateway.client().ask(GET).ends_with("\r\nok"));
    gateway.end(SOON);
}
