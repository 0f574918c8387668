//! The gateway tells endpoints the client of a connection, and no connection serves another client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use socket2::{Domain, Socket, Type};
use tollgate_tests::{Client, Gate, Gateway, Origin, OriginConn, Signal, Wire, eventually, http2};

use super::{V2, binary};

/// The contents of a header: the client's address, and the address to which it connected; `None` for a header
/// without addresses.
type Said = Option<(SocketAddr, SocketAddr)>;

/// Reads a header of either version, with the tests' own parser.
fn header(wire: &mut Wire) -> Result<(u8, Said), String> {
    let mut read = |count| wire.take(count).map_err(|error| format!("{error:?}"));
    let mut first = read(6)?;
    if first == b"PROXY " {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(read(1)?);
        }
        let line = String::from_utf8(line).map_err(|error| error.to_string())?;
        let words: Vec<_> = line.trim_end_matches("\r\n").split(' ').collect();
        let address = |ip: &str, port: &str| match ip.contains(':') {
            true => format!("[{ip}]:{port}").parse().map_err(|_| line.clone()),
            false => format!("{ip}:{port}").parse().map_err(|_| line.clone()),
        };
        return match words[..] {
            ["UNKNOWN"] => Ok((1, None)),
            ["TCP4" | "TCP6", from, to, from_port, to_port] => {
                Ok((1, Some((address(from, from_port)?, address(to, to_port)?))))
            }
            _ => Err(line),
        };
    }
    first.extend(read(10)?);
    if &first[..12] != V2 {
        return Err(format!("{first:?}"));
    }
    let rest = read(usize::from(u16::from_be_bytes([first[14], first[15]])))?;
    match (first[12], first[13], rest.as_slice()) {
        (0x20, 0, []) => Ok((2, None)),
        (0x21, 0x11, &[a, b, c, d, e, f, g, h, p, q, r, s]) => Ok((
            2,
            Some((
                ([a, b, c, d], u16::from_be_bytes([p, q])).into(),
                ([e, f, g, h], u16::from_be_bytes([r, s])).into(),
            )),
        )),
        _ => Err(format!("{first:?} {rest:?}")),
    }
}

/// Starts an origin that answers each request with the header of its connection and the request's number on
/// it.
fn reported() -> Origin {
    Origin::play(|conn| {
        if let Some(text) = introduced(conn) {
            let mut requests = 0;
            while conn.request().is_some() {
                requests += 1;
                conn.ok(&format!("{text} {requests}"));
            }
        }
    })
}

/// Returns the header of a connection as text; `None` if nothing arrived.
fn introduced(conn: &mut OriginConn) -> Option<String> {
    if !conn.wire().wait_data().unwrap_or(false) {
        return None;
    }
    Some(match header(conn.wire()) {
        Ok((version, Some((from, to)))) => format!("v{version} {from} {to}"),
        Ok((version, None)) => format!("v{version} nobody"),
        Err(error) => panic!("no header: {error}"),
    })
}

fn gateway(origins: &[&Origin], version: &str, upstream: &str, file: &str) -> Gateway {
    Gateway::start(&config(origins, version, upstream, file))
}

fn config(origins: &[&Origin], version: &str, upstream: &str, file: &str) -> String {
    let endpoints: Vec<_> = origins.iter().map(|origin| origin.address().to_string()).collect();
    format!(
        "routes: [{{match: \"/*\", to: u}}]\n\
         upstreams: {{u: {{endpoints: [{}], proxy_protocol: {version}{upstream}}}}}\n{file}\n",
        endpoints.join(", ")
    )
}

/// Connects from another address of this machine. Returns the socket and its address.
fn client_from(gateway: &Gateway, ip: [u8; 4]) -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((ip, 0)).into()).expect("a loopback address");
    socket.connect(&gateway.address().into()).expect("the gateway accepts");
    let own = socket.local_addr().expect("bound").as_socket().expect("IPv4");
    (socket, own)
}

fn ask(wire: &mut Wire) -> String {
    wire.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let head = wire.response_head("GET").expect("an answer");
    let length = head.header("Content-Length").and_then(|length| length.parse().ok()).expect("a length");
    String::from_utf8(wire.take(length).expect("a body")).expect("text")
}

