//! Hostile clients: a thousand HTTP/2 connections to the gateway. A connection that the gateway ends is
//! replaced a moment later.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_tests::frames::{
    END_HEADERS, END_STREAM, INITIAL_WINDOW_SIZE, PREFACE, fields, frame, kind, pseudo, pseudo_of,
};

use super::{Attacker, Done, in_idle_time, until};

/// How many hostile connections are open at the same time.
const CONNECTIONS: usize = 1000;
/// The pause between the end of a hostile connection and its replacement.
const PAUSE: Duration = Duration::from_secs(1);

/// The behaviour of a hostile client.
struct Attack {
    name: &'static str,
    /// The settings after the preface.
    settings: &'static [(u16, u32)],
    /// Bytes that are sent once, before the rounds.
    first: Vec<u8>,
    /// The bytes of each round, sent as long as the gateway accepts them.
    next: fn(u32) -> Vec<u8>,
    rounds: u32,
    /// Whether the client reads what the gateway sends.
    reads: bool,
}

const CANCEL: [u8; 4] = [0, 0, 0, 8];

fn ask(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &fields(&pseudo("/")))
}

/// Encodes a request with further fields, well formed or not.
fn ask_with(round: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let head = [&pseudo("/")[..], more].concat();
    frame(kind::HEADERS, END_STREAM | END_HEADERS, 1 + 2 * round, &fields(&head))
}

fn attacks() -> Vec<Attack> {
    let flood =
        |name, next| Attack { name, settings: &[], first: Vec::new(), next, rounds: 20_000, reads: true };
    let begun = |name, first, next| Attack { first, ..flood(name, next) };
    let post = pseudo_of("POST", "/");
    let mut bomb = fields(&pseudo("/"));
    // One large field in the table, then one byte for each reference to it (RFC 7541, 6.1).
    bomb.extend_from_slice(&[0x40, 1, b'x', 127, 0x80 | 64, 29]);
    bomb.extend_from_slice(&vec![b'v'; 127 + 64 + (29 << 7)]);
    bomb.extend_from_slice(&[0x80 | 62; 8000]);
    vec![
        flood("rapid reset", |n| [ask(1 + 2 * n), frame(kind::RST_STREAM, 0, 1 + 2 * n, &CANCEL)].concat()),
        flood("MadeYouReset: window of nothing", |n| {
            [ask(1 + 2 * n), frame(kind::WINDOW_UPDATE, 0, 1 + 2 * n, &[0; 4])].concat()
        }),
        flood("MadeYouReset: window too large", |n| {
            [ask(1 + 2 * n), frame(kind::WINDOW_UPDATE, 0, 1 + 2 * n, &0x7fff_ffff_u32.to_be_bytes())]
                .concat()
        }),
        flood("MadeYouReset: data after the end", |n| {
            [ask(1 + 2 * n), frame(kind::DATA, 0, 1 + 2 * n, b"x")].concat()
        }),
        begun("CONTINUATION", frame(kind::HEADERS, END_STREAM, 1, &fields(&pseudo("/"))), |_| {
            frame(kind::CONTINUATION, 0, 1, &fields(&[("x", &"v".repeat(2000))]))
        }),
        begun(
            "CONTINUATION without a byte",
            frame(kind::HEADERS, END_STREAM, 1, &fields(&pseudo("/"))),
            |_| frame(kind::CONTINUATION, 0, 1, &[]).repeat(20),
        ),
        Attack {
            rounds: 1,
            ..begun("header bomb", frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &bomb), |_| Vec::new())
        },
        flood("large heads", |n| {
            let mut head = pseudo("/").to_vec();
            let value = "v".repeat(900);
            head.extend([("x", value.as_str()); 16]);
            frame(kind::HEADERS, END_STREAM | END_HEADERS, 1 + 2 * n, &fields(&head))
        }),
        Attack {
            // One large field in the table, which each head references six times: 23 KiB of fields in 60
            // bytes.
            first: frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &{
                let mut head = fields(&pseudo("/"));
                head.extend_from_slice(&[0x40, 1, b'x', 127, 0x80 | 29, 30]);
                head.extend_from_slice(&[b'v'; 127 + 29 + (30 << 7)]);
                head
            }),
            ..flood("heads that name much in few bytes", |n| {
                let head = [fields(&pseudo("/")), vec![0x80 | 62; 6]].concat();
                let asks = |at| frame(kind::HEADERS, END_STREAM | END_HEADERS, 3 + 2 * (20 * n + at), &head);
                // The requests follow a frame that costs nothing.
                [frame(99, 0, 0, &[0; 1000]), (0..20).flat_map(asks).collect()].concat()
            })
        },
        begun("empty DATA", frame(kind::HEADERS, END_HEADERS, 1, &fields(&post)), |_| {
            frame(kind::DATA, 0, 1, &[]).repeat(20)
        }),
        Attack {
            settings: &[(INITIAL_WINDOW_SIZE, 0)],
            rounds: 100,
            ..flood("windows shut", |n| ask(1 + 2 * n))
        },
        Attack {
            settings: &[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)],
            first: frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()),
            rounds: 5000,
            reads: false,
            ..flood("windows open, nothing read", |n| ask(1 + 2 * n))
        },
        flood("line ends in values", |n| ask_with(n, &[("x", "a\r\nb: c"), ("y", "a\0b"), ("z", "a\nb")])),
        flood("two authorities", |n| ask_with(n, &[(":authority", "b.example")])),
        flood("an authority of tricks", |n| {
            let head =
                [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a@b.example/c")];
            frame(kind::HEADERS, END_STREAM | END_HEADERS, 1 + 2 * n, &fields(&head))
        }),
        flood("an end that is not where the length says", |n| ask_with(n, &[("content-length", "5")])),
        flood("SETTINGS", |_| frame(kind::SETTINGS, 0, 0, &[]).repeat(20)),
        Attack {
            first: (0..100)
                .flat_map(|n| frame(kind::HEADERS, END_HEADERS, 1 + 2 * n, &fields(&post)))
                .collect(),
            ..flood("SETTINGS that move 100 windows", |n| {
                frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, (n % 100) as u8, 0]).repeat(20)
            })
        },
        flood("PING", |_| frame(kind::PING, 0, 0, &[0; 8]).repeat(20)),
        flood("PRIORITY", |_| frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]).repeat(20)),
        flood("WINDOW_UPDATE", |_| frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(20)),
        flood("unknown frames", |_| frame(99, 0, 0, &[]).repeat(20)),
    ]
}

