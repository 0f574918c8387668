//! More connections than file descriptors, and more requests than an upstream can handle.

use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin, eventually, limit_files};

use super::load::Load;

/// Opens silent connections repeatedly until it is stopped.
fn flood(gateway: &Gateway, stop: &AtomicBool) {
    let mut kept = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        match TcpStream::connect_timeout(&gateway.address(), Duration::from_millis(200)) {
            Ok(stream) if kept.len() < 500 => kept.push(stream),
            Ok(_) => kept.clear(),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Returns the CPU time of a process, in ticks of 10 ms.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process is there");
    // The fields after the name, which is in brackets: the 12th and the 13th (proc(5)).
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn connections_without_end() {
    for files in ["95%", "100%"] {
        let origin = Origin::ok();
        let gateway =
            Gateway::with(&origin, &format!("workers: 2\naccess_log: off\noverload: {{files: {files}}}"));
        let load = Load::start(gateway.address(), 8, Duration::from_millis(2));
        eventually("the good clients", || origin.count() > 100);
        limit_files(gateway.pid(), 300);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| flood(&gateway, &stop));
            }
            thread::sleep(Duration::from_secs(8));
            stop.store(true, Ordering::SeqCst);
        });
        let answers = load.end();
        eprintln!(
            "connections without end, files {files}: {} requests of those connected before, {} failed; p50 {:?}, p99 \
             {:?}",
            answers.count(),
            answers.failures.len(),
            answers.percentile(0.5),
            answers.percentile(0.99),
        );
        assert_eq!(answers.failures, [""; 0]);
        eventually("new connections to be taken in again", || {
            let mut client = gateway.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.try_response("GET").is_ok_and(|response| response.status == 200)
        });
    }
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn waiting_for_a_descriptor_costs_nothing() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "workers: 2\naccess_log: off\noverload: {files: 100%}");
    limit_files(gateway.pid(), 8);
    let waiting: Vec<_> =
        (0..100).map(|_| TcpStream::connect(gateway.address()).expect("the queue")).collect();
    thread::sleep(Duration::from_millis(500));
    let (before, began) = (cpu_ticks(gateway.pid()), Instant::now());
    thread::sleep(Duration::from_secs(3));
    let (ticks, time) = (cpu_ticks(gateway.pid()) - before, began.elapsed());
    let share = ticks as f64 / 100.0 / time.as_secs_f64();
    eprintln!("{} clients wait for a descriptor: {:.1} % of a core", waiting.len(), share * 100.0);
    assert!(share < 0.2, "accepting spins: {share} of a core");
    limit_files(gateway.pid(), 1024);
    eventually("new connections to be taken in", || {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
}

/// Starts an origin that handles `capacity` requests at the full rate; further requests share its time.
fn shared_by(capacity: u32) -> Origin {
    let in_flight = AtomicU32::new(0);
    Origin::play(move |conn| {
        while conn.request().is_some() {
            let all = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            let rounds = all.div_ceil(capacity);
            thread::sleep(Duration::from_millis(10) * rounds);
            in_flight.fetch_sub(1, Ordering::SeqCst);
            conn.ok("ok");
        }
    })
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn requests_of_low_priority_without_end() {
    let mut usual = Vec::new();
    for adaptive in ["off", "{min: 3}"] {
        let origin = shared_by(8);
        let gateway = Gateway::start(&format!(
            "workers: 2\naccess_log: off\nupstreams: {{u: {{endpoints: [\"{}\"], adaptive: {adaptive}}}}}\nroutes:\n  \
             - {{match: \"/*\", to: u, priority: low}}\n  - {{match: \"/urgent\", to: u, priority: high}}\n",
            origin.address()
        ));
        let low = Load::of("/", gateway.address(), 100, Duration::from_millis(2));
        let high = Load::of("/urgent", gateway.address(), 2, Duration::from_millis(20));
        thread::sleep(Duration::from_secs(10));
        let (high, low) = (high.end(), low.end());
        eprintln!(
            "100 clients of low priority where 8 can be served, adaptive {adaptive}: high priority {} requests, {} \
             failed, p50 {:?}, p99 {:?}; low priority {} answered, {} turned away",
            high.count(),
            high.failures.len(),
            high.percentile(0.5),
            high.percentile(0.99),
            low.times.len(),
            low.failures.len(),
        );
        assert!(high.count() > 50 && low.times.len() > 500);
        if adaptive != "off" {
            assert!(high.failures.len() * 10 <= high.count(), "{:?}", high.failures);
        }
        usual.push(high.percentile(0.5));
    }
    assert!(usual[1] < usual[0], "{usual:?}");
}
