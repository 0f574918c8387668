//! What a seed becomes.

mod asks;
mod origins;
mod plans;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use tollgate_net::simulated::Conditions;

pub use asks::{Ask, Batch, Body, ClientPlan, Leave};
pub use origins::{Act, Lie, Manners, OriginPlan, Where};
pub use plans::{cookie, empty};

use crate::sabotage::Sabotage;

/// Where the gateway listens.
pub const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 80);

/// The upstreams that plans may name.
pub const UPSTREAMS: [&str; 2] = ["one", "two"];
/// What probes ask for.
pub const PROBE: &str = "/healthz";

/// Returns the ports on which origins listen for an upstream, by its number.
#[must_use]
pub fn ports(upstream: usize) -> Range<u16> {
    let first = 8000 + 1000 * upstream as u16;
    first..first + 1000
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nothing: every request must be answered, whatever the gateway goes through.
    Calm,
    /// Origins close idle connections as they like, which no request without a body may suffer from.
    Closing,
    /// Everything.
    Rough,
}

/// Everything that is played.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it came from.
    pub seed: u64,
    /// How much goes wrong.
    pub mood: Mood,
    /// Workers of the gateway.
    pub workers: usize,
    /// The network.
    pub conditions: Conditions,
    /// The plans' texts; the first is there from the beginning.
    pub plans: Vec<String>,
    /// Origins.
    pub origins: Vec<OriginPlan>,
    /// What is found when the upstreams are looked up at first: origins by number, with their weights.
    pub found: [Vec<(usize, u32)>; UPSTREAMS.len()],
    /// Clients.
    pub clients: Vec<ClientPlan>,
    /// What happens when.
    pub events: Vec<(Duration, Event)>,
    /// When the drain begins; `None`: when the clients are done.
    pub drain: Option<Duration>,
    /// How long before the drain every answer says that it is the last.
    pub leave: Option<Duration>,
    /// What a test has go wrong.
    pub sabotage: Option<Sabotage>,
}

/// What happens beside the clients and what origins do of themselves.
#[derive(Clone, Debug)]
pub enum Event {
    /// The workers get another plan, by number.
    Reload(usize),
    /// A worker gets no turn for a while.
    PauseWorker(usize, Duration),
    /// The gateway's process gets none at all, as on a machine that was suspended; clients and origins go on.
    Stall(Duration),
    /// The wall clock is set forward, or back, by so many seconds.
    SetClock(i64),
    /// The gateway is short of its means for a while: requests below this priority are turned away.
    Press(u8, Duration),
    /// An origin gets none.
    PauseOrigin(usize, Duration),
    /// Nothing gets through to or from an origin for a while.
    Hold(usize, Duration),
    /// An origin dies, and is there again after a while.
    Crash(usize, Duration),
    /// An origin dies; another has its name from now on, and its number.
    Move(usize, IpAddr),
    /// An upstream is looked up again: it has these origins now, with these weights, where they are then.
    LookUp(usize, Vec<(usize, u32)>),
}

impl Scenario {
    /// Returns the scenario of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Not the world's own numbers: what is played must not depend on how it is played.
        let mut rng = Rng::with_seed(seed ^ 0x5ce7_a210);
        let mood = match rng.u32(0..10) {
            0..3 => Mood::Calm,
            3..5 => Mood::Closing,
            _ => Mood::Rough,
        };
        let workers = rng.usize(1..=4);
        let conditions = conditions(&mut rng);
        // A byte at a time takes its turns.
        let longest = match conditions.capacity.0 {
            1 => 700,
            2..1000 => 3000,
            _ => 200_000,
        };
        let origins = origins::generate(&mut rng, mood, longest);
        let half_close = rng.bool();
        let plans = plans::generate(&mut rng, mood, &origins, half_close);
        let clients = asks::generate(&mut rng, mood, longest, half_close);
        let events = events(&mut rng, mood, workers, &origins, plans.len());
        let drain = (rng.u32(0..4) == 0).then(|| Duration::from_millis(rng.u64(1..4000)));
        let leave = (rng.bool()).then(|| Duration::from_millis(rng.u64(1..500)));
        let found = [(); UPSTREAMS.len()].map(|()| found(&mut rng, origins.len()));
        Self {
            seed,
            mood,
            workers,
            conditions,
            plans,
            origins,
            found,
            clients,
            events,
            drain,
            leave,
            sabotage: None,
        }
    }
}

