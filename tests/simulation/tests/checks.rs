//! Each check finds its fault: the simulation's own parties and records are falsified, and the check must
//! report it.

use std::time::Duration;

use tollgate_simulation::scenario::{Event, UPSTREAMS};
use tollgate_simulation::{Sabotage, Scenario, run};

/// The seeds that are played for each fault.
const SEEDS: std::ops::Range<u64> = 5000..5040;

/// Returns a plan with one origin and one upstream, with these keys of the upstream.
fn plan(upstream: &str) -> String {
    format!(
        "listen: [{{bind: 10.0.0.1:80, half_close: on}}, {{bind: \"10.0.0.1:81\", name: l4, protocol: tcp}}]\nadmin: off\n\
         streams: [{{listeners: l4, respond: close}}]\nupstreams:\n  {}: {{endpoints: \"10.1.0.1:8000\"{upstream}}}\n\
         routes: [{{match: /*, to: one}}]\n",
        UPSTREAMS[0]
    )
}

/// Plays seeds with only this fault, until a check reports the expected text.
fn is_found(sabotage: Sabotage, plan: Option<String>, said: &str) {
    let mut others = Vec::new();
    for seed in SEEDS {
        let mut scenario = Scenario::new(seed);
        scenario.drain = None;
        if let Some(plan) = &plan {
            scenario.plans = vec![plan.clone()];
            scenario.events.clear();
            scenario.streams.clear();
            // These plans have upstreams of HTTP/1.
            scenario.origins.iter_mut().for_each(|origin| origin.http2 = Default::default());
        }
        let clean = run(&scenario, false).expect("it runs").wrong;
        assert!(clean.is_empty(), "seed {seed} fails without any sabotage: {clean:?}");
        scenario.sabotage = Some(sabotage);
        let wrong = run(&scenario, false).expect("it runs").wrong;
        if wrong.iter().any(|wrong| wrong.contains(said)) {
            return;
        }
        others.extend(wrong);
    }
    panic!("nobody noticed {sabotage:?}; what was said: {others:#?}");
}

#[test]
fn an_answer_that_is_anothers() {
    is_found(Sabotage::SwapAnswers, None, "another's answer");
    is_found(Sabotage::CorruptBodies, None, "another's bytes in the answer");
}

#[test]
fn an_answer_that_is_cut_and_looks_whole() {
    is_found(Sabotage::ShortBodies, None, "an answer that was cut looks whole");
}

#[test]
fn a_stream_that_is_not_its_own_or_not_whole() {
    is_found(Sabotage::CorruptStreams, None, "another's bytes came back in stream");
    is_found(Sabotage::CutStreams, None, "is not whole");
    is_found(Sabotage::CutStreams, None, "ended in good order, and its server did not");
}

#[test]
fn a_request_without_an_answer() {
    is_found(Sabotage::ForgetAnswers, None, "has got nothing, and nobody said so");
}

#[test]
fn a_request_that_is_delivered_twice() {
    is_found(Sabotage::DeliverTwice, None, "was delivered 2 times");
}

#[test]
fn books_that_do_not_balance() {
    is_found(Sabotage::LoseLine, None, "lines for");
    is_found(Sabotage::LoseLine, None, "no line for request");
    is_found(Sabotage::RepeatLine, None, "two lines for request");
    is_found(Sabotage::NoAttempts, None, "times in 0 attempts");
    is_found(Sabotage::OtherStatus, None, "its line says");
}

#[test]
fn a_cap_that_does_not_hold() {
    is_found(Sabotage::BreakCap, Some(plan(", limits: {connections: 9}")), "connections to 10.1.0.1:8000");
    is_found(
        Sabotage::BreakCap,
        Some(plan(", limits: {endpoint_connections: 9}")),
        "connections to 10.1.0.1:8000",
    );
}

#[test]
fn a_request_that_is_never_served() {
    let capped = plan(", limits: {connections: 2}, queue: {timeout: 10m}");
    is_found(Sabotage::HoldPlaces, Some(capped), "requests wait");
}

#[test]
fn leftovers_of_a_run() {
    is_found(Sabotage::LeakTask, None, "tasks at worker 0");
    is_found(Sabotage::LeakSocket, None, "connections at worker 0");
    is_found(Sabotage::LeakTimer, None, "events still to come");
    is_found(Sabotage::LeakPlace, Some(plan("")), "places taken at upstream one");
    is_found(Sabotage::LeakPlan, None, "plans that somebody still has");
}

#[test]
fn a_hedge_that_comes_too_soon() {
    is_found(
        Sabotage::DeliverTwice,
        Some(plan(", hedge: {after: 3600000ms}")),
        "a second attempt sooner than",
    );
    is_found(Sabotage::DeliverTwice, Some(plan("")), "and nobody hedges");
}

#[test]
fn shedding_without_need_and_need_without_shedding() {
    is_found(Sabotage::ShedInVain, None, "though nothing is short");
    is_found(Sabotage::ShedNothing, None, "while all were to be turned away");
}

#[test]
fn an_adaptive_limit_that_does_not_hold() {
    is_found(Sabotage::NarrowLimit, Some(plan(", adaptive: {min: 2, max: 4}")), "of at most 0");
}

/// Returns the observable figures of a scenario in which the wall clock is set by this many seconds. Bytes
/// are excluded, because they contain the date.
fn with_clock(seed: u64, by: i64, sabotage: Option<Sabotage>) -> (u64, Duration, usize) {
    let mut scenario = Scenario::new(seed);
    scenario.sabotage = sabotage;
    if sabotage.is_some() {
        // A drain could end the worker with the faulty task, and a stall could last longer than the task waits.
        scenario.drain = None;
        scenario.events.clear();
    }
    scenario.events.retain(|(_, event)| !matches!(event, Event::SetClock(_)));
    let at = |number: u64| Duration::from_millis(300 * number);
    scenario.events.extend((1..6).map(|number| (at(number), Event::SetClock(by * number.cast_signed()))));
    let verdict = run(&scenario, false).expect("it runs");
    assert!(sabotage.is_some() || verdict.wrong.is_empty(), "seed {seed}: {:?}", verdict.wrong);
    (verdict.events, verdict.time, verdict.requests)
}

#[test]
fn the_wall_clock_may_jump_and_nothing_follows_from_it() {
    for seed in SEEDS {
        let still = with_clock(seed, 0, None);
        for by in [3600, -3600, -700_000_000, 20_000_000_000] {
            assert_eq!(with_clock(seed, by, None), still, "seed {seed}, clock set by {by} s");
        }
    }
    let wrong = Some(Sabotage::WallClock);
    assert_ne!(with_clock(SEEDS.start, 3600, wrong), with_clock(SEEDS.start, 0, wrong));
}

#[test]
fn randomness_outside_the_seed() {
    let mut scenario = Scenario::new(SEEDS.start);
    let [one, two] = [(); 2].map(|()| run(&scenario, false).expect("it runs").hash);
    assert_eq!(one, two);
    scenario.sabotage = Some(Sabotage::Chance);
    let [one, two] = [(); 2].map(|()| run(&scenario, false).expect("it runs").hash);
    assert_ne!(one, two);
}
