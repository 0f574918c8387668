//! Tests probes over HTTP and TCP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_net::{ProxyVersion, Runtime, Timers};

use super::*;

fn rules(probe: Probe) -> Health {
    let long = Duration::from_secs(20);
    Health {
        probe,
        interval: long,
        jitter: tollgate_plan::Percent::whole(0),
        timeout: long,
        healthy: 1,
        unhealthy: 1,
        port: None,
    }
}

fn http(body: Option<&str>) -> Health {
    let statuses = vec![(200, 299), (418, 418)];
    rules(Probe::Http {
        path: "/healthz?deep=1".into(),
        host: None,
        headers: vec![("X-Probe".to_owned(), "1".to_owned())],
        statuses,
        body: body.map(str::to_owned),
    })
}

/// A server of one connection: reads a head, then runs the script. Returns the head.
fn origin(script: impl FnOnce(TcpStream) + Send + 'static) -> (Address, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Socket(listener.local_addr().expect("an address"));
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut seen = Vec::new();
        let mut chunk = [0; 1024];
        while !seen.ends_with(b"\r\n\r\n") {
            match stream.read(&mut chunk) {
                Ok(count @ 1..) => seen.extend_from_slice(&chunk[..count]),
                _ => break,
            }
        }
        script(stream);
        String::from_utf8(seen).expect("ASCII")
    });
    (address, thread)
}

fn answering(answer: impl Into<Vec<u8>>) -> (Address, thread::JoinHandle<String>) {
    let answer = answer.into();
    origin(move |mut stream| {
        // The probe may close before it has read everything.
        let _ = stream.write_all(&answer);
    })
}

fn run(endpoint: &Address, rules: &Health) -> Result<(), ProbeFailure> {
    run_behind(endpoint, rules, None)
}

fn run_behind(
    endpoint: &Address,
    rules: &Health,
    proxy_protocol: Option<ProxyVersion>,
) -> Result<(), ProbeFailure> {
    Runtime::new().expect("a runtime").run(async {
        let timers = Timers::start().expect("timers");
        let rules =
            ProbeRules { health: rules.clone(), tls: None, http2: false, proxy_protocol, source: None };
        probe(endpoint, &rules, &timers.deadline()).await.expect("there are descriptors")
    })
}

fn result(answer: impl Into<Vec<u8>>, rules: &Health) -> Result<(), ProbeFailure> {
    let (address, thread) = answering(answer);
    let result = run(&address, rules);
    thread.join().expect("no panic");
    result
}

#[test]
fn the_request_of_a_probe() {
    let (address, thread) = answering("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(run(&address, &http(None)), Ok(()));
    let sent = thread.join().expect("no panic").to_ascii_lowercase();
    assert!(sent.starts_with("get /healthz?deep=1 http/1.1\r\n"), "{sent}");
    let agent = format!("user-agent: {}\r\n", super::super::http::PROBE_AGENT);
    for line in [&*format!("host: {address}\r\n"), &agent, "connection: close\r\n"] {
        assert!(sent.contains(line), "{line} in {sent}");
    }
}

#[test]
fn probes_send_a_local_proxy_protocol_header() {
    let (address, thread) = answering("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(run_behind(&address, &http(None), Some(ProxyVersion::V1)), Ok(()));
    let sent = thread.join().expect("no panic");
    assert!(sent.starts_with("PROXY UNKNOWN\r\nGET /healthz"), "{sent}");
}

#[test]
fn statuses() {
    for (status, good) in [(200, true), (204, true), (299, true), (300, false), (418, true), (503, false)] {
        let expected = if good { Ok(()) } else { Err(ProbeFailure::Status(status)) };
        assert_eq!(
            result(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"), &http(None)),
            expected
        );
    }
    // An interim response is not the answer.
    assert_eq!(
        result("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 X\r\n\r\n", &http(None)),
        Err(ProbeFailure::Status(500))
    );
}

#[test]
fn texts_in_bodies() {
    let rules = http(Some("all is well"));
    let sized = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(result(sized("{\"state\": \"all is well\"}"), &rules), Ok(()));
    assert_eq!(result(sized("all is lost"), &rules), Err(ProbeFailure::Body));
    assert_eq!(result(sized(""), &rules), Err(ProbeFailure::Body));
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nall is\r\n5\r\n well\r\n0\r\n\r\n";
    assert_eq!(result(chunked, &rules), Ok(()), "across chunks");
    assert_eq!(result(&chunked[..chunked.len() - 12], &rules), Err(ProbeFailure::Closed), "cut");
    assert_eq!(result(sized(&format!("{}all is well", "x".repeat(65_525))), &rules), Ok(()));
    assert_eq!(result(sized(&format!("{}all is well", "x".repeat(65_526))), &rules), Err(ProbeFailure::Body));
}

#[test]
fn a_body_without_end_is_not_read_without_end() {
    let (address, thread) = origin(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(run(&address, &http(Some("all is well"))), Err(ProbeFailure::Body));
    thread.join().expect("no panic");
}

#[test]
fn responses_that_are_not_http() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    for answer in ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", &long] {
        assert_eq!(
            result(answer, &http(None)),
            Err(ProbeFailure::Protocol),
            "{}",
            &answer[..10.min(answer.len())]
        );
    }
    for answer in ["", "HTTP/1.1 200 O"] {
        assert_eq!(result(answer, &http(None)), Err(ProbeFailure::Closed), "{answer:?}");
    }
}

#[test]
fn a_silent_endpoint_times_out() {
    let (address, thread) = origin(|mut stream| {
        // Until the probe has closed.
        let _ = stream.read(&mut [0; 16]);
    });
    let patient = Instant::now();
    let rules = Health { timeout: Duration::from_millis(50), ..http(None) };
    assert_eq!(run(&address, &rules), Err(ProbeFailure::Timeout));
    assert!(patient.elapsed() >= Duration::from_millis(50));
    thread.join().expect("no panic");
}

#[test]
fn connections() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Socket(listener.local_addr().expect("an address"));
    assert_eq!(run(&address, &rules(Probe::Tcp)), Ok(()));
    drop(listener);
    assert_eq!(run(&address, &rules(Probe::Tcp)), Err(ProbeFailure::Refused));
    let nowhere = Address::tcp("no-such-name.invalid", 80);
    assert_eq!(run(&nowhere, &rules(Probe::Tcp)), Err(ProbeFailure::Dns));
}

#[test]
fn another_port() {
    let rules = Health { port: Some(9000), ..rules(Probe::Tcp) };
    let at = |address: Address| probe_address(&address, &rules).to_string();
    assert_eq!(at(Address::tcp("10.0.0.1", 80)), "10.0.0.1:9000");
    assert_eq!(at(Address::tcp("::1", 80)), "[::1]:9000");
    assert_eq!(at(Address::tcp("shop", 80)), "shop:9000");
    assert_eq!(at(Address::Unix("/run/shop".into())), "unix:/run/shop");
}