#[test]
fn each_request_comes_on_a_connection_that_names_its_client() {
    for (version, text) in [(1, "v1"), (2, "v2")] {
        let origin = reported();
        let gateway = gateway(&[&origin], text, "", "");
        let mut clients: Vec<_> = [[127, 0, 0, 9], [127, 0, 0, 10]]
            .into_iter()
            .map(|ip| {
                let (socket, own) = client_from(&gateway, ip);
                (Wire::new(socket.into(), None), own)
            })
            .collect();
        // In turn, on the clients' idle connections.
        for _ in 0..3 {
            for (wire, own) in &mut clients {
                assert_eq!(ask(wire), format!("v{version} {own} {} 1", gateway.address()));
            }
        }
        assert_eq!((origin.connections(), origin.count()), (6, 6));
        eventually("none is kept", || origin.open() == 0);
        let metrics = gateway.metrics();
        let sum = |name| metrics.sum(name, "upstream=\"u\"");
        assert_eq!(sum("tollgate_upstream_connections"), Some(0.0));
        assert_eq!(gateway.wait_records(6).len(), 6);
    }
}

#[test]
fn the_header_of_a_proxy_in_front_is_forwarded() {
    let origin = reported();
    let gateway = gateway(
        &[&origin],
        "v2",
        "",
        "listen: {bind: $LISTEN, proxy_protocol: 127.0.0.0/8}\nforwarded: {trusted_proxies: [0.0.0.0/0]}",
    );
    let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 4, 1, 0xbb];
    for header in [b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n".to_vec(), binary(0x21, 0x11, &v4)] {
        let mut client = gateway.client();
        client.send(header);
        // An HTTP field that names the client has no effect here.
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n");
        assert_eq!(client.response().text(), "v2 192.0.2.7:56324 10.0.0.1:443 1");
    }
    // A connection of the proxy itself: its client is the proxy.
    let mut client = gateway.client();
    client.send("PROXY UNKNOWN\r\n");
    assert_eq!(client.get("/").text(), format!("v2 {} {} 1", client.address(), gateway.address()));
}

#[test]
fn a_client_cannot_name_another() {
    let origin = reported();
    let gateway = gateway(&[&origin], "v1", "", "");
    let forged = "PROXY TCP4 6.6.6.6 10.0.0.1 1 2\r\n";
    let asks = "GET /own HTTP/1.1\r\nHost: a\r\n\r\n";
    // Before a request, instead of a following request, and as the body of a request.
    let mut client = gateway.client();
    client.send(format!("{forged}{asks}"));
    assert_eq!(client.response().status, 400);
    assert_eq!(origin.connections(), 0);
    let mut client = gateway.client();
    let own = format!("v1 {} {} 1", client.address(), gateway.address());
    client.send(format!("{asks}{forged}{asks}"));
    assert_eq!(client.response().text(), own);
    assert_eq!(client.response().status, 400);
    let mut client = gateway.client();
    let own = format!("v1 {} {} 1", client.address(), gateway.address());
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{forged}", forged.len()));
    assert_eq!(client.response_to("POST").text(), own);
    client.send(asks);
    assert_eq!(client.response().text(), own);
    let requests = origin.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[1].body, forged.as_bytes());
}

#[test]
fn streams_of_one_client_are_named_each() {
    let origin = reported();
    let gateway = gateway(&[&origin], "v1", "", "");
    let mut client = gateway.http2();
    let streams: Vec<_> = (0..4).map(|_| client.begin(http2::get("/"), true).expect("begun")).collect();
    let texts: Vec<_> =
        streams.into_iter().map(|stream| stream.response().expect("answered").text()).collect();
    assert!(
        texts[0].starts_with("v1 127.") && texts[0].ends_with(&format!("{} 1", gateway.address())),
        "{texts:?}"
    );
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!(origin.connections(), 4);
}

