//! The relay of a connection: bytes, ends, resets, and the choice of an endpoint.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_tests::{eventually, full_backlog, refused_address, tollgate};

use super::{Relay, Server, expect, reset, rest};

/// Returns bytes that repeat nowhere, from a seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).take(length).collect()
}

#[test]
fn ten_megabytes_each_way_arrive_unchanged() {
    const LENGTH: usize = 10 << 20;
    let (sender, received) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        let mut writer = stream.try_clone().expect("a copy");
        let writes = thread::spawn(move || {
            writer.write_all(&noise(2, LENGTH)).expect("written");
            writer.shutdown(Shutdown::Write).expect("its end");
        });
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("everything");
        writes.join().expect("no panic");
        sender.lock().expect("a sender").send(all).expect("the test waits");
    });
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    let mut writer = client.try_clone().expect("a copy");
    let writes = thread::spawn(move || {
        writer.write_all(&noise(1, LENGTH)).expect("written");
        writer.shutdown(Shutdown::Write).expect("its end");
    });
    assert!(rest(&mut client).expect("everything") == noise(2, LENGTH), "to the client");
    writes.join().expect("no panic");
    assert!(received.recv().expect("the server is done") == noise(1, LENGTH), "to the server");
    let record = relay.record(1);
    assert_eq!((&record["bytes_in"], &record["bytes_out"]), (&LENGTH.into(), &LENGTH.into()), "{record}");
    assert_eq!(record["reason"], serde_json::Value::Null, "{record}");
    assert_eq!((&record["protocol"], &record["scheme"]), (&"TCP".into(), &"tcp".into()), "{record}");
    assert_eq!((&record["route"], &record["endpoint"]), (&"l4".into(), &server.address.to_string().into()));
    assert!(record.get("method").is_none() && record.get("status").is_none(), "{record}");
    assert_eq!(relay.sum("tollgate_stream_bytes_total", "direction=\"in\""), LENGTH as f64);
    assert_eq!(relay.sum("tollgate_streams_total", "stream=\"l4\",reason=\"-\""), 1.0);
}

#[test]
fn each_direction_ends_alone() {
    // The client ends first, and still gets everything.
    let server = Server::play(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client's end");
        stream.write_all(&all).expect("written");
        stream.write_all(b" and more").expect("written");
    });
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    client.write_all(b"all").expect("written");
    client.shutdown(Shutdown::Write).expect("its end");
    assert_eq!(rest(&mut client).expect("an answer"), b"all and more");
    // The server ends first, and still gets everything.
    let (sender, received) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        stream.write_all(b"bye").expect("written");
        stream.shutdown(Shutdown::Write).expect("its end");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client's end");
        sender.lock().expect("a sender").send(all).expect("the test waits");
    });
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    assert_eq!(rest(&mut client).expect("the server's end"), b"bye");
    client.write_all(b"one ").expect("written");
    client.write_all(b"two").expect("written");
    client.shutdown(Shutdown::Write).expect("its end");
    assert_eq!(received.recv().expect("the server is done"), b"one two");
}

#[test]
fn a_server_may_speak_first() {
    let server = Server::named("220 ready\r\n");
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    expect(&mut client, "220 ready\r\n");
    client.write_all(b"HELO\r\n").expect("written");
    expect(&mut client, "HELO\r\n");
}

