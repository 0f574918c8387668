use super::*;
use crate::child::{Group, Launch};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;

fn busy(quota: Option<&Quota>) -> Group {
    let launch = Launch::new("/bin/sh").arguments(["-c", "while :; do :; done"]);
    match quota {
        Some(quota) => launch.quota(quota).start().unwrap(),
        None => launch.start().unwrap(),
    }
}

/// Waits until a process has used so much CPU time, however long the machine takes to grant it.
fn until_used(root: u32, ns: u64) {
    let (before, deadline) = (Snapshot::take(root), Instant::now() + Duration::from_secs(60));
    while Snapshot::take(root).since(&before).total_ns < ns && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_trial_gives_evidence_of_each_part() {
    let target = busy(None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let idle = Launch::new("sleep").arguments(["60"]).start().unwrap();
    let meter = TrialMeter::begin(Parts {
        target: Some(Part::tree(target.id())),
        origin: Some(Part::tree(idle.id())),
        generator: Some(Part { subject: Subject::Process(std::process::id()), quota: None }),
        origin_port: Some(address.port()),
        interval: Some(Duration::from_millis(20)),
        sampler_cores: Vec::new(),
    })
    .unwrap();
    let _client = TcpStream::connect(address).unwrap();
    until_used(target.id(), 60_000_000);
    let (evidence, series) = meter.finish().unwrap();
    let (target, origin) = (evidence.target.as_ref().unwrap(), evidence.origin.as_ref().unwrap());
    assert!(target.user_us + target.system_us > 50_000, "{target:?}");
    assert!(
        target.hottest_share > 0.0 && target.threads.len() == 1 && target.threads[0].name == "sh",
        "{target:?}"
    );
    assert!(
        target.rss_kib > 0 && target.peak_kib >= target.rss_kib && target.pss_kib.is_some(),
        "{target:?}"
    );
    assert!(origin.user_us + origin.system_us < target.user_us, "{origin:?}");
    assert!(evidence.generator.as_ref().unwrap().thread_count >= 2);
    assert_eq!(evidence.origin_connections.unwrap().peak, 1);
    assert_eq!(evidence.origin_connections.unwrap().opened_at_least, 1);
    assert!(evidence.net.accepted >= 1 && evidence.wall_us >= 50_000, "{evidence:?}");
    assert!(!evidence.machine.cores.is_empty());
    assert_eq!(series.samples[0].trees.len(), 3);
    let text = serde_json::to_string(&evidence).unwrap();
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence);
}

#[test]
fn a_part_under_a_quota_is_counted_by_it() {
    let quota = match Quota::create("trial", 0.2, None) {
        Ok(quota) => quota,
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root(), "{error}");
            crate::skipped(&format!("no CPU quota can be made here, so its evidence is not tested: {error}"));
            return;
        }
    };
    let target = busy(Some(&quota));
    let part = Part { subject: Subject::Tree(target.id()), quota: Some(&quota) };
    let meter = TrialMeter::begin(Parts { target: Some(part), ..Parts::default() }).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let from = quota.throttling().unwrap();
    while quota.throttling().unwrap().since(&from).throttled < 3 && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    let (evidence, _) = meter.finish().unwrap();
    let tree = evidence.target.unwrap();
    assert_eq!(tree.clock, "cgroup");
    assert!(tree.user_us > 0, "{tree:?}");
    let throttled = tree.throttled.unwrap();
    assert!(
        throttled.throttled >= 3 && throttled.periods >= throttled.throttled && throttled.ms > 0.0,
        "{throttled:?}"
    );
    assert_eq!(throttled.cores, 0.2);
}

#[test]
fn a_tool_that_ended_has_its_life_as_evidence() {
    let mut tool = Launch::new("/bin/sh")
        .arguments(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
        .start()
        .unwrap();
    let ended = tool.wait(Duration::from_secs(60)).unwrap().unwrap();
    let tree = TreeEvidence::of_ended(&ended);
    assert_eq!(
        (tree.clock.as_str(), tree.user_us, tree.system_us),
        ("rusage", ended.user_us, ended.system_us)
    );
    assert!(tree.ended_us > 1_000, "{tree:?}");
}

#[test]
fn fractions_are_rounded_and_finite() {
    assert_eq!(rounded(0.123_456), 0.123);
    assert_eq!(rounded(f64::NAN), 0.0);
    assert_eq!(rounded(1.0 / 0.0), 0.0);
}
