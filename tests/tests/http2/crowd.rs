//! More streams at a worker than it begins at once: the rest wait, nothing is refused, and nobody starves.

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frames, fields, frame, kind, pseudo};
use tollgate_tests::{Gate, Gateway, Origin, eventually};

/// As many as there are before connections have no more than their share, and that (`proxy/src/http2/crowd.rs`).
const CROWD: u32 = 1024;
const SHARE: u32 = 2;
/// Of each connection, as many as may be open at once.
const EACH: u32 = 100;
const CONNECTIONS: u32 = 20;

fn under_way(gateway: &Gateway) -> u32 {
    gateway.metrics().sum("tollgate_requests_in_flight", "").expect("counted") as u32
}

/// An origin that answers nothing before the gate opens, and a gateway that has one connection to it: so what is begun
/// waits for that.
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

/// Returns every stream's answer: whole, and a 200.
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
fn what_is_too_much_waits_and_is_answered() {
    let gate = Gate::new();
    let (_origin, gateway) = held(&gate);
    let asked: Vec<u8> = (0..EACH).flat_map(|n| ask(n, &[])).collect();
    let mut clients: Vec<Frames> = (0..CONNECTIONS)
        .map(|n| {
            let mut client = gateway.frames(&[]);
            assert!(client.send_bytes(&asked));
            // One after the other: so each finds as many as those before it have begun.
            let begun = match (n + 1) * EACH {
                all if all <= CROWD => all,
                _ => CROWD + (n - CROWD / EACH) * SHARE,
            };
            eventually("what is begun", || under_way(&gateway) == begun);
            client
        })
        .collect();
    // Who goes makes room, and those that wait take it in turn.
    drop(clients.remove(0));
    // On its way down the number is the crowd's for a moment, too: that is not it.
    let gone = || gateway.metrics().sum("tollgate_reasons_total", "reason=\"client_closed\"");
    eventually("the end of what it had", || gone() == Some(f64::from(EACH)));
    eventually("the room is taken", || under_way(&gateway) == CROWD);
    // A newcomer has its share at once.
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
    // The same field eight times in each, of which the first request alone says what it is (RFC 7541, 6.2.1 and 6.1).
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
        // Two are begun, and of the others, 400 KB and 3 MB, no more than 128 KiB wait.
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
