//! Clients that cause endless work or unbounded memory, each on many simultaneous connections (class 10). The
//! gateway cuts them off, memory stays bounded, and a good client is served during the attack.

use std::thread;

use tollgate_tests::frames::{
    END_HEADERS, END_STREAM, Frames, INITIAL_WINDOW_SIZE, fields, frame, kind, pseudo, pseudo_of,
};
use tollgate_tests::{Gateway, Origin};

/// The error code ENHANCE_YOUR_CALM.
const CALM: u32 = 11;

/// How many connections each attack uses at the same time.
const CONNECTIONS: usize = 40;
/// How much memory all of them together may cost the gateway, in KiB.
const MEMORY: u64 = 64 * 1024;

/// Plays `attack` on many connections, with this config and these client settings, while a good client is
/// served.
fn many(config: &str, settings: &[(u16, u32)], attack: impl Fn(&mut Frames) + Send + Sync) {
    let origin = Origin::named(&"x".repeat(20_000));
    let gateway = Gateway::with(&origin, config);
    let mut good = gateway.http2();
    assert_eq!(good.get("/").status, 200);
    let before = gateway.memory_kib("VmRSS");
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| attack(&mut gateway.frames(settings)));
        }
        for n in 0..50 {
            assert_eq!(good.get(&format!("/{n}")).body.len(), 20_000);
        }
    });
    assert_eq!(good.get("/").status, 200);
    let grown = gateway.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < MEMORY, "{grown} KiB for {CONNECTIONS} connections");
}

/// Sends the frames that `next` returns until the gateway ends the connection. Returns the error code of its
/// GOAWAY.
fn flood(frames: &mut Frames, mut next: impl FnMut(u32) -> Vec<u8>) -> Option<u32> {
    for round in 0..20_000 {
        if !frames.send_bytes(&next(round)) {
            break;
        }
    }
    frames.goodbye()
}

/// Asserts that the connection ended; if its GOAWAY arrived, with this code.
fn is_calm(code: Option<u32>) {
    assert!(matches!(code, None | Some(CALM)), "{code:?}");
}

#[test]
fn rapid_resets() {
    many("", &[], |frames| {
        is_calm(flood(frames, |round| {
            let stream = 1 + 2 * round;
            let head = fields(&pseudo("/"));
            let cancel = 8_u32.to_be_bytes();
            [
                frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head),
                frame(kind::RST_STREAM, 0, stream, &cancel),
            ]
            .concat()
        }));
    });
}

#[test]
fn resets_that_the_gateway_is_made_to_send() {
    // A window update of zero is a stream error (RFC 9113, 6.9), so the gateway has to reset the stream.
    many("", &[], |frames| {
        let code = flood(frames, |round| {
            let stream = 1 + 2 * round;
            let head = fields(&pseudo("/"));
            [
                frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head),
                frame(kind::WINDOW_UPDATE, 0, stream, &[0; 4]),
            ]
            .concat()
        });
        assert!(matches!(code, None | Some(1 | CALM)), "{code:?}");
    });
}

#[test]
fn pings_settings_priorities_and_unknown_frames() {
    for (kind, payload) in
        [(kind::PING, &[0; 8][..]), (kind::SETTINGS, &[]), (kind::PRIORITY, &[0, 0, 0, 0, 1]), (99, &[])]
    {
        let stream = if kind == kind::PRIORITY { 1 } else { 0 };
        many("", &[], |frames| is_calm(flood(frames, |_| frame(kind, 0, stream, payload).repeat(20))));
    }
}

/// Returns the fields of a request whose body is still to follow.
fn post() -> Vec<u8> {
    fields(&pseudo_of("POST", "/"))
}

#[test]
fn requests_that_a_flood_begins_with_cost_no_endpoint() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "");
    let mut frames = gateway.frames(&[]);
    let started = (0..50).flat_map(|n| frame(kind::HEADERS, END_HEADERS, 1 + 2 * n, &post()));
    let all = started.chain(frame(kind::SETTINGS, 0, 0, &[]).repeat(30)).collect::<Vec<_>>();
    frames.send_bytes(&all);
    is_calm(frames.goodbye());
    assert_eq!(origin.connections(), 0);
}

