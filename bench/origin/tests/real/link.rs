//! Tests of the slow link. Tests that measure time mostly check that nothing is too early, because a busy
//! machine never makes anything early.

use crate::client::{GET, LAST, any, connect, one, rest, say, start};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tollgate_lab_origin::{Failure, Link, Relay, body, relay};

/// A rate that no test notices.
const FAST: f64 = 1e12;

fn link(to: SocketAddr, round_trip_ms: f64, bytes_per_second: f64) -> Relay {
    Relay::start(&Link { listen: any(), to, round_trip_ms, bytes_per_second }).unwrap()
}

#[test]
fn bytes_pass_unchanged_and_each_side_ends_by_itself() {
    let echo = TcpListener::bind(any()).unwrap();
    let relay = link(echo.local_addr().unwrap(), 5.0, FAST);
    let server = thread::spawn(move || {
        let (mut stream, _) = echo.accept().unwrap();
        let mut got = Vec::new();
        // Returns only after the client closes its sending side.
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(&got).unwrap();
    });
    let sent = body(5_000_000);
    let mut stream = connect(relay.address());
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    server.join().unwrap();
    assert!(got == sent, "{} bytes", got.len());
}

#[test]
fn an_answer_takes_a_round_trip_and_the_first_one_two() {
    let origin = start(|_| ());
    let round_trip = Duration::from_millis(200);
    let relay = link(origin.address(), 200.0, FAST);
    let started = Instant::now();
    let mut stream = connect(relay.address());
    stream.write_all(GET.as_bytes()).unwrap();
    one(&mut stream, "01");
    assert!(started.elapsed() >= 2 * round_trip, "{:?}", started.elapsed());
    let started = Instant::now();
    stream.write_all(LAST.as_bytes()).unwrap();
    rest(&mut stream);
    assert!(started.elapsed() >= round_trip, "{:?}", started.elapsed());
}

#[test]
fn a_connection_that_was_open_before_has_its_handshake_behind_it() {
    let origin = start(|_| ());
    let relay = link(origin.address(), 1_000.0, FAST);
    let mut stream = connect(relay.address());
    thread::sleep(Duration::from_millis(1_050));
    let started = Instant::now();
    stream.write_all(LAST.as_bytes()).unwrap();
    rest(&mut stream);
    // With the handshake it would take 2 s.
    let took = started.elapsed().as_millis();
    assert!((1_000..1_900).contains(&took), "{took} ms");
}

#[test]
fn the_rate_is_shared_by_all_connections() {
    let origin = start(|settings| settings.response_bytes = 50_000);
    let relay = link(origin.address(), 0.0, 500_000.0);
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..20).map(|_| connect(relay.address())).collect();
    for stream in &mut streams {
        stream.write_all(LAST.as_bytes()).unwrap();
    }
    let mut bytes = 0;
    for stream in &mut streams {
        bytes += rest(stream).len();
    }
    assert!(bytes > 1_000_000);
    // Less the 20 ms of catch-up and a portion.
    let least = bytes as f64 / 500_000.0 - 0.025;
    assert!(started.elapsed().as_secs_f64() >= least, "{bytes} bytes in {:?}", started.elapsed());
}

#[test]
fn two_thousand_connections_at_once() {
    let origin = start(|settings| settings.response_bytes = 800);
    let relay = link(origin.address(), 20.0, FAST);
    let mut streams: Vec<TcpStream> = (0..2_000).map(|_| connect(relay.address())).collect();
    for stream in &mut streams {
        stream.write_all(GET.as_bytes()).unwrap();
    }
    let expected = String::from_utf8(body(800)).unwrap();
    for stream in &mut streams {
        one(stream, &expected);
    }
    assert_eq!(origin.counters().connections, 2_000);
    drop(streams);
    assert!(say(relay.address(), LAST).ends_with(&expected));
}

#[test]
fn a_peer_that_does_not_read_holds_up_the_sender() {
    let listener = TcpListener::bind(any()).unwrap();
    let relay = link(listener.local_addr().unwrap(), 0.0, FAST);
    let client = connect(relay.address());
    let (mut server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    let piece = vec![0; 64 * 1024];
    let (mut sent, mut refused) = (0, 0);
    // Beyond the sockets' buffers on both sides, some 6 MB each, only the pipe's 256 KiB may be sent.
    while sent < 100 << 20 && refused < 30 {
        match server.write(&piece) {
            Ok(count) => (sent, refused) = (sent + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < 50 << 20, "{sent} bytes were taken");
    drop(client);
}

#[test]
fn what_cannot_be_reached_ends_the_connection_and_what_cannot_be_says_why() {
    let nobody = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    let relay_to_nobody = link(nobody, 10.0, FAST);
    let mut stream = connect(relay_to_nobody.address());
    let mut got = Vec::new();
    // An end of stream or a reset; either is correct.
    let _ = stream.read_to_end(&mut got);
    assert!(got.is_empty());
    let text = r#"{"listen":"127.0.0.1:0","to":"127.0.0.1:1","round_trip_ms":-1,"bytes_per_second":950000}"#;
    let mut wrong: Link = serde_json::from_str(text).unwrap();
    assert!(relay(&wrong).unwrap_err().to_string().contains("`round_trip_ms` is -1"));
    wrong.round_trip_ms = 85.0;
    wrong.bytes_per_second = f64::NAN;
    assert!(relay(&wrong).unwrap_err().to_string().contains("`bytes_per_second`"));
    wrong.bytes_per_second = 950_000.0;
    wrong.listen = relay_to_nobody.address();
    assert!(matches!(relay(&wrong), Err(Failure::Listen(..))));
}
