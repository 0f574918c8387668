//! Tests verdicts: each test has the evidence of one situation.

use std::collections::BTreeMap;

use tollgate_lab_record::{
    Checks, Distribution, Failures, LoadModel, Machine, Network, ThreadShare, Throttled, Tree, Verification,
};

use super::*;

fn load(model: LoadModel, rps: f64, connections: u32) -> LoadResult {
    LoadResult {
        tool: "builtin".into(),
        tool_version: String::new(),
        command: vec![],
        threads: 1,
        connections,
        keep_alive: true,
        model,
        verification: Verification::Full,
        seconds: 1.0,
        sent: None,
        ok: rps as u64,
        failures: Failures::default(),
        statuses: BTreeMap::new(),
        body_bytes: None,
        connections_opened: None,
        response_time: None,
        service_time: None,
        send_lag: None,
        windows: vec![],
    }
}

fn tree(share: f64, threads: &[f64]) -> Tree {
    Tree {
        user_us: share * 0.25e6,
        system_us: share * 0.75e6,
        threads: threads.iter().map(|share| ThreadShare { name: "worker".into(), share: *share }).collect(),
        ..Default::default()
    }
}

fn evidence(target: f64, origin: f64, generator: f64) -> Evidence {
    Evidence {
        wall_us: 1e6,
        target: tree(target, &[target]),
        origin: tree(origin, &[origin]),
        generator: tree(generator, &[generator]),
        machine: Machine { busy: vec![target, origin + generator], softirq: vec![], steal: vec![] },
        ..Default::default()
    }
}

fn facts() -> Facts {
    Facts {
        target_cores: 1.0,
        has_cpu: true,
        load_cores: vec![1],
        response_bytes: 200.0,
        ..Default::default()
    }
}

fn kind(facts: &Facts, load: &LoadResult, evidence: &Evidence) -> VerdictKind {
    attribute(facts, Some(load), evidence).0
}

const CLOSED: LoadModel = LoadModel::Closed;

#[test]
fn a_kept_rate_needs_no_culprit_even_when_a_core_is_busy() {
    let constant = LoadModel::Constant { rps: 1_000.0 };
    assert_eq!(kind(&facts(), &load(constant, 999.0, 64), &evidence(0.99, 0.4, 0.5)), VerdictKind::Nothing);
    assert_eq!(kind(&facts(), &load(constant, 900.0, 64), &evidence(0.99, 0.2, 0.3)), VerdictKind::Gateway);
}

#[test]
fn a_late_generator_is_told_from_a_slow_system() {
    let mut late = load(LoadModel::Constant { rps: 1_000.0 }, 1_000.0, 64);
    let times = |p99: f64| Some(Distribution { percentiles: vec![(99.0, p99)], ..Default::default() });
    late.response_time = times(9_000.0);
    late.send_lag = times(8_000.0);
    assert_eq!(kind(&facts(), &late, &evidence(0.3, 0.2, 0.3)), VerdictKind::Generator);
    late.send_lag = times(100.0);
    assert_eq!(kind(&facts(), &late, &evidence(0.3, 0.2, 0.3)), VerdictKind::Nothing);
}

#[test]
fn a_full_generator_side_takes_the_latency_and_not_the_cost() {
    let kept = load(LoadModel::Constant { rps: 32_000.0 }, 32_000.0, 64);
    let (kind, findings) = attribute(&facts(), Some(&kept), &evidence(0.4, 0.5, 0.47));
    assert_eq!(kind, VerdictKind::LoadSide);
    assert!(kind.has_figures() && !kind.has_latency());
    assert!(findings.iter().any(|finding| finding.text.contains("97 % busy")), "{findings:?}");
    // Other programs on that core are noise, and the generator's side is not full of its own.
    let mut seen = evidence(0.4, 0.2, 0.2);
    seen.machine.busy = vec![0.4, 0.98];
    assert_eq!(attribute(&facts(), Some(&kept), &seen).0, VerdictKind::Nothing);
}

#[test]
fn an_origin_with_cores_of_its_own_is_a_side_of_its_own() {
    let kept = load(LoadModel::Constant { rps: 32_000.0 }, 32_000.0, 64);
    let facts = Facts { load_cores: vec![1], origin_cores: vec![2], ..facts() };
    let side = |origin: f64, busy: [f64; 3]| {
        let mut seen = evidence(0.4, origin, 0.3);
        seen.machine.busy = busy.to_vec();
        attribute(&facts, Some(&kept), &seen)
    };
    let (kind, findings) = side(0.96, [0.4, 0.3, 0.97]);
    assert_eq!(kind, VerdictKind::LoadSide);
    let reported = |text: &str| findings.iter().any(|finding| finding.text.contains(text));
    assert!(reported("the origin's cores were 97 % busy") && !reported("generator's cores"), "{findings:?}");
    // The origin's time is no reason for a generator's core that other programs fill.
    assert_eq!(side(0.6, [0.4, 0.98, 0.6]).0, VerdictKind::Nothing);
    // An origin on the system's machine leaves its own cores alone.
    let beside = Facts { origin_on_system: true, ..facts.clone() };
    let mut seen = evidence(0.4, 0.5, 0.3);
    seen.machine.busy = vec![0.9, 0.3, 0.99];
    assert_eq!(attribute(&beside, Some(&kept), &seen).0, VerdictKind::Nothing);
}

