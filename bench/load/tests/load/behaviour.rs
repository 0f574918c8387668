//! Tests the generator against well-behaved and faulty servers. The tests check counts only, never timing.

use crate::server::{self, ok};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use tollgate_lab_load::{Body, Expect, Failure, Length, Phase, Plan, Request, run, run_with};
use tollgate_lab_record::{Failures, LoadModel, LoadResult};

fn plan(address: SocketAddr, requests: u64) -> Plan {
    Plan { length: Length::Requests(requests), time_limit: 5.0, ..Plan::new(address) }
}

fn counts(result: &LoadResult) -> (u64, Failures) {
    (result.ok, result.failures.clone())
}

#[test]
fn kept_connections_carry_all_requests() {
    let (address, counted) = server::start(|_, stream| ok(stream, "hello"));
    let plan = Plan { connections: 3, threads: 2, ..plan(address, 100) };
    let mut phases = Vec::new();
    let done = run_with(&plan, |phase| phases.push(phase)).unwrap();
    let (result, used) = (done.load, done.used);
    assert_eq!(counts(&result), (100, Failures::default()));
    assert_eq!((result.sent, result.body_bytes, result.connections_opened), (Some(100), Some(500), Some(3)));
    assert_eq!(result.statuses.get(&200), Some(&100));
    assert_eq!(counted.connections.load(Relaxed), 3);
    assert_eq!(result.windows.iter().map(|window| window.ok).sum::<u64>(), 100);
    assert_eq!(result.service_time.as_ref().unwrap().count, 100);
    assert!(result.response_time.is_none() && result.send_lag.is_none());
    assert_eq!(phases, [Phase::Begun, Phase::Measuring, Phase::Measured]);
    // Even in a short run, both threads read their own clocks.
    assert!(used.cpu_us() > 0.0 && used.voluntary_switches > 0, "{used:?}");
    let names: BTreeSet<&str> = used.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!((used.thread_count, names), (2, BTreeSet::from(["load-0", "load-1"])));
}

#[test]
fn a_connection_a_request_is_what_the_server_sees() {
    let (address, counted) = server::start(|asked, stream| {
        assert_eq!(asked.field("connection"), Some("close"));
        ok(stream, "x");
        false
    });
    let sources = vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
    let plan = Plan { connections: 4, keep_alive: false, sources, ..plan(address, 50) };
    let result = run(&plan).unwrap();
    assert_eq!(counts(&result), (50, Failures::default()));
    assert_eq!(result.connections_opened, Some(50));
    assert_eq!((counted.connections.load(Relaxed), counted.requests.load(Relaxed)), (50, 50));
}

#[test]
fn requests_take_turns_and_carry_what_the_plan_says() {
    let (address, _) = server::start(|asked, stream| {
        let line = asked.head[0].as_str();
        assert!(line == "GET /one HTTP/1.1" && asked.field("host") == Some("a.test") || asked.body == b"ppp");
        ok(stream, if line.starts_with("GET") { "one" } else { "three" })
    });
    let one = Request { host: Some("a.test".into()), ..Request::get("/one") };
    let two = Request { method: "PUT".into(), body: Some(Body::Bytes(3)), ..Request::get("/two") };
    let result = run(&Plan { requests: vec![one, two], ..plan(address, 10) }).unwrap();
    assert_eq!(counts(&result), (10, Failures::default()));
    assert_eq!(result.body_bytes, Some(5 * 3 + 5 * 5));
}