#[test]
fn empty_data() {
    many("", &[], |frames| {
        frames.send(kind::HEADERS, END_HEADERS, 1, &post());
        is_calm(flood(frames, |_| frame(kind::DATA, 0, 1, &[]).repeat(20)));
    });
}

#[test]
fn unread_data() {
    // The route answers without reading the body, and the client still sends.
    let gateway = Gateway::start("workers: 1\nroutes:\n- {match: /*, respond: no}\n");
    let mut frames = gateway.frames(&[]);
    frames.send(kind::HEADERS, END_HEADERS, 1, &post());
    is_calm(flood(&mut frames, |_| frame(kind::DATA, 0, 1, b"x").repeat(20)));
}

#[test]
fn windows_that_open_by_a_byte() {
    let origin = Origin::named(&"x".repeat(20_000));
    // On a slow machine the minimum rate would end the stream first.
    let gateway = Gateway::with(&origin, "limits: {response_rate: off}");
    let mut frames = gateway.frames(&[(INITIAL_WINDOW_SIZE, 0)]);
    frames.ask(1, &pseudo("/"));
    let mut bytes = 0;
    // Each window update releases one byte, which earns no credit.
    while bytes < 20_000 && frames.send(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]) {
        let frame = frames.wait_for(|frame| matches!(frame.kind, kind::DATA | kind::GOAWAY));
        if frame.is_none_or(|frame| frame.kind == kind::GOAWAY) {
            break;
        }
        bytes += 1;
    }
    assert!((900..20_000).contains(&bytes), "{bytes}");
}

#[test]
fn heads_without_end() {
    many("", &[], |frames| {
        frames.send(kind::HEADERS, END_STREAM, 1, &fields(&pseudo("/")));
        let code = flood(frames, |_| frame(kind::CONTINUATION, 0, 1, &fields(&[("x", &"v".repeat(2000))])));
        assert!(matches!(code, None | Some(1 | CALM)), "{code:?}");
    });
    many("", &[], |frames| {
        frames.send(kind::HEADERS, END_STREAM, 1, &fields(&pseudo("/")));
        is_calm(flood(frames, |_| frame(kind::CONTINUATION, 0, 1, &[]).repeat(20)));
    });
}

#[test]
fn header_bombs() {
    // One large field in the table, then one byte for each reference to it (RFC 7541, 6.1).
    many("", &[], |frames| {
        let mut block = fields(&pseudo("/"));
        block.extend_from_slice(&[0x40, 1, b'x', 127, 0x80 | 64, 29]);
        block.extend_from_slice(&vec![b'v'; 127 + 64 + (29 << 7)]);
        block.extend_from_slice(&[0x80 | 62; 8000]);
        frames.send(kind::HEADERS, END_STREAM | END_HEADERS, 1, &block);
        let answer =
            frames.wait_for(|frame| matches!(frame.kind, kind::HEADERS | kind::RST_STREAM | kind::GOAWAY));
        assert!(answer.is_none_or(|frame| frame.status() != Some(200)));
    });
}

#[test]
fn windows_that_stay_shut() {
    many("timeouts: {write: 1s}", &[(INITIAL_WINDOW_SIZE, 0)], |frames| {
        for stream in 0..100 {
            frames.ask(1 + 2 * stream, &pseudo("/"));
        }
        for _ in 0..100 {
            let reset = frames.wait_for(|frame| matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY));
            assert!(reset.is_some_and(|frame| frame.kind == kind::RST_STREAM), "each on its own");
        }
    });
}

#[test]
fn windows_wide_open_and_nothing_read() {
    many("timeouts: {write: 1s, idle: 1s}", &[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)], |frames| {
        frames.send(kind::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
        for round in 0..50 {
            let head = fields(&pseudo("/"));
            let asked = (0..100)
                .map(|n| frame(kind::HEADERS, END_STREAM | END_HEADERS, 1 + 2 * (round * 100 + n), &head));
            if !frames.send_bytes(&asked.collect::<Vec<_>>().concat()) {
                return;
            }
        }
        while frames.read().is_some() {}
    });
}
