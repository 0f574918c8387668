//! Tests which endpoints are ejected, and when an ejection ends.

use proptest::prelude::*;

use super::*;
use crate::{Outcome, UpstreamStates};
use tollgate_plan::Percent;

const SECOND: Duration = Duration::from_secs(1);

/// An upstream of several endpoints with its own clock.
struct World {
    ejections: Ejections,
    all: Vec<Arc<EndpointState>>,
    rules: Outlier,
    now: Instant,
}

impl World {
    fn new(endpoints: usize, rules: Outlier) -> Self {
        let now = tollgate_net::now();
        let upstream = UpstreamStates::new().upstream("shop");
        let all: Vec<_> = (0..endpoints)
            .map(|index| upstream.endpoint(&Address::tcp("10.0.0.1", 1000 + index as u16)))
            .collect();
        let mut world = Self { ejections: Ejections::new(StampClock::new(now)), all, rules, now };
        world.settle(endpoints);
        world
    }

    /// Keeps only the first `endpoints`.
    fn settle(&mut self, endpoints: usize) -> usize {
        let members = self.all[..endpoints].iter().cloned();
        self.ejections.set_members(&self.rules, members, self.now).len()
    }

    fn eject(&mut self, index: usize) -> Option<Duration> {
        let address = self.all[index].address.clone();
        let ejected = self.ejections.eject(&address, EjectionCause::Consecutive5xx, self.now);
        ejected.map(|(ejected, _)| ejected.time)
    }

    fn out(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|index| self.all[*index].ejected_until() != 0).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.ejections.release(self.now);
    }
}

fn half() -> Outlier {
    Outlier { max_ejected: Percent::whole(50), ..Outlier::default() }
}

#[test]
fn out_for_its_time_and_back() {
    let mut world = World::new(4, half());
    assert_eq!(world.eject(1), Some(30 * SECOND));
    assert_eq!(world.eject(1), None, "it is out");
    assert_eq!(world.ejections.next(), Some(world.now + 30 * SECOND));
    world.pass(Duration::from_millis(29_999));
    assert_eq!(world.out(), [1]);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.out(), [0; 0]);
    assert_eq!(world.ejections.next(), None);
    assert_ne!(world.all[1].ready_since(), 0, "slow start");
}

#[test]
fn the_time_grows_to_its_bound_and_is_forgiven() {
    let mut world = World::new(4, Outlier { ejection_max: 70 * SECOND, ..half() });
    for expected in [30, 60, 70, 70, 70] {
        assert_eq!(world.eject(0), Some(expected * SECOND));
        world.pass(expected * SECOND);
    }
    // Three in a row count. The interval in which it returned forgives nothing.
    world.ejections.end_interval(world.now);
    assert_eq!(world.ejections.history(&world.all[0].address).times, 3);
    for left in [2, 1, 0, 0] {
        world.pass(10 * SECOND);
        world.ejections.end_interval(world.now);
        assert_eq!(world.ejections.history(&world.all[0].address).times, left);
    }
    assert_eq!(world.eject(0), Some(30 * SECOND));
    assert_eq!(world.ejections.history(&world.all[0].address).count, 6);
}

#[test]
fn how_many_may_be_out() {
    let cases = [(1, 100, 0), (2, 10, 1), (2, 100, 1), (3, 10, 1), (20, 10, 2), (29, 10, 2), (10, 100, 9)];
    for (endpoints, percent, most) in cases.into_iter().chain([(10, 0, 0), (0, 10, 0)]) {
        let mut world =
            World::new(endpoints, Outlier { max_ejected: Percent::whole(percent), ..Outlier::default() });
        let out = (0..endpoints).filter(|index| world.eject(*index).is_some()).count();
        assert_eq!(out, most, "{percent} % of {endpoints}");
        assert_eq!(world.ejections.counts(), ([most as u64, 0, 0], (endpoints - most) as u64));
    }
}

#[test]
fn the_last_that_is_well_stays() {
    let mut world = World::new(3, Outlier { max_ejected: Percent::whole(100), ..Outlier::default() });
    world.all[0].set_health(ProbeHealth::Unhealthy);
    world.all[1].set_health(ProbeHealth::Unhealthy);
    assert_eq!(world.eject(2), None);
    world.all[1].set_health(ProbeHealth::Unknown);
    assert_eq!(world.eject(2), Some(30 * SECOND));
}

#[test]
fn a_new_failure_replaces_an_old_ejection() {
    // Two endpoints are down in turn. In an upstream of two, the second is the last one available; in one of
    // three, it exceeds the limit.
    for endpoints in [2, 3] {
        let mut world = World::new(endpoints, Outlier::default());
        assert_eq!(world.eject(0), Some(30 * SECOND));
        world.pass(Duration::from_millis(999));
        assert_eq!(world.eject(1), None, "too soon");
        world.pass(Duration::from_millis(1));
        assert_eq!(world.eject(1), Some(30 * SECOND));
        assert_eq!(world.out(), [1]);
        // The first one is not well after all: it is ejected again, for longer.
        world.pass(SECOND);
        assert_eq!(world.eject(0), Some(60 * SECOND));
        assert_eq!(world.out(), [0]);
        // Nor is the other: the time until they change places grows.
        world.pass(SECOND);
        assert_eq!(world.eject(1), None, "too soon for a second in a row");
        world.pass(SECOND);
        assert_eq!(world.eject(1), Some(60 * SECOND));
    }
}

