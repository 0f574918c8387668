//! What origins there are, and their manners.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fastrand::Rng;

use super::{Mood, any, ports};

/// An origin. It listens on a port of its own for each upstream, so that connections tell whose they are.
#[derive(Clone, Debug)]
pub struct OriginPlan {
    /// Its number.
    pub number: usize,
    /// Where it listens at first.
    pub ip: IpAddr,
    /// The name under which the plan has it; without one, by its address.
    pub name: Option<String>,
    /// How it behaves.
    pub manners: Manners,
}

impl OriginPlan {
    /// Returns the port that it has for an upstream, by that one's number.
    #[must_use]
    pub fn port(&self, upstream: usize) -> u16 {
        ports(upstream).start + self.number as u16
    }

    /// As the plan has it in an upstream.
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
    /// What it does with requests, by weight.
    pub acts: Vec<(u32, Act)>,
    /// How long an answer takes at most.
    pub slowest: Duration,
    /// One idle connection in so many it closes after a while; 0: none.
    pub closes_idle: u32,
    /// One probe in so many finds it unwell; 0: none.
    pub unwell: u32,
    /// On one idle connection in so many it says what nobody asked; 0: none.
    pub unsolicited: u32,
    /// Longest body that it sends.
    pub longest: usize,
    /// Connections that wait to be accepted.
    pub backlog: usize,
}

/// What an origin does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Answers it.
    Serve,
    /// Answers before it has read the body.
    Early,
    /// Answers 500 or 503.
    Refuse,
    /// Says nothing, ever.
    Silent,
    /// Answers, but late.
    Late(Duration),
    /// Reads nothing more, and says nothing.
    Deaf,
    /// Ends the connection; the flag: with a reset.
    Leave(Where, bool),
    /// Declares more than it says, and ends the connection.
    TooShort,
    /// Says more than it declares.
    TooLong,
    /// Says a whole second answer behind the first.
    Twice,
    /// Says chunks that are none.
    Chunks(Lie),
    /// Declares a length, and chunks.
    TwoLengths,
    /// Says what is not HTTP.
    Garbage,
}

/// What is wrong with an origin's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A size that is no number.
    Size,
    /// A size beyond all numbers.
    Huge,
    /// More data than the size says.
    Longer,
    /// The last chunk never comes, but the end of the stream.
    Endless,
}

/// Where an origin leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Before it has read the body.
    Body,
    /// Before a word.
    Silence,
    /// In the middle of the head.
    Head,
    /// In the middle of the answer's body.
    Answer,
}

pub(super) fn generate(rng: &mut Rng, mood: Mood, longest: usize) -> Vec<OriginPlan> {
    let count = rng.usize(1..=4);
    let plan = |number| {
        let ip = IpAddr::from([10, 1, 0, number as u8 + 1]);
        let name = (rng.u32(0..3) == 0).then(|| format!("origin{number}.internal"));
        OriginPlan { number, ip, name, manners: manners(rng, mood, longest) }
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
