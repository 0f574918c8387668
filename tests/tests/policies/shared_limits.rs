//! Limits that several gateways share through a real Redis. Rates are so low that no test lasts until a
//! further request is permitted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin, Redis, eventually, http2};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

/// Starts a gateway with a policy that counts in this Redis, and waits until it is connected.
fn gateway(origin: &Origin, redis: &Redis, policy: &str, more: &str) -> Gateway {
    let url = format!("redis://{}", redis.address());
    let redis = format!("redis: {{url: \"{url}\", timeout: 5s{more}}}");
    Gateway::with(origin, &format!("policies: {{{}}}", policy.replace("REDIS", &redis)))
}

fn statuses(gateway: &Gateway, count: usize) -> Vec<u16> {
    let mut client = gateway.client();
    (0..count).map(|_| client.ask(format!("{ASK}\r\n")).status).collect()
}

fn passed(statuses: &[u16]) -> usize {
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

#[test]
fn two_gateways_hold_one_limit() {
    let (origin, redis) = (Origin::ok(), Redis::start("not for eyes"));
    let more = ", password: \"not for eyes\"";
    for (limit, passes) in [
        ("rate_limit: {rate: 7/h, REDIS}", 7),
        ("rate_limit: {rate: 20/h, burst: 12, lease: 5, REDIS}", 12),
        ("quota: {limit: 9, per: month, REDIS}", 9),
    ] {
        let gateways = [(); 2].map(|()| gateway(&origin, &redis, limit, more));
        let (mut got, began) = (Vec::new(), Instant::now());
        for _ in 0..10 {
            gateways.iter().for_each(|gateway| got.extend(statuses(gateway, 1)));
        }
        // On a slow machine, the part of a lease that is not used within a second is lost.
        let is_exact = !limit.contains("lease") || began.elapsed() < Duration::from_secs(1);
        let got = passed(&got);
        assert!(if is_exact { got == passes } else { got <= passes }, "{got}: {limit}");
        for gateway in &gateways {
            let reported = [gateway.stderr(), gateway.stdout()].concat();
            assert!(!reported.contains("not for eyes"), "{reported}");
        }
    }
}

#[test]
fn many_at_once_get_no_more() {
    let (origin, redis) = (Origin::ok(), Redis::start(""));
    for limit in ["rate_limit: {rate: 50/h, lease: 8, REDIS}", "rate_limit: {rate: 40/h, REDIS}"] {
        let gateways = [(); 2].map(|()| gateway(&origin, &redis, limit, ""));
        let passed: usize = std::thread::scope(|scope| {
            let run = |gateway| move || passed(&statuses(gateway, 30));
            let threads: Vec<_> = (0..6).map(|n| scope.spawn(run(&gateways[n % 2]))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        let most = if limit.contains("lease") { 50 } else { 40 };
        assert!(passed <= most, "{passed}: {limit}");
        // A lease that is not used within a second is lost; on a busy machine this happens.
        assert!(passed >= most - 16, "{passed}: {limit}");
    }
}

#[test]
fn without_redis_a_limit_fails_as_configured_and_recovers() {
    let (origin, mut redis) = (Origin::ok(), Redis::start(""));
    let of = |mode: &str, policy: &str| gateway(&origin, &redis, policy, &format!(", on_failure: {mode}"));
    let rate = "rate_limit: {rate: 3/h, REDIS}";
    let quota = "quota: {limit: 3, per: month, REDIS}";
    let modes = ["closed", "open", "local"].map(|mode| (mode, of(mode, rate), of(mode, quota)));
    for (_, rate, quota) in &modes {
        // The gateways share a name and therefore a limit. This request takes from it and opens the
        // connection.
        statuses(rate, 1);
        statuses(quota, 1);
    }
    redis.kill();
    for (mode, rate, quota) in &modes {
        for gateway in [rate, quota] {
            // The first request may hit the connection as it breaks.
            let got = statuses(gateway, 5);
            match *mode {
                "closed" => assert_eq!(got, [503; 5], "{mode}"),
                "open" => assert_eq!(got, [200; 5], "{mode}"),
                _ => assert_eq!(got, [200, 200, 200, 429, 429], "{mode}"),
            }
        }
    }
    let answer = modes[0].1.client().ask(format!("{ASK}\r\n"));
    assert_eq!(answer.headers.get("Tollgate-Reason"), Some("limit_unavailable"));
    redis.restart();
    for (_, rate, _) in &modes[..1] {
        eventually("the Redis to be found again", || statuses(rate, 1) != [503]);
    }
}

#[test]
fn a_redis_clock_that_goes_back_locks_no_client_out() {
    let (origin, redis) = (Origin::ok(), Redis::start(""));
    let gateway = gateway(&origin, &redis, "rate_limit: {rate: 1/s, burst: 1, REDIS}", "");
    let mut stream = TcpStream::connect(redis.address()).expect("it listens");
    let mut said = |line: &str| {
        stream.write_all(format!("{line}\r\n").as_bytes()).expect("it reads");
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).expect("it answers");
        String::from_utf8_lossy(&chunk[..count]).into_owned()
    };
    eventually("a bucket is full in three hundred years", || {
        statuses(&gateway, 1);
        let keys = said("KEYS *");
        let set = keys.lines().nth(2).map(|key| said(&format!("SET {key} 9000000000000000 XX")));
        set.is_some_and(|answer| answer.starts_with("+OK"))
    });
    eventually("it empties all the same", || statuses(&gateway, 1) == [200]);
}

/// Three requests in a row got no answer within `timeout`. From then on no request waits until the Redis
/// answers again.
#[test]
fn a_redis_that_hangs_costs_three_requests_their_time() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let (origin, redis) = (Origin::ok(), Redis::start(""));
    for (mode, without) in [("closed", 503), ("open", 200)] {
        let gateway = Gateway::with(
            &origin,
            &format!(
                "policies: {{rate_limit: {{rate: 100000/s, redis: {{url: \"redis://{}\", timeout: 1s, on_failure: {mode}}}}}}}",
                redis.address()
            ),
        );
        eventually("the Redis is asked", || statuses(&gateway, 1) == [200]);
        redis.hang();
        let mut client = gateway.client();
        for n in 0..3 {
            let started = Instant::now();
            assert_eq!(client.ask(format!("{ASK}\r\n")).status, without, "{mode} {n}");
            assert!(started.elapsed() >= TIMEOUT, "{mode} {n}: {:?}", started.elapsed());
        }
        // Otherwise each request would take a second.
        let started = Instant::now();
        assert_eq!(statuses(&gateway, 60), [without; 60], "{mode}");
        assert!(started.elapsed() < 30 * TIMEOUT, "{mode}: {:?}", started.elapsed());
        redis.go_on();
        if mode == "closed" {
            eventually("it is back", || statuses(&gateway, 1) == [200]);
        }
        eventually("that is said", || gateway.stderr().contains("it is back"));
    }
}

#[test]
fn a_lost_and_recovered_redis_is_logged_once() {
    let (origin, mut redis) = (Origin::ok(), Redis::start("not for eyes"));
    let gateway = gateway(
        &origin,
        &redis,
        "rate_limit: {rate: 1000/s, REDIS}",
        ", password: \"not for eyes\", on_failure: closed",
    );
    eventually("the Redis is asked", || statuses(&gateway, 1) == [200]);
    let count = |what: &str| gateway.stderr().matches(what).count();
    let (lost, back) =
        (format!("redis: {}: no answer", redis.address()), format!("redis: {}: it is back", redis.address()));
    assert_eq!((count(&lost), count(&back)), (0, 0));
    for _ in 0..3 {
        redis.kill();
        eventually("it is missed", || statuses(&gateway, 1) == [503]);
        statuses(&gateway, 20);
        redis.restart();
        eventually("it is found again", || statuses(&gateway, 1) == [200]);
    }
    eventually("both are said", || (count(&lost), count(&back)) == (1, 1));
    let reported = gateway.stderr();
    assert!(!reported.contains("not for eyes"), "{reported}");
}

#[test]
fn a_client_that_goes_while_the_redis_is_asked_leaves_nothing_behind() {
    let (origin, redis) = (Origin::ok(), Redis::start(""));
    let gateway = Gateway::with(
        &origin,
        &format!(
            "policies: {{rate_limit: {{rate: 100/h, redis: {{url: \"redis://{}\", timeout: 5s, on_failure: closed}}}}}}",
            redis.address()
        ),
    );
    eventually("the Redis is asked", || statuses(&gateway, 1) == [200]);
    let (seen, before) = (origin.count(), gateway.answers());
    redis.hang();
    let mut client = gateway.client();
    client.send(format!("{ASK}\r\n"));
    let mut http2 = gateway.http2();
    let stream = http2.begin(http2::request("GET", "/", &[]), true).expect("begun");
    eventually("both are there", || gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(2.0));
    client.reset();
    stream.reset();
    let records = gateway.wait_records(usize::try_from(before).expect("a few") + 2);
    for record in &records[records.len() - 2..] {
        assert_eq!(record["reason"], "client_closed", "{record}");
    }
    redis.go_on();
    assert_eq!(statuses(&gateway, 1), [200]);
    assert_eq!(origin.count(), seen + 1);
}

/// Starts a gateway whose limit counts at this place.
fn at(origin: &Origin, place: &str, policy: &str) -> Gateway {
    let redis = format!("redis: {{{place}, timeout: 5s, on_failure: closed}}");
    Gateway::with(origin, &format!("policies: {{{}}}", policy.replace("REDIS", &redis)))
}

#[test]
fn the_master_that_sentinel_names_counts_and_its_successor_goes_on() {
    let (origin, mut master) = (Origin::ok(), Redis::start("not-for-eyes"));
    let replica = master.replica();
    let sentinel = master.sentinel("watcher");
    let place = format!(
        "sentinel: {{master: mymaster, addresses: [\"127.0.0.1:1\", \"{}\"], password: watcher}}, password: not-for-eyes, \
         database: 3",
        sentinel.address()
    );
    let gateways = [(); 2].map(|()| at(&origin, &place, "rate_limit: {rate: 5/h, by: header X-A, REDIS}"));
    let status =
        |gateway: &Gateway, key: &str| gateway.client().ask(format!("{ASK}X-A: {key}\r\n\r\n")).status;
    for gateway in &gateways {
        eventually("the master is asked", || status(gateway, "first") != 503);
    }
    let mut got: Vec<_> = (0..3).map(|n| status(&gateways[n % 2], "a")).collect();
    assert_eq!(got, [200; 3]);
    eventually("the replica has it", || {
        let (mine, other) = (replica.says("INFO replication"), master.says("INFO replication"));
        let offset = |text: &str| {
            text.lines().find_map(|line| line.strip_prefix("master_repl_offset:").map(str::to_owned))
        };
        offset(&mine) == offset(&other)
    });
    master.kill();
    for gateway in &gateways {
        eventually("the replica counts in its place", || status(gateway, "after") != 503);
    }
    got = (0..4).map(|n| status(&gateways[n % 2], "a")).collect();
    assert_eq!(got, [200, 200, 429, 429], "what was counted before is known");
    // The former master returns as a replica.
    master.restart();
    eventually("it follows", || master.says("INFO replication").contains("role:slave"));
    assert_eq!(status(&gateways[0], "a"), 429);
    for gateway in &gateways {
        let reported = [gateway.stderr(), gateway.stdout()].concat();
        assert!(!reported.contains("not-for-eyes") && !reported.contains("watcher"), "{reported}");
        assert!(reported.contains("redis: master mymaster: it is back"), "{reported}");
    }
}

#[test]
fn a_cluster_counts_and_goes_on_when_a_master_dies() {
    let (origin, mut nodes) = (Origin::ok(), Redis::cluster("pass"));
    let place = format!("cluster: [\"127.0.0.1:1\", \"{}\"], password: pass", nodes[1].address());
    let policy = "rate_limit: [{rate: 3/h, by: [header X-A, header X-B], REDIS}, {rate: 1000/h, lease: 5, REDIS}], \
                  quota: {limit: 1000, per: month, REDIS}";
    let gateways = [(); 2].map(|()| at(&origin, &place, policy));
    let status = |gateway: &Gateway, key: &str| {
        gateway.client().ask(format!("{ASK}X-A: {key}\r\nX-B: {{b}}\r\n\r\n")).status
    };
    for gateway in &gateways {
        eventually("the cluster is asked", || status(gateway, "first") != 503);
    }
    // The keys spread over all nodes.
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let got: Vec<_> = (0..5).map(|n| status(&gateways[n % 2], key)).collect();
        assert_eq!(got, [200, 200, 200, 429, 429], "{key}");
    }
    let keys: Vec<_> = nodes[..3].iter().map(|node| node.says("DBSIZE")).collect();
    assert!(keys.iter().all(|size| size != ":0\r\n"), "each node has some: {keys:?}");
    nodes[0].kill();
    eventually("the replica has its place", || nodes[3].says("INFO replication").contains("role:master"));
    eventually("the cluster goes on", || nodes[1].says("CLUSTER INFO").contains("cluster_state:ok"));
    for key in ["i", "j", "k", "l", "m", "n", "o", "p"] {
        eventually("it is counted", || status(&gateways[0], key) == 200);
        eventually("it is counted by both", || status(&gateways[1], key) == 429);
    }
}

#[test]
fn a_shared_limit_is_refunded_when_the_next_one_refuses() {
    let (origin, redis) = (Origin::ok(), Redis::start(""));
    for policy in [
        "rate_limit: [{rate: 3/h, REDIS}, {rate: 1/h, by: header X-A, REDIS}]",
        "rate_limit: [{rate: 3/h, lease: 3, REDIS}, {rate: 1/h, by: header X-A}]",
        "quota: [{limit: 3, per: month, REDIS}, {limit: 1, per: month, by: header X-A}]",
    ] {
        let gateway = gateway(&origin, &redis, policy, &format!(", prefix: \"{}\"", policy.len()));
        let mut client = gateway.client();
        let mut status = |key: &str| client.ask(format!("{ASK}X-A: {key}\r\n\r\n")).status;
        assert_eq!(status("a"), 200, "{policy}");
        (0..6).for_each(|_| assert_eq!(status("a"), 429, "{policy}"));
        // The gateway returns the tokens in the background, so the test has to wait for them.
        eventually("both others pass", || status("b") == 200);
        eventually("both others pass", || status("c") == 200);
        assert_eq!(status("d"), 429, "{policy}");
    }
}

#[test]
fn reported_costs_are_shared() {
    let redis = Redis::start("");
    for policy in [
        "rate_limit: {rate: 100/h, cost: {response_header: X-Cost, max: 1000}, REDIS}",
        "quota: {limit: 100, per: month, cost: {response_header: X-Cost, max: 1000}, REDIS}",
    ] {
        let origin = Origin::fixed("HTTP/1.1 200 OK\r\nX-Cost: 40\r\nContent-Length: 0\r\n\r\n");
        let gateways = [(); 2].map(|()| gateway(&origin, &redis, policy, ""));
        eventually("it takes effect", || {
            gateways.iter().map(|gateway| statuses(gateway, 1)[0]).collect::<Vec<_>>() == [429, 429]
        });
        // Three requests cost 120. More may pass before the first costs are recorded.
        assert!((3..8).contains(&origin.count()), "{}: {policy}", origin.count());
        let before = origin.count();
        assert_eq!(statuses(&gateways[0], 2), [429, 429], "{policy}");
        assert_eq!(origin.count(), before);
    }
}
