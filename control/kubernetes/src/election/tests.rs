//! Elections between gateways with an API server in simulated time: requests, answers and events take random times, and
//! gateways end at random times.

use super::*;

const DURATION: Duration = Duration::from_millis(1500);
/// The longest time that a request, an answer or an event takes in these tests.
const DELAY_MAX_MS: u64 = 20;
const SEEDS: u64 = 200;

fn settings(holder: &str) -> LeaseSettings {
    LeaseSettings {
        namespace: None,
        name: "tollgate".to_owned(),
        holder: holder.to_owned(),
        duration: DURATION,
    }
}

/// The API server: the Lease, and all its versions with the times of their writes.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    history: Vec<(u64, Lease)>,
}

impl Server {
    /// Writes the Lease if the version that it replaces is the present one.
    fn write(&mut self, mut lease: Lease, now: u64) -> Option<Lease> {
        if self.lease.as_ref().map(version) != lease.metadata.resource_version.as_deref() {
            return None;
        }
        lease.metadata.resource_version = Some((self.history.len() + 1).to_string());
        self.history.push((now, lease.clone()));
        self.lease = Some(lease.clone());
        Some(lease)
    }
}

/// The answer to a request, before it arrives.
enum Answer {
    Read(Option<Lease>),
    Written(Option<Lease>),
}

struct Request {
    step: Step,
    begun: u64,
    arrives: u64,
    answered: u64,
    answer: Option<Answer>,
}

struct Gateway {
    election: Election,
    is_alive: bool,
    watches: bool,
    /// How long events take, in milliseconds.
    delay: u64,
    events_seen: usize,
    request: Option<Request>,
    requests: usize,
}

struct Simulation {
    random: fastrand::Rng,
    begin: Instant,
    /// Milliseconds since the start.
    now: u64,
    server: Server,
    is_server_up: bool,
    gateways: Vec<Gateway>,
}

impl Simulation {
    fn new(seed: u64, count: usize, watches: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let begin = Instant::now();
        let gateway = |number: usize| Gateway {
            election: Election::new(settings(&format!("gateway-{number}")), begin),
            is_alive: true,
            watches,
            delay: random.u64(1..=DELAY_MAX_MS),
            events_seen: 0,
            request: None,
            requests: 0,
        };
        let gateways = (0..count).map(gateway).collect();
        Self { random, begin, now: 0, server: Server::default(), is_server_up: true, gateways }
    }

    fn instant(&self) -> Instant {
        self.begin + Duration::from_millis(self.now)
    }

    /// Returns the gateway that leads. There is never a second one.
    fn leader(&self) -> Option<usize> {
        let now = self.instant();
        let leads = |gateway: &Gateway| gateway.is_alive && gateway.election.leads_until(now).is_some();
        let mut leaders = (0..self.gateways.len()).filter(|number| leads(&self.gateways[*number]));
        let leader = leaders.next();
        assert_eq!(leaders.next(), None, "two gateways lead");
        leader
    }

    /// Advances by a millisecond.
    fn tick(&mut self) {
        self.now += 1;
        for number in 0..self.gateways.len() {
            self.turn(number);
        }
    }

    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.tick();
            self.leader();
        }
    }

    fn turn(&mut self, number: usize) {
        let (now, instant) = (self.now, self.instant());
        let gateway = &mut self.gateways[number];
        if let Some(request) = &mut gateway.request
            && request.arrives == now
            && self.is_server_up
        {
            // It is carried out even if its gateway is gone by now.
            request.answer = Some(match request.step.clone() {
                Step::Write(lease) => Answer::Written(self.server.write(*lease, now)),
                _ => Answer::Read(self.server.lease.clone()),
            });
        }
        if !gateway.is_alive {
            return;
        }
        while gateway.watches
            && self.is_server_up
            && let Some((written, lease)) = self.server.history.get(gateway.events_seen)
            && written + gateway.delay <= now
        {
            gateway.election.observe(Some(lease.clone()), instant);
            gateway.events_seen += 1;
        }
        if let Some(request) = gateway.request.take() {
            let begun = self.begin + Duration::from_millis(request.begun);
            if request.answered > now && request.answer.is_some() || request.arrives > now {
                gateway.request = Some(request);
            } else {
                match request.answer {
                    Some(Answer::Read(lease)) => gateway.election.observe(lease, instant),
                    Some(Answer::Written(Some(lease))) => gateway.election.written(lease, begun, instant),
                    Some(Answer::Written(None)) | None => gateway.election.failed(instant),
                }
            }
        }
        if gateway.request.is_none() {
            match gateway.election.next(instant) {
                Step::Wait(until) => assert!(until > instant),
                step => {
                    let arrives = now + self.random.u64(1..=DELAY_MAX_MS);
                    let answered = arrives + self.random.u64(1..=DELAY_MAX_MS);
                    gateway.requests += 1;
                    gateway.request = Some(Request { step, begun: now, arrives, answered, answer: None });
                }
            }
        }
    }
}

#[test]
fn another_gateway_leads_soon_after_the_leader_is_killed() {
    let mut slowest = 0;
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed, 3, true);
        let killed_at = simulation.random.u64(1000..4000);
        simulation.run(killed_at);
        let leader = simulation.leader().expect("a leader");
        simulation.gateways[leader].is_alive = false;
        let begin = simulation.now;
        while simulation.leader().is_none() {
            simulation.tick();
            // A renewal may be on its way to the server; then its event, and the write of the next leader.
            let bar = u64::try_from(DURATION.as_millis()).expect("milliseconds") + 5 * DELAY_MAX_MS;
            assert!(simulation.now - begin <= bar, "seed {seed}: no leader after {bar} ms");
        }
        slowest = slowest.max(simulation.now - begin);
        simulation.run(5000);
        assert!(simulation.leader().is_some(), "seed {seed}");
    }
    // The simulation reaches the worst case: a leader that ends right after a renewal.
    assert!(slowest > 1300, "{slowest} ms");
}