#[test]
fn every_kind_of_wrong_answer_has_its_count() {
    let (address, _) = server::start(|asked, stream| match asked.number {
        2 => ok(stream, "evil"),
        3 => ok(stream, "too long"),
        4 => write!(stream, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").is_ok(),
        5 => !write!(stream, "what?\r\n\r\n").is_ok(),
        6 => !write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngo").is_ok(),
        7 => {
            thread::sleep(Duration::from_secs(2));
            false
        }
        8 => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngoodmore").is_ok(),
        _ => ok(stream, "good"),
    });
    let result = run(&Plan { time_limit: 0.5, ..plan(address, 12) }).unwrap();
    let expected =
        Failures { body: 1, length: 1, status: 1, protocol: 2, read: 1, timeout: 1, ..Failures::default() };
    assert_eq!(counts(&result), (5, expected));
    assert_eq!(result.sent, Some(12));
    assert_eq!(result.statuses.get(&503), Some(&1));
}

#[test]
fn what_is_expected_can_be_given() {
    let (address, _) = server::start(|_, stream| {
        write!(stream, "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnone\r\n0\r\n\r\n")
            .is_ok()
    });
    let mut plan = plan(address, 5);
    assert_eq!(run(&plan).unwrap().failures.status, 5);
    plan.requests[0].expect = Expect::exactly(404, b"none");
    assert_eq!(run(&plan).unwrap().ok, 5);
}

#[test]
fn a_refused_connection_is_a_failure_before_and_counts_after_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let plan = plan(address, 3);
    assert!(matches!(run(&plan), Err(Failure::Unreachable(..))));
    let result = run(&Plan { keep_alive: false, ..plan }).unwrap();
    assert_eq!(counts(&result), (0, Failures { connect: 3, ..Failures::default() }));
}

#[test]
fn open_loops_send_what_the_schedule_says() {
    let (address, _) = server::start(|_, stream| ok(stream, "ok"));
    for model in [LoadModel::Constant { rps: 500.0 }, LoadModel::Poisson { rps: 500.0 }] {
        let plan = Plan { model, connections: 4, threads: 2, warm_up: 0.1, ..plan(address, 200) };
        let result = run(&plan).unwrap();
        assert_eq!(counts(&result), (200, Failures::default()));
        for times in [&result.response_time, &result.service_time, &result.send_lag] {
            assert_eq!(times.as_ref().unwrap().count, 200);
        }
    }
    let constant = Plan {
        model: LoadModel::Constant { rps: 500.0 },
        connections: 2,
        length: Length::Seconds(0.5),
        ramp: 0.1,
        ..Plan::new(address)
    };
    assert_eq!(run(&constant).unwrap().ok, 250);
}

#[test]
fn a_server_that_hangs_is_all_time_outs() {
    let (address, _) = server::start(|_, _| {
        thread::sleep(Duration::from_secs(5));
        false
    });
    let plan = Plan {
        model: LoadModel::Constant { rps: 100.0 },
        connections: 2,
        length: Length::Seconds(0.3),
        time_limit: 0.2,
        ..Plan::new(address)
    };
    let result = run(&plan).unwrap();
    assert_eq!(counts(&result), (0, Failures { timeout: 30, ..Failures::default() }));
    // Each was held from its intended time on.
    let held = result.response_time.unwrap();
    assert!(held.count == 30 && held.min_us.unwrap() >= 200_000.0, "{held:?}");
}

#[test]
fn a_hung_request_does_not_outlive_its_time_limit_when_the_others_are_done() {
    let (address, _) = server::start(|asked, stream| {
        if asked.number == 2 {
            thread::sleep(Duration::from_secs(30));
            return false;
        }
        ok(stream, "ok")
    });
    for model in [LoadModel::Closed, LoadModel::Constant { rps: 200.0 }] {
        let plan = Plan {
            model,
            connections: 3,
            length: Length::Seconds(0.2),
            time_limit: 0.5,
            ..Plan::new(address)
        };
        let result = run(&plan).unwrap();
        let hung = u64::from(model == LoadModel::Closed);
        assert_eq!(result.failures, Failures { timeout: hung, ..Failures::default() });
        assert!(result.ok > 0);
        if hung > 0 {
            let times = result.service_time.unwrap();
            assert!(times.count > result.ok && times.max_us.unwrap() >= 500_000.0, "{times:?}");
        }
    }
}

#[test]
fn a_request_that_is_held_until_after_the_end_is_in_the_latency_of_a_closed_loop() {
    let (address, _) = server::start(|asked, stream| {
        if asked.number == 2 {
            thread::sleep(Duration::from_millis(700));
        }
        ok(stream, "ok")
    });
    let plan = Plan { connections: 3, length: Length::Seconds(0.2), ..Plan::new(address) };
    let result = run(&plan).unwrap();
    assert_eq!(result.failures, Failures::default());
    let times = result.service_time.unwrap();
    assert!(times.count > result.ok && times.max_us.unwrap() >= 700_000.0, "{times:?}");
    assert_eq!(result.windows.iter().map(|window| window.ok).sum::<u64>(), result.ok);
}
