//! Clients that send or read as slowly as they can do good clients no harm, and take little memory.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollgate_tests::{Gateway, Origin, eventually};

use super::is_optimised;
use super::load::{Answers, Load};

/// Slow clients at once.
const SLOW: u32 = 500;
/// Good ones.
const GOOD: usize = 16;
/// The bar for the gateway's memory with all of them, in KiB.
const MEMORY: u64 = 128 * 1024;

/// What they are slow at, and how `slowhttptest` is told.
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
        let child = Command::new("slowhttptest")
            .args(["-c", &count, "-r", "250", "-l", "60", "-u", &url])
            .args(own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("slowhttptest, which `make faults` installs");
        Attack(child)
    }
}

/// Ends with the test, however that ends.
struct Attack(Child);

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The latency of good clients for some time.
fn measure(gateway: &Gateway) -> Answers {
    let load = Load::start(gateway.address(), GOOD, Duration::from_millis(2));
    std::thread::sleep(Duration::from_secs(5));
    let answers = load.end();
    assert_eq!(answers.failures, [""; 0]);
    assert!(answers.count() > 200, "a load");
    answers
}

fn beside(slow: Slow) {
    let origin = Origin::play(|conn| {
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
    });
    let gateway = Gateway::with(&origin, "workers: 2\naccess_log: off");
    let alone = measure(&gateway);
    let before = gateway.memory_kib("VmRSS");
    let attack = slow.start(gateway.address());
    let connections = || gateway.metrics().sum("tollgate_client_connections", "").unwrap_or_default();
    eventually("all slow clients to be there", || connections() >= f64::from(SLOW));
    // Until all buffers on the way are full: filling them is the origin's work, and once over they are just slow.
    std::thread::sleep(Duration::from_secs(3));
    let beside = measure(&gateway);
    let (still, most) = (connections(), gateway.memory_kib("VmHWM"));
    drop(attack);
    eprintln!(
        "{SLOW} slow clients, {slow:?}: p50 {:?} alone, {:?} beside them; p99 {:?} alone, {:?} beside them; {still} \
         connections at the end; memory {before} KiB before, {most} KiB at most",
        alone.percentile(0.5),
        beside.percentile(0.5),
        alone.percentile(0.99),
        beside.percentile(0.99),
    );
    assert!(most <= MEMORY, "{most} KiB");
    // The bar is twice as long; what other programs do on the machine meanwhile comes on top.
    let bound = alone.percentile(0.99) * 2 + Duration::from_millis(25);
    assert!(!is_optimised() || beside.percentile(0.99) <= bound, "{:?}", beside.percentile(0.99));
    eventually("the slow clients to be gone", || connections() < f64::from(SLOW) / 10.0);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_heads() {
    beside(Slow::Heads);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_bodies() {
    beside(Slow::Bodies);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn slow_readers() {
    beside(Slow::Readers);
}
