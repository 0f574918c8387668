//! What clients ask, and how.

use std::net::Ipv4Addr;
use std::time::Duration;

use fastrand::Rng;

use super::{Mood, any};
use crate::wire::Pace;

/// A client: batches, one after the other, over one connection as long as it holds.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its address.
    pub address: Ipv4Addr,
    /// When it begins.
    pub start: Duration,
    /// How it reads.
    pub pace: Pace,
    /// What it asks.
    pub batches: Vec<Batch>,
    /// Whether it says that it has said all, before the last answers come.
    pub half_close: bool,
}

/// Requests that are sent without waiting for answers.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Wait before.
    pub pause: Duration,
    /// Whether it goes over a connection of its own.
    pub fresh: bool,
    /// Requests.
    pub asks: Vec<Ask>,
    /// How they are written: pieces of so many bytes, with such pauses.
    pub pace: Pace,
    /// Whether, after how many bytes and how long, the client leaves.
    pub leave: Option<(usize, Duration, Leave)>,
}

/// How a client leaves before it got its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// With a reset.
    Reset,
    /// It closes, as a process that ends.
    Close,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number, which nobody else has.
    pub number: u64,
    /// Its method.
    pub method: &'static str,
    /// The route's number.
    pub route: u32,
    /// Its body.
    pub body: Body,
    /// Whether it is HTTP/1.0.
    pub old: bool,
    /// Whether it says `Connection: close`.
    pub close: bool,
    /// Whether it waits for `100 Continue`.
    pub expect: bool,
    /// Whether it asks for a tunnel, through which it sends so many bytes.
    pub upgrade: Option<usize>,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// None.
    None,
    /// With its length.
    Length(usize),
    /// In chunks of so many bytes, so many in all; with trailers or not.
    Chunked(usize, usize, bool),
    /// In chunks, and after so many bytes in what is none.
    Broken(usize),
}

impl Body {
    /// Bytes in all.
    #[must_use]
    pub fn length(self) -> usize {
        match self {
            Self::None => 0,
            Self::Length(length) | Self::Chunked(_, length, _) | Self::Broken(length) => length,
        }
    }
}

/// `half_close`: whether clients may end their direction before their last answers come.
pub(super) fn generate(rng: &mut Rng, mood: Mood, longest: usize, half_close: bool) -> Vec<ClientPlan> {
    let count = rng.usize(1..=8);
    (0..count).map(|index| client(rng, mood, index, (longest, half_close))).collect()
}

fn client(rng: &mut Rng, mood: Mood, index: usize, (longest, half_close): (usize, bool)) -> ClientPlan {
    let mut number = index as u64 * 1000;
    let hasty = rng.u32(0..4) > 0;
    let batches = (0..rng.usize(1..=6)).map(|_| batch(rng, mood, (&mut number, longest), hasty)).collect();
    let slow = rng.u32(0..8) == 0;
    ClientPlan {
        address: Ipv4Addr::new(10, 2, 0, index as u8 + 1),
        start: Duration::from_micros(rng.u64(0..2_000_000)),
        pace: if slow { pace(rng, 2000) } else { Pace::default() },
        batches,
        half_close: half_close && rng.u32(0..2) == 0,
    }
}

fn pace(rng: &mut Rng, piece: usize) -> Pace {
    Pace { piece: rng.usize(1..=piece), pause: Duration::from_micros(rng.u64(0..5000)) }
}

fn batch(rng: &mut Rng, mood: Mood, (number, most): (&mut u64, usize), hasty: bool) -> Batch {
    let count = if rng.u32(0..4) == 0 { rng.usize(2..=5) } else { 1 };
    let mut asks: Vec<Ask> = (0..count)
        .map(|_| {
            *number += 1;
            ask(rng, *number, most)
        })
        .collect();
    // Who says that it is the last must not send on (RFC 9112, 9.6); behind what is no message nothing can be read.
    let is_last = |ask: &Ask| ask.close || ask.old || matches!(ask.body, Body::Broken(_));
    if let Some(last) = asks.iter().position(is_last) {
        asks.truncate(last + 1);
    }
    // Who waits for something in the middle cannot send on.
    if asks.len() > 1 {
        asks.iter_mut().for_each(|ask| (ask.expect, ask.upgrade) = (false, None));
    }
    let length: usize = asks.iter().map(|ask| 200 + ask.body.length()).sum();
    let slow = rng.u32(0..8) == 0;
    let leaves = mood == Mood::Rough && rng.u32(0..10) == 0;
    let leave = leaves.then(|| {
        let how = if rng.bool() { Leave::Reset } else { Leave::Close };
        let longest = any(rng, [100, 10_000, 100_000, 3_000_000]);
        (rng.usize(0..=length), Duration::from_micros(rng.u64(0..longest)), how)
    });
    let longest = if hasty { 20_000 } else { 2_000_000 };
    Batch {
        pause: Duration::from_micros(rng.u64(0..longest)),
        fresh: rng.u32(0..6) == 0,
        asks,
        pace: if slow { pace(rng, length / 4 + 1) } else { Pace { piece: usize::MAX, ..Pace::default() } },
        leave,
    }
}

/// Below one of several bounds.
fn below<const N: usize>(rng: &mut Rng, bounds: [usize; N]) -> usize {
    let bound = any(rng, bounds);
    rng.usize(0..bound)
}

fn ask(rng: &mut Rng, number: u64, most: usize) -> Ask {
    let upgrade = (rng.u32(0..20) == 0).then(|| rng.usize(0..30_000.min(most)));
    let bodiless = upgrade.is_some() || rng.u32(0..3) > 0;
    let method = match bodiless {
        true => any(rng, ["GET", "GET", "GET", "HEAD", "DELETE", "POST"]),
        false => any(rng, ["POST", "POST", "PUT", "PATCH"]),
    };
    let method = if upgrade.is_some() { "GET" } else { method };
    let length = below(rng, [10, 1000, 20_000, 100_000]).min(most);
    let body = match (bodiless, rng.bool()) {
        (true, _) => Body::None,
        (_, true) if rng.u32(0..12) == 0 => Body::Broken(length),
        (_, true) => Body::Length(length),
        (_, false) => Body::Chunked(rng.usize(1..=length.max(1)).max(length / 20), length, rng.bool()),
    };
    let old =
        upgrade.is_none() && !matches!(body, Body::Chunked(..) | Body::Broken(_)) && rng.u32(0..12) == 0;
    Ask {
        number,
        method,
        route: rng.u32(0..3),
        body,
        old,
        close: rng.u32(0..12) == 0,
        expect: !old && body != Body::None && rng.u32(0..6) == 0,
        upgrade,
    }
}