#[test]
fn a_quota_that_throttles_is_named_although_the_rate_is_kept() {
    let kept = load(LoadModel::Constant { rps: 1_000.0 }, 1_000.0, 64);
    let mut seen = evidence(0.25, 0.1, 0.1);
    let quota = Throttled { cores: 0.25, periods: 10, throttled: 10, held_us: 5e5 };
    seen.target_quota = Some(quota.clone());
    let (kind, findings) = attribute(&facts(), Some(&kept), &seen);
    assert_eq!(kind, VerdictKind::Quota);
    let reported = |text: &str| findings.iter().any(|finding| finding.text.contains(text));
    assert!(reported("the rate of 1000/s was kept") && reported("10 of 10 periods"), "{findings:?}");
    (seen.target_quota, seen.origin_quota) = (None, Some(quota));
    assert_eq!(attribute(&facts(), Some(&kept), &seen).0, VerdictKind::Origin);
}

#[test]
fn answers_that_the_origin_did_not_give_are_named() {
    let with = |received: u64| {
        let mut seen = evidence(0.5, 0.1, 0.1);
        seen.upstream.requests = Some(received);
        seen
    };
    let kept = load(LoadModel::Constant { rps: 5_000.0 }, 5_000.0, 64);
    let closed = load(CLOSED, 5_000.0, 64);
    for load in [&kept, &closed] {
        let (kind, findings) = attribute(&facts(), Some(load), &with(1));
        assert_eq!(kind, VerdictKind::OwnAnswers);
        let last = &findings.last().unwrap().text;
        assert!(last.starts_with("the origin received 1 requests for 5000 answers"), "{last}");
        // Half of the requests share an answer with another one.
        assert_eq!(kind_of(load, &with(2_500)), VerdictKind::OwnAnswers);
        assert_eq!(kind_of(load, &with(10_000)), VerdictKind::ExtraRequests);
        for received in [4_900, 5_000, 5_100] {
            let kind = kind_of(load, &with(received));
            assert!(
                !matches!(kind, VerdictKind::OwnAnswers | VerdictKind::ExtraRequests),
                "{received}: {kind:?}"
            );
        }
    }
    // The counter was read late, so that it misses the beginning.
    let mut late = with(3_000);
    late.upstream.unseen_us = 400_000.0;
    assert_eq!(kind_of(&kept, &late), VerdictKind::Nothing);
    // A system that answers in advance asks the origin as often as the others do.
    let early = Facts { early_answers: true, ..facts() };
    assert_eq!(kind(&early, &kept, &with(5_000)), VerdictKind::OwnAnswers);
    // A condition that the cell asks for is not an error.
    let made = Facts { own_answers: true, ..facts() };
    assert_eq!(kind(&made, &kept, &with(0)), VerdictKind::Nothing);
    let copies = Facts { extra_requests: true, ..facts() };
    assert_eq!(kind(&copies, &kept, &with(10_000)), VerdictKind::Nothing);
    // Requests of the warm-up that a slow system receives later.
    let slow = load(LoadModel::Constant { rps: 10_000.0 }, 5_000.0, 64);
    let warmed = Facts { before: 1.0, ..facts() };
    assert_eq!(kind(&warmed, &slow, &with(10_000)), VerdictKind::Invalid);
    assert_eq!(kind(&facts(), &slow, &with(10_000)), VerdictKind::ExtraRequests);
}

fn kind_of(load: &LoadResult, evidence: &Evidence) -> VerdictKind {
    kind(&facts(), load, evidence)
}

