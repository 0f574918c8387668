//! Tests properties that all balancers share.

use std::cell::Cell;

use fastrand::Rng;
use proptest::prelude::{any, prop, prop_assert, proptest};
use tollgate_plan::HashBy;

use super::*;
use tollgate_plan::Percent;

/// Healthy endpoints of weight 1, all alike.
fn endpoints(count: usize) -> Vec<EndpointInput> {
    let endpoint = |n: usize| EndpointInput {
        key: hash(format!("10.0.0.{n}:80").as_bytes()),
        weight: 1,
        priority: 0,
        own_zone: false,
        available: true,
        readiness: 1_000,
    };
    (0..count).map(endpoint).collect()
}

fn settings(policy: Policy) -> BalanceSettings {
    BalanceSettings { policy, ..BalanceSettings::default() }
}

fn policies() -> [Policy; 5] {
    let hash = Policy::Hash(HashBy::Path);
    [Policy::RoundRobin, Policy::LeastRequests, Policy::LeastRequestsOfAll, Policy::Random, hash]
}

struct Run {
    settings: BalanceSettings,
    tables: MaglevTables,
    rng: RefCell<Rng>,
    balance: Balancer,
}

impl Run {
    fn new(settings: BalanceSettings, endpoints: &[EndpointInput]) -> Self {
        let tables = MaglevTables::default();
        let balance = Balancer::new(&settings, endpoints, &Credit::default(), &tables);
        Self { settings, tables, rng: RefCell::new(Rng::with_seed(42)), balance }
    }

    fn change(&mut self, endpoints: &[EndpointInput]) {
        self.balance = Balancer::new(&self.settings, endpoints, &self.balance.credit(), &self.tables);
    }

    /// Picks for a request that no endpoint has failed, with no other request in flight.
    fn pick(&self, hash: Option<u64>) -> Option<usize> {
        self.balance.pick(&PickRequest { hash, avoid: None, load: &|_| 0 }, &self.rng)
    }

    fn avoiding(&self, hash: Option<u64>, avoid: &dyn Fn(usize) -> bool) -> Option<usize> {
        self.balance.pick(&PickRequest { hash, avoid: Some(avoid), load: &|_| 0 }, &self.rng)
    }

    /// Counts the picks of this many requests, each with its own hash.
    fn seen(&self, requests: u64) -> Vec<u64> {
        let mut seen = vec![0; self.balance.takes.len()];
        for request in 0..requests {
            seen[self.pick(Some(hash(&request.to_le_bytes()))).expect("one")] += 1;
        }
        seen
    }
}

/// Whether `seen` is within five standard deviations of a binomial distribution (one in 1.7 million is
/// outside).
fn is_share(seen: u64, requests: u64, share: f64) -> bool {
    let n = requests as f64;
    (seen as f64 - n * share).abs() <= 5.0 * (n * share * (1.0 - share)).sqrt() + 2.0
}

#[test]
fn every_policy_keeps_to_the_weights_with_nothing_to_do() {
    let mut endpoints = endpoints(4);
    for (endpoint, weight) in endpoints.iter_mut().zip([1, 2, 0, 7]) {
        endpoint.weight = weight;
    }
    for policy in policies() {
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        for (seen, share) in seen.iter().zip([0.1, 0.2, 0.0, 0.7]) {
            assert!(is_share(*seen, 20_000, share), "{policy:?}: {seen} for {share}");
        }
    }
}

#[test]
fn no_balancer_picks_from_an_empty_list() {
    let mut drained = endpoints(2);
    drained.iter_mut().for_each(|endpoint| endpoint.weight = 0);
    let mut sick = endpoints(2);
    sick.iter_mut().for_each(|endpoint| endpoint.available = false);
    for policy in policies() {
        for endpoints in [&[][..], &drained] {
            let run = Run::new(settings(policy.clone()), endpoints);
            assert_eq!((run.pick(None), run.pick(Some(7))), (None, None), "{policy:?}");
        }
        let without_panic = BalanceSettings { panic_threshold: Percent::default(), ..settings(policy) };
        assert_eq!(Run::new(without_panic, &sick).pick(Some(7)), None);
    }
}

