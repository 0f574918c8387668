//! The origins of a scenario, and how they behave.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fastrand::Rng;

use super::{Mood, UPSTREAMS, any, ports};

/// An origin. It listens on a port of its own for each upstream, so that the network can assign connections
/// to upstreams.
#[derive(Clone, Debug)]
pub struct OriginPlan {
    /// Its number.
    pub number: usize,
    /// Its first address.
    pub ip: IpAddr,
    /// The name by which the plan refers to it; `None` means by its address.
    pub name: Option<String>,
    /// How it behaves.
    pub manners: Manners,
    /// Whether it speaks HTTP/2, by the upstream's number.
    pub http2: [bool; UPSTREAMS.len()],
}

impl OriginPlan {
    /// Returns the port on which it listens for an upstream, by the upstream's number.
    #[must_use]
    pub fn port(&self, upstream: usize) -> u16 {
        ports(upstream).start + self.number as u16
    }

    /// Returns its address in the plan, for an upstream.
    #[must_use]
    pub fn target(&self, upstream: usize) -> String {
        match &self.name {
            Some(name) => format!("{name}:{}", self.port(upstream)),
            None => SocketAddr::new(self.ip, self.port(upstream)).to_string(),
        }
    }
}

/// How an origin behaves.
#[derive(Clone, Debug)]
pub struct Manners {
    /// Its actions for requests, with weights.
    pub acts: Vec<(u32, Act)>,
    /// The longest delay of an answer.
    pub slowest: Duration,
    /// It closes one idle connection in this many after a while; 0 means none.
    pub closes_idle: u32,
    /// It fails one probe in this many; 0 means none.
    pub unwell: u32,
    /// It sends an answer without a request on one idle connection in this many; 0 means none.
    pub unsolicited: u32,
    /// The longest body that it sends, in bytes.
    pub longest: usize,
    /// The size of its accept queue.
    pub backlog: usize,
}

/// The action of an origin for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Answers the request.
    Serve,
    /// Answers before it has read the body.
    Early,
    /// Answers 500, 502 or 503.
    Refuse,
    /// Never answers.
    Silent,
    /// Answers after this delay.
    Late(Duration),
    /// Stops reading, and never answers.
    Deaf,
    /// Ends the connection at this point; the flag means with a reset.
    Leave(Where, bool),
    /// Declares more bytes than it sends, and ends the connection.
    TooShort,
    /// Sends more bytes than it declares.
    TooLong,
    /// Sends a second whole answer after the first.
    Twice,
    /// Sends invalid chunks.
    Chunks(Lie),
    /// Declares both a length and chunks.
    TwoLengths,
    /// Sends bytes that are not HTTP.
    Garbage,
}

/// The fault in an origin's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A size that is not a number.
    Size,
    /// A size that overflows.
    Huge,
    /// More data than the size.
    Longer,
    /// The stream ends without the last chunk.
    Endless,
}

/// The point at which an origin ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Before it has read the body.
    Body,
    /// Before the first byte of the answer.
    Silence,
    /// In the middle of the head.
    Head,
    /// In the middle of the answer's body.
    Answer,
}

pub(super) fn generate(
    rng: &mut Rng,
    mood: Mood,
    longest: usize,
    http2: [bool; UPSTREAMS.len()],
) -> Vec<OriginPlan> {
    let count = rng.usize(1..=4);
    let plan = |number| {
        let ip = IpAddr::from([10, 1, 0, number as u8 + 1]);
        let name = (rng.u32(0..3) == 0).then(|| format!("origin{number}.internal"));
        OriginPlan { number, ip, name, manners: manners(rng, mood, longest), http2 }
    };
    (0..count).map(plan).collect()
}

fn manners(rng: &mut Rng, mood: Mood, most: usize) -> Manners {
    let mut acts = vec![(100, Act::Serve)];
    let rough = mood == Mood::Rough;
    if mood != Mood::Calm {
        acts.push((10, Act::Early));
    }
    if rough {
        let mut places = [Where::Body, Where::Silence, Where::Head, Where::Answer].into_iter();
        let mut all = vec![Act::Refuse, Act::Silent, Act::Deaf, Act::TooShort, Act::TooLong, Act::Garbage];
        all.extend([Act::Twice, Act::TwoLengths]);
        all.extend([Lie::Size, Lie::Huge, Lie::Longer, Lie::Endless].map(Act::Chunks));
        all.push(Act::Late(Duration::from_millis(rng.u64(500..8000))));
        all.extend(places.by_ref().flat_map(|place| [Act::Leave(place, false), Act::Leave(place, true)]));
        acts.extend(all.into_iter().map(|act| (any(rng, [0, 0, 2, 10]), act)));
    }
    let often = |rng: &mut Rng| any(rng, [0, 0, 2, 5]);
    Manners {
        acts,
        slowest: Duration::from_micros(any(rng, [10, 1_000, 50_000, 400_000])),
        closes_idle: if mood == Mood::Calm { 0 } else { often(rng) },
        unwell: if rough { often(rng) } else { 0 },
        unsolicited: if rough { often(rng) } else { 0 },
        longest: any(rng, [10, 2000, 20_000, 150_000]).min(most),
        backlog: if rough { any(rng, [1, 4, 128]) } else { 128 },
    }
}
