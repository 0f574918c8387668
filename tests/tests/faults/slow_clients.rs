//! Clients that send or read as slowly as they can neither harm good clients nor take much memory.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollgate_tests::{Gateway, Origin, eventually};

use super::is_optimised;
use super::load::{Answers, Load};

/// How many slow clients run at the same time.
const SLOW: u32 = 500;
/// Good clients, each with a request every four milliseconds: two cores carry this load with ease. At full
/// load any other program delays all clients; with much less load every answer waits until a core wakes up.
const GOOD: usize = 16;
const PAUSE: Duration = Duration::from_millis(4);
/// How many measurements of each kind are made.
const ROUNDS: usize = 5;
/// The limit of the gateway's memory with all clients, in KiB.
const MEMORY: u64 = 128 * 1024;

/// The kind of slow client, and the arguments of `slowhttptest` for it.
#[derive(Clone, Copy, Debug)]
enum Slow {
    /// A line of the head every few seconds ("slowloris").
    Heads,
    /// Some bytes of a body every few seconds.
    Bodies,
    /// A few bytes of a long response every few seconds, through a small window.
    Readers,
}

impl Slow {
    fn start(self, address: SocketAddr) -> Attack {
        let (url, own): (_, &[&str]) = match self {
            Self::Heads => ("/", &["-H", "-i", "3", "-x", "24"]),
            Self::Bodies => ("/upload", &["-B", "-i", "3", "-s", "8192", "-x", "10"]),
            Self::Readers => ("/long", &["-X", "-w", "512", "-y", "1024", "-n", "3", "-z", "32", "-k", "1"]),
        };
        let (count, url) = (SLOW.to_string(), format!("http://{address}{url}"));
        // The process runs only on idle cores (SCHED_IDLE, sched(7)): elsewhere it would have a machine of
        // its own.
        let child = Command::new("chrt")
            .args(["--idle", "0", "slowhttptest", "-c", &count, "-r", "250", "-l", "60", "-u", &url])
            .args(own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chrt, of util-linux");
        Attack(child)
    }
}

/// The running `slowhttptest`. The drop kills it.
struct Attack(Child);

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs good clients for five seconds, and returns their answers.
fn measure(gateway: &Gateway) -> Answers {
    let load = Load::start(gateway.address(), GOOD, PAUSE);
    std::thread::sleep(Duration::from_secs(5));
    let answers = load.end();
    assert_eq!(answers.failures, [""; 0]);
    assert!(answers.count() > 200, "a load");
    answers
}

/// Returns the median of some rounds.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Starts slow clients, and returns when all of them are connected.
fn attacked(slow: Slow, gateway: &Gateway) -> Attack {
    let attack = slow.start(gateway.address());
    eventually("all slow clients to be there", || connections(gateway) >= f64::from(SLOW));
    // Waits until all buffers on the way are full. Filling them is the origin's work; after that the clients
    // are merely slow.
    std::thread::sleep(Duration::from_secs(3));
    attack
}

fn connections(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("tollgate_client_connections", "").unwrap_or_default()
}

/// Measures in turn: good clients alone, next to slow clients of another gateway, and next to slow clients of
/// their own. The second figure shows how much of the machine the slow clients' program and the origin's
/// threads take, whichever gateway serves them.
///
/// Good clients may wait twice as long as alone. Where the slow clients of another gateway alone exceed that,
/// the machine is too small for the comparison, and a fifth more than beside those is allowed.
fn next_to_slow_clients(slow: Slow) {
    let origin = || {
        Origin::play(|conn| {
            let long = vec![b'x'; 1 << 20];
            while let Some(request) = conn.request() {
                match request.target.as_str() {
                    "/long" => {
                        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len()));
                        if !conn.send(&long) {
                            return;
                        }
                    }
                    _ => conn.ok("ok"),
                }
            }
        })
    };
    let origins = [origin(), origin()];
    // Slow heads must last until the end; with the default they would time out after ten seconds.
    let [gateway, other] = [0, 1]
        .map(|index| Gateway::with(&origins[index], "workers: 2\naccess_log: off\ntimeouts: {header: 1m}"));
    let before = gateway.memory_kib("VmRSS");
    let (mut alone, mut elsewhere, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(measure(&gateway));
        for (attacked_one, answers) in [(&other, &mut elsewhere), (&gateway, &mut beside)] {
            let attack = attacked(slow, attacked_one);
            answers.push(measure(&gateway));
            assert!(connections(attacked_one) > f64::from(SLOW) * 0.9, "the slow clients stay");
            drop(attack);
            eventually("the slow clients to be gone", || connections(attacked_one) < f64::from(SLOW) / 10.0);
        }
    }
    let of = |answers: &[Answers], share| median(answers.iter().map(|all| all.percentile(share)).collect());
    let most = gateway.memory_kib("VmHWM");
    let [p99, other, own] = [&alone, &elsewhere, &beside].map(|answers| of(answers, 0.99));
    eprintln!(
        "{SLOW} slow clients, {slow:?}: p50 {:?} alone, {:?} beside them; p99 {p99:?} alone, {own:?} beside them ({:.2}), \
         {other:?} beside those of another gateway ({:.2}); {} good requests a round; memory {before} KiB before, {most} \
         KiB at most",
        of(&alone, 0.5),
        of(&beside, 0.5),
        own.as_secs_f64() / p99.as_secs_f64(),
        other.as_secs_f64() / p99.as_secs_f64(),
        beside[0].count(),
    );
    assert!(most <= MEMORY, "{most} KiB");
    let allowed = (p99 * 2).max(other.mul_f64(1.2));
    assert!(
        !is_optimised() || own <= allowed,
        "{own:?} beside slow clients, {other:?} beside those of another gateway, {p99:?} alone"
    );
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_heads() {
    next_to_slow_clients(Slow::Heads);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_bodies() {
    next_to_slow_clients(Slow::Bodies);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_readers() {
    next_to_slow_clients(Slow::Readers);
}
