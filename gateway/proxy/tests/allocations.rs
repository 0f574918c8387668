//! Verifies that a keep-alive request in steady state allocates nothing: not in the worker, the pool, the
//! statistics or the log. This is one test in its own process, so that no other code allocates. Its client
//! and its origin work in fixed buffers.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_config::from_text;
use tollgate_listen::{ConnectionCounts, bind};
use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Registry};
use tollgate_proxy::{ListenerId, Mailbox, Rollout, WorkerCommand, WorkerSetup, run_worker};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 1000;

/// Answers each request with the body that its path names. A request ends with known bytes.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let sized = |size: usize| {
            let body = format!("{}end\n", "x".repeat(size - 4));
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\nContent-Length: {size}\r\n\r\n{body}"
            )
        };
        let chunk = format!("800\r\n{}\r\n", "y".repeat(2048));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answers: Arc<[(&str, String)]> = Arc::new([
            (" /4 ", sized(4)),
            (" /4096 ", sized(4096)),
            (" /65536 ", sized(65536)),
            (" /chunked ", format!("{head}{chunk}{chunk}0\r\n\r\n")),
        ]);
        while let Ok((mut stream, _)) = listener.accept() {
            let answers = answers.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 32 * 1024];
                let mut filled = 0;
                while let Ok(count @ 1..) = stream.read(&mut buffer[filled..]) {
                    filled += count;
                    let (all, is_get) = (&buffer[..filled], buffer.starts_with(b"GET "));
                    let end: &[u8] = if is_get { b"\r\n\r\n" } else { b"\r\n0\r\n\r\n" };
                    if all.ends_with(end) || all.ends_with(b"end\n") {
                        let text = str::from_utf8(&buffer[..64]).expect("ASCII");
                        let (_, answer) =
                            answers.iter().find(|(path, _)| text.contains(path)).expect("a path");
                        stream.write_all(answer.as_bytes()).expect("answered");
                        filled = 0;
                    }
                }
            });
        }
    });
    address
}

/// Answers each request over HTTP/2, by prior knowledge, with 4 bytes. Works in a fixed buffer.
fn http2_origin() -> SocketAddr {
    const HEADER_BYTES: usize = 9;
    const SETTINGS: [u8; 18] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).expect("no delay");
                let mut buffer = [0; 32 * 1024];
                stream.read_exact(&mut buffer[..24]).expect("a preface");
                stream.write_all(&SETTINGS).expect("sent");
                let mut filled = 0;
                while let Ok(count @ 1..) = stream.read(&mut buffer[filled..]) {
                    filled += count;
                    let mut at = 0;
                    while at + HEADER_BYTES <= filled {
                        let header = &buffer[at..at + HEADER_BYTES];
                        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
                        if at + HEADER_BYTES + length as usize > filled {
                            break;
                        }
                        let (kind, ends, id) =
                            (header[3], header[4] & 1 != 0, [header[5], header[6], header[7], header[8]]);
                        at += HEADER_BYTES + length as usize;
                        if kind == 0 && length > 0 {
                            // The connection's window opens again.
                            let mut update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                            update[HEADER_BYTES..].copy_from_slice(&length.to_be_bytes());
                            stream.write_all(&update).expect("sent");
                        }
                        if kind <= 1 && ends {
                            // `:status: 200`, and `content-length: 4`; then the body.
                            let mut answer =
                                *b"\0\0\x05\x01\x04\0\0\0\0\x88\x0f\x0d\x014\0\0\x04\0\x01\0\0\0\0end\n";
                            answer[5..9].copy_from_slice(&id);
                            answer[19..23].copy_from_slice(&id);
                            stream.write_all(&answer).expect("answered");
                        }
                    }
                    buffer.copy_within(at..filled, 0);
                    filled -= at;
                }
            });
        }
    });
    address
}

/// Starts a worker with metrics, whose access log goes to `/dev/null`.
fn worker(yaml: &str) -> (SocketAddr, Mailbox) {
    tollgate_policy::register();
    let loaded = from_text("test.yaml", yaml, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    let plan = tollgate_plan::compile(&config).expect("it compiles").plan;
    let listeners = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1).expect("a port");
    let address = listeners[0].local_addr().expect("an address");
    let target = LogTarget::File("/dev/null".into());
    let log = AccessLog::start(LogConfig { target, format: LogFormat::Combined }).expect("a log");
    let (mailbox, control) = Mailbox::new();
    let bind = SocketAddr::from(([127, 0, 0, 1], 0));
    let sockets =
        listeners.into_iter().map(|listener| (ListenerId(0), bind.into(), listener.into())).collect();
    mailbox.send(WorkerCommand::Listen(sockets, None)).expect("a mailbox");
    let registry = Registry::new(true);
    let setup = WorkerSetup {
        id: 0,
        plan: Rollout::first(plan, &registry),
        control,
        mailboxes: vec![mailbox.clone()],
        loads: Arc::new(ConnectionCounts::new(1)),
        stats: registry.worker(),
        shared: tollgate_upstream::UpstreamStates::new(),
        registry,
        log: log.sink(),
    };
    std::thread::spawn(move || run_worker(setup, || ()));
    (address, mailbox)
}