#[test]
fn a_reset_of_an_endpoint_that_takes_no_bytes_is_no_orderly_end() {
    let server = Server::play(|stream| {
        // Meanwhile the gateway has bytes that this server does not read.
        thread::sleep(Duration::from_millis(300));
        reset(stream);
    });
    let relay = Relay::to(&server);
    for _ in 0..5 {
        let mut client = relay.connect();
        client.set_nonblocking(true).expect("an option");
        let mut idle = 0;
        // Until all buffers on the way are full.
        while idle < 10 {
            match client.write(&[b'x'; 64 * 1024]) {
                Ok(_) => idle = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    idle += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
        client.set_nonblocking(false).expect("an option");
        assert_eq!(rest(&mut client).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_reset_passes_on_as_a_reset() {
    let (sender, ends) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        let mut word = [0; 5];
        stream.read_exact(&mut word).expect("a word");
        if &word == b"reset" {
            return reset(stream);
        }
        stream.write_all(&word).expect("written");
        let end = stream.read(&mut word).map_err(|error| error.kind());
        sender.lock().expect("a sender").send(end).expect("the test waits");
    });
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    client.write_all(b"reset").expect("written");
    assert_eq!(rest(&mut client).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.record(1)["reason"], "connection_terminated");
    let mut client = relay.connect();
    client.write_all(b"hello").expect("written");
    expect(&mut client, "hello");
    reset(client);
    assert_eq!(ends.recv().expect("the server sees it"), Err(ErrorKind::ConnectionReset));
    assert_eq!(relay.record(2)["reason"], "client_closed");
}

#[test]
fn a_failed_connect_falls_over_to_the_next_endpoint() {
    let server = Server::named("here");
    let (dead, live) = (refused_address(), server.address);
    let relay = Relay::start(
        "to: db",
        &format!("upstreams: {{db: {{endpoints: [\"{dead}\", \"{live}\"], outlier: off}}}}"),
    );
    for _ in 0..8 {
        expect(&mut relay.connect(), "here");
    }
    let records = relay.gateway.wait_records(8);
    assert!(records.iter().all(|record| record["endpoint"] == live.to_string()), "{records:#?}");
    let retried = records.iter().filter(|record| record["attempts"] == 2).count();
    assert!((1..=8).contains(&retried), "{records:#?}");
    assert_eq!(relay.sum("tollgate_upstream_retries_total", "upstream=\"db\""), retried as f64);
    assert_eq!(
        relay.sum("tollgate_upstream_failures_total", "upstream=\"db\",reason=\"connection_refused\""),
        retried as f64
    );
}

#[test]
fn an_endpoint_that_refuses_is_ejected() {
    let server = Server::named("here");
    let (dead, live) = (refused_address(), server.address);
    let relay = Relay::start(
        "to: db",
        &format!(
            "upstreams: {{db: {{endpoints: [\"{dead}\", \"{live}\"], outlier: {{consecutive_gateway_errors: 3, \
             max_ejected: 100%}}}}}}"
        ),
    );
    // After each failure other connections pass it over for a moment, so this takes a while.
    let mut connections = 0;
    eventually("the ejection", || {
        connections += 1;
        expect(&mut relay.connect(), "here");
        relay.sum("tollgate_upstream_ejections_total", "upstream=\"db\"") >= 1.0
    });
    let records = relay.gateway.wait_records(connections);
    let retried = records.iter().filter(|record| record["attempts"] == 2).count();
    assert_eq!(retried, 3, "the third failure ejects it: {records:#?}");
}

#[test]
fn without_an_endpoint_the_client_is_reset_and_the_reason_is_recorded() {
    let dead = refused_address();
    let relay = Relay::start(&format!("to: \"{dead}\""), "");
    let ended = rest(&mut relay.connect()).expect_err("a reset");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    let record = relay.record(1);
    assert_eq!((&record["reason"], &record["attempts"]), (&"connection_refused".into(), &2.into()));
    assert_eq!(relay.sum("tollgate_streams_total", "reason=\"connection_refused\""), 1.0);
    let relay = Relay::start("to: empty", "upstreams: {empty: {endpoints: []}}");
    assert!(rest(&mut relay.connect()).is_err());
    assert_eq!(relay.record(1)["reason"], "no_endpoints");
    let (full, _kept) = full_backlog();
    let more = format!(
        "upstreams: {{db: {{endpoints: [\"{full}\"], timeouts: {{connect: 100ms}}, retry: {{attempts: 1}}}}}}"
    );
    let relay = Relay::start("to: db", &more);
    assert!(rest(&mut relay.connect()).is_err());
    assert_eq!(relay.record(1)["reason"], "connection_timeout");
}

#[test]
fn a_stream_that_responds_closes() {
    let relay = Relay::start("", "streams: [{name: shut, listeners: l4, respond: close}]");
    assert_eq!(rest(&mut relay.connect()).expect("an end"), b"");
    let record = relay.record(1);
    assert_eq!((&record["reason"], &record["route"]), (&"no_stream".into(), &"shut".into()), "{record}");
}

#[test]
fn targets_are_chosen_by_weight() {
    let (one, other) = (Server::named("a"), Server::named("b"));
    let (a, b) = (one.address, other.address);
    let more = format!("upstreams: {{a: [\"{a}\"], b: [\"{b}\"]}}");
    let relay = Relay::start("to: [{upstream: a, weight: 3}, {upstream: b, weight: 1}]", &more);
    let mut seen = [0, 0];
    for _ in 0..40 {
        let mut word = [0];
        relay.connect().read_exact(&mut word).expect("a word");
        seen[usize::from(word[0] - b'a')] += 1;
    }
    assert_eq!(seen, [30, 10]);
}

#[test]
fn an_address_keeps_its_endpoint() {
    let servers = [Server::named("a"), Server::named("b"), Server::named("c")];
    let endpoints: Vec<String> = servers.iter().map(|it| format!("\"{}\"", it.address)).collect();
    let relay = Relay::start(
        "to: all",
        &format!(
            "upstreams: {{all: {{endpoints: [{}], balance: {{policy: hash, by: client_address}}}}}}",
            endpoints.join(", ")
        ),
    );
    let from = |last: u8| {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&std::net::SocketAddr::from(([127, 77, 0, last], 0)).into()).expect("bound");
        socket.connect(&relay.address.into()).expect("the gateway accepts");
        let mut word = [0];
        TcpStream::from(socket).read_exact(&mut word).expect("a word");
        word[0]
    };
    let first: Vec<u8> = (1..=24).map(from).collect();
    let again: Vec<u8> = (1..=24).map(from).collect();
    assert_eq!(first, again);
    assert_eq!(first.into_iter().collect::<HashSet<u8>>().len(), 3, "24 addresses reach all three");
}

#[test]
fn a_client_that_reads_nothing_holds_the_server_back() {
    let (sender, written) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let chunk = vec![7; 64 * 1024];
        let mut total = 0_usize;
        // 256 MiB are more than every socket buffer between here and the client holds.
        while total < 256 << 20 {
            match stream.write(&chunk) {
                Ok(count) => total += count,
                Err(_) => break,
            }
        }
        sender.lock().expect("a sender").send(total).expect("the test waits");
        // Until the client has read everything.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read(&mut [0]);
    });
    let relay = Relay::to(&server);
    let before = relay.gateway.memory_kib("VmRSS");
    let mut client = relay.connect();
    let sent = written.recv().expect("the server stops");
    assert!(sent < 256 << 20, "it was never held back");
    let grown = relay.gateway.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB");
    assert_eq!(rest(&mut client).expect("everything").len(), sent);
}

