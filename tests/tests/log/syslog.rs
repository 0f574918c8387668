//! The access log on a syslog server.

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Signal, free_address, tollgate};

const ROUTES: &str = "routes: [{match: /*, respond: ok}]\n";

fn gateway(to: &str, more: &str) -> Gateway {
    Gateway::start(&format!("access_log: {{to: \"{to}\", format: '{{path}} {{status}}'{more}}}\n{ROUTES}"))
}

/// Splits a message into its priority and version, its program, and its text.
fn parts(message: &str) -> (String, String, String) {
    let words: Vec<&str> = message.splitn(8, ' ').collect();
    let [begin, time, _host, program, process, id, data, text] = words[..] else { panic!("{message}") };
    assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{message}");
    assert!(process.parse::<u32>().is_ok() && (id, data) == ("access", "-"), "{message}");
    (begin.to_owned(), program.to_owned(), text.to_owned())
}

#[test]
fn over_udp() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let to = format!("syslog+udp://{}", server.local_addr().expect("an address"));
    let gateway = gateway(&to, ", facility: local0, severity: notice, app_name: gate");
    let mut client = gateway.client();
    client.get("/a%22\"");
    client.get("/b");
    let mut buffer = [0; 4096];
    let mut next = || {
        let count = server.recv(&mut buffer).expect("a message");
        parts(&String::from_utf8_lossy(&buffer[..count]))
    };
    assert_eq!(next(), ("<133>1".to_owned(), "gate".to_owned(), "/a%22\\x22 200".to_owned()));
    assert_eq!(next().2, "/b 200");
}

fn message(stream: &mut TcpStream) -> String {
    let mut length = 0;
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a length");
        match byte[0] {
            b' ' => break,
            digit => length = length * 10 + usize::from(digit - b'0'),
        }
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).expect("a message");
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn over_tcp_with_lengths_and_again_after_the_server_was_away() {
    let address = free_address();
    let gateway = gateway(&format!("syslog+tcp://{address}"), "");
    // The server does not listen yet: the message waits.
    gateway.client().get("/first");
    let server = TcpListener::bind(address).expect("bound");
    let accept = || {
        let (stream, _) = server.accept().expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        stream
    };
    let mut stream = accept();
    let (begin, program, text) = parts(&message(&mut stream));
    assert_eq!((&*begin, &*program, &*text), ("<190>1", "tollgate", "/first 200"));
    gateway.client().get("/second");
    assert_eq!(parts(&message(&mut stream)).2, "/second 200");
    drop(stream);
    gateway.client().get("/third");
    assert_eq!(parts(&message(&mut accept())).2, "/third 200");
}

#[test]
fn at_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("tollgate-e2e-syslog-{}", std::process::id()));
    let server = UnixDatagram::bind(&path).expect("a socket");
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let gateway = gateway(&format!("syslog+unix:{}", path.display()), "");
    gateway.client().get("/a");
    let mut buffer = [0; 4096];
    let count = server.recv(&mut buffer).expect("a message");
    assert_eq!(parts(&String::from_utf8_lossy(&buffer[..count])).2, "/a 200");
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_server_that_reads_nothing_holds_up_neither_traffic_nor_the_end() {
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let to = format!("syslog+tcp://{}", server.local_addr().expect("an address"));
    let mut gateway = gateway(&to, "");
    let mut client = gateway.client();
    let target = format!("/{}", "x".repeat(7000));
    for _ in 0..2000 {
        assert_eq!(client.get(&target).status, 200);
    }
    drop(client);
    let began = Instant::now();
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn nginx_syntax_is_answered_with_the_local_one() {
    let path = std::env::temp_dir().join(format!("tollgate-e2e-nginx-log-{}.yaml", std::process::id()));
    for (written, help) in [
        ("syslog:server=127.0.0.1:514", "write `syslog+udp://127.0.0.1:514`"),
        ("syslog:server=unix:/dev/log,tag=gate", "write `{to: \"syslog+unix:/dev/log\", app_name: gate}`"),
    ] {
        std::fs::write(&path, format!("listen: 127.0.0.1:0\naccess_log: \"{written}\"\n{ROUTES}"))
            .expect("written");
        let ran = tollgate(&["check", path.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.all().contains(help) && ran.all().contains("syslog+tcp://"), "{ran:?}");
    }
    let _ = std::fs::remove_file(&path);
}
