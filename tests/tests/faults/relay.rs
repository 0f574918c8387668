//! One of three origins is behind a network that delays, and then swallows all that is sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_tests::{Gateway, Service};

use super::load::Load;

/// What is swallowed comes no more: as a network that has lost its way, connections open and nothing else.
const HOLE: u64 = u64::MAX;

/// A network in front of an origin: what it is given goes on after a while, or never.
struct Relay {
    address: SocketAddr,
    /// Milliseconds that each piece waits, or [`HOLE`].
    delay: Arc<AtomicU64>,
}

impl Relay {
    fn to(origin: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let delay = Arc::new(AtomicU64::new(0));
        let shared = delay.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(origin) else { continue };
                let (back, answers) =
                    (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let (there, here) = (shared.clone(), shared.clone());
                thread::spawn(move || carry(client, server, &there));
                thread::spawn(move || carry(answers, back, &here));
            }
        });
        Self { address, delay }
    }

    fn set(&self, delay: u64) {
        self.delay.store(delay, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, delay: &AtomicU64) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        match delay.load(Ordering::SeqCst) {
            HOLE => continue,
            milliseconds => thread::sleep(Duration::from_millis(milliseconds)),
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn one_of_three_is_slow_and_then_gone() {
    let services = ["a", "b", "c"].map(Service::start);
    let relay = Relay::to(services[1].address());
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: shop}}]\nupstreams: {{shop: {{endpoints: [\"{}\", \"{}\", \
         \"{}\"], retry: {{per_try: 300ms, on: [connect_failure, reset, timeout]}}, \
         outlier: {{consecutive_gateway_errors: 3}}}}}}\n",
        services[0].address(),
        relay.address,
        services[2].address()
    ));
    for (what, delay) in
        [("as it should be", 0), ("20 ms each way", 20), ("a black hole", HOLE), ("back again", 0)]
    {
        relay.set(delay);
        let load = Load::start(gateway.address(), 16, Duration::from_millis(2));
        thread::sleep(Duration::from_secs(5));
        let answers = load.end();
        let sum = |name| gateway.metrics().sum(name, "upstream=\"shop\"").unwrap_or(0.0);
        eprintln!(
            "one of three origins behind a relay, {what}: {} requests, {} failed; p50 {:?}, p99 {:?}, longest {:?}; retries \
             {}, ejections {}",
            answers.count(),
            answers.failures.len(),
            answers.percentile(0.5),
            answers.percentile(0.99),
            answers.percentile(1.0),
            sum("tollgate_upstream_retries_total"),
            sum("tollgate_upstream_ejections_total"),
        );
        assert_eq!(answers.failures, Vec::<String>::new(), "{what}");
        if delay == HOLE {
            assert!(sum("tollgate_upstream_ejections_total") > 0.0, "nobody noticed");
        }
    }
}
