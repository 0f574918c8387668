//! Tests the slots of routes.

use std::collections::HashMap;
use std::time::SystemTime;

use super::*;
use crate::record::sample;
use crate::{Registry, SeriesBounds, Tally};

/// A gateway with one worker, whose routes are called `r0`, `r1` and so on.
struct Bench {
    registry: Arc<Registry>,
    worker: Arc<WorkerStats>,
    slots: RouteSlots,
}

impl Bench {
    fn new(named: usize, routes: usize) -> Bench {
        let bounds = SeriesBounds { routes: named, upstreams: 10 };
        let registry = Registry::with_bounds(bounds, true);
        let (worker, slots) = (registry.worker(), plan(&registry, 0..routes));
        Bench { registry, worker, slots }
    }

    fn request(&self, route: u32) {
        let route_slot = self.slots.get(route);
        self.worker.request_started();
        self.worker.record(&Tally { route_slot, ..sample::tally() }, || self.slots.claim(route));
    }

    fn requests(&self, route: u32, count: usize) {
        (0..count).for_each(|_| self.request(route));
    }

    fn second(&self) {
        self.registry.record_second(SystemTime::now());
    }

    /// Returns the requests of each label.
    fn counts(&self) -> HashMap<String, u64> {
        let snapshot = self.registry.snapshot();
        snapshot.routes.iter().map(|route| (route.name.to_string(), route.requests())).collect()
    }

    fn count(&self, label: &str) -> Option<u64> {
        self.counts().get(label).copied()
    }
}

fn plan(registry: &Registry, routes: std::ops::Range<usize>) -> RouteSlots {
    let names: Vec<String> = routes.map(|route| format!("r{route}")).collect();
    registry.route_slots(names.iter().map(String::as_str))
}

#[test]
fn the_routes_with_traffic_have_names_not_the_first_of_the_file() {
    let bench = Bench::new(3, 1000);
    for route in [999, 5, 700] {
        bench.requests(route, 2);
    }
    bench.requests(0, 5);
    bench.requests(1, 1);
    let expected = [("r999", 2), ("r5", 2), ("r700", 2), ("other", 6)];
    assert_eq!(bench.counts(), expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert_eq!(bench.registry.snapshot().in_other[0], 2);
    bench.second();
    assert_eq!(bench.registry.snapshot().in_other[0], 2, "the check does not forget them");
}

#[test]
fn a_reload_gives_the_slots_of_routes_that_are_gone_to_new_ones() {
    let mut bench = Bench::new(2, 2);
    bench.requests(0, 7);
    bench.requests(1, 4);
    bench.slots = plan(&bench.registry, 1..4);
    bench.requests(0, 1);
    // No slot is free before the next check.
    bench.requests(1, 3);
    assert_eq!(bench.counts().get("other"), Some(&3));
    assert_eq!(
        bench.count("r0"),
        Some(7),
        "a route that is gone keeps its series while the slot is not needed"
    );
    bench.second();
    bench.requests(1, 2);
    assert_eq!((bench.count("r0"), bench.count("r1")), (None, Some(5)));
    assert_eq!((bench.count("r2"), bench.count("other")), (Some(2), Some(3)));
    let snapshot = bench.registry.snapshot();
    assert_eq!(snapshot.codes.iter().sum::<u64>(), 17, "the totals keep what the series lost");
    assert_eq!(snapshot.duration.count(), 17);
    let r2 = snapshot.routes.iter().find(|route| &*route.name == "r2").expect("its counts");
    assert_eq!((r2.duration.count(), r2.responses.values().sum::<u64>(), r2.reasons[0]), (2, 2, 2));
}

#[test]
fn a_busy_route_takes_the_slot_of_a_quiet_one_and_no_series_goes_back() {
    let bench = Bench::new(2, 3);
    let mut before = HashMap::new();
    for second in 0..400_u32 {
        // The first two come first, and `r1` soon becomes quiet.
        bench.requests(0, 20);
        if second < 30 {
            bench.requests(1, 5);
        }
        if second >= 2 {
            bench.requests(2, 15);
        }
        bench.second();
        let counts = bench.counts();
        for (label, count) in &counts {
            let last = before.get(label).copied().unwrap_or(0);
            assert!(*count >= last, "{label} fell from {last} to {count} in second {second}");
        }
        assert_eq!(bench.registry.snapshot().codes.iter().sum::<u64>(), bench.registry.requests());
        before = counts;
    }
    assert_eq!(before.get("r1"), None);
    assert!(before["r2"] > 3000, "{before:?}");
    assert_eq!(before["r0"], 8000);
    let last = before["other"];
    bench.requests(2, 10);
    assert_eq!(bench.count("other"), Some(last), "its counts are its own from now on");
}

#[test]
fn routes_that_are_equally_busy_keep_their_slots() {
    let bench = Bench::new(2, 4);
    for _ in 0..300 {
        (0..4).for_each(|route| bench.requests(route, 10));
        bench.second();
    }
    assert_eq!((bench.count("r0"), bench.count("r1")), (Some(3000), Some(3000)));
    assert_eq!((bench.count("other"), bench.registry.snapshot().in_other[0]), (Some(6000), 2));
}

#[test]
fn requests_of_an_older_plan_follow_their_route() {
    let bench = Bench::new(1, 2);
    bench.requests(0, 3);
    // Long requests still hold the old plan.
    let newer = plan(&bench.registry, 1..2);
    bench.requests(1, 1);
    assert_eq!(newer.claim(0), Slot::OTHER);
    bench.second();
    assert_eq!(bench.slots.get(1), newer.get(0), "both plans have its slot");
    bench.requests(0, 2);
    assert_eq!((bench.count("r1"), bench.count("other")), (None, Some(3)));
}

#[test]
fn routes_with_one_name_share_a_slot() {
    let registry = Registry::new(true);
    let slots = registry.route_slots(["a", "a", "", "other"].into_iter());
    assert_eq!(slots.claim(0), slots.claim(1));
    assert_eq!((slots.get(2), slots.get(3)), (Slot::NONE, Slot::OTHER));
}

#[test]
fn scores_follow_the_last_minutes() {
    let busy = (0..600).fold(0, |score, _| decayed(score, 10));
    assert!((9_000..=10_240).contains(&busy), "{busy}");
    let quiet = (0..120).fold(busy, |score, _| decayed(score, 0));
    assert!(quiet < busy / 5, "{quiet}");
    assert_eq!((0..2000).fold(busy, |score, _| decayed(score, 0)), 0);
}
