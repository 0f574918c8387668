//! Upgrade (RFC 9110, section 7.8): WebSocket and similar protocols pass through; CONNECT does not.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tollgate_tests::{Client, Gate, Gateway, Origin, ReadError, Signal, TlsPeer, eventually};

use crate::tls;

/// A protocol switch with the answer to the sample key of RFC 6455, 1.3.
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn ask(target: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// Starts an origin that switches protocols and echoes; it answers plain requests.
fn echoing() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.headers.has("Upgrade") {
                conn.send(SWITCH);
                conn.echo_bytes();
                return;
            }
            conn.ok(&request.target);
        }
    })
}

fn upgraded(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    client.send(ask("/ws"));
    let response = client.head();
    assert_eq!(response.status, 101, "{response:?}");
    assert_eq!(response.header("Upgrade"), Some("websocket"));
    assert!(response.headers.lists("Connection", "upgrade"));
    client
}

fn echoes(client: &mut Client, text: &str) {
    client.send(text);
    assert_eq!(
        client.wire().take(text.len()).map(|b| String::from_utf8_lossy(&b).into_owned()),
        Ok(text.to_owned())
    );
}

#[test]
fn bytes_pass_both_ways() {
    let origin = echoing();
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    for i in 0..50 {
        echoes(&mut client, &format!("\u{0}\r\n\r\nframe {i} GET / HTTP/1.1\r\n\r\n"));
    }
    let request = origin.request();
    assert_eq!(request.headers.get("Upgrade"), Some("websocket"));
    assert!(request.headers.lists("Connection", "upgrade"));
    assert_eq!(request.headers.get("Sec-WebSocket-Key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    client.half_close();
    client.expect_close();
    eventually("the origin to be let go", || origin.open() == 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn both_directions_run_at_full_speed() {
    const SIZE: usize = 16 << 20;
    let origin = echoing();
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    let mut writer = client.wire().stream().expect("open").try_clone().expect("clone");
    let mut reader = writer.try_clone().expect("clone");
    let sent: Vec<u8> = (0..SIZE).map(|i| (i / 7) as u8).collect();
    let copy = sent.clone();
    let writing = thread::spawn(move || writer.write_all(&copy));
    let mut got = vec![0; SIZE];
    reader.set_read_timeout(Some(tollgate_tests::DEADLINE)).expect("timeout");
    reader.read_exact(&mut got).expect("everything comes back");
    writing.join().expect("no panic").expect("everything is taken");
    assert!(got == sent, "bytes differ");
    assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
}

#[test]
fn bytes_sent_with_the_switch_are_not_lost() {
    // The origin sends first, in the same segment as its 101.
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send(format!("{SWITCH}hello"));
            conn.echo_bytes();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    assert_eq!(client.wire().take(5), Ok(b"hello".to_vec()));
    echoes(&mut client, "and back");
}

#[test]
fn bytes_before_the_switch_wait_for_it() {
    let origin = echoing();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(ask("/ws") + "early bytes");
    assert_eq!(client.head().status, 101);
    assert_eq!(client.wire().take(11), Ok(b"early bytes".to_vec()));
    client.half_close();
    client.expect_close();
    gateway.reconcile(&[&origin]);
}

#[test]
fn pipelined_bytes_after_a_refused_upgrade_are_requests_again() {
    // Attack class 3: the client asks for a switch, and the origin answers 200. The bytes that follow are
    // HTTP for both sides, or the connection ends. They never reach the origin as bytes of a tunnel.
    for status in ["200 OK", "403 Forbidden", "426 Upgrade Required"] {
        let origin = Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.headers.has("Upgrade") {
                    conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno"));
                } else {
                    conn.ok(&request.target);
                }
            }
        });
        let gateway = Gateway::start(&format!(
            "routes:\n  - {{match: \"/ws\", to: [{0}]}}\n  - {{match: \"/public/*\", to: [{0}]}}\n",
            origin.address()
        ));
        let mut client = gateway.client();
        client.send(
            ask("/ws") + "GET /admin HTTP/1.1\r\nHost: a\r\n\r\nGET /public/x HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        assert_eq!(client.response().text(), "no");
        loop {
            match client.try_response("GET") {
                Ok(response) if response.status == 404 => {}
                Ok(response) => assert_eq!(response.text(), "/public/x"),
                Err(ReadError::Closed | ReadError::Truncated) => break,
                Err(ReadError::TimedOut) => panic!("no answer and no end"),
                Err(error) => panic!("{error:?}"),
            }
            if gateway.answers() == 3 {
                break;
            }
        }
        assert!(origin.requests().iter().all(|r| r.target != "/admin"), "{status}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_protocol_that_the_route_does_not_name_is_not_offered() {
    for protocol in ["h2c", "TLS/1.0", "foo", "h2c, foo"] {
        let origin = echoing();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        let response = client.ask(format!(
            "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
        ));
        assert_eq!((response.status, response.text().as_str()), (200, "/x"), "{protocol}");
        let request = origin.request();
        assert!(!request.headers.has("Upgrade") && !request.headers.has("HTTP2-Settings"), "{request:?}");
        assert!(!request.headers.lists("Connection", "upgrade"), "{request:?}");
        client.expect_alive();
    }
}

#[test]
fn a_route_may_name_other_protocols() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n");
            conn.echo_bytes();
        }
    });
    let gateway =
        Gateway::start(&format!("routes: [{{match: \"/*\", to: [{}], upgrade: [chat]}}]", origin.address()));
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
    assert_eq!(client.head().status, 101);
    echoes(&mut client, "hi");
}