#[test]
fn headers_of_the_proxy_protocol_come_in_and_go_out() {
    let (sender, heads) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        let mut head = Vec::new();
        stream.read_to_end(&mut head).expect("the client's end");
        sender.lock().expect("a sender").send(head).expect("the test waits");
    });
    let relay = Relay::start(
        "proxy_protocol: 127.0.0.0/8, to: db",
        &format!("upstreams: {{db: {{endpoints: [\"{}\"], proxy_protocol: v1}}}}", server.address),
    );
    let mut client = relay.connect();
    client.write_all(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 5432\r\nhello").expect("written");
    client.shutdown(Shutdown::Write).expect("its end");
    let head = heads.recv().expect("the server is done");
    assert_eq!(String::from_utf8_lossy(&head), "PROXY TCP4 192.0.2.7 10.0.0.1 4711 5432\r\nhello");
    let record = relay.record(1);
    assert_eq!((&record["client"], &record["bytes_in"]), (&"192.0.2.7".into(), &5.into()), "{record}");
    // A v2 header names the client itself.
    let (sender, heads) = channel();
    let sender = Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        let mut head = [0; 29];
        stream.read_exact(&mut head).expect("a header and a byte");
        sender.lock().expect("a sender").send(head).expect("the test waits");
    });
    let relay = Relay::start(
        "to: db",
        &format!("upstreams: {{db: {{endpoints: [\"{}\"], proxy_protocol: v2}}}}", server.address),
    );
    let mut client = relay.connect();
    client.write_all(b"x").expect("written");
    let head = heads.recv().expect("the server is done");
    let port = client.local_addr().expect("bound").port();
    assert_eq!(&head[..13], b"\r\n\r\n\0\r\nQUIT\n\x21");
    assert_eq!(head[16..20], [127, 0, 0, 1]);
    assert_eq!((u16::from_be_bytes([head[24], head[25]]), head[28]), (port, b'x'));
}

