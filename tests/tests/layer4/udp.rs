//! Datagrams: sessions, their bounds and ends.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::api::{call, put};
use tollgate_tests::{DEADLINE, Gateway, Signal, eventually, free_address, free_port};

/// Starts a server of datagrams. `answers` returns its answers to a datagram.
fn server(answers: impl Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    serve(UdpSocket::bind("127.0.0.1:0").expect("loopback"), answers)
}

fn serve(
    socket: UdpSocket,
    answers: impl Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + 'static,
) -> SocketAddr {
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            for answer in answers(&buffer[..count], from) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    address
}

fn echo() -> SocketAddr {
    server(|datagram, _| vec![datagram.to_vec()])
}

struct Udp {
    gateway: Gateway,
    address: SocketAddr,
}

impl Udp {
    fn start(keys: &str, more: &str) -> Self {
        let address = free_address();
        let gateway = Gateway::start(&Self::config(address, keys, more));
        Self { gateway, address }
    }

    fn config(address: SocketAddr, keys: &str, more: &str) -> String {
        let keys = if keys.is_empty() { String::new() } else { format!(", {keys}") };
        format!(
            "listen: [$LISTEN, {{bind: \"{address}\", name: udp, protocol: udp{keys}}}]\nroutes: []\n{more}\n"
        )
    }

    /// Starts a gateway with a stream of these keys.
    fn stream(to: SocketAddr, keys: &str) -> Self {
        Self::start("", &format!("streams: [{{name: dns, listeners: udp, to: \"{to}\", {keys}}}]"))
    }

    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(self.address).expect("an address");
        socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        socket
    }

    fn sum(&self, name: &str, labels: &str) -> f64 {
        self.gateway.metrics().sum(name, labels).unwrap_or_default()
    }

    fn record(&self, number: usize) -> Value {
        self.gateway.wait_records(number).pop().expect("a record")
    }
}

fn ask(client: &UdpSocket, text: &str) -> String {
    client.send(text.as_bytes()).expect("sent");
    receive(client)
}