#[test]
fn answers_without_cpu_time_are_served_by_others() {
    let kept = load(LoadModel::Constant { rps: 4_000.0 }, 4_000.0, 64);
    let (kind, findings) = attribute(&facts(), Some(&kept), &evidence(0.0, 0.1, 0.1));
    assert_eq!(kind, VerdictKind::Invalid);
    let last = &findings.last().unwrap().text;
    assert!(last.starts_with("0 us of CPU for 4000 answers"), "{last}");
    let direct = Facts { target_cores: 0.0, has_cpu: false, ..facts() };
    assert_eq!(attribute(&direct, Some(&kept), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Nothing);
    // A gateway that already runs, whose source of CPU time names another process, or none at all.
    let running = Facts { has_cpu: true, unseen: true, load_cores: vec![1], ..Default::default() };
    assert_eq!(attribute(&running, Some(&kept), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Invalid);
    let unread = Facts { has_cpu: false, ..running };
    assert_eq!(attribute(&unread, Some(&kept), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Nothing);
    // A tick of the kernel's clock may miss a few requests.
    let few = load(LoadModel::Constant { rps: 400.0 }, 400.0, 64);
    assert_eq!(attribute(&facts(), Some(&few), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Nothing);
}

#[test]
fn verified_requests_beside_a_load_tool_void_its_trial() {
    let closed = load(CLOSED, 50_000.0, 64);
    let mut seen = evidence(0.98, 0.3, 0.4);
    let mut kind_with = |ok, failures| {
        seen.checks = Some(Checks { ok, failures });
        attribute(&facts(), Some(&closed), &seen).0
    };
    assert_eq!(kind_with(32, Failures::default()), VerdictKind::Gateway);
    assert_eq!(kind_with(31, Failures { body: 1, ..Default::default() }), VerdictKind::Errors);
    assert_eq!(kind_with(31, Failures { timeout: 1, ..Default::default() }), VerdictKind::Gateway);
    assert_eq!(kind_with(0, Failures { timeout: 32, ..Default::default() }), VerdictKind::Errors);
}

#[test]
fn work_beside_the_system_on_its_cores_is_told() {
    let own = Facts { system_cores: vec![0], ..facts() };
    let kept = load(LoadModel::Constant { rps: 4_000.0 }, 4_000.0, 64);
    let told = |busy: f64| {
        let mut seen = evidence(0.3, 0.1, 0.1);
        seen.machine.busy[0] = busy;
        let (kind, findings) = attribute(&own, Some(&kept), &seen);
        assert_eq!(kind, VerdictKind::Nothing);
        findings.iter().any(|one| one.text == "other processes and the kernel used 50 % of a core beside the system on its cores: not in its cost")
    };
    assert!(told(0.8) && !told(0.35));
}

#[test]
fn a_gateway_whose_limit_is_not_visible_keeps_its_figures() {
    let running = Facts { has_cpu: true, unseen: true, load_cores: vec![1], ..Default::default() };
    let (kind, findings) = attribute(&running, Some(&load(CLOSED, 5_000.0, 64)), &evidence(0.5, 0.2, 0.2));
    assert_eq!(kind, VerdictKind::Nothing);
    assert!(findings.last().unwrap().text.starts_with("the generator was not at its limit"), "{findings:?}");
    assert_eq!(attribute(&running, None, &evidence(0.5, 0.2, 0.2)).0, VerdictKind::Invalid);
}

#[test]
fn full_cores_are_attributed_to_their_owner() {
    let closed = load(CLOSED, 50_000.0, 64);
    assert_eq!(kind(&facts(), &closed, &evidence(0.98, 0.3, 0.4)), VerdictKind::Gateway);
    assert_eq!(kind(&facts(), &closed, &evidence(0.60, 0.4, 0.58)), VerdictKind::Generator);
    assert_eq!(kind(&facts(), &closed, &evidence(0.60, 0.6, 0.38)), VerdictKind::Origin);
    assert_eq!(kind(&facts(), &closed, &evidence(0.985, 0.5, 0.49)), VerdictKind::Invalid);
    assert_eq!(kind(&facts(), &closed, &evidence(0.5, 0.2, 0.2)), VerdictKind::Invalid);
}

#[test]
fn an_origin_beside_the_system_fills_its_cores_too() {
    let beside = Facts { origin_on_system: true, ..facts() };
    let mut seen = evidence(0.6, 0.38, 0.3);
    seen.machine.busy = vec![0.98, 0.3];
    assert_eq!(kind(&beside, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Gateway);
    let mut seen = evidence(0.3, 0.67, 0.3);
    seen.machine.busy = vec![0.98, 0.3];
    assert_eq!(kind(&beside, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Origin);
}

#[test]
fn a_core_that_others_fill_is_not_the_generators_limit() {
    let mut seen = evidence(0.3, 0.01, 0.02);
    seen.machine.busy = vec![0.3, 0.99];
    let (kind, findings) = attribute(&facts(), Some(&load(CLOSED, 500.0, 64)), &seen);
    assert_eq!(kind, VerdictKind::Invalid);
    assert!(
        findings.iter().any(|finding| finding.text == "other programs used 96 % of the generator's core")
    );
}

#[test]
fn the_time_in_which_a_tool_starts_is_nobodys_rest() {
    let mut closed = load(CLOSED, 50_000.0, 64);
    assert_eq!(kind(&facts(), &closed, &evidence(0.88, 0.2, 0.2)), VerdictKind::Invalid);
    closed.seconds = 0.9;
    assert_eq!(kind(&facts(), &closed, &evidence(0.88, 0.2, 0.2)), VerdictKind::Gateway);
    assert_eq!(kind(&facts(), &closed, &evidence(0.92, 0.05, 0.1)), VerdictKind::Gateway);
    // The tool sent requests after its clock stopped, so the time in between cannot be attributed.
    closed.seconds = 0.5;
    assert_eq!(kind(&facts(), &closed, &evidence(0.6, 0.2, 0.2)), VerdictKind::Invalid);
}

#[test]
fn shared_cores_are_their_largest_users() {
    let both = Facts { target_cores: 2.0, shared: true, ..facts() };
    let mut seen = evidence(1.0, 0.3, 0.65);
    seen.machine.busy = vec![0.99, 0.98];
    assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Gateway);
    let mut seen = evidence(0.4, 0.3, 1.2);
    seen.machine.busy = vec![0.99, 0.98];
    assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Generator);
    // A generator of one thread fills its core while the other core is idle in part.
    let mut seen = evidence(0.4, 0.15, 0.93);
    seen.machine.busy = vec![0.5, 0.99];
    assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Generator);
    let mut seen = evidence(0.8, 0.15, 0.5);
    seen.machine.busy = vec![0.5, 0.99];
    assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Invalid);
}

#[test]
fn one_hot_worker_among_four() {
    let four = Facts { target_cores: 4.0, ..facts() };
    let mut seen = evidence(1.3, 0.2, 0.3);
    seen.target.threads = tree(1.3, &[0.99, 0.1, 0.1, 0.1]).threads;
    assert_eq!(kind(&four, &load(CLOSED, 1.0, 64), &seen), VerdictKind::HotWorker);
}

#[test]
fn quotas_are_named_from_the_throttling_counters_alone() {
    let closed = load(CLOSED, 5_000.0, 64);
    let throttled = Throttled { cores: 0.25, periods: 50, throttled: 48, held_us: 3e6 };
    let mut seen = evidence(0.25, 0.1, 0.1);
    seen.target_quota = Some(throttled.clone());
    assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Quota);
    seen.target_quota = Some(Throttled { throttled: 2, ..throttled.clone() });
    assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Invalid);
    seen.origin_quota = Some(throttled);
    assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Origin);
}