#[test]
fn an_unrequested_upgrade_is_refused() {
    for (request, switch) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), SWITCH),
        ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n".to_owned(), SWITCH),
        ("GET / HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_owned(), SWITCH),
    ] {
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(switch);
                conn.wait_close();
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        let response = client.ask(&request);
        assert_eq!((response.status, response.reason()), (502, "http_protocol_error"), "{request:?}");
        eventually("the origin to be let go", || origin.open() == 0);
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_switch_to_another_protocol_than_was_asked_for_is_refused() {
    let asks = |protocols: &str| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {protocols}\r\n\r\n")
    };
    for (asked, says, is_good) in [
        ("chat", "Upgrade: chat\r\n", true),
        ("Chat", "Upgrade: cHAT\r\n", true),
        ("chat/2, chat/1", "Upgrade: chat/1\r\n", true),
        ("chat/2", "Upgrade: chat\r\n", true),
        ("talk, chat", "Upgrade: chat, talk\r\n", true),
        ("talk, chat", "Upgrade: chat\r\nUpgrade: talk\r\n", true),
        ("chat", "Upgrade: websocket\r\n", false),
        ("chat", "Upgrade: chat, h2c\r\n", false),
        ("chat", "Upgrade: chat\r\nUpgrade: h2c\r\n", false),
        ("chat/2", "Upgrade: chat/1\r\n", false),
        ("chat", "Upgrade: chatter\r\n", false),
        ("chat", "Upgrade:\r\n", false),
        ("chat", "", false),
    ] {
        let switch = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{says}\r\nHTTP/1.1 200 OK\r\n\r\n"
        );
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(&switch);
                conn.wait_close();
            }
        });
        let gateway = Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: [{}], upgrade: [chat, talk]}}]",
            origin.address()
        ));
        let mut client = gateway.client();
        client.send(asks(asked));
        let response = client.head();
        if is_good {
            assert_eq!(response.status, 101, "{asked} {says:?}");
        } else {
            assert_eq!(
                (response.status, response.reason()),
                (502, "http_protocol_error"),
                "{asked} {says:?}"
            );
            eventually("the origin to be let go", || origin.open() == 0);
        }
    }
}

#[test]
fn a_switch_is_none_of_http_2s() {
    let origin = Origin::fixed(SWITCH);
    let gateway = Gateway::to(&origin);
    let response = gateway.http2().get("/");
    assert_eq!((response.status, response.header("tollgate-reason")), (502, Some("http_protocol_error")));
}

#[test]
fn the_end_of_either_side_reaches_the_other() {
    // The origin ends first. Its last bytes arrive, then the end; the client may still send until it ends
    // too.
    let heard = Gate::new();
    let hears = heard.clone();
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(format!("{SWITCH}last words"));
            if let Some(stream) = conn.wire().stream() {
                let _ = stream.shutdown(Shutdown::Write);
            }
            if conn.wire().take(5) == Ok(b"reply".to_vec()) {
                hears.open();
            }
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    assert_eq!(client.wire().take(10), Ok(b"last words".to_vec()));
    assert_eq!(client.wire().fill(), Ok(false));
    client.send("reply");
    heard.wait();
    client.half_close();
    eventually("the origin to be let go", || origin.open() == 0);
}

