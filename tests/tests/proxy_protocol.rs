//! The PROXY protocol: the client address that trusted proxies announce and other peers cannot, and the
//! header to endpoints.

mod sent;
mod servers;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use tollgate_tests::{Authority, DEADLINE, Gateway, Origin, TlsPeer, eventually};

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
    [V2, &[command, family], &length, rest].concat()
}

fn gateway(origin: &Origin, from: &str) -> Gateway {
    Gateway::start(&format!(
        "listen: {{bind: $LISTEN, proxy_protocol: {from}}}\ntimeouts: {{handshake: 2s}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ))
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address()).expect("the gateway accepts");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream
}

const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Sends a request after this header and returns the answer; empty if the gateway closes the connection.
fn ask(gateway: &Gateway, header: &[u8]) -> String {
    let mut stream = connect(gateway);
    let mut answer = Vec::new();
    // The gateway may close before everything is written.
    let _ = stream.write_all(&[header, ASK].concat());
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn count(gateway: &Gateway, result: &str) -> f64 {
    let metrics = gateway.metrics();
    metrics.sum("tollgate_proxy_protocol_headers_total", &format!("result=\"{result}\"")).expect("counted")
}

#[test]
fn the_header_names_the_client() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "127.0.0.0/8");
    let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 4, 1, 0xbb];
    let mapped = [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 9], &[0; 15], &[1, 0, 1, 0, 2]].concat();
    let with_more = [&v4[..], &[0xea, 0, 2, 1, 2]].concat();
    for (header, client) in [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n".to_vec(), "192.0.2.7"),
        (b"PROXY TCP6 2001:db8::7 ::1 56324 443\r\n".to_vec(), "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (binary(0x21, 0x11, &v4), "192.0.2.7"),
        (binary(0x21, 0x11, &with_more), "192.0.2.7"),
        (binary(0x21, 0x21, &mapped), "192.0.2.9"),
        (binary(0x20, 0x00, b""), "127.0.0.1"),
        (binary(0x21, 0x31, &[7; 216]), "127.0.0.1"),
        (binary(0x20, 0x00, &[7; 4000]), "127.0.0.1"),
    ] {
        let before = origin.count();
        let answer = ask(&gateway, &header);
        assert!(answer.starts_with("HTTP/1.1 200"), "{client}: {answer}");
        let request = origin.requests().pop().expect("a request");
        assert_eq!((request.headers.get("X-Forwarded-For"), origin.count()), (Some(client), before + 1));
        let records = gateway.wait_records(before + 1);
        assert_eq!(records[before]["client"], client);
    }
    assert_eq!((count(&gateway, "proxied"), count(&gateway, "local")), (5.0, 4.0));
}

#[test]
fn a_missing_header_closes_the_connection_and_is_counted() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "127.0.0.0/8");
    let bad = [
        b"".to_vec(),
        b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\n".to_vec(),
        b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 65536\r\n".to_vec(),
        [b"PROXY UNKNOWN ", &[b'x'; 200][..], b"\r\n"].concat(),
        binary(0x21, 0x12, &[0; 12]),
        binary(0x21, 0x11, &[0; 11]),
        binary(0x20, 0x00, &[0; 5000]),
    ];
    for header in &bad {
        assert_eq!(ask(&gateway, header), "", "{header:?}");
    }
    assert_eq!(count(&gateway, "malformed"), bad.len() as f64);
    // The harness's readiness check also connects and closes.
    let before = count(&gateway, "closed");
    let mut cut = connect(&gateway);
    cut.write_all(b"PROXY TCP4 192.0.2.7").expect("sent");
    cut.shutdown(Shutdown::Write).expect("ended");
    eventually("the end", || count(&gateway, "closed") > before);
    let mut slow = connect(&gateway);
    slow.write_all(&V2[..5]).expect("sent");
    eventually("the timeout", || count(&gateway, "timeout") == 1.0);
    assert_eq!(slow.read(&mut [0; 9]).expect("closed"), 0);
    assert_eq!(origin.count(), 0);
}

#[test]
fn byte_by_byte_and_with_a_request_behind_it_is_the_same() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "127.0.0.1");
    for header in [
        b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n".to_vec(),
        binary(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 4, 1, 0xbb, 1, 0, 1, 9]),
    ] {
        let mut stream = connect(&gateway);
        stream.set_nodelay(true).expect("no delay");
        for byte in [&header[..], ASK].concat() {
            stream.write_all(&[byte]).expect("sent");
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let request = origin.requests().pop().expect("a request");
        assert_eq!(request.headers.get("X-Forwarded-For"), Some("192.0.2.7"));
    }
}

#[test]
fn an_untrusted_peer_cannot_name_a_client() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "[10.0.0.0/8, \"2001:db8::/32\"]");
    assert!(ask(&gateway, b"").starts_with("HTTP/1.1 200"), "it is served as who it is");
    assert!(ask(&gateway, b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n").starts_with("HTTP/1.1 400"));
    let requests = origin.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].headers.get("X-Forwarded-For"), Some("127.0.0.1"));
}

#[test]
fn the_named_client_is_who_trusted_proxies_are_about() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, proxy_protocol: 127.0.0.1}}\nforwarded: {{trusted_proxies: [127.0.0.1, 192.0.2.1]}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    for (client, seen) in [("192.0.2.1", "6.6.6.6, 192.0.2.1"), ("192.0.2.2", "192.0.2.2")] {
        let mut stream = connect(&gateway);
        let text = format!(
            "PROXY TCP4 {client} 10.0.0.1 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).expect("sent");
        stream.read_to_end(&mut Vec::new()).expect("an answer");
        let request = origin.requests().pop().expect("a request");
        assert_eq!(request.headers.get("X-Forwarded-For"), Some(seen));
    }
}

#[test]
fn it_comes_before_tls() {
    let origin = Origin::ok();
    let (authority, directory) = (Authority::new(), tempfile_directory());
    let issued = authority.issue(&["a.example"]);
    let path = |name: &str| format!("{directory}/{name}");
    std::fs::write(path("a.pem"), issued.chain + &issued.key).expect("written");
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, proxy_protocol: 127.0.0.1, tls: {{certificate: {}}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        path("a.pem"),
        origin.address()
    ));
    let mut stream = connect(&gateway);
    stream.write_all(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n").expect("sent");
    let mut client = TlsPeer::trusting(&authority).shake_hands(stream, "a.example").expect("a handshake");
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 200"));
    let request = origin.requests().pop().expect("a request");
    assert_eq!(request.headers.get("X-Forwarded-For"), Some("192.0.2.7"));
    assert_eq!(request.headers.get("X-Forwarded-Proto"), Some("https"));
    assert!(TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").is_err(), "without it");
    eventually("the count", || count(&gateway, "malformed") == 1.0);
    let _ = std::fs::remove_dir_all(directory);
}

fn tempfile_directory() -> String {
    let path = std::env::temp_dir().join(format!("tollgate-proxy-protocol-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    path.display().to_string()
}
