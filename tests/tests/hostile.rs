//! Hundreds of simultaneous hostile HTTP/2 connections, of each kind: from clients (class 10 of the attacks that
//! a gateway must survive) and to endpoints. Good clients are served during the attack, and memory stays bounded.

mod clients;
mod endpoints;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tollgate_tests::{Gateway, http2};

use crate::faults::load::{Answers, Load};
use crate::faults::{allow_files, is_optimised};

/// The limit of the gateway's memory, in KiB.
const MEMORY: u64 = 256 * 1024;
/// How many times longer than without an attack good clients may wait, at the 99th percentile.
const SLOWER: f64 = 2.0;
/// The least waiting time to which [`SLOWER`] applies. On a shared core, HTTP/2 clients wait equally long without an
/// attack.
const USUAL: Duration = Duration::from_millis(3);

/// How often each attack is played, unless `ROUNDS` in the environment says otherwise; all others run between its
/// rounds.
const ROUNDS: usize = 5;
const QUIET: Duration = Duration::from_secs(2);
const ATTACK: Duration = Duration::from_secs(4);
/// How long an attack may take until all of its connections have started. Its thread runs only when other
/// threads leave it a core, and an endpoint is asked only when its turn comes.
const LONGEST: Duration = Duration::from_secs(30);

/// One kind of attack.
trait Attacker: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// How many hostile connections there are at the same time.
    fn connections(&self) -> usize;

    /// Routes of the gateway in addition to the good origin's, as entries of the list.
    fn routes(&self) -> String {
        String::new()
    }

    /// Sections of the gateway's file that follow the routes.
    fn upstreams(&self) -> String {
        String::new()
    }

    /// Attacks until `done` says stop.
    fn play(self: Arc<Self>, gateway: SocketAddr, done: &Arc<Done>);
}

/// Counters of the hostile connections.
#[derive(Default)]
struct Done {
    stop: AtomicBool,
    /// Connections that sent their first bytes.
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

/// Runs an attack to its end on this thread, which becomes idle.
fn in_idle_time(attack: impl Future<Output = ()>) {
    run_when_idle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(attack);
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
fn attacked(done: &Done, connections: u64) {
    let begun = Instant::now();
    thread::sleep(ATTACK);
    while done.begun.load(Ordering::SeqCst) < connections && begun.elapsed() < LONGEST {
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
    fn play<A: Attacker>(attack: &Arc<A>) -> Self {
        let connections = attack.connections() as u64;
        start_on(true);
        let origin = origin();
        start_on(false);
        let gateway = Gateway::start(&format!(
            "workers: 1\naccess_log: off\nroutes:\n- {{match: /*, to: [\"{}\"]}}\n{}{}",
            origin.address(),
            attack.routes(),
            attack.upstreams()
        ));
        start_on(true);
        let quiet = good(&gateway, || thread::sleep(QUIET));
        let done = Arc::new(Done::default());
        let hostile = {
            let (address, attack, done) = (gateway.address(), attack.clone(), done.clone());
            thread::spawn(move || attack.play(address, &done))
        };
        let pressed = good(&gateway, || attacked(&done, connections));
        let memory = gateway.memory_kib("VmHWM");
        done.stop.store(true, Ordering::SeqCst);
        hostile.join().expect("no panic");
        let begun = done.begun.load(Ordering::SeqCst);
        let waits = [0, 1].map(|of| (quiet[of].percentile(0.99), pressed[of].percentile(0.99)));
        let mut failures: Vec<_> = pressed.iter().flat_map(|answers| answers.failures.clone()).collect();
        eprintln!(
            "{}: {} connections begun, {} ended, {} MiB; good clients: p99 of HTTP/1 {:?} (without {:?}), of HTTP/2 {:?} \
             ({:?}), {} answers, {} failed; memory {} MiB",
            attack.name(),
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
        if begun < connections * 9 / 10 {
            failures.push(format!("no attack: {begun} connections of {connections}"));
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

/// Plays the attacks in rounds and asserts that good clients did not notice. `ATTACK` in the environment
/// selects some of them by parts of their names, separated by `|`, and `ROUNDS` sets the number of rounds.
fn play_all<A: Attacker>(attacks: Vec<A>) {
    allow_files(16_384);
    let only = std::env::var("ATTACK").unwrap_or_default();
    let attacks: Vec<_> = attacks
        .into_iter()
        .filter(|attack| only.split('|').any(|some| attack.name().contains(some)))
        .map(Arc::new)
        .collect();
    let count = std::env::var("ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(ROUNDS).max(1);
    let mut rounds: Vec<Vec<Round>> = attacks.iter().map(|_| Vec::new()).collect();
    for round in 1..=count {
        eprintln!("round {round} of {count}");
        for (attack, rounds) in attacks.iter().zip(&mut rounds) {
            rounds.push(Round::play(attack));
        }
    }
    let mut bad = Vec::new();
    for (attack, rounds) in attacks.iter().zip(&rounds) {
        eprintln!("{}, the median of {count} rounds", attack.name());
        bad.extend(wrongs(rounds).into_iter().map(|wrong| format!("{}: {wrong}", attack.name())));
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
