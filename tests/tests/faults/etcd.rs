//! Three etcd members, of which one is killed and another hangs; and gateways that a network cuts off.

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::{Etcd, Gateway, eventually};

use super::is_optimised;
use super::load::Load;
use super::network::{HOLE, Relay};

fn respond(text: &str) -> String {
    json!({ "match": "/route", "respond": text }).to_string()
}

/// Waits until all gateways serve this text, and returns how long it took.
fn until(gateways: &[Gateway], text: &str) -> Duration {
    let started = Instant::now();
    eventually("all to serve it", || {
        gateways.iter().all(|gateway| gateway.client().get("/route").text() == text)
    });
    started.elapsed()
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn one_of_three_members_is_killed_then_the_network_parts() {
    const TURNS: usize = 5;
    let mut etcd = Etcd::start(3);
    etcd.put("routes/a", &respond("start"));
    let relays: Vec<Vec<Relay>> =
        (0..2).map(|_| (0..3).map(|member| Relay::to(etcd.address(member))).collect()).collect();
    let gateways: Vec<Gateway> = relays
        .iter()
        .map(|relays| {
            let members: Vec<String> = relays.iter().map(|relay| format!("\"{}\"", relay.address())).collect();
            Gateway::start(&format!(
                "workers: 2\naccess_log: off\netcd: {{endpoints: [{}]}}\nroutes: [{{match: /, respond: here}}]",
                members.join(", ")
            ))
        })
        .collect();
    let load: Vec<Load> =
        gateways.iter().map(|gateway| Load::start(gateway.address(), 4, Duration::from_millis(5))).collect();
    let mut longest: Vec<(&str, Duration)> = Vec::new();
    let note = |what: &'static str, took: Duration, longest: &mut Vec<(&'static str, Duration)>| match longest
        .iter_mut()
        .find(|(known, _)| *known == what)
    {
        Some((_, most)) => *most = took.max(*most),
        None => longest.push((what, took)),
    };
    for turn in 0..TURNS {
        let value = |what: &str| format!("{turn} {what}");
        etcd.put("routes/a", &respond(&value("whole")));
        note("a change", until(&gateways, &value("whole")), &mut longest);
        // One member is killed: a majority remains.
        let killed = turn % 3;
        etcd.kill(killed);
        eventually("a leader", || {
            etcd.try_ctl(&["put", "/tollgate/config/routes/a", &respond(&value("of two"))]).is_some()
        });
        note("after a kill, from when etcd takes writes", until(&gateways, &value("of two")), &mut longest);
        // Then another member hangs: etcd has no majority, and all gateways still serve.
        let hung = (killed + 1) % 3;
        etcd.hang(hung);
        std::thread::sleep(Duration::from_secs(3));
        etcd.go_on(hung);
        eventually("a leader", || {
            etcd.try_ctl(&["put", "/tollgate/config/routes/a", &respond(&value("again"))]).is_some()
        });
        note(
            "after most were gone, from when etcd takes writes",
            until(&gateways, &value("again")),
            &mut longest,
        );
        etcd.restart(killed);
        // The network of one gateway drops everything.
        relays[0].iter().for_each(|relay| relay.set(HOLE));
        std::thread::sleep(Duration::from_secs(3));
        etcd.put("routes/a", &respond(&value("parted")));
        eventually("the other one", || gateways[1].client().get("/route").text() == value("parted"));
        assert_eq!(gateways[0].client().get("/route").text(), value("again"), "what is in force stays so");
        relays[0].iter().for_each(|relay| relay.set(0));
        note("after the network is whole", until(&gateways, &value("parted")), &mut longest);
    }
    for (what, took) in &longest {
        eprintln!("etcd, 3 members, 2 gateways, {TURNS} turns: all serve {what}: at most {took:?}");
    }
    for answers in load.into_iter().map(Load::end) {
        eprintln!("meanwhile requests {}, failed {}", answers.count(), answers.failures.len());
        assert_eq!(answers.failures, Vec::<String>::new());
    }
    for (what, took) in longest {
        assert!(!is_optimised() || took < Duration::from_secs(1), "{what}: {took:?}");
    }
}