/// Returns an origin that switches, echoes one word, and reports how the gateway ends the connection.
fn reporting() -> (Origin, Receiver<Result<bool, ReadError>>) {
    let (sender, ends) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            if let Ok(word) = conn.wire().take(1) {
                conn.send(word);
                let end = conn.wire().fill();
                let _ = sender.lock().expect("a sender").send(end);
            }
        }
    });
    (origin, ends)
}

#[test]
fn a_reset_of_the_client_resets_the_endpoint() {
    let (origin, ends) = reporting();
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    echoes(&mut client, "x");
    client.reset();
    assert_eq!(ends.recv().expect("the endpoint sees it"), Err(ReadError::Truncated));
    assert_eq!(gateway.wait_records(1).len(), 1);
    // An orderly end stays one.
    let mut client = upgraded(&gateway);
    echoes(&mut client, "x");
    client.half_close();
    assert_eq!(ends.recv().expect("the endpoint sees it"), Ok(false));
}

#[test]
fn a_tls_client_that_announces_no_end_was_cut() {
    let (origin, ends) = reporting();
    let (gateway, authority, _files) = tls::gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let peer = TlsPeer::trusting(&authority);
    for announces in [false, true] {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a connection");
        client.send(ask("/ws").replace("Host: a", "Host: a.example").as_bytes());
        assert!(client.answer().expect("an answer").starts_with("HTTP/1.1 101 "));
        client.send(b"x");
        assert_eq!(client.some().expect("an echo"), b"x");
        if announces {
            client.end();
        } else {
            client.socket().shutdown(Shutdown::Write).expect("an end of TCP");
        }
        let expected = if announces { Ok(false) } else { Err(ReadError::Truncated) };
        assert_eq!(ends.recv().expect("the endpoint sees it"), expected);
    }
}

#[test]
fn a_reset_of_the_endpoint_resets_the_client() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            let _ = conn.wire().take(1);
            conn.reset();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    client.send("x");
    assert_eq!(client.wire().fill(), Err(ReadError::Truncated));
    let records = gateway.wait_records(1);
    assert_eq!((&records[0]["status"], records[0]["reason"].is_null()), (&101.into(), true));
}

#[test]
fn it_outlives_a_reload() {
    let origin = echoing();
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    echoes(&mut client, "before");
    gateway.write_config("routes: [{match: \"/new\", respond: {status: 200, body: new}}]");
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/new").text() == "new");
    echoes(&mut client, "after");
    assert_eq!(gateway.client().get("/ws").status, 404);
    client.half_close();
    client.expect_close();
}

#[test]
fn a_silent_tunnel_ends_after_its_timeout() {
    let origin = echoing();
    let gateway = Gateway::with(&origin, "timeouts: {upgraded: 2s}");
    let mut client = upgraded(&gateway);
    // Longer than the timeout, in small steps.
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(80));
        echoes(&mut client, "alive");
    }
    client.expect_close();
    eventually("the origin to be let go", || origin.open() == 0);
}

/// The gateway's default is an hour, so only the route's own time can end the tunnel.
#[test]
fn a_route_has_its_own_timeout_of_a_silent_tunnel() {
    let origin = echoing();
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: /ws, to: \"{0}\", timeouts: {{upgraded: 300ms}}}}\n- {{match: /*, to: \"{0}\"}}\n",
        origin.address()
    ));
    let mut other = gateway.client();
    other.send(ask("/other"));
    assert_eq!(other.head().status, 101);
    let mut client = upgraded(&gateway);
    echoes(&mut client, "alive");
    client.expect_close();
    echoes(&mut other, "still alive");
}

#[test]
fn connect_is_refused() {
    for target in ["a.example:443", "127.0.0.1:22", "/", "*"] {
        let origin = echoing();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: a.example:443\r\n\r\nsmuggled"));
        let response = client.response_to("CONNECT");
        assert!(
            (response.status, response.reason()) == (405, "connect_refused") || response.status == 400,
            "{target}: {response:?}"
        );
        client.expect_close();
        assert_eq!(origin.connections(), 0);
        gateway.reconcile(&[&origin]);
    }
}

/// Returns bytes in which each run differs from every other.
fn pattern(length: usize) -> Vec<u8> {
    (0..length / 4).flat_map(|at| u32::try_from(at).expect("small").to_be_bytes()).collect()
}

