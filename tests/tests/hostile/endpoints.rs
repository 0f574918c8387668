//! Hostile endpoints: connections from the gateway to two hundred endpoints that attack it as soon as a request
//! has arrived, most of them over HTTP/2. Clients of the hostile upstream ask again whenever they have an answer, or none.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tollgate_tests::frames::{END_HEADERS, END_STREAM, PREFACE, fields, frame, kind};

use super::{Attacker, Done, in_idle_time, until};

/// How many hostile endpoints there are, each with one connection or more.
const ENDPOINTS: u8 = 200;
/// How long a client of the hostile upstream waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two requests of such a client.
const PAUSE: Duration = Duration::from_millis(100);

const ACK: u8 = 1;
const NO_ERROR: [u8; 4] = [0; 4];
/// The type of a frame that no endpoint may send to a gateway, which disables it (RFC 9113, 6.6).
const PUSH_PROMISE: u8 = 5;

/// The behaviour of a hostile endpoint.
struct Attack {
    name: &'static str,
    /// The bytes that follow the head of the first request. Its stream is 1.
    first: Vec<u8>,
    /// The bytes of each round after that, sent as long as the gateway accepts them.
    next: fn(u32) -> Vec<u8>,
    rounds: u32,
    /// Whether the endpoint reads what the gateway sends after the first request.
    reads: bool,
    scheme: &'static str,
    listener: StdListener,
}

/// Encodes a response's head on stream 1.
fn head(flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flags, 1, &fields(&[&[(":status", "200")], more].concat()))
}

fn interim(value: &str) -> Vec<u8> {
    frame(kind::HEADERS, END_HEADERS, 1, &fields(&[(":status", "103"), ("link", value)]))
}

fn attacks() -> Vec<Attack> {
    let begun = |name, first, next| Attack {
        name,
        first,
        next,
        rounds: 20_000,
        reads: true,
        scheme: "h2c",
        listener: StdListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port"),
    };
    let flood = |name, next| begun(name, Vec::new(), next);
    // One large field in the table, then one byte for each reference to it (RFC 7541, 6.1).
    let mut bomb = fields(&[(":status", "200")]);
    bomb.extend_from_slice(&[0x40, 1, b'x', 127, 0x80 | 64, 29]);
    bomb.extend_from_slice(&vec![b'v'; 127 + 64 + (29 << 7)]);
    bomb.extend_from_slice(&[0x80 | 62; 8000]);
    vec![
        flood("endpoint: SETTINGS", |_| frame(kind::SETTINGS, 0, 0, &[]).repeat(20)),
        flood("endpoint: SETTINGS that move the windows", |n| {
            frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, (n % 100) as u8, 0]).repeat(20)
        }),
        flood("endpoint: PING", |_| frame(kind::PING, 0, 0, &[0; 8]).repeat(20)),
        flood("endpoint: PRIORITY", |_| frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]).repeat(20)),
        flood("endpoint: WINDOW_UPDATE", |_| frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(20)),
        flood("endpoint: unknown frames", |_| frame(99, 0, 0, &[]).repeat(20)),
        flood("endpoint: PUSH_PROMISE", |n| {
            let promised = (2 + 2 * n).to_be_bytes();
            frame(PUSH_PROMISE, END_HEADERS, 1, &[&promised[..], &fields(&[(":path", "/")])].concat())
        }),
        flood("endpoint: interim heads", |n| interim(&n.to_string()).repeat(20)),
        flood("endpoint: large interim heads", |_| interim(&"v".repeat(4000))),
        begun("endpoint: CONTINUATION", head(0, &[]), |_| {
            frame(kind::CONTINUATION, 0, 1, &fields(&[("x", &"v".repeat(2000))]))
        }),
        begun("endpoint: CONTINUATION without a byte", head(0, &[]), |_| {
            frame(kind::CONTINUATION, 0, 1, &[]).repeat(20)
        }),
        Attack {
            rounds: 1,
            ..begun("endpoint: header bomb", frame(kind::HEADERS, END_HEADERS, 1, &bomb), |_| Vec::new())
        },
        begun("endpoint: empty DATA", head(END_HEADERS, &[]), |_| frame(kind::DATA, 0, 1, &[]).repeat(20)),
        begun("endpoint: DATA of padding alone", head(END_HEADERS, &[]), |_| {
            let padded = [&[255][..], &[0; 255]].concat();
            frame(kind::DATA, 8, 1, &padded)
        }),
        begun("endpoint: endless DATA", head(END_HEADERS, &[]), |_| frame(kind::DATA, 0, 1, &[b'x'; 16_384])),
        Attack {
            scheme: "http",
            ..begun("endpoint: endless body of HTTP/1", b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), |_| {
                vec![b'x'; 16_384]
            })
        },
        Attack {
            reads: false,
            ..begun(
                "endpoint: more DATA than the length says",
                head(END_HEADERS, &[("content-length", "5")]),
                |_| frame(kind::DATA, 0, 1, &[b'x'; 1000]),
            )
        },
        flood("endpoint: answers for streams that never were", |n| {
            frame(kind::HEADERS, END_STREAM | END_HEADERS, 3 + 2 * n, &fields(&[(":status", "200")]))
        }),
        Attack {
            rounds: 1,
            ..begun("endpoint: GOAWAY at once", frame(kind::GOAWAY, 0, 0, &[0; 8]), |_| Vec::new())
        },
        Attack {
            rounds: 1,
            ..begun("endpoint: a reset for each request", frame(kind::RST_STREAM, 0, 1, &NO_ERROR), |_| {
                Vec::new()
            })
        },
        Attack { rounds: 1, reads: false, ..begun("endpoint: silence", Vec::new(), |_| Vec::new()) },
    ]
}