/// Sends the request `times` times, and reads each response up to its known last bytes.
fn ask(stream: &mut TcpStream, request: &[u8], end: &[u8], times: usize, buffer: &mut [u8]) {
    for _ in 0..times {
        stream.write_all(request).expect("sent");
        let mut filled = 0;
        while !buffer[..filled].ends_with(end) {
            let count = stream.read(&mut buffer[filled..]).expect("read");
            assert!(count > 0, "closed");
            filled += count;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

/// Sends the request `times` times, and reads each response to its end: of a known length, or of the last chunk.
fn ask_compressed(stream: &mut TcpStream, request: &[u8], times: usize, buffer: &mut [u8]) {
    const LENGTH: &[u8] = b"Content-Length: ";
    let find = |text: &[u8], wanted: &[u8]| text.windows(wanted.len()).position(|window| window == wanted);
    let is_whole = |response: &[u8]| {
        let Some(end) = find(response, b"\r\n\r\n") else { return false };
        let Some(length) = find(&response[..end], LENGTH) else {
            return response.ends_with(b"\r\n0\r\n\r\n");
        };
        let digits = response[length + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        response.len() == end + 4 + digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    };
    for _ in 0..times {
        stream.write_all(request).expect("sent");
        let mut filled = 0;
        while !is_whole(&buffer[..filled]) {
            let count = stream.read(&mut buffer[filled..]).expect("read");
            assert!(count > 0, "closed");
            filled += count;
        }
        assert!(find(&buffer[..filled], b"\r\nContent-Encoding: gzip\r\n").is_some());
    }
}

#[test]
fn a_steady_request_allocates_nothing() {
    let (origin, http2_origin) = (origin(), http2_origin());
    let routes = format!(
        "routes: [{{match: \"a.example.com/h2\", to: \"h2c://{http2_origin}\"}}, \
         {{match: \"a.example.com/*\", to: \"{origin}\"}}, {{match: /x, respond: 204}}]"
    );
    let body = format!("{}end\n", "z".repeat(1020));
    let fields = "Host: a.example.com\r\nUser-Agent: test\r\nAccept: */*\r\nX-Other: 1\r\n";
    let get = |path: &str| (path.to_owned(), format!("GET /{path} HTTP/1.1\r\n{fields}\r\n"));
    let cases = [
        get("4"),
        get("4096"),
        get("65536"),
        get("chunked"),
        (
            "a body of 1 KiB".to_owned(),
            format!("POST /4 HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()),
        ),
        (
            "a chunked body".to_owned(),
            format!(
                "POST /4 HTTP/1.1\r\n{fields}Transfer-Encoding: chunked\r\n\r\n400\r\n{}\r\n0\r\n\r\n",
                "z".repeat(1024)
            ),
        ),
        get("h2"),
        (
            "a body of 1 KiB to an HTTP/2 endpoint".to_owned(),
            format!("POST /h2 HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()),
        ),
        ("a path that is not normal".to_owned(), format!("GET /a/../%34 HTTP/1.1\r\n{fields}\r\n")),
    ];
    let mut buffer = vec![0; 128 * 1024];
    // Policies that let a request go on, and change its head and the head of its response.
    let policies = "policies:\n  ip: {allow: 127.0.0.0/8}\n  rate_limit: {rate: 1000000/s, burst: 100000, by: address}\n  \
        fault: {abort: {status: 503}, header: X-Fault}\n  \
        headers: {request: {remove: X-Other, set: {X-Env: production}}, response: {set: {X-Env: production}}}\n  \
        security_headers: on\n";
    // Answered from the store: the first three cases have bodies of known length.
    let cached = "policies: {cache: {ttl: {200: 1h}}}\n";
    for settings in ["", "request_id: on\nforwarded: {forwarded: on, via: gateway}\n", policies, cached] {
        let (address, mailbox) = worker(&format!("listen: 127.0.0.1:0\n{routes}\n{settings}"));
        let most = if settings == cached { 3 } else { cases.len() };
        for (name, request) in &cases[..most] {
            let end: &[u8] = if request.contains(" /chunked ") { b"\r\n0\r\n\r\n" } else { b"end\n" };
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
            stream.set_nodelay(true).expect("no delay");
            // Long enough for each buffer of the log to have been used.
            ask(&mut stream, request.as_bytes(), end, 2 * REQUESTS, &mut buffer);
            let region = Region::new(ALLOCATOR);
            ask(&mut stream, request.as_bytes(), end, REQUESTS, &mut buffer);
            let change = region.change();
            assert_eq!(
                (change.allocations, change.reallocations),
                (0, 0),
                "{REQUESTS} requests, {name}, {settings:?}: {change:?}"
            );
        }
        mailbox.send(WorkerCommand::Drain(None)).expect("it runs");
    }
    // A hit whose compressed form is stored runs no compressor, which would allocate.
    let policies = "policies: {cache: {ttl: {200: 1h}}, compression: {encodings: gzip}}\n";
    let (address, mailbox) = worker(&format!("listen: 127.0.0.1:0\n{routes}\n{policies}"));
    for path in ["4096", "65536"] {
        let request = format!("GET /{path} HTTP/1.1\r\n{fields}Accept-Encoding: gzip\r\n\r\n");
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        ask_compressed(&mut stream, request.as_bytes(), 2 * REQUESTS, &mut buffer);
        let region = Region::new(ALLOCATOR);
        ask_compressed(&mut stream, request.as_bytes(), REQUESTS, &mut buffer);
        let change = region.change();
        let counts = (change.allocations, change.reallocations);
        assert_eq!(counts, (0, 0), "{REQUESTS} compressed hits, {path}: {change:?}");
    }
    mailbox.send(WorkerCommand::Drain(None)).expect("it runs");
}