#[test]
fn errors_come_first_and_a_few_do_not_count() {
    let mut bad = load(CLOSED, 1_000.0, 64);
    bad.failures = Failures { status: 1_000, ..Default::default() };
    let (kind, findings) = attribute(&facts(), Some(&bad), &evidence(0.99, 0.1, 0.1));
    assert_eq!(kind, VerdictKind::Errors);
    assert!(findings.iter().any(|finding| finding.text.contains("1000 another status")), "{findings:?}");
    bad.failures = Failures { read: 1, ..Default::default() };
    bad.ok = 100_000;
    assert_eq!(attribute(&facts(), Some(&bad), &evidence(0.99, 0.1, 0.1)).0, VerdictKind::Gateway);
    assert_eq!(attribute(&facts(), None, &evidence(0.5, 0.1, 0.1)).0, VerdictKind::Invalid);
}

#[test]
fn a_full_accept_queue_is_a_connection_limit() {
    let mut seen = evidence(0.5, 0.1, 0.1);
    seen.network = Network { listen_overflows: 12, ..Default::default() };
    assert_eq!(kind(&facts(), &load(CLOSED, 100.0, 64), &seen), VerdictKind::Connections);
    // A few overflows among many requests are no limit, and a full core takes precedence.
    assert_eq!(kind(&facts(), &load(CLOSED, 90_000.0, 64), &seen), VerdictKind::Invalid);
    let mut full = evidence(0.99, 0.1, 0.1);
    full.network = seen.network;
    assert_eq!(kind(&facts(), &load(CLOSED, 100.0, 64), &full), VerdictKind::Gateway);
}

#[test]
fn what_the_study_set_up_explains_an_idle_machine() {
    let idle = evidence(0.1, 0.1, 0.1);
    assert_eq!(kind(&facts(), &load(CLOSED, 9_000.0, 1), &idle), VerdictKind::Nothing);
    let slow = Facts { origin_delay_us: 100_000.0, ..facts() };
    assert_eq!(kind(&slow, &load(CLOSED, 1_950.0, 200), &idle), VerdictKind::Nothing);
    assert_eq!(kind(&slow, &load(CLOSED, 900.0, 200), &idle), VerdictKind::Invalid);
    let far = Facts { link: Some((85_000.0, 950_000.0)), response_bytes: 850.0, ..facts() };
    assert_eq!(kind(&far, &load(CLOSED, 1_080.0, 1_000), &idle), VerdictKind::Link);
    assert_eq!(kind(&far, &load(CLOSED, 560.0, 50), &idle), VerdictKind::Link);
}
