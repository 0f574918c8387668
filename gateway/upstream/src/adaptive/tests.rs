//! Tests the adaptive limit and its permits.

use tollgate_observe::Registry;

use super::*;

/// Two workers' accesses to the same limit.
fn hands(rules: &AdaptiveRules) -> (Arc<Adaptive>, [Rc<WorkerAdaptive>; 2]) {
    let registry = Registry::new(true);
    let slot = registry.upstream_slot("u");
    let state = Arc::new(Adaptive::new(tollgate_net::now()));
    let hands = [(); 2]
        .map(|()| WorkerAdaptive::new(Some(rules), &state, &registry.worker(), slot).expect("it is on"));
    (state, hands)
}

fn rules(min: u32, max: u32) -> AdaptiveRules {
    AdaptiveRules { min, max, ..AdaptiveRules::default() }
}

#[test]
fn it_is_exact_over_all_workers() {
    let (state, [one, other]) = hands(&rules(4, 4));
    let now = tollgate_net::now();
    let mut kept: Vec<_> = [&one, &other, &one, &other]
        .into_iter()
        .map(|hand| hand.enter(Priority::Normal, now).expect("a place"))
        .collect();
    assert!(one.enter(Priority::Normal, now).is_none() && other.enter(Priority::Normal, now).is_none());
    assert_eq!(state.status().map(|status| status.in_flight), Some(4));
    kept.pop();
    assert!(one.enter(Priority::Normal, now).is_some(), "and is given back at once");
    kept.clear();
    assert_eq!(state.status().map(|status| status.in_flight), Some(0));
}

#[test]
fn threads_never_exceed_it() {
    let state = Arc::new(Adaptive::new(tollgate_net::now()));
    let load = &state.counts;
    let most = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    if let Some(count) = load.try_acquire(3) {
                        most.fetch_max(count, Ordering::SeqCst);
                        std::thread::yield_now();
                        load.release();
                    }
                }
            });
        }
    });
    assert_eq!((most.into_inner(), load.in_flight.load(Ordering::SeqCst)), (3, 0));
    assert_eq!(load.peak.load(Ordering::SeqCst), 3);
}

#[test]
fn a_share_is_reserved_for_high_priority() {
    assert_eq!(allowed(100, [true, false, false]), [100, 100, 100]);
    assert_eq!(allowed(100, [true, true, false]), [90, 100, 100]);
    assert_eq!(allowed(100, [true, true, true]), [80, 90, 100]);
    assert_eq!(allowed(100, [true, false, true]), [90, 90, 100]);
    assert_eq!(allowed(3, [true; 3]), [1, 2, 3]);
    assert_eq!(allowed(1, [true; 3]), [1, 1, 1]);
}

#[test]
fn low_priority_is_let_go_first_once_others_ask() {
    let (_, [one, other]) = hands(&rules(10, 10));
    let now = tollgate_net::now();
    let mut kept: Vec<_> = (0..10).map_while(|_| one.enter(Priority::Low, now)).collect();
    assert_eq!(kept.len(), 10, "alone it has all of it");
    assert!(other.enter(Priority::High, now).is_none());
    assert!(other.enter(Priority::Normal, now + one.pause).is_none());
    kept.truncate(9);
    assert!(one.enter(Priority::Low, now).is_none());
    kept.extend(other.enter(Priority::High, now));
    assert_eq!(kept.len(), 10);
    kept.drain(..2);
    assert!(one.enter(Priority::Low, now).is_none(), "one is kept for each of the two above");
    kept.extend(one.enter(Priority::Normal, now));
    assert_eq!(kept.len(), 9);
}

#[test]
fn calm_ends_above_the_minimum_and_returns_at_it() {
    let admission = AdmissionLimits { min: AtomicU32::new(2), ..AdmissionLimits::default() };
    let first = admission.update_period(1).expect("calm");
    assert_eq!(admission.update_period(2), Some(first));
    assert_eq!((admission.update_period(3), admission.update_period(4)), (None, None));
    let second = admission.update_period(2).expect("calm again");
    assert!(second != first && admission.update_period(1) == Some(second));
}

#[test]
fn time_that_a_slow_client_takes_is_not_measured() {
    let (state, [one, _]) = hands(&rules(3, 10));
    let (now, in_flight) = (tollgate_net::now(), || state.status().map_or(0, |status| status.in_flight));
    let mut permit = one.enter(Priority::Normal, now).expect("a place");
    permit.suspend();
    permit.suspend();
    assert_eq!(in_flight(), 0);
    let sent = now + Duration::from_secs(60);
    permit.resume(sent);
    permit.resume(now);
    assert_eq!(in_flight(), 1);
    permit.done(sent + Duration::from_millis(5));
    assert_eq!(in_flight(), 0);
    // The first result was reported at once; the next one is kept.
    let mut permit = one.enter(Priority::Normal, now).expect("a place");
    permit.sending(sent);
    permit.done(sent + Duration::from_millis(7));
    assert_eq!(one.measured.get().all.micros, 7_000);
    let mut never_sent = one.enter(Priority::Normal, now).expect("a place");
    never_sent.suspend();
    never_sent.done(sent + Duration::from_secs(9));
    drop(one.enter(Priority::Normal, now));
    assert_eq!((one.measured.get().all.count, in_flight()), (1, 0));
}

#[test]
fn a_plan_without_it_switches_it_off() {
    let (state, [one, _]) = hands(&rules(3, 10));
    let permit = one.enter(Priority::Normal, tollgate_net::now()).expect("a place");
    assert!(WorkerAdaptive::new(None, &state, &one.stats, one.slot).is_none());
    assert_eq!(state.status(), None);
    permit.done(tollgate_net::now());
    assert_eq!(state.counts.in_flight.load(Ordering::Relaxed), 0);
}
