//! Tests of requests and responses.

use crate::client::{GET, LAST, any, connect, one, rest, say, start};
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tollgate_lab_origin::{Counters, Failure, Settings, body, serve};

#[test]
fn connections_are_kept_as_their_version_and_request_say() {
    let origin = start(|_| ());
    let mut kept = connect(origin.address());
    for _ in 0..3 {
        kept.write_all(GET.as_bytes()).unwrap();
        let head = one(&mut kept, "01");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("Connection:"), "{head}");
    }
    kept.write_all(LAST.as_bytes()).unwrap();
    assert!(rest(&mut kept).contains("Connection: close\r\n"));
    assert!(say(origin.address(), "GET / HTTP/1.0\r\n\r\n").ends_with("Connection: close\r\n\r\n01"));
    let mut old = connect(origin.address());
    old.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
    assert!(one(&mut old, "01").contains("Connection: keep-alive\r\n"));
    let expected = Counters { connections: 3, requests: 6, http10: 2, closed_by_request: 2, malformed: 0 };
    assert_eq!(origin.counters(), expected);
}

#[test]
fn one_that_listens_everywhere_answers_on_each_loopback_address() {
    for threads in [1, 2] {
        let origin = start(|settings| {
            settings.listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            settings.threads = threads;
        });
        for host in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 254]] {
            let answer = say(SocketAddr::from((host, origin.address().port())), LAST);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("01"), "{answer}");
        }
        assert_eq!(origin.counters().connections, 3);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = start(|settings| settings.response_bytes = 3);
    let many = 5_000;
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    let ready = "GET /tollgate-lab-ready HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = connect(origin.address());
    let text = format!("{}{LAST}", [GET, head, ready].concat().repeat(many));
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(text.as_bytes()));
    let got = rest(&mut stream);
    writer.join().unwrap().unwrap();
    let bodies: Vec<&str> = got
        .split("HTTP/1.1 200 OK\r\n")
        .skip(1)
        .map(|answer| {
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            body
        })
        .collect();
    assert_eq!(bodies.len(), 3 * many + 1);
    assert!(bodies.chunks_exact(3).all(|three| three == ["012", "", "ready"]));
}

#[test]
fn bodies_of_requests_are_read_and_refused_requests_end_the_connection() {
    let origin = start(|_| ());
    let text = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET PUT / HTTP/1.1\r\nHost: a\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n{LAST}"
    );
    assert_eq!(say(origin.address(), &text).matches("200 OK").count(), 3);
    let refused = say(origin.address(), &format!("{GET}GET /\r\n\r\n{}", "x".repeat(1 << 20)));
    assert_eq!(refused.matches("HTTP/1.1").count(), 2);
    assert!(refused.contains("HTTP/1.1 400 Bad Request\r\n"), "{refused}");
    let counters = origin.counters();
    assert_eq!((counters.requests, counters.malformed), (4, 1));
}

#[test]
fn a_client_that_waits_with_its_body_gets_100_continue() {
    let origin = start(|_| ());
    let mut stream = connect(origin.address());
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        .unwrap();
    assert_eq!(one(&mut stream, ""), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    assert!(one(&mut stream, "01").starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_long_body_comes_whole_to_a_slow_client_and_after_its_end() {
    let bytes = 20 << 20;
    let origin = start(|settings| settings.response_bytes = bytes);
    let mut stream = connect(origin.address());
    stream.write_all(GET.repeat(2).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let got = rest(&mut stream);
    let expected = String::from_utf8(body(bytes)).unwrap();
    let bodies: Vec<_> =
        got.split("HTTP/1.1 200").skip(1).map(|part| part.split_once("\r\n\r\n").unwrap().1).collect();
    assert!(bodies == [&expected, &expected], "{} answers of {} bytes", bodies.len(), got.len());
}

#[test]
fn the_status_is_the_one_that_is_set_and_ready_is_ready() {
    let origin = start(|settings| {
        (settings.status, settings.response_bytes) = (503, 7);
        (settings.ready_path, settings.ready_body) = ("/up".into(), "yes".into());
        settings.delay_ms = 3_600_000;
    });
    let ready = say(origin.address(), "GET /up HTTP/1.0\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 200 OK") && ready.ends_with("\r\n\r\nyes"), "{ready}");
    let origin = start(|settings| (settings.status, settings.response_bytes) = (503, 7));
    let other = say(origin.address(), LAST);
    assert!(
        other.starts_with("HTTP/1.1 503 Service Unavailable") && other.ends_with("\r\n\r\n0123456"),
        "{other}"
    );
}

#[test]
fn a_delay_holds_up_no_other_client() {
    let origin = start(|settings| (settings.delay_ms, settings.threads) = (300, 2));
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..1_000).map(|_| connect(origin.address())).collect();
    for stream in &mut streams {
        stream.write_all(GET.repeat(3).as_bytes()).unwrap();
    }
    let sent = Instant::now();
    for stream in &mut streams {
        for _ in 0..3 {
            one(stream, "01");
        }
        assert!(started.elapsed() >= Duration::from_millis(300), "an answer came too early");
    }
    // One at a time, they would take 900 s.
    assert!(sent.elapsed() < Duration::from_secs(30), "{:?}", sent.elapsed());
    assert_eq!(origin.counters().requests, 3_000);
}

#[test]
fn what_cannot_run_says_why() {
    let origin = start(|_| ());
    let taken = Settings::new(origin.address(), any());
    match serve(&taken) {
        Err(Failure::Listen(address, _)) => assert_eq!(address, origin.address()),
        other => panic!("{other:?}"),
    }
    let mut none = taken;
    none.threads = 0;
    assert!(serve(&none).unwrap_err().to_string().contains("`threads` is 0"));
}