#[test]
fn an_endpoint_that_probes_failed_is_not_returned_early() {
    let mut world = World::new(3, Outlier::default());
    world.eject(0);
    world.all[0].set_health(ProbeHealth::Unhealthy);
    world.pass(10 * SECOND);
    assert_eq!(world.eject(1), None);
    let address = world.all[2].address.clone();
    world.all[0].set_health(ProbeHealth::Healthy);
    let by_rate = world.ejections.eject(&address, EjectionCause::SuccessRate, world.now);
    assert!(by_rate.is_none(), "nor to who is only worse than the others");
    assert_eq!(world.eject(1), Some(30 * SECOND));
}

#[test]
fn removed_and_excess_ejections_end() {
    let mut world = World::new(10, half());
    (5..10).for_each(|index| assert!(world.eject(index).is_some()));
    assert_eq!(world.settle(8), 2, "two left");
    assert_eq!(world.out(), [5, 6, 7]);
    world.rules.max_ejected = Percent::whole(25);
    assert_eq!(world.settle(8), 1, "two of eight may be out");
    world.rules.enabled = false;
    assert_eq!(world.settle(8), 2);
    assert_eq!(world.out(), [0; 0]);
    assert_eq!(world.eject(0), None);
}

#[test]
fn state_survives_for_endpoints_that_stay() {
    let mut world = World::new(4, half());
    world.eject(1);
    world.rules.ejection = 5 * SECOND;
    assert_eq!(world.settle(3), 0);
    assert_eq!(world.out(), [1]);
    world.pass(30 * SECOND);
    assert_eq!(world.eject(1), Some(10 * SECOND), "the second in a row");
}

#[test]
fn a_passed_probe_ends_an_ejection() {
    let mut world = World::new(4, half());
    world.eject(1);
    let address = world.all[1].address.clone();
    assert!(world.ejections.end_early(&address, world.now));
    assert!(!world.ejections.end_early(&address, world.now));
    assert_eq!(world.out(), [0; 0]);
}

#[test]
fn success_rates_cover_the_interval() {
    let mut world = World::new(6, Outlier { max_ejected: Percent::whole(20), ..Outlier::default() });
    let own: Vec<_> = world.all.iter().map(|endpoint| endpoint.outlier.traffic()).collect();
    let detector = super::super::Detector::new(&Outlier { enabled: false, ..Outlier::default() });
    let run = |world: &World, bad: &[usize]| {
        for (index, own) in own.iter().enumerate() {
            for attempt in 0..200 {
                let failed = bad.contains(&index) && attempt % 2 == 0;
                let outcome = Outcome::Answered(if failed { 500 } else { 200 });
                detector.record(outcome, own, &world.all[index].outlier);
            }
        }
    };
    run(&world, &[]);
    assert!(world.ejections.end_interval(world.now).is_empty());
    run(&world, &[4]);
    let ejected = world.ejections.end_interval(world.now);
    assert_eq!(ejected.len(), 1);
    assert_eq!(ejected[0].1.cause, EjectionCause::SuccessRate);
    assert_eq!(world.out(), [4]);
    world.pass(30 * SECOND);
    assert!(world.ejections.end_interval(world.now).is_empty(), "that was the interval before");
    world.rules.success_rate = false;
    world.settle(6);
    run(&world, &[4]);
    assert!(world.ejections.end_interval(world.now).is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Eject(usize),
    Pass(u64),
    Interval,
    Pardon(usize),
    Probe(usize, bool),
    Settle(usize, u8, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..12).prop_map(Step::Eject),
        3 => (0u64..40_000).prop_map(Step::Pass),
        1 => Just(Step::Interval),
        1 => (0usize..12).prop_map(Step::Pardon),
        2 => (0usize..12, any::<bool>()).prop_map(|(index, well)| Step::Probe(index, well)),
        1 => (0usize..=12, 0u8..=100, prop::bool::weighted(0.9))
            .prop_map(|(members, percent, on)| Step::Settle(members, percent, on)),
    ]
}

proptest! {
    #[test]
    fn never_more_out_than_may_be(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new(12, Outlier::default());
        let mut members = 12;
        for step in steps {
            match step {
                Step::Eject(index) => {
                    let ejected = world.eject(index);
                    let left = (0..members).any(|other| world.all[other].is_available());
                    prop_assert!(ejected.is_none() || left, "the last one was ejected");
                    prop_assert!(ejected.is_none_or(|time| time <= world.rules.ejection_max));
                }
                Step::Pass(time) => world.pass(Duration::from_millis(time)),
                Step::Interval => {
                    world.ejections.end_interval(world.now);
                }
                Step::Pardon(index) => {
                    let address = world.all[index].address.clone();
                    world.ejections.end_early(&address, world.now);
                }
                Step::Probe(index, well) => {
                    world.all[index].set_health(if well { ProbeHealth::Healthy } else { ProbeHealth::Unhealthy });
                }
                Step::Settle(count, percent, enabled) => {
                    (world.rules.max_ejected, world.rules.enabled) = (Percent::whole(percent), enabled);
                    members = count;
                    world.settle(count);
                }
            }
            let out = world.out();
            let share = world.rules.max_ejected.of(members as u64) as usize;
            let most = match (world.rules.enabled && !world.rules.max_ejected.is_zero(), members) {
                (false, _) | (_, 0 | 1) => 0,
                (true, members) => share.clamp(1, members - 1),
            };
            prop_assert!(out.len() <= most, "{out:?} are out, {most} may be");
            prop_assert!(out.iter().all(|index| *index < members), "who left is not out");
            let next = world.ejections.next();
            prop_assert_eq!(next.is_some(), !out.is_empty());
            prop_assert!(next.is_none_or(|next| next > world.now), "someone is out for too long");
        }
    }
}