#[test]
fn a_small_answer_is_not_delayed() {
    let server = Server::echo();
    let relay = Relay::to(&server);
    let mut client = relay.connect();
    client.set_nodelay(true).expect("an option");
    let begun = Instant::now();
    for _ in 0..50 {
        client.write_all(b"ping").expect("written");
        expect(&mut client, "ping");
    }
    // Delayed acknowledgements would make 40 ms of each.
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn a_share_of_the_connections_can_be_closed() {
    let server = Server::named("a");
    let relay = Relay::start(
        "to: [{upstream: a, weight: 3}, {respond: close, weight: 1}]",
        &format!("upstreams: {{a: [\"{}\"]}}", server.address),
    );
    let mut seen = [0, 0];
    for _ in 0..40 {
        seen[usize::from(rest_of_word(&mut relay.connect()) == b"a")] += 1;
    }
    assert_eq!(seen, [10, 30]);
    assert_eq!(server.accepted(), 30);
    eventually("the count", || relay.sum("tollgate_streams_total", "reason=\"no_stream\"") == 10.0);
    let ran = tollgate(&["explain", &relay.gateway.config().display().to_string(), "--listener", "l4"]);
    assert!(
        ran.out.contains("to        a, weight 3") && ran.out.contains("`respond: close`, weight 1"),
        "{ran:?}"
    );
}

/// Reads one byte, or nothing at the end.
fn rest_of_word(stream: &mut TcpStream) -> Vec<u8> {
    let mut word = [0];
    let count = stream.read(&mut word).unwrap_or_default();
    word[..count].to_vec()
}

#[test]
fn a_client_may_end_its_direction_before_the_endpoint_has_a_connection() {
    let server = Server::echo();
    let more = format!(
        "upstreams: {{db: {{endpoints: [\"{}\"], limits: {{connections: 1}}, queue: {{size: 1, timeout: 10s}}}}}}",
        server.address
    );
    let relay = Relay::start("to: db", &more);
    let mut first = relay.connect();
    first.write_all(b"x").expect("written");
    expect(&mut first, "x");
    let mut second = relay.connect();
    second.write_all(b"everything").expect("written");
    second.shutdown(Shutdown::Write).expect("its end");
    relay.await_active(2);
    assert_eq!(server.accepted(), 1, "the second waits");
    drop(first);
    assert_eq!(rest(&mut second).expect("an answer"), b"everything");
}

#[test]
fn a_stream_to_its_own_listener_ends() {
    let address = tollgate_tests::free_address();
    let yaml = super::config(address, &format!("to: \"{address}\""), "");
    let relay = Relay { gateway: tollgate_tests::Gateway::start(&yaml), address };
    assert_eq!(rest(&mut relay.connect()).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    eventually("the loop ends", || relay.sum("tollgate_streams_active", "") == 0.0);
    assert!(relay.sum("tollgate_streams_total", "reason=\"loop_detected\"") >= 1.0);
    assert!(relay.sum("tollgate_streams_total", "") <= 4.0, "{}", relay.sum("tollgate_streams_total", ""));
    let ran = tollgate(&["check", &relay.gateway.config().display().to_string()]);
    assert!(ran.err.contains("the address of the stream's own listener"), "{ran:?}");
}

#[test]
fn clients_and_endpoints_may_use_ipv6() {
    let listener = std::net::TcpListener::bind("[::1]:0").expect("the machine has an IPv6 loopback");
    let endpoint = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut head = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut head);
            let _ = (&stream).write_all(head.as_bytes());
        }
    });
    let port = tollgate_tests::free_port();
    let yaml = format!(
        "listen: [$LISTEN, {{bind: \":{port}\", name: l4, protocol: tcp, to: db}}]\nroutes: []\n\
         upstreams: {{db: {{endpoints: [\"{endpoint}\"], proxy_protocol: v1}}}}\n"
    );
    let gateway = tollgate_tests::Gateway::start(&yaml);
    for (client, family) in [("127.0.0.1", "TCP4"), ("[::1]", "TCP6")] {
        let mut stream = TcpStream::connect(format!("{client}:{port}")).expect("the gateway accepts");
        let own = stream.local_addr().expect("bound");
        let head = String::from_utf8(rest(&mut stream).expect("the header")).expect("text");
        let start = format!("PROXY {family} {} {} {} {port}", own.ip(), own.ip(), own.port());
        assert_eq!(head.trim_end(), start);
    }
    let records = gateway.wait_records(2);
    assert!(records.iter().any(|record| record["client"] == "127.0.0.1"), "{records:#?}");
    assert!(records.iter().any(|record| record["client"] == "::1"), "{records:#?}");
}
