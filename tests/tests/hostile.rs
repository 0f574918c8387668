//! A thousand simultaneous hostile HTTP/2 connections, of each kind (class 10 of the attacks that a gateway
//! must survive). Good clients are served during the attack, and memory stays bounded. The harness replaces
//! each hostile connection a moment after it ended.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_tests::frames::{
    END_HEADERS, END_STREAM, INITIAL_WINDOW_SIZE, PREFACE, fields, frame, kind, pseudo, pseudo_of,
};
use tollgate_tests::{Gateway, http2};

use crate::faults::load::{Answers, Load};
use crate::faults::{allow_files, is_optimised};

/// How many hostile connections are open at the same time.
const CONNECTIONS: usize = 1000;
/// The pause between the end of a hostile connection and its replacement.
const PAUSE: Duration = Duration::from_secs(1);
/// The limit of the gateway's memory, in KiB.
const MEMORY: u64 = 256 * 1024;
/// How many times longer than without an attack good clients may wait, at the 99th percentile.
const SLOWER: f64 = 2.0;
/// The least waiting time to which [`SLOWER`] applies. HTTP/2 clients wait as long without an attack, on a
/// core that they share.
const USUAL: Duration = Duration::from_millis(3);

/// How often each attack is played; all others run between its rounds.
const ROUNDS: usize = 5;
const QUIET: Duration = Duration::from_secs(2);
const ATTACK: Duration = Duration::from_secs(4);
/// How long an attack may take until all of its connections have started. Its thread runs only when other
/// threads leave it a core.
const LONGEST: Duration = Duration::from_secs(8);

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

/// Counters of the hostile connections.
#[derive(Default)]
struct Done {
    stop: AtomicBool,
    /// Connections that sent their preface and first bytes.
    begun: AtomicU64,
    ended: AtomicU64,
    bytes: AtomicU64,
}

/// Pins this thread, and the processes and threads that it starts from now on, to its first or last core.
fn start_on(last: bool) {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let cores = CORES.get_or_init(|| {
        let own = sched_getaffinity(None).expect("the cores");
        (0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)).collect()
    });
    let mut set = CpuSet::new();
    set.set(if last { cores[cores.len() - 1] } else { cores[0] });
    sched_setaffinity(None, &set).expect("a core");
}

/// Runs this thread only while no other thread needs its core. Otherwise good clients wait mostly because the
/// kernel shares the cores between the gateway and the attackers, which would have machines of their own.
fn run_when_idle() {
    let own = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let set = Command::new("chrt").args(["--idle", "--pid", "0", &own]).status();
    assert!(set.is_ok_and(|status| status.success()), "chrt (util-linux) sets a thread's policy");
}

/// Plays an attack on all its connections, in one thread.
fn play(address: SocketAddr, attack: Arc<Attack>, done: &Arc<Done>) {
    run_when_idle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let all: Vec<_> = (0..CONNECTIONS)
            .map(|n| tokio::spawn(hostile(n, address, attack.clone(), done.clone())))
            .collect();
        for one in all {
            one.await.expect("no panic");
        }
    });
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

async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts an origin that answers every request with 20,000 bytes, fast and on any number of connections. Good
/// clients must not wait for an origin that the attackers keep busy.
fn origin() -> Gateway {
    let body = "x".repeat(20_000);
    Gateway::start(&format!("workers: 1\naccess_log: off\nroutes: [{{match: \"/*\", respond: {body}}}]\n"))
}

