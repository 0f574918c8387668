//! Tests the gradient against simulated upstreams.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::*;

const MILLISECOND: u64 = 1000;

/// An upstream in simulated time. It answers up to `capacity` concurrent requests in `micros` each; more of
/// them share its time.
struct Service {
    capacity: u32,
    micros: u64,
}

/// Clients that send the next request as soon as they are answered, or some time after they were rejected.
struct Simulation {
    gradient: Gradient,
    service: Service,
    now: u64,
    clients: u32,
    in_flight: u32,
    peak: u32,
    calm_period: u32,
    calm: bool,
    random: fastrand::Rng,
    /// The requests in flight: when each is answered, when it began, and its period if it began calm.
    answers: BinaryHeap<Reverse<(u64, u64, Option<u32>)>>,
    /// When clients that were rejected try again.
    waiting: BinaryHeap<Reverse<u64>>,
    shed: u64,
    answered: u64,
    /// Latencies by tenths of a second.
    latencies: BTreeMap<u64, LatencySum>,
}

impl Simulation {
    fn new(rules: &AdaptiveRules, service: Service, clients: u32) -> Self {
        let mut new = Self {
            gradient: Gradient::new(rules),
            service,
            now: 0,
            clients: 0,
            in_flight: 0,
            peak: 0,
            calm_period: 1,
            calm: true,
            random: fastrand::Rng::with_seed(1),
            answers: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            shed: 0,
            answered: 0,
            latencies: BTreeMap::new(),
        };
        new.come(clients);
        new
    }

    /// Adds clients.
    fn come(&mut self, clients: u32) {
        self.clients += clients;
        (0..clients).for_each(|client| self.waiting.push(Reverse(self.now + u64::from(client) * 97)));
    }

    /// Reduces the number of clients.
    fn stay(&mut self, clients: u32) {
        self.clients = clients;
    }

    fn ask(&mut self) {
        let present = self.in_flight + self.waiting.len() as u32;
        if present >= self.clients {
            return;
        }
        if self.in_flight >= self.gradient.limit() {
            self.shed += 1;
            self.waiting.push(Reverse(self.now + 5 * MILLISECOND));
            return self.tell(Measurements::default());
        }
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        let calm = self.in_flight <= self.gradient.rules.min;
        if calm != self.calm {
            self.calm_period += u32::from(calm);
            self.calm = calm;
        }
        let queueing = f64::from(self.in_flight) / f64::from(self.service.capacity);
        let chance = 0.8 + 0.4 * self.random.f64();
        let takes = self.service.micros as f64 * queueing.max(1.0) * chance;
        let calm_period = calm.then_some(self.calm_period);
        self.answers.push(Reverse((self.now + takes as u64, self.now, calm_period)));
    }

    fn tell(&mut self, measured: Measurements) {
        if self.gradient.add(Duration::from_micros(self.now), self.peak, measured) {
            self.peak = self.in_flight;
        }
    }

    fn run(&mut self, milliseconds: u64) {
        let end = self.now + milliseconds * MILLISECOND;
        loop {
            let answer = self.answers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let again = self.waiting.peek().map_or(u64::MAX, |Reverse(at)| *at);
            if answer.min(again) > end {
                break;
            }
            self.now = answer.min(again);
            if again <= answer {
                self.waiting.pop();
            } else if let Some(Reverse((_, began, calm_period))) = self.answers.pop() {
                self.in_flight -= 1;
                self.answered += 1;
                let mut sum = LatencySum::default();
                sum.add((self.now - began).min(self.gradient.clip()));
                self.latencies.entry(self.now / (100 * MILLISECOND)).or_default().merge(sum);
                let still = self.calm.then_some(self.calm_period);
                let calm =
                    if calm_period.is_some() && calm_period == still { sum } else { LatencySum::default() };
                self.tell(Measurements { all: sum, calm, calm_period: calm_period.unwrap_or_default() });
            }
            self.ask();
        }
        self.now = end;
    }

    /// Returns the lowest and the highest limit over that time.
    fn range(&mut self, milliseconds: u64) -> (u32, u32) {
        let (mut low, mut high) = (u32::MAX, 0);
        for _ in 0..milliseconds / 10 {
            self.run(10);
            low = low.min(self.gradient.limit());
            high = high.max(self.gradient.limit());
        }
        (low, high)
    }
}

fn rules() -> AdaptiveRules {
    AdaptiveRules::default()
}

const FAST: Service = Service { capacity: 1000, micros: 40 * MILLISECOND };

#[test]
fn it_climbs_as_long_as_latency_stays() {
    let mut simulation = Simulation::new(&rules(), FAST, 400);
    simulation.run(5_000);
    let (shed, limit) = (simulation.shed, simulation.gradient.limit());
    assert!(limit > 400, "{limit}");
    simulation.run(20_000);
    assert_eq!(simulation.shed, shed, "once it is high enough nobody is turned away");
    let limit = simulation.gradient.limit();
    assert!(limit <= 1700, "no higher than what is used asks for: {limit}");
}

#[test]
fn it_finds_what_an_upstream_can_take() {
    for capacity in [5, 10, 50] {
        let service = Service { capacity, micros: 10 * MILLISECOND };
        let mut simulation = Simulation::new(&rules(), service, 500);
        simulation.run(5_000);
        let (low, high) = simulation.range(20_000);
        assert!(low >= capacity, "all of it is used: {low} to {high} of {capacity}");
        assert!(high <= capacity * 2 + 8, "little more waits there: {low} to {high} of {capacity}");
    }
}