/// Returns how many requests each endpoint got when requests overlap.
fn loads(run: &Run, slow: usize) -> Vec<u64> {
    let load: Vec<Cell<u32>> = run.balance.takes.iter().map(|_| Cell::new(0)).collect();
    let mut seen = vec![0; load.len()];
    let mut ends: Vec<(u32, usize)> = Vec::new();
    for request in 0..20_000 {
        ends.retain(|(end, endpoint)| {
            let over = *end <= request;
            if over {
                load[*endpoint].set(load[*endpoint].get() - 1);
            }
            !over
        });
        let wish = PickRequest { hash: None, avoid: None, load: &|at| load[at].get() };
        let picked = run.balance.pick(&wish, &run.rng).expect("one");
        seen[picked] += 1;
        load[picked].set(load[picked].get() + 1);
        ends.push((request + if picked == slow { 200 } else { 10 }, picked));
    }
    seen
}

#[test]
fn least_requests_spares_a_slow_endpoint() {
    let endpoints = endpoints(5);
    let slow = |policy| loads(&Run::new(settings(policy), &endpoints), 2)[2];
    assert_eq!(slow(Policy::RoundRobin), 4_000);
    assert!(slow(Policy::LeastRequests) < 1_000, "{}", slow(Policy::LeastRequests));
    assert!(slow(Policy::LeastRequestsOfAll) < 1_000, "{}", slow(Policy::LeastRequestsOfAll));
}

#[test]
fn least_requests_are_relative_to_weight() {
    let mut endpoints = endpoints(2);
    endpoints[1].weight = 3;
    for policy in [Policy::LeastRequests, Policy::LeastRequestsOfAll] {
        let run = Run::new(settings(policy.clone()), &endpoints);
        let busy = |first, second| {
            let load = |at| if at == 0 { first } else { second };
            let pick = || run.balance.pick(&PickRequest { hash: None, avoid: None, load: &load }, &run.rng);
            let seen: Vec<_> = (0..100).filter_map(|_| pick()).collect();
            (seen.contains(&0), seen.contains(&1))
        };
        assert_eq!(busy(10, 29), (false, true), "{policy:?}: 10 is more for weight 1 than 29 for 3");
        assert_eq!(busy(10, 31), (true, false), "{policy:?}");
        assert_eq!(busy(10, 30), (true, true), "{policy:?}: equal");
    }
}

#[test]
fn equally_busy_endpoints_take_turns() {
    let run = Run::new(settings(Policy::LeastRequestsOfAll), &endpoints(3));
    let picks: Vec<_> = (0..6).filter_map(|_| run.pick(None)).collect();
    assert_eq!(picks, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_failed_endpoint_is_picked_only_as_a_last_resort() {
    for policy in policies() {
        let run = Run::new(settings(policy.clone()), &endpoints(3));
        for request in 0..200_u64 {
            let key = Some(hash(&request.to_le_bytes()));
            let first = run.pick(key).expect("one");
            let second = run.avoiding(key, &|at| at == first).expect("another");
            let third = run.avoiding(key, &|at| at == first || at == second).expect("the last");
            let mut all = [first, second, third];
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2], "{policy:?}");
            assert!(run.avoiding(key, &|_| true).is_some(), "{policy:?}: better than none");
        }
    }
}

#[test]
fn a_request_that_failed_goes_to_the_next_priority() {
    let mut endpoints = endpoints(2);
    endpoints[1].priority = 1;
    for policy in policies() {
        let run = Run::new(settings(policy.clone()), &endpoints);
        assert_eq!(run.seen(100), [100, 0], "{policy:?}");
        assert_eq!(run.avoiding(Some(7), &|at| at == 0), Some(1), "{policy:?}");
        assert_eq!(run.avoiding(Some(7), &|_| true), Some(0), "{policy:?}: where it would have gone");
    }
}

#[test]
fn priorities_spill_over() {
    let mut endpoints = endpoints(8);
    endpoints[4..].iter_mut().for_each(|endpoint| endpoint.priority = 1);
    endpoints[..2].iter_mut().for_each(|endpoint| endpoint.available = false);
    for policy in policies() {
        // Half of the first level is healthy, so it takes 70 %.
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        for (seen, share) in seen.iter().zip([0.0, 0.0, 0.35, 0.35, 0.075, 0.075, 0.075, 0.075]) {
            assert!(is_share(*seen, 20_000, share), "{policy:?}: {seen} for {share}");
        }
    }
}