impl Attacker for Attack {
    fn name(&self) -> &str {
        self.name
    }

    fn connections(&self) -> usize {
        ENDPOINTS.into()
    }

    fn routes(&self) -> String {
        "- {match: /hostile, to: hostile, retry: off}\n".to_owned()
    }

    /// The hostile endpoints are not ejected, since that would end the attack.
    fn upstreams(&self) -> String {
        let port = self.listener.local_addr().expect("an address").port();
        let mut text = "upstreams:\n  hostile:\n    outlier: off\n    endpoints:\n".to_owned();
        for last in 1..=ENDPOINTS {
            let _ = writeln!(text, "    - {}://127.0.2.{last}:{port}", self.scheme);
        }
        text
    }

    fn play(self: Arc<Self>, gateway: SocketAddr, done: &Arc<Done>) {
        in_idle_time(async {
            let listener = self.listener.try_clone().and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            let endpoints = tokio::spawn(listen(listener.expect("a listener"), self, done.clone()));
            let clients: Vec<_> =
                (0..ENDPOINTS).map(|_| tokio::spawn(client(gateway, done.clone()))).collect();
            endpoints.await.expect("no panic");
            for one in clients {
                one.await.expect("no panic");
            }
        });
    }
}

/// Accepts the gateway's connections until the time is up.
async fn listen(listener: TcpListener, attack: Arc<Attack>, done: Arc<Done>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until(&done.stop) => return,
        };
        let Ok((stream, _)) = stream else { continue };
        let (attack, done) = (attack.clone(), done.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = hostile(stream, &attack, &done) => { done.ended.fetch_add(1, Ordering::SeqCst); }
                () = until(&done.stop) => {}
            }
        });
    }
}

/// Attacks on one connection until the gateway ends it.
async fn hostile(mut stream: TcpStream, attack: &Attack, done: &Done) -> io::Result<()> {
    match attack.scheme {
        "h2c" => read_http2_request(&mut stream).await?,
        _ => read_http1_request(&mut stream).await?,
    }
    let (mut read, mut write) = stream.into_split();
    let writing = async {
        write.write_all(&attack.first).await?;
        done.begun.fetch_add(1, Ordering::SeqCst);
        for round in 0..attack.rounds {
            let bytes = (attack.next)(round);
            write.write_all(&bytes).await?;
            done.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        std::future::pending::<io::Result<()>>().await
    };
    let reading = async {
        let mut buffer = [0; 4096];
        match attack.reads {
            true => while read.read(&mut buffer).await? > 0 {},
            false => std::future::pending().await,
        }
        Ok(())
    };
    tokio::select! { end = writing => end, end = reading => end }
}

/// Begins a connection, and reads up to the head of the first request.
async fn read_http2_request(stream: &mut TcpStream) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE.len()]).await?;
    let settings = [frame(kind::SETTINGS, 0, 0, &[]), frame(kind::SETTINGS, ACK, 0, &[])].concat();
    stream.write_all(&settings).await?;
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        stream.read_exact(&mut vec![0; length]).await?;
        if header[3] == kind::HEADERS {
            return Ok(());
        }
    }
}

/// Reads the head of a request, which is all of a GET.
async fn read_http1_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(())
}

/// Asks the hostile upstream again and again, on a new connection each time.
async fn client(gateway: SocketAddr, done: Arc<Done>) {
    while !done.stop.load(Ordering::SeqCst) {
        // How it ends does not matter: the endpoint decides that.
        let _ = timeout(PATIENCE, ask(gateway)).await;
        sleep(PAUSE).await;
    }
}

async fn ask(gateway: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(gateway).await?;
    stream.write_all(b"GET /hostile HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

#[test]
#[ignore = "it takes minutes: `make hostile`"]
fn two_hundred_hostile_endpoints_of_each_kind() {
    super::play_all(attacks());
}
