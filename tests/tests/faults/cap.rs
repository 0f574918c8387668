//! A cap on connections that many more clients press against: never exceeded, and hardly felt.

use std::time::{Duration, Instant};

use tollgate_tests::{Client, Established, Gateway, Service};

use super::{allow_files, is_optimised};

const CAP: usize = 1_000;
const CLIENTS: usize = 4_000;
const THREADS: usize = 8;
const ROUNDS: usize = 6;
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn gateway(origin: &Service, workers: usize, limits: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: {workers}\naccess_log: off\nlimits: {{connections: {}}}\nroutes: [{{match: \"/*\", to: u}}]\n\
         upstreams: {{u: {{endpoints: [\"{}\"]{limits}, pool: {{max_idle: {CLIENTS}}}, timeouts: {{connect: 20s}}}}}}\n",
        2 * CLIENTS,
        origin.address()
    ))
}

fn clients(gateway: &Gateway) -> Vec<Vec<Client>> {
    let some = |_| (0..CLIENTS / THREADS).map(|_| gateway.client()).collect();
    (0..THREADS).map(some).collect()
}

/// Every client asks, and every answer is taken, some rounds. Requests a second.
fn press(crowds: &mut [Vec<Client>]) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for crowd in crowds.iter_mut() {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    crowd.iter_mut().for_each(|client| client.send(GET));
                    crowd.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
                }
            });
        }
    });
    (CLIENTS * ROUNDS) as f64 / begun.elapsed().as_secs_f64()
}

/// The best of a few turns of each, in turn: what else the machine does makes all slower and none quicker.
fn capped(workers: usize) {
    allow_files(3 * CLIENTS as u64);
    let origin = Service::start("origin");
    let free = gateway(&origin, workers, "");
    let mut without = clients(&free);
    let other = Service::start("other");
    let bound = gateway(
        &other,
        workers,
        &format!(", limits: {{connections: {CAP}}}, queue: {{size: {CLIENTS}, timeout: 20s}}"),
    );
    let mut with = clients(&bound);
    let watch = Established::watch(other.address().port(), Duration::from_millis(2));
    // Connections are opened before anything is compared.
    let _ = (press(&mut without), press(&mut with));
    let (mut uncapped, mut capped) = (0_f64, 0_f64);
    for _ in 0..5 {
        uncapped = uncapped.max(press(&mut without));
        capped = capped.max(press(&mut with));
    }
    let most = watch.end();
    let ratio = capped / uncapped;
    eprintln!(
        "cap of {CAP} connections, {CLIENTS} clients, {workers} workers: at most {} opened and {} accepted in {} looks at \
         the kernel's table; {capped:.0} requests a second, {uncapped:.0} without a cap, ratio {ratio:.2}",
        most.opened, most.accepted, most.looks,
    );
    assert!(most.opened <= CAP && most.accepted <= CAP, "{most:?}");
    assert!(most.opened * 10 > CAP * 9, "the cap was hardly reached: {most:?}");
    assert!(!is_optimised() || ratio >= 0.95, "{ratio:.2} of what there is without a cap");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn one_worker() {
    capped(1);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn two_workers() {
    capped(2);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn four_workers() {
    capped(4);
}