#[test]
fn zones_spill_over() {
    let mut endpoints = endpoints(8);
    endpoints[..4].iter_mut().for_each(|endpoint| endpoint.own_zone = true);
    for policy in policies() {
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(1_000);
        assert_eq!(seen[4..].iter().sum::<u64>(), 0, "{policy:?}");
    }
    endpoints[..2].iter_mut().for_each(|endpoint| endpoint.available = false);
    for policy in policies() {
        // Half of the zone is healthy, and it must be 70 % to take all.
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        assert!(is_share(seen[2] + seen[3], 20_000, 50.0 / 70.0), "{policy:?}: {seen:?}");
        assert_eq!(seen[0] + seen[1], 0, "{policy:?}");
    }
}

#[test]
fn in_a_panic_all_take_requests() {
    let mut endpoints = endpoints(5);
    endpoints[..3].iter_mut().for_each(|endpoint| endpoint.available = false);
    for policy in policies() {
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        assert!(seen.iter().all(|seen| is_share(*seen, 20_000, 0.2)), "{policy:?}: {seen:?}");
        let calm = BalanceSettings { panic_threshold: Percent::whole(40), ..settings(policy.clone()) };
        let seen = Run::new(calm, &endpoints).seen(20_000);
        assert_eq!(seen[..3], [0; 3], "{policy:?}");
    }
}

#[test]
fn slow_start_reduces_the_share() {
    let mut endpoints = endpoints(2);
    endpoints[1].readiness = 250;
    for policy in policies() {
        let share = match policy {
            // By key: a quarter of its keys. The others go elsewhere.
            Policy::Hash(_) => 0.125,
            _ => 0.2,
        };
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        assert!(is_share(seen[1], 20_000, share), "{policy:?}: {seen:?}");
    }
    endpoints[0].readiness = 250;
    for policy in policies() {
        let seen = Run::new(settings(policy.clone()), &endpoints).seen(20_000);
        assert!(is_share(seen[1], 20_000, 0.5), "{policy:?}: {seen:?}");
    }
}

#[test]
fn health_moves_only_the_keys_of_whom_it_concerns() {
    let mut endpoints = endpoints(10);
    let mut run = Run::new(settings(Policy::Hash(HashBy::Path)), &endpoints);
    let keys: Vec<u64> = (0..10_000_u64).map(|key| hash(&key.to_le_bytes())).collect();
    let before: Vec<_> = keys.iter().map(|key| run.pick(Some(*key))).collect();
    endpoints[3].available = false;
    run.change(&endpoints);
    let mut heirs = [0; 10];
    for (key, before) in keys.iter().zip(&before) {
        let now = run.pick(Some(*key)).expect("one");
        match before {
            Some(3) => heirs[now] += 1,
            before => assert_eq!(Some(now), *before),
        }
    }
    assert_eq!(heirs[3], 0);
    assert!(heirs.iter().enumerate().all(|(at, heirs)| at == 3 || *heirs > 75), "shared out: {heirs:?}");
    // It returns slowly: first some of its keys, later those and more.
    let mut back = 0;
    for readiness in [100, 400, 1_000] {
        endpoints[3].available = true;
        endpoints[3].readiness = readiness;
        run.change(&endpoints);
        let here = keys.iter().filter(|key| run.pick(Some(**key)) == Some(3)).count();
        assert!(here > back, "{here} at {readiness}");
        back = here;
    }
    assert!(keys.iter().zip(before).all(|(key, before)| run.pick(Some(*key)) == before));
}

#[test]
fn the_order_of_endpoints_does_not_matter_to_a_hash() {
    let endpoints = endpoints(7);
    let run = Run::new(settings(Policy::Hash(HashBy::Path)), &endpoints);
    let turned: Vec<_> = endpoints.iter().rev().cloned().collect();
    let other = Run::new(settings(Policy::Hash(HashBy::Path)), &turned);
    for key in 0..1_000_u64 {
        let key = Some(hash(&key.to_le_bytes()));
        assert_eq!(run.pick(key), other.pick(key).map(|at| 6 - at));
    }
}

