//! More streams on a worker than it starts at the same time: the rest wait, none is refused, and none
//! starves.

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frames, fields, frame, kind, pseudo};
use tollgate_tests::{Gate, Gateway, Origin, eventually};

/// How many streams start before connections are limited to their share, and this share
/// (`proxy/src/http2/crowd.rs`).
const CROWD: u32 = 1024;
const SHARE: u32 = 2;
/// How many streams each connection opens: as many as may be open at the same time.
const EACH: u32 = 100;
const CONNECTIONS: u32 = 20;

fn under_way(gateway: &Gateway) -> u32 {
    gateway.metrics().sum("tollgate_requests_in_flight", "").expect("counted") as u32
}

/// Starts an origin that answers nothing before the gate opens, and a gateway with one connection to it. All
/// started requests wait for that connection.
fn held(gate: &Gate) -> (Origin, Gateway) {
    let gate = gate.clone();
    let origin = Origin::play(move |connection| {
        while connection.request().is_some() {
            gate.wait();
            connection.ok("ok");
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: u}}]\nupstreams: {{u: {{endpoints: [\"{}\"], \
         limits: {{connections: 1}}, queue: {{size: 5000, timeout: 60s}}, timeouts: {{response_header: 60s}}}}}}\n",
        origin.address()
    ));
    (origin, gateway)
}

fn ask(n: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let head = [&pseudo("/")[..], more].concat();
    frame(kind::HEADERS, END_STREAM | END_HEADERS, 1 + 2 * n, &fields(&head))
}

/// Asserts that every stream gets a whole 200, and returns how many did.
fn answers(client: &mut Frames) -> u32 {
    let mut whole = 0;
    while whole < EACH {
        let ends = |frame: &tollgate_tests::frames::Frame| {
            assert!(!matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY), "{frame:?}");
            assert!(frame.kind != kind::HEADERS || frame.status() == Some(200), "{frame:?}");
            matches!(frame.kind, kind::HEADERS | kind::DATA) && frame.flags & END_STREAM != 0
        };
        client.wait_for(ends).expect("an open connection");
        whole += 1;
    }
    whole
}

#[test]
fn excess_requests_wait_and_are_answered() {
    let gate = Gate::new();
    let (_origin, gateway) = held(&gate);
    let asked: Vec<u8> = (0..EACH).flat_map(|n| ask(n, &[])).collect();
    let mut clients: Vec<Frames> = (0..CONNECTIONS)
        .map(|n| {
            let mut client = gateway.frames(&[]);
            assert!(client.send_bytes(&asked));
            // The connections start one by one, so that each finds the streams of the previous ones started.
            let started = match (n + 1) * EACH {
                all if all <= CROWD => all,
                _ => CROWD + (n - CROWD / EACH) * SHARE,
            };
            eventually("what is begun", || under_way(&gateway) == started);
            client
        })
        .collect();
    // A closed connection frees its streams, and the waiting streams start in turn.
    drop(clients.remove(0));
    // While the number falls it passes this value once, so the test first waits for the end of the closed
    // connection's streams.
    let gone = || gateway.metrics().sum("tollgate_reasons_total", "reason=\"client_closed\"");
    eventually("the end of what it had", || gone() == Some(f64::from(EACH)));
    eventually("the room is taken", || under_way(&gateway) == CROWD);
    // A new connection gets its share at once.
    let mut late = gateway.frames(&[]);
    assert!(late.send_bytes(&asked));
    eventually("the share of a newcomer", || under_way(&gateway) == CROWD + SHARE);
    clients.push(late);
    gate.open();
    let served: u32 = clients.iter_mut().map(answers).sum();
    assert_eq!(served, CONNECTIONS * EACH);
    eventually("the end of all", || under_way(&gateway) == 0);
}

#[test]
fn large_heads_that_would_wait_are_refused() {
    let gate = Gate::new();
    let (_origin, gateway) = held(&gate);
    let asked: Vec<u8> = (0..EACH).flat_map(|n| ask(n, &[])).collect();
    let crowd: Vec<Frames> = (0..=CROWD / EACH)
        .map(|_| {
            let mut client = gateway.frames(&[]);
            assert!(client.send_bytes(&asked));
            client
        })
        .collect();
    eventually("a crowd", || under_way(&gateway) == CROWD);
    let value = "v".repeat(3_900);
    let whole: Vec<Vec<u8>> = (0..EACH).map(|n| ask(n, &[("x", &value)])).collect();
    // Each head has the same field eight times, but only the first request spells it out (RFC 7541, 6.2.1 and
    // 6.1).
    let pseudo = [&[0x82, 0x86, 0x84, 0x01, 9][..], b"a.example"].concat();
    let mut first = fields(&[("x", &value)]);
    first[0] = 0x40;
    let compressed: Vec<Vec<u8>> = (0..EACH)
        .map(|n| {
            let field = if n == 0 { &first } else { &vec![0xbe; 8] };
            frame(kind::HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &[&pseudo[..], field].concat())
        })
        .collect();
    let mut clients = Vec::new();
    for (turn, asked, size) in [(1, whole, 3_900), (2, compressed, 8 * 3_900)] {
        let mut client = gateway.frames(&[]);
        for bytes in &asked {
            assert!(client.send_bytes(bytes));
        }
        // Two streams start. Of the others, 400 KB and 3 MB, at most 128 KiB wait.
        for _ in 0..EACH - SHARE - 128 * 1024 / size - 1 {
            let reset = client.wait_for(|frame| frame.kind == kind::RST_STREAM).expect("an open connection");
            assert_eq!(reset.code(), 7, "REFUSED_STREAM");
        }
        assert_eq!(under_way(&gateway), CROWD + SHARE * turn);
        clients.push(client);
    }
    gate.open();
    drop(crowd);
    for mut client in clients {
        let answer = client.wait_for(|frame| frame.kind == kind::HEADERS).expect("an open connection");
        assert_eq!(answer.status(), Some(200));
    }
}