#[test]
fn the_leader_makes_two_requests_in_the_duration_and_the_others_none() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(seed, 5, true);
        simulation.run(1000);
        let leader = simulation.leader().expect("a leader");
        let before: Vec<usize> = simulation.gateways.iter().map(|gateway| gateway.requests).collect();
        simulation.run(60_000);
        assert_eq!(simulation.leader(), Some(leader));
        for (number, gateway) in simulation.gateways.iter().enumerate() {
            let requests = gateway.requests - before[number];
            match number == leader {
                true => assert!((75..=80).contains(&requests), "seed {seed}: {requests} requests a minute"),
                false => assert_eq!(requests, 0, "seed {seed}: requests of a gateway that does not lead"),
            }
        }
    }
}

#[test]
fn without_events_the_lease_is_read_and_still_has_one_holder() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(seed, 3, false);
        simulation.run(5000);
        let leader = simulation.leader().expect("a leader");
        simulation.run(60_000);
        assert_eq!(simulation.leader(), Some(leader), "seed {seed}");
        simulation.gateways[leader].is_alive = false;
        simulation.run(4000);
        assert!(simulation.leader().is_some(), "seed {seed}");
    }
}

#[test]
fn no_gateway_leads_while_the_api_server_is_away_and_one_does_afterwards() {
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed, 3, true);
        simulation.run(3000);
        assert!(simulation.leader().is_some());
        simulation.is_server_up = false;
        simulation.run(1600);
        assert_eq!(simulation.leader(), None, "seed {seed}");
        simulation.run(10_000);
        simulation.is_server_up = true;
        simulation.run(1000);
        assert!(simulation.leader().is_some(), "seed {seed}");
    }
}

/// Returns a Lease as the API server has it.
fn lease(holder: &str, version: u64, seconds: i32) -> Lease {
    let metadata = ObjectMeta { resource_version: Some(version.to_string()), ..ObjectMeta::default() };
    let renewed = Timestamp::from_second(i64::try_from(version).expect("a number")).expect("a time");
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        renew_time: Some(MicroTime(renewed)),
        ..LeaseSpec::default()
    };
    Lease { metadata, spec: Some(spec) }
}

fn may_write(election: &Election, now: Instant) -> bool {
    matches!(election.next(now), Step::Write(_))
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let now = Instant::now();
    let mut election = Election::new(settings("a"), now);
    assert_eq!(election.next(now), Step::Read);
    election.observe(Some(lease("b", 1, 2)), now);
    assert!(!may_write(&election, now + DURATION / 2));
    election.observe(Some(lease("", 2, 2)), now);
    assert!(may_write(&election, now));
    election.observe(None, now);
    let Step::Write(created) = election.next(now) else { panic!("no Lease is created") };
    assert_eq!((created.metadata.name.as_deref(), version(&created)), (Some("tollgate"), ""));
}

#[test]
fn the_duration_in_the_lease_counts_if_its_holder_has_another_one() {
    let now = Instant::now();
    let mut election = Election::new(settings("a"), now);
    // 1.5 s are 2 whole seconds.
    election.observe(Some(lease("b", 1, 2)), now);
    assert!(may_write(&election, now + DURATION));
    election.observe(Some(lease("b", 2, 5)), now);
    assert!(!may_write(&election, now + Duration::from_millis(4999)));
    assert!(may_write(&election, now + Duration::from_secs(5)));
}

#[test]
fn a_change_of_the_lease_that_is_no_renewal_does_not_prolong_it() {
    let now = Instant::now();
    let mut election = Election::new(settings("a"), now);
    let mut other = lease("b", 1, 2);
    election.observe(Some(other.clone()), now);
    other.metadata.resource_version = Some("2".to_owned());
    election.observe(Some(other.clone()), now + DURATION / 2);
    let Step::Write(written) = election.next(now + DURATION) else { panic!("the Lease is not taken") };
    assert_eq!(version(&written), "2");
    // An event may be older than an answer.
    other.metadata.resource_version = Some("1".to_owned());
    election.observe(Some(other), now + DURATION);
    let Step::Write(written) = election.next(now + DURATION) else { panic!("the Lease is not taken") };
    assert_eq!(version(&written), "2");
}

#[test]
fn the_lease_says_since_when_and_how_often_it_changed_hands() {
    let now = Instant::now();
    let mut election = Election::new(settings("a"), now);
    election.observe(None, now);
    let first = election.held();
    let spec = first.spec.clone().unwrap_or_default();
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(1), Some(2)));
    election.written(first, now, now);
    let renewed = election.held().spec.unwrap_or_default();
    assert_eq!((renewed.acquire_time, renewed.lease_transitions), (spec.acquire_time.clone(), Some(1)));
    assert!(renewed.renew_time > spec.renew_time);
    election.observe(Some(lease("b", 9, 2)), now);
    let taken = election.held().spec.unwrap_or_default();
    assert_eq!(taken.lease_transitions, Some(1));
    assert!(taken.acquire_time > spec.acquire_time);
}