#[test]
fn a_request_without_what_it_is_hashed_by_takes_its_turn() {
    let run = Run::new(settings(Policy::Hash(HashBy::Path)), &endpoints(3));
    let picks: Vec<_> = (0..6).filter_map(|_| run.pick(None)).collect();
    assert_eq!(picks, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn turns_outlive_a_change() {
    let mut endpoints = endpoints(3);
    let mut run = Run::new(settings(Policy::RoundRobin), &endpoints);
    assert_eq!(run.pick(None), Some(0));
    endpoints[0].available = false;
    run.change(&endpoints);
    assert_eq!((run.pick(None), run.pick(None), run.pick(None)), (Some(1), Some(2), Some(1)));
    // The same holds among groups: half of the requests each.
    endpoints[0] = EndpointInput { priority: 1, ..endpoints[1].clone() };
    endpoints[1].weight = 180;
    (endpoints[2].weight, endpoints[2].available) = (220, false);
    let mut seen = [0; 3];
    for _ in 0..100 {
        run.change(&endpoints);
        seen[run.pick(None).expect("one")] += 1;
    }
    assert!((60..=66).contains(&seen[1]), "{seen:?}");
}

proptest! {
    #[test]
    fn picked_endpoints_are_eligible(
        standings in prop::collection::vec((0_u32..4, 0_u8..3, any::<bool>(), any::<bool>(), 100_u64..=1000), 0..12),
        policy in prop::sample::select(policies().to_vec()),
        panic_threshold in 0_u8..=100,
        zone_spill in 0_u8..=100,
        avoided in any::<u16>(),
        key in any::<Option<u64>>(),
    ) {
        let keys = endpoints(standings.len());
        let endpoints: Vec<_> = standings
            .into_iter()
            .zip(keys)
            .map(|((weight, priority, own_zone, available, readiness), EndpointInput { key, .. })| {
                EndpointInput { key, weight, priority, own_zone, available, readiness }
            })
            .collect();
        let run = Run::new(BalanceSettings {
            policy,
            panic_threshold: Percent::whole(panic_threshold),
            zone_spill: Percent::whole(zone_spill),
            ..BalanceSettings::default()
        }, &endpoints);
        let some = endpoints.iter().any(|endpoint| endpoint.weight > 0 && endpoint.available);
        let avoid = |at: usize| avoided >> at & 1 == 1;
        for picked in [run.pick(key), run.avoiding(key, &avoid)] {
            match picked {
                Some(at) => prop_assert!(run.balance.takes(at) && endpoints[at].weight > 0),
                None => prop_assert!(!some, "an endpoint that is well takes requests"),
            }
        }
        // An endpoint that failed the request is picked again only if there is no other.
        let free = (0..endpoints.len()).any(|at| run.balance.takes(at) && !avoid(at));
        if free {
            prop_assert!(run.avoiding(key, &avoid).is_some_and(|at| !avoid(at)));
        }
        // An unhealthy endpoint takes requests only in a panic, and there is no panic while all are healthy.
        if panic_threshold == 0 {
            prop_assert!((0..endpoints.len()).all(|at| !run.balance.takes(at) || endpoints[at].available));
        }
    }

    #[test]
    fn round_robin_is_even_whatever_happens_in_between(
        changes in prop::collection::vec((0_usize..6, 0_usize..40), 1..20),
    ) {
        // Endpoints leave and return. Over any stretch without a change, no two differ by more than one.
        let mut endpoints = endpoints(6);
        let mut run = Run::new(BalanceSettings { panic_threshold: Percent::default(), ..BalanceSettings::default() }, &endpoints);
        for (at, requests) in changes {
            endpoints[at].available ^= true;
            run.change(&endpoints);
            let mut seen = [0_u32; 6];
            for _ in 0..requests {
                if let Some(at) = run.pick(None) {
                    seen[at] += 1;
                }
            }
            let taking = (0..6).filter(|at| endpoints[*at].available).map(|at| seen[at]);
            let (least, most) = taking.fold((u32::MAX, 0), |(least, most), seen| (least.min(seen), most.max(seen)));
            prop_assert!(least == u32::MAX || most - least <= 1, "{:?}", seen);
        }
    }
}
