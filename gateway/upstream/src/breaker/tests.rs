//! Tests in virtual time: each call passes its own time.

use proptest::prelude::*;
use tollgate_observe::Registry;

use super::*;
use tollgate_plan::Percent;

const SECOND: Duration = Duration::from_secs(1);

/// Workers of one process that share one upstream.
struct Bench {
    workers: Vec<Rc<WorkerBreaker>>,
    shared: Arc<Breaker>,
    registry: Arc<Registry>,
    slot: Slot,
    start: Instant,
}

impl Bench {
    fn new(rules: &BreakerRules, workers: usize) -> Self {
        let registry = Registry::new(true);
        let slot = registry.upstream_slot("u");
        let shared = Arc::new(Breaker::new(tollgate_net::now()));
        let worker = |number| WorkerBreaker::new("u", Some(rules), number, &shared, &registry.worker(), slot);
        let workers = (0..workers).filter_map(worker).collect();
        let start = shared.start;
        Self { workers, registry, slot, start, shared }
    }

    /// Makes a call on some worker that takes no time. Returns `None` if the breaker rejects it.
    fn call(&self, worker: usize, at: Instant, failed: bool) -> Option<()> {
        self.workers[worker % self.workers.len()].admit(at).map(|permit| permit.done(at, failed))
    }

    fn calls(&self, at: Instant, count: usize, failed: bool) -> usize {
        (0..count).filter_map(|worker| self.call(worker, at, failed)).count()
    }

    fn state(&self) -> BreakerState {
        self.shared.state()
    }
}

fn rules() -> BreakerRules {
    BreakerRules {
        failures: Percent::whole(50),
        minimum: 10,
        window: 10 * SECOND,
        open: 5 * SECOND,
        probes: 3,
        ..BreakerRules::default()
    }
}

#[test]
fn opens_still_when_its_window_has_become_longer() {
    let bench = Bench::new(&rules(), 1);
    let at = bench.start + 3600 * SECOND;
    for second in 0..16 {
        bench.calls(at + second * SECOND, 1, false);
    }
    let longer = BreakerRules { window: 60 * SECOND, ..rules() };
    let stats = bench.registry.worker();
    let worker =
        WorkerBreaker::new("u", Some(&longer), 0, &bench.shared, &stats, bench.slot).expect("it is on");
    let at = at + 16 * SECOND;
    for _ in 0..20 {
        if let Some(permit) = worker.admit(at) {
            permit.done(at, true);
        }
    }
    assert_eq!(bench.state(), BreakerState::Open);
}

#[test]
fn opens_past_the_ratio_of_all_workers_together() {
    let bench = Bench::new(&rules(), 4);
    // 9 calls are below the minimum, even if all fail.
    bench.calls(bench.start, 9, true);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(3, bench.start, true);
    assert_eq!(bench.state(), BreakerState::Open);
    assert_eq!(bench.calls(bench.start + 4 * SECOND, 20, false), 0);
    let sum = bench.registry.snapshot().upstreams[0].resilience;
    assert_eq!((sum.opened, sum.refused, sum.is_open()), (1, 20, true));
}

#[test]
fn stays_closed_below_the_ratio() {
    let bench = Bench::new(&rules(), 2);
    for at in 0..100 {
        let at = bench.start + SECOND * at;
        assert_eq!(bench.calls(at, 51, false), 51);
        assert_eq!(bench.calls(at, 49, true), 49);
    }
}

