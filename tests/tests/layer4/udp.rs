//! Datagrams: sessions, their bounds and ends.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_tests::{DEADLINE, Gateway, Signal, eventually, free_address};

/// A server of datagrams. `answers` returns what it sends back for each.
fn server(answers: impl Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
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

    /// Starts one with a stream of these keys.
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
    // A client that sends again has received an answer.
    client.send(b"?").expect("sent");
    for _ in 0..32 {
        assert_eq!(receive(&client).len(), 1024);
    }
    // An endpoint that never answers gets little, unless the stream says that none is expected.
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
    // The clients' own retries reach the endpoint that is left.
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
    // The old one does not wait for its session.
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