/// Starts good HTTP/2 clients, each on a connection of its own.
fn http2_load(gateway: &Gateway) -> Load {
    Load::by((0..4).map(|_| {
        let mut client = gateway.http2();
        move |stop: &AtomicBool| {
            let mut answers = Answers::default();
            while !stop.load(Ordering::SeqCst) {
                let begun = Instant::now();
                match client.try_ask(http2::get("/")) {
                    Ok(answer) if answer.status == 200 => answers.times.push(begun.elapsed()),
                    Ok(answer) => answers.failures.push(answer.status.to_string()),
                    Err(cut) => answers.failures.push(format!("{cut:?}")),
                }
                if answers.failures.len() > 100 {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
            answers
        }
    }))
}

/// Measures the answers that good clients get in HTTP/1 and in HTTP/2 while `wait` runs.
fn good(gateway: &Gateway, wait: impl FnOnce()) -> [Answers; 2] {
    let load = Load::start(gateway.address(), 4, Duration::from_millis(5));
    let good = http2_load(gateway);
    wait();
    [load.end(), good.end()]
}

/// Waits for the measured part of an attack.
fn attacked(done: &Done) {
    let begun = Instant::now();
    thread::sleep(ATTACK);
    while done.begun.load(Ordering::SeqCst) < CONNECTIONS as u64 && begun.elapsed() < LONGEST {
        thread::sleep(Duration::from_millis(50));
    }
}

/// The results of one round of an attack.
struct Round {
    /// For each protocol, the 99th percentile of the waiting times without the attack and under it.
    waits: [(Duration, Duration); 2],
    /// Failed answers of good clients.
    failures: Vec<String>,
    /// The gateway's peak memory, in KiB.
    memory: u64,
}

impl Round {
    /// Plays the attack against a gateway of its own on a core of its own. On a core shared with its clients
    /// and origin, they would mostly wait for each other.
    fn play(attack: &Arc<Attack>) -> Self {
        start_on(true);
        let origin = origin();
        start_on(false);
        let gateway = Gateway::start(&format!(
            "workers: 1\naccess_log: off\nroutes: [{{match: \"/*\", to: [\"{}\"]}}]\n",
            origin.address()
        ));
        start_on(true);
        let quiet = good(&gateway, || thread::sleep(QUIET));
        let done = Arc::new(Done::default());
        let hostile = {
            let (address, attack, done) = (gateway.address(), attack.clone(), done.clone());
            thread::spawn(move || play(address, attack, &done))
        };
        let pressed = good(&gateway, || attacked(&done));
        let memory = gateway.memory_kib("VmHWM");
        done.stop.store(true, Ordering::SeqCst);
        hostile.join().expect("no panic");
        let begun = done.begun.load(Ordering::SeqCst);
        let waits = [0, 1].map(|of| (quiet[of].percentile(0.99), pressed[of].percentile(0.99)));
        let mut failures: Vec<_> = pressed.iter().flat_map(|answers| answers.failures.clone()).collect();
        eprintln!(
            "{}: {} connections begun, {} ended, {} MiB; good clients: p99 of HTTP/1 {:?} (without {:?}), of HTTP/2 {:?} \
             ({:?}), {} answers, {} failed; memory {} MiB",
            attack.name,
            begun,
            done.ended.load(Ordering::SeqCst),
            done.bytes.load(Ordering::SeqCst) >> 20,
            waits[0].1,
            waits[0].0,
            waits[1].1,
            waits[1].0,
            pressed[0].times.len() + pressed[1].times.len(),
            failures.len(),
            memory / 1024,
        );
        if pressed.iter().any(|answers| answers.times.is_empty()) {
            failures.push("no answer at all".to_owned());
        }
        if begun < CONNECTIONS as u64 * 9 / 10 {
            failures.push(format!("no attack: {begun} connections of {CONNECTIONS}"));
        }
        Self { waits, failures, memory }
    }
}

/// Returns the faults in an attack's rounds: a failed answer or too much memory in any round, or too long a
/// wait of good clients in the median round. A single round would also show other activity on the machine.
fn wrongs(rounds: &[Round]) -> Vec<String> {
    let mut wrongs = Vec::new();
    if let Some(round) = rounds.iter().find(|round| !round.failures.is_empty()) {
        wrongs.push(format!("good clients failed: {:?}", &round.failures[..round.failures.len().min(3)]));
    }
    let memory = rounds.iter().map(|round| round.memory).max().unwrap_or_default();
    if memory > MEMORY {
        wrongs.push(format!("{} MiB", memory / 1024));
    }
    for (of, protocol) in ["HTTP/1", "HTTP/2"].into_iter().enumerate() {
        let median = |wait: fn(&(Duration, Duration)) -> Duration| {
            let mut waits: Vec<_> = rounds.iter().map(|round| wait(&round.waits[of])).collect();
            waits.sort_unstable();
            waits[waits.len() / 2]
        };
        let (quiet, pressed) = (median(|waits| waits.0), median(|waits| waits.1));
        eprintln!("  {protocol}: p99 {pressed:?}, without {quiet:?}");
        if is_optimised() && pressed > quiet.max(USUAL).mul_f64(SLOWER) {
            wrongs.push(format!("clients of {protocol} wait {pressed:?}, without it {quiet:?}"));
        }
    }
    wrongs
}

#[test]
#[ignore = "it takes minutes: `make hostile`"]
fn a_thousand_hostile_connections_of_each_kind() {
    allow_files(16_384);
    let only = std::env::var("ATTACK").unwrap_or_default();
    let attacks: Vec<_> = attacks()
        .into_iter()
        .filter(|attack| only.split('|').any(|some| attack.name.contains(some)))
        .map(Arc::new)
        .collect();
    let mut rounds: Vec<Vec<Round>> = attacks.iter().map(|_| Vec::new()).collect();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for (attack, rounds) in attacks.iter().zip(&mut rounds) {
            rounds.push(Round::play(attack));
        }
    }
    let mut bad = Vec::new();
    for (attack, rounds) in attacks.iter().zip(&rounds) {
        eprintln!("{}, the median of {ROUNDS} rounds", attack.name);
        bad.extend(wrongs(rounds).into_iter().map(|wrong| format!("{}: {wrong}", attack.name)));
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