#[test]
fn calls_outside_the_window_do_not_count() {
    let bench = Bench::new(&rules(), 1);
    bench.calls(bench.start, 9, true);
    bench.calls(bench.start + 11 * SECOND, 1, true);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn good_probes_close_it_and_the_past_is_forgotten() {
    let bench = Bench::new(&rules(), 2);
    bench.calls(bench.start, 10, true);
    let later = bench.start + 5 * SECOND;
    let probes: Vec<_> = (0..3).filter_map(|worker| bench.workers[worker % 2].admit(later)).collect();
    assert_eq!((probes.len(), bench.state()), (3, BreakerState::HalfOpen));
    assert_eq!(bench.calls(later, 5, false), 0, "no more than the probes");
    probes.into_iter().for_each(|probe| probe.done(later, false));
    assert_eq!(bench.state(), BreakerState::Closed);
    // The failures from before are within the window's time, but in another generation.
    bench.calls(later, 9, true);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.calls(later, 1, true);
    assert_eq!(bench.state(), BreakerState::Open);
    let sum = bench.registry.snapshot().upstreams[0].resilience;
    assert_eq!((sum.opened, sum.opened_again, sum.closed), (2, 0, 1));
}

#[test]
fn bad_probes_open_it_again() {
    let bench = Bench::new(&rules(), 1);
    bench.calls(bench.start, 10, true);
    let later = bench.start + 5 * SECOND;
    // 2 of 3 decide: the third cannot change the result.
    assert_eq!(bench.calls(later, 3, true), 2);
    assert_eq!(bench.state(), BreakerState::Open);
    assert_eq!(bench.calls(later + 4 * SECOND, 3, false), 0);
    assert_eq!(bench.calls(later + 5 * SECOND, 3, false), 3);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn an_abandoned_probe_returns_its_permit() {
    let bench = Bench::new(&rules(), 1);
    bench.calls(bench.start, 10, true);
    let later = bench.start + 5 * SECOND;
    let lost: Vec<_> = (0..3).filter_map(|_| bench.workers[0].admit(later)).collect();
    assert!(bench.workers[0].admit(later).is_none() && !bench.workers[0].would_admit(later));
    drop(lost);
    assert!(bench.workers[0].would_admit(later));
    assert_eq!(bench.calls(later, 3, false), 3);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn calls_from_before_the_opening_do_not_count() {
    let bench = Bench::new(&rules(), 2);
    let old: Vec<_> = (0..50).filter_map(|_| bench.workers[1].admit(bench.start)).collect();
    bench.calls(bench.start, 10, true);
    let later = bench.start + 5 * SECOND;
    let probe = bench.workers[0].admit(later);
    old.into_iter().for_each(|permit| permit.done(later, true));
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    drop(probe);
    assert_eq!(bench.calls(later, 3, false), 3);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn slow_calls_count_by_their_own_ratio() {
    let slow = BreakerRules { slow: Percent::whole(30), slow_after: Some(SECOND), ..rules() };
    for (took, slow_calls, state) in [
        (SECOND, 10, BreakerState::Closed),
        (2 * SECOND, 2, BreakerState::Closed),
        (2 * SECOND, 3, BreakerState::Open),
    ] {
        let bench = Bench::new(&slow, 2);
        bench.calls(bench.start, 10 - slow_calls, false);
        for worker in 0..slow_calls {
            let permit = bench.workers[worker % 2].admit(bench.start).expect("closed");
            permit.done(bench.start + took, false);
        }
        assert_eq!(bench.state(), state, "{slow_calls} of {took:?}");
    }
}

#[test]
fn a_plan_without_a_breaker_closes_it() {
    let bench = Bench::new(&rules(), 1);
    bench.calls(bench.start, 10, true);
    let stats = bench.registry.worker();
    assert!(WorkerBreaker::new("u", None, 0, &bench.shared, &stats, bench.slot).is_none());
    assert_eq!(bench.state(), BreakerState::Closed);
    assert!(!bench.registry.snapshot().upstreams[0].resilience.is_open());
}

#[test]
fn the_word_keeps_what_is_put_into_it() {
    for state in [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen] {
        for (generation, until) in [(0, 0), (1, 1), ((1 << 22) - 1, (1 << 40) - 1)] {
            let word = PackedState { state, generation, until };
            assert_eq!(PackedState::unpack(word.pack()), word);
        }
    }
}

proptest! {
    /// Compares with a model that remembers every call: the breaker opens if and only if the ratio in the
    /// window is reached.
    #[test]
    fn opens_as_a_list_of_all_calls_would(
        failures in 1_u8..=100,
        minimum in 1_u32..30,
        workers in 1_usize..4,
        calls in prop::collection::vec((0_u64..3_000, prop::bool::weighted(0.4)), 1..200),
    ) {
        let rules = BreakerRules { failures: Percent::whole(failures), minimum, ..rules() };
        let bench = Bench::new(&rules, workers);
        let mut list: Vec<(u64, bool)> = Vec::new();
        let mut at = 0;
        for (index, (gap, failed)) in calls.into_iter().enumerate() {
            at += gap;
            let now = bench.start + Duration::from_millis(at);
            prop_assert!(bench.call(index, now, failed).is_some());
            list.push((at / 1000, failed));
            let recent = list.iter().filter(|(tick, _)| at / 1000 - tick < u64::from(SPAN_TICKS));
            let (total, bad) = recent.fold((0, 0), |sum, (_, failed)| (sum.0 + 1, sum.1 + u32::from(*failed)));
            // Only a failed call can open the breaker.
            let expected = failed && total >= minimum && bad * 100 >= total * u32::from(failures);
            prop_assert_eq!(bench.state() == BreakerState::Open, expected);
            if expected {
                break;
            }
        }
    }
}