#[test]
fn retries_and_hedges_name_the_client_too() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let failing = Origin::play(move |conn| {
        if introduced(conn).is_some() && conn.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            conn.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let origin = reported();
    let gateway_of = |upstream| gateway(&[&failing, &origin], "v2", upstream, "");
    let retrying = gateway_of(", retry: {on: 503, budget: 100%}, outlier: off");
    for _ in 0..2 {
        let mut client = retrying.client();
        assert_eq!(client.get("/").text(), format!("v2 {} {} 1", client.address(), retrying.address()));
    }
    assert!(seen.load(Ordering::SeqCst) > 0, "one has failed");
    // One endpoint hangs, and the hedged attempt goes to the other.
    let gate = Gate::new();
    let opened = gate.clone();
    let hanging = Origin::play(move |conn| {
        if introduced(conn).is_some() && conn.request().is_some() {
            opened.wait();
        }
    });
    let hedging =
        gateway(&[&hanging, &origin], "v1", ", hedge: 10ms, outlier: off, retry: {budget: 100%}", "");
    for _ in 0..2 {
        let mut client = hedging.client();
        assert_eq!(client.get("/").text(), format!("v1 {} {} 1", client.address(), hedging.address()));
    }
    assert!(hanging.count() > 0, "one has hung");
    gate.open();
}

#[test]
fn a_cap_holds_and_its_queue_hands_no_connection_over() {
    let most = Arc::new(AtomicUsize::new(0));
    let (open, peak) = (Arc::new(AtomicUsize::new(0)), most.clone());
    let origin = Origin::play(move |conn| {
        if let Some(text) = introduced(conn) {
            peak.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if conn.request().is_some() {
                // Before the answer, because the gateway may open the next connection as soon as it has it.
                open.fetch_sub(1, Ordering::SeqCst);
                conn.ok(&text);
            }
            conn.wait_close();
        }
    });
    let gateway = gateway(
        &[&origin],
        "v2",
        ", limits: {endpoint_connections: 2}, queue: {size: 1000, timeout: 20s}",
        "workers: 2",
    );
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut client = gateway.client();
                let own = format!("v2 {} {}", client.address(), gateway.address());
                for _ in 0..5 {
                    assert_eq!(client.get("/").text(), own);
                }
            });
        }
    });
    assert_eq!((origin.count(), origin.connections()), (60, 60));
    assert!(most.load(Ordering::SeqCst) <= 2, "the cap");
    eventually("all are closed", || {
        gateway.metrics().sum("tollgate_upstream_connections", "upstream=\"u\"") == Some(0.0)
    });
}

#[test]
fn a_reload_turns_it_on_and_off() {
    // Accepts a connection with or without a header.
    let origin = Origin::play(|conn| {
        if !conn.wire().wait_data().unwrap_or(false) {
            return;
        }
        while conn.wire().pending().is_empty() && conn.wire().fill().unwrap_or(false) {}
        let text = match conn.wire().pending().starts_with(b"PROXY") {
            true => introduced(conn).unwrap_or_default(),
            false => "plain".to_owned(),
        };
        let mut requests = 0;
        while conn.request().is_some() {
            requests += 1;
            conn.ok(&format!("{text} {requests}"));
        }
    });
    let gateway = gateway(&[&origin], "off", "", "");
    let mut client = gateway.client();
    let own = format!("v1 {} {} 1", client.address(), gateway.address());
    assert_eq!(client.get("/").text(), "plain 1");
    assert_eq!(client.get("/").text(), "plain 2");
    let mut reload = |version: &str, answers: &str| {
        gateway.write_config(&config(&[&origin], version, "", ""));
        gateway.signal(Signal::HUP);
        eventually(answers, || client.get("/").text() == answers);
        // A connection that was opened during the reload may count as one of the old plan. Then the next one
        // is kept.
        let mut again = client.get("/").text();
        if version == "off" && again == answers {
            again = client.get("/").text();
        }
        again
    };
    // No request uses an old idle connection, and with the header on, no connection is kept idle.
    assert_eq!(reload("v1", &own), own);
    assert_eq!(reload("off", "plain 1"), "plain 2");
    assert_eq!(reload("v1", &own), own);
}

#[test]
fn probes_send_a_local_header() {
    for version in ["v1", "v2"] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        let origin = Origin::play(move |conn| {
            let Some(text) = introduced(conn) else { return };
            while let Some(request) = conn.request() {
                if request.target == "/healthz" {
                    count.fetch_add(usize::from(text.ends_with("nobody")), Ordering::SeqCst);
                }
                conn.ok(&text);
            }
        });
        let gateway =
            gateway(&[&origin], version, ", health: {http: /healthz, interval: 100ms, healthy: 1}", "");
        eventually("probes", || seen.load(Ordering::SeqCst) > 1);
        let mut client = gateway.client();
        assert_eq!(client.get("/").text(), format!("{version} {} {}", client.address(), gateway.address()));
    }
}

#[test]
fn a_websocket_has_its_own() {
    let origin = Origin::play(|conn| {
        let Some(text) = introduced(conn) else { return };
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            conn.send(format!("{text}\n"));
            conn.echo_bytes();
        }
    });
    let gateway = gateway(&[&origin], "v1", "", "");
    let mut client: Client = gateway.client();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status, 101);
    let line = format!("v1 {} {}\n", client.address(), gateway.address());
    assert_eq!(client.wire().take(line.len()), Ok(line.into_bytes()));
    client.send([0x81, 0]);
    assert_eq!(client.wire().take(2), Ok(vec![0x81, 0]));
}