/// Starts an endpoint that sends its last words and resets the connection while the client is still sending.
fn leaving(words: &'static [u8]) -> Origin {
    Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            let _ = conn.wire().take(1);
            conn.send(words);
            conn.reset();
        }
    })
}

#[test]
fn words_that_wait_behind_a_reset_arrive() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            held.wait();
            conn.send("last words");
            conn.reset();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = upgraded(&gateway);
    // The gateway meets everything at once: the client's bytes, which the endpoint no longer accepts, the
    // last words, and the reset.
    gateway.signal(Signal::STOP);
    gate.open();
    eventually("the origin to be gone", || origin.open() == 0);
    client.send("more");
    gateway.signal(Signal::CONT);
    assert_eq!(client.wire().take(10), Ok(b"last words".to_vec()));
    // The gateway's write learned of the reset, and passes it on nevertheless.
    assert_eq!(client.wire().fill(), Err(ReadError::Truncated));
}

#[test]
fn the_endpoints_last_words_arrive_while_the_client_is_speaking() {
    let words: &'static [u8] = pattern(16 * 1024).leak();
    let origin = leaving(words);
    let gateway = Gateway::to(&origin);
    for round in 0..100 {
        let mut client = upgraded(&gateway);
        let mut speaker = client.wire().stream().expect("open").try_clone().expect("a clone");
        let speaking = thread::spawn(move || {
            for _ in 0..64 {
                if speaker.write_all(&[b'x'; 4096]).is_err() {
                    return;
                }
            }
        });
        assert_eq!(client.wire().take(words.len()).as_deref(), Ok(words), "round {round}");
        // The kernel reports the reset to the reader or to the speaker.
        assert_ne!(client.wire().fill(), Ok(true), "round {round}");
        speaking.join().expect("it spoke");
    }
}

#[test]
fn the_endpoints_last_words_arrive_over_tls_too() {
    let words: &'static [u8] = pattern(16 * 1024).leak();
    let origin = leaving(words);
    let (gateway, authority, _files) = tls::gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let peer = TlsPeer::trusting(&authority);
    for round in 0..50 {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a connection");
        client.send(ask("/ws").replace("Host: a", "Host: a.example").as_bytes());
        assert!(client.answer().expect("an answer").starts_with("HTTP/1.1 101 "));
        client.send(&[b'x'; 4096]);
        let mut heard = Vec::new();
        let end = loop {
            match client.some() {
                Ok(some) => heard.extend(some),
                Err(error) => break error.kind(),
            }
        };
        assert!(heard == words, "round {round}: {} bytes", heard.len());
        assert_eq!(end, ErrorKind::ConnectionReset, "round {round}");
    }
}

/// A read while a part of a write is pending must not make the gateway write that part twice.
#[test]
fn both_directions_run_exactly_over_tls() {
    let words: &'static [u8] = pattern(8 << 20).leak();
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            // Not before the client has seen the switch alone.
            let started = conn.wire().wait_data();
            assert_eq!(started, Ok(true));
            conn.send(words);
            conn.wait_close();
        }
    });
    let (gateway, authority, _files) = tls::gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let peer = TlsPeer::trusting(&authority);
    let mut client = peer.connect(gateway.address(), "a.example").expect("a connection");
    client.send(ask("/ws").replace("Host: a", "Host: a.example").as_bytes());
    assert!(client.answer().expect("an answer").starts_with("HTTP/1.1 101 "));
    let (mut heard, mut sent) = (Vec::new(), 0);
    while heard.len() < words.len() {
        client.send(b"spoken between");
        sent += 14;
        heard.extend(client.some().expect("more of it"));
        let same = words.starts_with(&heard);
        assert!(same, "the first {} bytes hold what was not sent", heard.len());
    }
    client.end();
    eventually("all of it to arrive", || origin.bytes(0).ends_with(&b"spoken between".repeat(sent / 14)));
}

#[test]
fn an_endpoint_that_does_not_answer_the_key_has_not_understood() {
    for accept in ["", "Sec-WebSocket-Accept: \r\n", "Sec-WebSocket-Accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"]
    {
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n{accept}\r\n"
                ));
                conn.wait_close();
            }
        });
        let gateway = Gateway::to(&origin);
        let response = gateway.client().ask(ask("/ws"));
        assert_eq!((response.status, response.reason()), (502, "http_upgrade_failed"), "{accept:?}");
        eventually("the origin to be let go", || origin.open() == 0);
        gateway.reconcile(&[&origin]);
    }
}
