//! Clients that send or read as slowly as they can: how long they hold an endpoint's connection, and what
//! memory they cost.
//!
//! The rates and times are small so that the tests are quick. `timeouts` tests clients that move nothing at
//! all; those limits stay at one minute here.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_tests::frames::pseudo;
use tollgate_tests::http2::{Http2, request};
use tollgate_tests::{DEADLINE, Gateway, Origin, ReadError, eventually};

const SHORT: &str = "limits: {rate_grace: 500ms, body_rate: 1000, response_rate: 1000}";
const PIECE: Duration = Duration::from_millis(100);

/// Sends a byte every 100 ms until there is an answer.
fn dribble(client: &mut tollgate_tests::Client, piece: &str) {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        client.send(piece);
        sleep(PIECE);
        client.wire().set_deadline(Duration::from_millis(1));
        if client.wire().wait_data() != Err(ReadError::TimedOut) {
            break;
        }
    }
    client.wire().set_deadline(DEADLINE);
}

fn answers(gateway: &Gateway, reason: &str) -> f64 {
    gateway.metrics().sum("tollgate_reasons_total", &format!("reason=\"{reason}\"")).unwrap_or_default()
}

#[test]
fn a_body_that_dribbles_is_refused_and_the_endpoint_let_go() {
    for (framing, piece) in [("Content-Length: 1000", "x"), ("Transfer-Encoding: chunked", "1\r\nx\r\n")] {
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, SHORT);
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        eventually("the endpoint to be asked", || origin.open() == 1);
        dribble(&mut client, piece);
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, "body_too_slow"), "{framing}");
        client.expect_close();
        eventually("the endpoint to be let go", || origin.open() == 0);
        // Nothing counts against the endpoint.
        let upstreams = gateway.admin("/upstreams").text();
        assert!(upstreams.contains("\"failures\": 0"), "{upstreams}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_body_over_http2_that_dribbles_is_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, SHORT);
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
    let start = Instant::now();
    while start.elapsed() < DEADLINE && answers(&gateway, "body_too_slow") < 1.0 {
        let _ = stream.send("x", false);
        sleep(PIECE);
    }
    let response = stream.response().expect("an answer");
    assert_eq!((response.status, response.reason()), (408, "body_too_slow"));
    assert_eq!(client.get("/").status, 200, "its connection goes on");
}

#[test]
fn a_body_that_is_collected_may_not_dribble_either() {
    let origin = Origin::ok();
    let to = origin.address();
    for buffer in ["buffer: request", "buffer: {request: on}"] {
        let route = format!("routes: [{{match: /*, to: [{to}], {buffer}}}]");
        let gateway = Gateway::start(&format!("{SHORT}\n{route}"));
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
        dribble(&mut client, "x");
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, "body_too_slow"), "{buffer}");
    }
}

#[test]
fn buffering_for_every_route_and_none_for_one() {
    let origin = Origin::ok();
    let to = origin.address();
    let gateway = Gateway::start(&format!(
        "buffer: request\nroutes: [{{match: /stream, to: [{to}], buffer: off}}, {{match: /*, to: [{to}]}}]"
    ));
    for (path, opened) in [("/", 0), ("/stream", 1)] {
        let mut client = gateway.client();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"));
        if opened == 1 {
            eventually("the endpoint to be asked", || origin.open() == 1);
        } else {
            sleep(Duration::from_millis(200));
            assert_eq!(origin.open(), 0, "no connection is taken before the body is here");
        }
        client.send("y");
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn a_route_may_let_its_clients_be_slow() {
    let origin = Origin::echo();
    let to = origin.address();
    let gateway =
        Gateway::start(&format!("{SHORT}\nroutes: [{{match: /*, to: [{to}], limits: {{body_rate: off}}}}]"));
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n");
    for _ in 0..15 {
        sleep(PIECE);
        client.send("x");
    }
    assert_eq!(client.response().status, 200);
}

#[test]
fn calls_of_grpc_may_be_slow() {
    let origin = tollgate_tests::Http2Origin::echo();
    let gateway =
        Gateway::start(&format!("{SHORT}\nroutes: [{{match: /*, to: [\"h2c://{}\"]}}]", origin.address()));
    let mut client: Http2 = gateway.http2();
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let mut stream = client.begin(request("POST", "/a.B/C", &fields), false).expect("begun");
    for _ in 0..15 {
        sleep(PIECE);
        stream.send(vec![0_u8], false).expect("the call goes on");
    }
    stream.send(vec![0_u8], true).expect("the call goes on");
    assert_eq!(stream.response().expect("an answer").status, 200);
}

/// The gateway waits for the endpoint, not for the client, so this time does not count against the client.
#[test]
fn a_slow_endpoint_does_not_count_against_the_client() {
    const BODY: usize = 8 << 20;
    let origin = Origin::play(|conn| {
        conn.head();
        // All buffers on the way are full during this pause.
        sleep(Duration::from_secs(2));
        conn.wire().discard(BODY as u64).expect("a body");
        conn.ok("ok");
    });
    let gateway = Gateway::with(&origin, SHORT);
    let mut client = gateway.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n"));
    client.send(vec![b'x'; BODY]);
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_response_that_is_read_in_bits_is_cut_and_the_endpoint_let_go() {
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 << 20));
            let piece = vec![b'x'; 1 << 16];
            while conn.send(&piece) {}
        }
    });
    let gateway = Gateway::with(&origin, SHORT);
    // In HTTP/2 the client opens the window, one byte at a time.
    let mut frames = gateway.frames(&[(4, 0)]);
    assert!(frames.ask(1, &pseudo("/")));
    eventually("the endpoint to be asked", || origin.open() == 1);
    let start = Instant::now();
    while start.elapsed() < DEADLINE && answers(&gateway, "client_too_slow") < 1.0 {
        frames.send(8, 0, 1, &1_u32.to_be_bytes());
        sleep(PIECE);
    }
    assert!(answers(&gateway, "client_too_slow") > 0.0);
    eventually("the endpoint to be let go", || origin.open() == 0);
}