/// One of several.
fn any<T: Copy, const N: usize>(rng: &mut Rng, of: [T; N]) -> T {
    of[rng.usize(0..N)]
}

/// Some origins, at least one, with weights.
fn found(rng: &mut Rng, origins: usize) -> Vec<(usize, u32)> {
    let mut found: Vec<_> = (0..origins).collect();
    rng.shuffle(&mut found);
    found.truncate(rng.usize(1..=origins));
    found.into_iter().map(|origin| (origin, rng.u32(1..4))).collect()
}

fn conditions(rng: &mut Rng) -> Conditions {
    let slowest = any(rng, [50, 200, 2_000, 20_000]);
    let least = any(rng, [1, 64, 2048, 65_536]);
    let often = |rng: &mut Rng| any(rng, [0, 3, 10, 40]);
    Conditions {
        delay: (5, slowest),
        capacity: (least, least * rng.usize(1..=8)),
        pieces: often(rng),
        short_writes: often(rng),
        short_reads: often(rng),
        shares: often(rng),
        poll: (0, any(rng, [0, 3, 50])),
    }
}

fn events(
    rng: &mut Rng,
    mood: Mood,
    workers: usize,
    origins: &[OriginPlan],
    plans: usize,
) -> Vec<(Duration, Event)> {
    let at = |rng: &mut Rng| Duration::from_millis(rng.u64(0..3000));
    let mut events: Vec<_> = (1..plans).map(|plan| (at(rng), Event::Reload(plan))).collect();
    for _ in 0..rng.usize(0..4) {
        let pause = Duration::from_millis(rng.u64(1..200));
        events.push((at(rng), Event::PauseWorker(rng.usize(0..workers), pause)));
    }
    for _ in 0..rng.usize(0..3) {
        let upstream = rng.usize(0..UPSTREAMS.len());
        events.push((at(rng), Event::LookUp(upstream, found(rng, origins.len()))));
    }
    if rng.u32(0..4) == 0 {
        let seconds = any(rng, [1, 3600, 2_000_000_000, 253_000_000_000]);
        events.push((at(rng), Event::SetClock(if rng.bool() { seconds } else { -seconds })));
    }
    if rng.u32(0..4) == 0 {
        // A request must be answered where nothing goes wrong, and the shortest timeout is that of a connect, 5 s.
        let longest = if mood == Mood::Rough { 10_000 } else { 1000 };
        let time = Duration::from_millis(any(rng, [100, 1000, longest]) * rng.u64(1..5));
        events.push((at(rng), Event::Stall(time)));
    }
    if rng.u32(0..4) == 0 {
        let (below, time) = (rng.u32(1..=3) as u8, Duration::from_millis(rng.u64(1..2000)));
        events.push((at(rng), Event::Press(below, time)));
    }
    if mood == Mood::Rough {
        for _ in 0..rng.usize(0..6) {
            let origin = rng.usize(0..origins.len());
            let time = Duration::from_millis(any(rng, [10, 100, 1000, 10_000]) * rng.u64(1..5));
            let event = match rng.u32(0..5) {
                0 => Event::PauseOrigin(origin, time),
                1 => Event::Hold(origin, time),
                2 => Event::Move(origin, IpAddr::from([10, 1, 200 + events.len() as u8, origin as u8])),
                _ => Event::Crash(origin, time),
            };
            let when = at(rng);
            if let Event::Move(..) = event {
                for upstream in 0..UPSTREAMS.len() {
                    let later = when + Duration::from_millis(rng.u64(0..1000));
                    events.push((later, Event::LookUp(upstream, found(rng, origins.len()))));
                }
            }
            events.push((when, event));
        }
    }
    events.sort_by_key(|(at, _)| *at);
    events
}