#[test]
fn it_falls_when_the_upstream_slows_and_recovers_with_it() {
    let mut simulation = Simulation::new(&rules(), Service { capacity: 100, micros: 10 * MILLISECOND }, 150);
    simulation.run(10_000);
    let before = simulation.gradient.limit();
    assert!((100..=220).contains(&before), "{before}");
    simulation.service.capacity = 10;
    simulation.run(3_000);
    let slow = simulation.gradient.limit();
    assert!((10..=30).contains(&slow), "{slow} where 10 at once can be taken");
    simulation.service.capacity = 100;
    simulation.run(5_000);
    let after = simulation.gradient.limit();
    assert!((100..=220).contains(&after), "{after}");
}

#[test]
fn it_stays_within_its_bounds() {
    let narrow = AdaptiveRules { min: 8, max: 30, ..rules() };
    let mut fast = Simulation::new(&narrow, FAST, 400);
    assert!(fast.range(10_000).1 <= 30);
    assert_eq!(fast.gradient.limit(), 30);
    let mut slow = Simulation::new(&narrow, Service { capacity: 1, micros: 50 * MILLISECOND }, 100);
    let (low, _) = slow.range(20_000);
    assert!(low >= 8, "{low}");
}

#[test]
fn an_upstream_with_little_to_do_is_never_held_down() {
    let mut simulation = Simulation::new(&rules(), FAST, 2);
    let (low, high) = simulation.range(200_000);
    assert_eq!((low, high), (INITIAL_LIMIT, INITIAL_LIMIT));
    assert_eq!(simulation.shed, 0);
    let base = simulation.gradient.base_latency().expect("measured on what came anyway");
    assert!((36..=44).contains(&base.as_millis()), "{base:?}");
}

#[test]
fn a_healthy_upstream_is_not_limited_again() {
    let often = AdaptiveRules { probe: Duration::from_secs(10), ..rules() };
    let mut simulation = Simulation::new(&often, FAST, 100);
    simulation.run(5_000);
    let shed = simulation.shed;
    let (low, _) = simulation.range(55_000);
    assert!(low > 100, "five times the probe's time without one: {low}");
    assert_eq!(simulation.shed, shed);
}

#[test]
fn a_permanently_changed_latency_becomes_the_baseline() {
    let mut simulation = Simulation::new(&rules(), Service { capacity: 50, micros: 10 * MILLISECOND }, 100);
    simulation.run(10_000);
    // A new release does more work for each request.
    simulation.service.micros = 25 * MILLISECOND;
    simulation.run(70_000);
    let base = simulation.gradient.base_latency().expect("measured");
    assert!((20..=30).contains(&base.as_millis()), "{base:?}");
    let (low, high) = simulation.range(20_000);
    assert!(low >= 50 && high <= 110, "{low} to {high}");
}

#[test]
fn a_faster_upstream_lowers_the_baseline() {
    let mut simulation = Simulation::new(&rules(), Service { capacity: 20, micros: 100 * MILLISECOND }, 60);
    simulation.run(10_000);
    simulation.service.micros = 10 * MILLISECOND;
    simulation.run(10_000);
    let base = simulation.gradient.base_latency().expect("measured");
    assert!(base.as_millis() <= 40, "what is met under load is an upper bound: {base:?}");
    simulation.run(60_000);
    let base = simulation.gradient.base_latency().expect("measured");
    assert!(base.as_millis() <= 13, "{base:?}");
    let (low, high) = simulation.range(10_000);
    assert!(low >= 20 && high <= 48, "{low} to {high}");
}

#[test]
fn a_burst_after_a_quiet_time_is_let_in() {
    let mut simulation = Simulation::new(&rules(), FAST, 2);
    simulation.run(10_000);
    simulation.come(98);
    simulation.run(2_000);
    let shed = simulation.shed;
    simulation.run(10_000);
    assert_eq!(simulation.shed, shed, "100 at once are no load for it");
    simulation.stay(2);
    simulation.run(10_000);
    simulation.come(98);
    simulation.run(10_000);
    assert_eq!(simulation.shed, shed, "what was learned is not forgotten");
}

#[test]
fn an_answer_that_took_a_minute_changes_little() {
    let mut simulation = Simulation::new(&rules(), FAST, 100);
    simulation.run(10_000);
    let before = simulation.gradient.limit();
    let mut all = LatencySum::default();
    all.add(60_000 * MILLISECOND);
    all.micros = all.micros.min(simulation.gradient.clip());
    simulation.tell(Measurements { all, ..Measurements::default() });
    simulation.run(200);
    assert!(simulation.gradient.limit() >= before, "{} after {before}", simulation.gradient.limit());
}

#[test]
fn a_silent_upstream_gets_few_requests() {
    let mut simulation =
        Simulation::new(&rules(), Service { capacity: 100, micros: 5_000 * MILLISECOND }, 50);
    simulation.run(4_900);
    assert!(simulation.in_flight <= INITIAL_LIMIT);
    simulation.run(20_000);
    assert!(
        simulation.gradient.base_latency().is_some_and(|base| base.as_secs() >= 4),
        "{:?}",
        simulation.gradient
    );
    simulation.run(60_000);
    let (low, _) = simulation.range(200_000);
    assert!(low >= 50, "what is slow is not overloaded, nor held down again: {low}");
}

#[test]
fn new_rules_hold_at_once() {
    let mut simulation = Simulation::new(&rules(), FAST, 400);
    simulation.run(5_000);
    simulation.gradient.set_rules(&AdaptiveRules { max: 50, ..rules() });
    assert_eq!(simulation.gradient.limit(), 50);
    simulation.gradient.set_rules(&AdaptiveRules { min: 60, ..rules() });
    assert_eq!(simulation.gradient.limit(), 60);
}
