//! Generates a scenario from a seed.

mod asks;
mod origins;
mod plans;
mod streams;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use tollgate_net::simulated::NetworkConditions;

pub use asks::{Ask, Batch, Body, ClientPlan, Leave};
pub use origins::{Act, Lie, Manners, OriginPlan, Where};
pub use plans::{cookie, empty};
pub use streams::StreamPlan;

use crate::sabotage::Sabotage;

/// The address on which the gateway listens.
pub const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 80);

/// The address on which the gateway listens for streams.
pub const STREAMS: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 81);

/// The addresses of the echo servers. The first is always there.
pub const ECHOES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 3, 0, 1)), 7000),
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 3, 0, 2)), 7000),
];

/// The upstreams that plans may name.
pub const UPSTREAMS: [&str; 2] = ["one", "two"];
/// The path of probes.
pub const PROBE: &str = "/healthz";

/// Returns the ports on which origins listen for an upstream, by the upstream's number.
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
    /// Origins close idle connections at will. No request without a body may suffer from this.
    Closing,
    /// Everything.
    Rough,
}

/// Everything that a run plays.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of the scenario.
    pub seed: u64,
    /// How much goes wrong.
    pub mood: Mood,
    /// The number of the gateway's workers.
    pub workers: usize,
    /// The properties of the network.
    pub conditions: NetworkConditions,
    /// The texts of the plans. The first is in force from the start.
    pub plans: Vec<String>,
    /// The origins.
    pub origins: Vec<OriginPlan>,
    /// The first results of look-ups, by upstream: numbers of origins, with their weights.
    pub found: [Vec<(usize, u32)>; UPSTREAMS.len()],
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// The streams of layer 4.
    pub streams: Vec<StreamPlan>,
    /// Whether each of their servers is there.
    pub echoes: [bool; ECHOES.len()],
    /// The events, with their times in virtual time.
    pub events: Vec<(Duration, Event)>,
    /// When the drain begins; `None` means when the clients are done.
    pub drain: Option<Duration>,
    /// How long before the drain every answer starts to announce the end of its connection.
    pub leave: Option<Duration>,
    /// The fault that a test injects.
    pub sabotage: Option<Sabotage>,
}

/// An event in addition to the behaviour of clients and origins.
#[derive(Clone, Debug)]
pub enum Event {
    /// The workers get another plan, by number.
    Reload(usize),
    /// A worker does not run for a while.
    PauseWorker(usize, Duration),
    /// The gateway's process does not run for a while, as on a suspended machine. Clients and origins
    /// continue.
    Stall(Duration),
    /// The wall clock is set forward or back by this many seconds.
    SetClock(i64),
    /// The gateway is short of resources for a while: requests below this priority are shed.
    Press(u8, Duration),
    /// An origin does not run for a while.
    PauseOrigin(usize, Duration),
    /// No bytes pass to or from an origin for a while.
    Hold(usize, Duration),
    /// An origin crashes, and comes back after a while.
    Crash(usize, Duration),
    /// An origin crashes, and starts again at this address with its old name and number.
    Move(usize, IpAddr),
    /// A look-up of an upstream finds these origins, with these weights, at their addresses of that time.
    LookUp(usize, Vec<(usize, u32)>),
}

impl Scenario {
    /// Returns the scenario of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Not the world's own generator: the scenario must not depend on how it is played.
        let mut rng = Rng::with_seed(seed ^ 0x5ce7_a210);
        let mood = match rng.u32(0..10) {
            0..3 => Mood::Calm,
            3..5 => Mood::Closing,
            _ => Mood::Rough,
        };
        let workers = rng.usize(1..=4);
        let conditions = conditions(&mut rng);
        // Transfers of one byte at a time take many turns.
        let longest = match conditions.capacity.0 {
            1 => 700,
            2..1000 => 3000,
            _ => 200_000,
        };
        // HTTP/2 requests share a connection. Through the narrowest ones they would run into their timeouts. The
        // generator is its own, so that a seed is the same scenario in both protocols.
        let is_wide = conditions.capacity.0 > 1;
        let mut protocols = Rng::with_seed(seed ^ 0x0b2c_0de5);
        let http2 = [(); UPSTREAMS.len()].map(|()| is_wide && protocols.u32(0..3) == 0);
        let origins = origins::generate(&mut rng, mood, longest, http2);
        let half_close = rng.bool();
        let plans = plans::generate(&mut rng, mood, &origins, half_close);
        let clients = asks::generate(&mut rng, mood, longest, half_close);
        let events = events(&mut rng, mood, workers, &origins, plans.len());
        let drain = (rng.u32(0..4) == 0).then(|| Duration::from_millis(rng.u64(1..4000)));
        let leave = (rng.bool()).then(|| Duration::from_millis(rng.u64(1..500)));
        // A generator of their own, so that the requests of a seed stay the same.
        let (streams, echoes) = streams::generate(&mut Rng::with_seed(seed ^ 0x57ea_3a4b), mood, longest);
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
            streams,
            echoes,
            events,
            drain,
            leave,
            sabotage: None,
        }
    }
}

/// Returns one of several values.
fn any<T: Copy, const N: usize>(rng: &mut Rng, of: [T; N]) -> T {
    of[rng.usize(0..N)]
}

/// Returns some origins, at least one, with weights.
fn found(rng: &mut Rng, origins: usize) -> Vec<(usize, u32)> {
    let mut found: Vec<_> = (0..origins).collect();
    rng.shuffle(&mut found);
    found.truncate(rng.usize(1..=origins));
    found.into_iter().map(|origin| (origin, rng.u32(1..4))).collect()
}

fn conditions(rng: &mut Rng) -> NetworkConditions {
    let slowest = any(rng, [50, 200, 2_000, 20_000]);
    let least = any(rng, [1, 64, 2048, 65_536]);
    let often = |rng: &mut Rng| any(rng, [0, 3, 10, 40]);
    NetworkConditions {
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
        // If nothing goes wrong, every request must be answered. The shortest timeout is 5 s, for a connect.
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