/// An endpoint may give a client up whose response it cannot send on.
#[test]
fn an_endpoint_that_gives_a_slow_reader_up_is_not_ejected() {
    const LENGTH: usize = 64 << 20;
    const PATIENCE: Duration = Duration::from_millis(1500);
    let impatient = |conn: &mut tollgate_tests::OriginConn| {
        let Some(request) = conn.request() else { return };
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"));
        if request.target == "/cut" {
            return;
        }
        let stream = conn.wire().stream().expect("open");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let piece = vec![b'x'; 1 << 16];
        while conn.send(&piece) {}
    };
    // The only endpoint would never be ejected.
    let origins = [Origin::play(impatient), Origin::play(impatient)];
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u}}]\nupstreams: {{u: {{endpoints: [\"{}\", \"{}\"], retry: off, \
         outlier: {{consecutive_5xx: 1, consecutive_gateway_errors: 1, max_ejected: 100%}}}}}}\n",
        origins[0].address(),
        origins[1].address()
    ));
    let ejections =
        || gateway.metrics().sum("tollgate_upstream_ejections_total", "upstream=\"u\"").expect("the metric");
    let started = |count: usize| {
        eventually("the endpoint to be asked", || origins.iter().map(Origin::count).sum::<usize>() == count);
    };
    let given_up =
        || eventually("the endpoint to give up", || origins.iter().all(|origin| origin.open() == 0));
    let mut client = gateway.small_client(16 << 10);
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    started(1);
    given_up();
    assert!(client.try_response("GET").is_err(), "the response is cut");
    // In HTTP/2 the client's window is shut until then.
    let mut frames = gateway.frames(&[(4, 0)]);
    assert!(frames.ask(1, &pseudo("/slow")));
    started(2);
    given_up();
    for stream in [0, 1] {
        frames.send(8, 0, stream, &(1_u32 << 30).to_be_bytes());
    }
    let reset = frames.wait_for(|frame| frame.kind == 3 && frame.stream == 1);
    assert!(reset.is_some(), "the stream is reset");
    let cut = || gateway.records().iter().filter(|it| it["reason"] == "http_response_incomplete").count();
    eventually("both records", || cut() == 2);
    assert_eq!(ejections(), 0.0);
    // The endpoint is blamed if its client has read all the time.
    let mut client = gateway.client();
    client.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_response("GET").is_err(), "the response is cut");
    eventually("the ejection", || ejections() == 1.0);
}

/// The memory that the gateway keeps for unfinished heads is about the number of bytes sent.
#[test]
fn an_unfinished_head_costs_about_its_bytes() {
    const CLIENTS: u64 = 600;
    const SENT: usize = 31 * 1024;
    let origin = Origin::ok();
    let one = format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {}", "a".repeat(SENT - 30));
    let line = format!("X-A: {}\r\n", "a".repeat(500));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", line.repeat(SENT / line.len()));
    for (what, head, pieces) in [("one line", &one, 1), ("many lines", &many, 1), ("in pieces", &many, 8)] {
        let gateway = Gateway::with(&origin, "access_log: off\ntimeouts: {header: 1m}");
        let mut warm: Vec<_> = (0..20).map(|_| gateway.client()).collect();
        warm.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
        // Anonymous memory only: pages of the binary that are read during the test are not memory of heads.
        let before = gateway.memory_kib("RssAnon");
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| gateway.client()).collect();
        for piece in head.as_bytes().chunks(head.len().div_ceil(pieces)) {
            clients.iter_mut().for_each(|client| client.send(piece));
            // Each piece is a read of its own.
            assert_eq!(warm[0].get("/").status, 200);
        }
        // The gateway has answered a later request, so it has read those bytes.
        eventually("all heads to be read", || {
            assert_eq!(warm[0].get("/").status, 200);
            gateway.metrics().sum("tollgate_requests_in_flight", "").unwrap_or_default() >= CLIENTS as f64
        });
        // The allocator returns pages of grown buffers within about a second (`.cargo/config.toml`).
        let each = || gateway.memory_kib("RssAnon").saturating_sub(before) * 1024 / CLIENTS;
        let start = Instant::now();
        while each() > 48 * 1024 && start.elapsed() < DEADLINE {
            sleep(PIECE);
        }
        let each = each();
        assert!(each <= 48 * 1024, "{what}: {each} bytes for a head of {SENT}, {before} KiB without them");
        // Each head can still be completed.
        for client in clients.iter_mut().step_by(50) {
            client.send("\r\n\r\n");
            assert_eq!(client.response().status, 200, "{what}");
        }
    }
}
