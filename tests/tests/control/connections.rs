//! Connections and bodies of the admin listener: silent and slow ones do not block others, and memory is
//! bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_tests::{Authority, Client, Gateway, TlsPeer, eventually};

/// More connections than the listener accepts, including the reserved ones.
const MANY: usize = 100;

/// Sends a request on a connection of its own, and returns the status.
fn status(gateway: &Gateway, path: &str) -> u16 {
    gateway.admin(path).status
}

#[test]
fn silent_connections_block_no_other() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: [{match: /a, respond: a}]");
    let started = ["", "GET /metr", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"];
    for head in started {
        let silent: Vec<TcpStream> = (0..MANY)
            .map(|_| {
                let mut stream = TcpStream::connect(gateway.admin_address()).expect("a connection");
                stream.write_all(head.as_bytes()).expect("sent");
                stream
            })
            .collect();
        let asked = Instant::now();
        for path in ["/healthz", "/readyz", "/metrics", "/api/v1", "/upstreams", "/status"] {
            assert_eq!(status(&gateway, path), 200, "{path} beside {head:?}");
        }
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        drop(silent);
    }
    assert!(gateway.metrics().sum("tollgate_admin_connections_evicted_total", "") > Some(0.0));
}

#[test]
fn slow_bodies_and_slow_readers_block_no_other() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: [{match: /a, respond: a}]");
    // A body that is announced and never arrives.
    let head = "PUT /api/v1/routes/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let slow: Vec<TcpStream> = (0..MANY)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.admin_address()).expect("a connection");
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(&gateway, path), 200, "{path}");
    }
    eventually("room for the rest", || {
        status(&gateway, "/metrics") == 200 && status(&gateway, "/api/v1") == 200
    });
    drop(slow);
    // Answers that the clients do not read: more than the kernel buffers.
    let request = "GET /dashboard/vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let deaf: Vec<Client> = (0..MANY)
        .map(|_| {
            let mut client = Client::connect_small(gateway.admin_address(), Arc::default(), 4096);
            client.send(&request);
            client
        })
        .collect();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(&gateway, path), 200, "{path}");
    }
    eventually("room for the rest", || {
        status(&gateway, "/metrics") == 200 && status(&gateway, "/api/v1") == 200
    });
    drop(deaf);
}

#[test]
fn silent_handshakes_and_sockets_block_no_other() {
    let authority = Authority::new();
    let server = authority.issue(&["localhost"]);
    let gateway = Gateway::start("routes: [{match: /a, respond: a}]");
    for (name, text) in [("a.pem", &server.chain), ("a.key", &server.key)] {
        std::fs::write(gateway.directory().join(name), text).expect("written");
    }
    let address = tollgate_tests::free_address();
    gateway.write_config(&format!(
        "admin: {{bind: \"{address}\", tls: {{certificate: a.pem, key: a.key}}}}\nroutes: [{{match: /b, respond: b}}]"
    ));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new file", || gateway.client().get("/b").status == 200);
    let silent: Vec<TcpStream> =
        (0..MANY).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    let peer = TlsPeer::trusting(&authority);
    let ask = || {
        let mut client = peer.shake_hands(TcpStream::connect(address).ok()?, "localhost").ok()?;
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.answer().ok()
    };
    eventually("an answer", || ask().is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
    drop(silent);
    let path = gateway.directory().join("admin.sock");
    gateway.write_config("admin: unix:$DIR/admin.sock\nroutes: [{match: /c, respond: c}]");
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new file", || gateway.client().get("/c").status == 200);
    let silent: Vec<UnixStream> = (0..MANY).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
}

/// Sends a body of `bytes` bytes in pieces until the gateway accepts no more, and then reads the answer.
fn send_body(gateway: &Gateway, token: &str, bytes: usize) -> std::thread::JoinHandle<String> {
    let address = gateway.admin_address();
    let head = format!(
        "POST /api/v1/transactions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        bytes + 1
    );
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        let _ = stream.write_all(head.as_bytes());
        let piece = vec![b' '; 1 << 20];
        for _ in 0..bytes >> 20 {
            if stream.write_all(&piece).is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    })
}

const TOKEN: &str = "writer-writer-writer";

#[test]
fn bodies_are_bounded_in_sum() {
    let gateway = Gateway::start(&format!(
        "store: $DIR/store\nadmin: {{bind: $ADMIN, tokens: {{a: {{role: write, token: {TOKEN}}}, r: {{role: read, token: reader-reader-reader}}}}}}\n\
         routes: [{{match: /a, respond: a}}]"
    ));
    let before = gateway.memory_kib("VmRSS");
    // The listener reads no body for an unknown token or a token without the role.
    for token in ["nobody-nobody-nobody", "reader-reader-reader"] {
        let senders: Vec<_> = (0..4).map(|_| send_body(&gateway, token, 48 << 20)).collect();
        senders.into_iter().for_each(|sender| drop(sender.join()));
        let peak = gateway.memory_kib("VmHWM");
        assert!(peak < before + (32 << 10), "{token}: {before} and then {peak} KiB");
    }
    let senders: Vec<_> = (0..8).map(|_| send_body(&gateway, TOKEN, 48 << 20)).collect();
    let answers: Vec<String> = senders.into_iter().map(|it| it.join().expect("it ends")).collect();
    let peak = gateway.memory_kib("VmHWM");
    assert!(peak < before + (160 << 10), "{before} and then {peak} KiB");
    let refused: Vec<&String> = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).collect();
    assert!(!refused.is_empty(), "{answers:?}");
    assert!(
        refused.iter().all(|answer| answer.to_ascii_lowercase().contains("retry-after: 1")),
        "{refused:?}"
    );
    assert_eq!(gateway.client().get("/a").status, 200);
}