fn receive(client: &UdpSocket) -> String {
    let mut buffer = [0; 2048];
    let count = client.recv(&mut buffer).expect("a datagram");
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// Asserts that nothing arrives.
fn expect_silence(client: &UdpSocket) {
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let silence = client.recv(&mut [0; 2048]).expect_err("silence");
    assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
}

#[test]
fn each_client_has_a_session_of_its_own() {
    let server = server(|datagram, from| vec![[format!("{} ", from.port()).as_bytes(), datagram].concat()]);
    let udp = Udp::start(&format!("to: \"{server}\""), "");
    let (one, other) = (udp.client(), udp.client());
    let session = |answer: &str| answer.split(' ').next().unwrap_or_default().to_owned();
    let (first, second) = (ask(&one, "a"), ask(&other, "b"));
    assert!(first.ends_with(" a") && second.ends_with(" b"), "{first}, {second}");
    assert_ne!(session(&first), session(&second), "two sockets to the endpoint");
    assert_eq!(session(&ask(&one, "c")), session(&first), "the session goes on");
    assert_eq!(udp.sum("tollgate_streams_active", "stream=\"udp\""), 2.0);
    assert_eq!(udp.sum("tollgate_stream_datagrams_total", "direction=\"in\""), 3.0);
    assert_eq!(udp.sum("tollgate_stream_datagrams_total", "direction=\"out\""), 3.0);
    // An empty datagram and a large one pass too.
    assert!(ask(&one, "").ends_with(' '));
    let large = "x".repeat(1400);
    assert!(ask(&one, &large).ends_with(&large));
}

#[test]
fn an_idle_session_ends_and_the_next_datagram_opens_another() {
    let udp = Udp::stream(echo(), "timeouts: {idle: 300ms}");
    let client = udp.client();
    assert_eq!(ask(&client, "one"), "one");
    let record = udp.record(1);
    assert_eq!((&record["reason"], &record["protocol"]), (&"idle_timeout".into(), &"UDP".into()));
    assert_eq!((&record["bytes_in"], &record["bytes_out"]), (&3.into(), &3.into()), "{record}");
    assert_eq!((&record["route"], &record["scheme"]), (&"dns".into(), &"udp".into()), "{record}");
    assert_eq!(ask(&client, "two"), "two");
    assert_eq!(udp.record(2)["reason"], "idle_timeout");
    assert_eq!(udp.sum("tollgate_client_connections", ""), 0.0);
}

#[test]
fn the_number_of_sessions_is_bounded() {
    let udp = Udp::stream(echo(), "limits: {connections: 2}, timeouts: {idle: 2s}");
    let clients = [udp.client(), udp.client(), udp.client()];
    assert_eq!(ask(&clients[0], "a"), "a");
    assert_eq!(ask(&clients[1], "b"), "b");
    clients[2].send(b"c").expect("sent");
    expect_silence(&clients[2]);
    assert_eq!(ask(&clients[0], "d"), "d", "the sessions that are there go on");
    assert_eq!(udp.sum("tollgate_stream_datagrams_dropped_total", "cause=\"session_limit\""), 1.0);
    let _ = udp.gateway.wait_records(2);
    assert_eq!(ask(&clients[2], "e"), "e", "places are returned");
    let udp = Udp::stream(echo(), "limits: {per_address: 1}");
    let clients = [udp.client(), udp.client()];
    assert_eq!(ask(&clients[0], "a"), "a");
    clients[1].send(b"b").expect("sent");
    expect_silence(&clients[1]);
}

#[test]
fn a_forged_address_gets_and_causes_little() {
    // An endpoint that answers a small question with 32 datagrams of 1 KiB.
    let generous = server(|_, _| vec![vec![b'x'; 1024]; 32]);
    let udp = Udp::stream(generous, "limits: {unconfirmed: 4KiB}");
    let client = udp.client();
    client.send(b"?").expect("sent");
    for _ in 0..4 {
        assert_eq!(receive(&client).len(), 1024);
    }
    expect_silence(&client);
    assert_eq!(udp.sum("tollgate_stream_datagrams_dropped_total", "cause=\"unconfirmed\""), 28.0);
    // A client that sends again counts as having received an answer.
    client.send(b"?").expect("sent");
    for _ in 0..32 {
        assert_eq!(receive(&client).len(), 1024);
    }
    // An endpoint that never answers gets few bytes, unless the stream expects no answers.
    let (silent, received) = (UdpSocket::bind("127.0.0.1:0").expect("loopback"), [0; 2048]);
    silent.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let count = |keys: &str| {
        let udp = Udp::stream(silent.local_addr().expect("bound"), keys);
        let client = udp.client();
        for _ in 0..8 {
            client.send(&[b'x'; 1024]).expect("sent");
        }
        let mut buffer = received;
        let arrived = (0..).take_while(|_| silent.recv(&mut buffer).is_ok()).count();
        (arrived, udp.sum("tollgate_stream_datagrams_dropped_total", "cause=\"unanswered\""))
    };
    assert_eq!(count("limits: {unanswered: 4KiB}"), (4, 4.0));
    assert_eq!(count("limits: {unanswered: off}"), (8, 0.0));
}

#[test]
fn a_closed_port_ends_the_session_and_ejects_the_endpoint() {
    let (dead, live) = (UdpSocket::bind("127.0.0.1:0").expect("loopback"), echo());
    let closed = dead.local_addr().expect("bound");
    drop(dead);
    let udp = Udp::start(
        "to: dns",
        &format!(
            "upstreams: {{dns: {{endpoints: [\"{closed}\", \"{live}\"], outlier: {{consecutive_gateway_errors: 1, \
             max_ejected: 100%}}}}}}"
        ),
    );
    let clients: Vec<_> = (0..4).map(|_| udp.client()).collect();
    // The first datagram finds the port closed; the second receives the error.
    for _ in 0..2 {
        clients.iter().for_each(|client| drop(client.send(b"x")));
        thread::sleep(Duration::from_millis(100));
    }
    eventually("the closed port is noticed", || {
        udp.sum("tollgate_streams_total", "reason=\"connection_refused\"") >= 1.0
    });
    // The clients' own retries reach the remaining endpoint.
    for client in &clients {
        client.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        eventually("an answer", || client.send(b"y").is_ok() && client.recv(&mut [0; 16]).is_ok());
    }
}

#[test]
fn endpoints_take_turns_and_an_address_can_keep_one() {
    let servers = ["a", "b", "c"].map(|name| server(move |_, _| vec![name.into()]));
    let endpoints = servers.map(|it| format!("\"{it}\"")).join(", ");
    let ask_all = |udp: &Udp| -> HashSet<String> { (0..9).map(|_| ask(&udp.client(), "?")).collect() };
    let udp = Udp::start("to: all", &format!("upstreams: {{all: [{endpoints}]}}"));
    assert_eq!(ask_all(&udp).len(), 3);
    let udp = Udp::start(
        "to: all",
        &format!(
            "upstreams: {{all: {{endpoints: [{endpoints}], balance: {{policy: hash, by: client_address}}}}}}"
        ),
    );
    assert_eq!(ask_all(&udp).len(), 1);
}

#[test]
fn a_port_carries_tcp_and_udp_and_sessions_live_on_over_reloads() {
    let (one, other) = (echo(), server(|_, _| vec![b"other".to_vec()]));
    let address = free_address();
    let tcp = super::Server::named("tcp");
    let yaml = |to: SocketAddr| {
        format!(
            "listen: [$LISTEN, {{bind: \"{address}\", protocol: udp, to: \"{to}\"}}, \
             {{bind: \"{address}\", protocol: tcp, to: \"{}\"}}]\nroutes: []\n",
            tcp.address
        )
    };
    let udp = Udp { gateway: Gateway::start(&yaml(one)), address };
    super::expect(&mut std::net::TcpStream::connect(address).expect("accepted"), "tcp");
    let client = udp.client();
    assert_eq!(ask(&client, "a"), "a");
    udp.gateway.write_config(&yaml(other));
    udp.gateway.signal(Signal::HUP);
    eventually("the reload", || ask(&udp.client(), "x") == "other");
    assert_eq!(ask(&client, "b"), "b", "the session has its endpoint");
    udp.gateway.write_config("listen: $LISTEN\nroutes: []\n");
    udp.gateway.signal(Signal::HUP);
    eventually("the port is free", || UdpSocket::bind(address).is_ok());
}

#[test]
fn a_client_has_a_new_session_after_an_upgrade() {
    let mut udp = Udp::stream(echo(), "timeouts: {idle: 1h}");
    let client = udp.client();
    assert_eq!(ask(&client, "a"), "a");
    udp.gateway.upgrade();
    client.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    eventually("the new process answers", || client.send(b"b").is_ok() && client.recv(&mut [0; 16]).is_ok());
    // The old process does not wait for its session.
    udp.gateway.wait_predecessor(0);
    assert_eq!(ask(&client, "c"), "c");
}

#[test]
fn an_idle_session_does_not_hold_a_drain_up() {
    let mut udp = Udp::stream(echo(), "timeouts: {idle: 1h}");
    let client = udp.client();
    assert_eq!(ask(&client, "a"), "a");
    udp.gateway.signal(Signal::TERM);
    assert_eq!(udp.gateway.wait_exit().code(), Some(0));
    assert_eq!(udp.gateway.records()[0]["reason"], "shutting_down");
}

/// A server of datagrams that answers with its name, and a listener of TCP at the same address, for probes.
fn probed(name: &'static str) -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind(free_address()).expect("a port");
    let address = listener.local_addr().expect("bound");
    let socket = UdpSocket::bind(address).expect("the same port of UDP");
    (serve(socket, move |_, _| vec![name.into()]), listener)
}

#[test]
fn a_session_leaves_an_endpoint_that_is_unhealthy() {
    let (a, b) = (probed("a"), probed("b"));
    let more = format!(
        "upstreams: {{all: {{endpoints: [\"{}\", \"{}\"], health: {{tcp: on, interval: 100ms}}}}}}",
        a.0, b.0
    );
    let udp = Udp::start("to: all", &more);
    let client = udp.client();
    let first = ask(&client, "?");
    assert_eq!([ask(&client, "?"), ask(&client, "?")], [first.clone(), first.clone()], "one session");
    let (gone, kept, other) = if first == "a" { (a.1, b.1, "b") } else { (b.1, a.1, "a") };
    drop(gone);
    // The client never pauses, and the endpoint still answers.
    eventually("another endpoint", || ask(&client, "?") == other);
    assert_eq!([ask(&client, "?"), ask(&client, "?")], [other, other], "one session again");
    assert_eq!(udp.record(1)["reason"], "endpoint_left");
    // Without a healthy endpoint the session stays where it is.
    drop(kept);
    thread::sleep(Duration::from_millis(800));
    assert_eq!([ask(&client, "?"), ask(&client, "?")], [other, other]);
    assert_eq!(udp.gateway.records().len(), 1);
}

#[test]
fn an_endpoint_that_leaves_its_upstream_loses_its_sessions() {
    let (a, b) = (server(|_, _| vec![b"a".to_vec()]), server(|_, _| vec![b"b".to_vec()]));
    let udp = Udp::start("", "store: $DIR/store");
    let upstream = |to: SocketAddr| put(&udp.gateway, "/upstreams/all", &json!([to.to_string()])).status;
    assert_eq!(upstream(a), 201);
    let stream = json!({"listeners": "udp", "to": "all"});
    assert_eq!(put(&udp.gateway, "/streams/dns", &stream).status, 201);
    let client = udp.client();
    assert_eq!([ask(&client, "?"), ask(&client, "?")], ["a", "a"]);
    // The session is active, and its endpoint still answers.
    assert_eq!(upstream(b), 200);
    assert_eq!([ask(&client, "?"), ask(&client, "?")], ["b", "b"]);
    assert_eq!(udp.record(1)["reason"], "endpoint_left");
}

#[test]
fn the_largest_datagram_passes() {
    let udp = Udp::start(&format!("to: \"{}\"", echo()), "");
    let client = udp.client();
    // The most that IPv4 carries.
    let sent: Vec<u8> = (0..65_507_u32).map(|at| (at % 251) as u8).collect();
    client.send(&sent).expect("sent");
    let mut buffer = vec![0; 70_000];
    let count = client.recv(&mut buffer).expect("a datagram");
    assert!(buffer[..count] == sent, "{count} bytes");
}

#[test]
fn a_session_that_waits_keeps_one_large_datagram() {
    let more = format!(
        "streams: [{{listeners: udp, to: dns, timeouts: {{idle: 1s}}}}]\n\
         upstreams: {{dns: {{endpoints: [\"{}\"], limits: {{connections: 1}}, queue: {{size: 1, timeout: 10s}}}}}}",
        echo()
    );
    let udp = Udp::start("", &more);
    let (first, second) = (udp.client(), udp.client());
    assert_eq!(ask(&first, "a"), "a");
    for _ in 0..3 {
        second.send(&[b'x'; 40_000]).expect("sent");
    }
    eventually("two are dropped", || {
        udp.sum("tollgate_stream_datagrams_dropped_total", "cause=\"not_sent\"") == 2.0
    });
    // The first session ends, and its place is free.
    let mut buffer = vec![0; 70_000];
    assert_eq!(second.recv(&mut buffer).expect("the one that was kept"), 40_000);
}

#[test]
fn a_stream_to_its_own_listener_ends() {
    let address = free_address();
    let yaml = Udp::config(address, &format!("to: \"{address}\""), "");
    let udp = Udp { gateway: Gateway::start(&yaml), address };
    udp.client().send(b"x").expect("sent");
    assert_eq!(udp.record(1)["reason"], "loop_detected");
    eventually("no session is left", || udp.sum("tollgate_streams_active", "") == 0.0);
    assert_eq!(udp.sum("tollgate_streams_total", ""), 1.0);
}

#[test]
fn a_listener_moves_and_comes_back_while_sessions_are_busy() {
    let port = free_port();
    let echo = echo();
    let yaml = |listen: &str| {
        let to = if listen.is_empty() {
            String::new()
        } else {
            format!("{{bind: \"{listen}\", protocol: udp, to: \"{echo}\"}}")
        };
        format!("workers: 2\nlisten: [$LISTEN, {to}]\nroutes: []\n")
    };
    let (one, all) = (format!("127.0.0.1:{port}"), format!(":{port}"));
    let udp = Udp { gateway: Gateway::start(&yaml(&one)), address: one.parse().expect("an address") };
    let busy = udp.client();
    assert_eq!(ask(&busy, "a"), "a");
    let (stop, keeper) = (Arc::new(AtomicBool::new(false)), busy.try_clone().expect("a copy"));
    let keeps = thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = keeper.send(b"k");
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
    let reload = |listen: &str| {
        udp.gateway.write_config(&yaml(listen));
        let answer = call(&udp.gateway, "POST", "/reload", "", "");
        assert_eq!(answer.status, 200, "{listen}: {}", answer.text());
    };
    // To all addresses, away, and back, while a session keeps a socket at the old address.
    for listen in [&*all, &one, "", &one] {
        reload(listen);
        if !listen.is_empty() {
            for number in 0..20 {
                let text = format!("{number}");
                let client = udp.client();
                client.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
                assert_eq!(ask(&client, &text), text, "{listen}: a new client has a session");
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    keeps.join().expect("no panic");
}

#[test]
fn clients_and_endpoints_may_use_ipv6() {
    let endpoint = UdpSocket::bind("[::1]:0").expect("the machine has an IPv6 loopback");
    let to = endpoint.local_addr().expect("bound");
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((count, from)) = endpoint.recv_from(&mut buffer) {
            let _ = endpoint.send_to(&buffer[..count], from);
        }
    });
    let port = free_port();
    let yaml = format!(
        "listen: [$LISTEN, {{bind: \":{port}\", protocol: udp, to: \"{to}\"}}]\nroutes: []\ntimeouts: {{drain: 1s}}\n"
    );
    let mut gateway = Gateway::start(&yaml);
    for own in ["127.0.0.1", "[::1]"] {
        let client = UdpSocket::bind(format!("{own}:0")).expect("a port");
        client.connect(format!("{own}:{port}")).expect("an address");
        client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        assert_eq!(ask(&client, own), own);
    }
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    let clients: HashSet<_> = gateway.records().iter().map(|record| record["client"].to_string()).collect();
    assert_eq!(clients, HashSet::from(["\"127.0.0.1\"".to_owned(), "\"::1\"".to_owned()]));
}