impl Attacker for Attack {
    fn name(&self) -> &str {
        self.name
    }

    fn connections(&self) -> usize {
        CONNECTIONS
    }

    fn play(self: Arc<Self>, gateway: SocketAddr, done: &Arc<Done>) {
        in_idle_time(async {
            let all: Vec<_> = (0..CONNECTIONS)
                .map(|n| tokio::spawn(hostile(n, gateway, self.clone(), done.clone())))
                .collect();
            for one in all {
                one.await.expect("no panic");
            }
        });
    }
}

async fn hostile(n: usize, address: SocketAddr, attack: Arc<Attack>, done: Arc<Done>) {
    // The connections start spread over one pause, because the kernel's accept queue would overflow.
    tokio::time::sleep(PAUSE * n as u32 / CONNECTIONS as u32).await;
    while !done.stop.load(Ordering::SeqCst) {
        if let Ok(stream) = TcpStream::connect(address).await {
            // Until the gateway ends the connection, or the time is up.
            tokio::select! {
                () = one(stream, &attack, &done) => { done.ended.fetch_add(1, Ordering::SeqCst); }
                () = until(&done.stop) => return,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn one(stream: TcpStream, attack: &Attack, done: &Done) {
    let (mut read, mut write) = stream.into_split();
    let writing = async {
        let mut settings = Vec::new();
        for (name, value) in attack.settings {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        let begin = [PREFACE, &frame(kind::SETTINGS, 0, 0, &settings), &attack.first].concat();
        let mut gone = write.write_all(&begin).await.is_err();
        if !gone {
            done.begun.fetch_add(1, Ordering::SeqCst);
        }
        for round in 0..attack.rounds {
            let bytes = (attack.next)(round);
            gone = gone || write.write_all(&bytes).await.is_err();
            if gone {
                return;
            }
            done.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if done.begun.load(Ordering::Relaxed) < CONNECTIONS as u64 {
                // Other connections have not started yet.
                tokio::task::yield_now().await;
            }
        }
        std::future::pending::<()>().await;
    };
    let reading = async {
        let mut buffer = [0; 4096];
        match attack.reads {
            true => while matches!(read.read(&mut buffer).await, Ok(1..)) {},
            false => std::future::pending().await,
        }
    };
    tokio::select! { () = writing => {}, () = reading => {} }
}

#[test]
#[ignore = "it takes minutes: `make hostile`"]
fn a_thousand_hostile_connections_of_each_kind() {
    super::play_all(attacks());
}
