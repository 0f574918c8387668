//! The requests of clients, and how they are sent.

use std::net::Ipv4Addr;
use std::time::Duration;

use fastrand::Rng;

use super::{Mood, any};
use crate::wire::Pace;

/// A client: batches in sequence, over one connection while it stays open.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its address.
    pub address: Ipv4Addr,
    /// When it starts, in virtual time.
    pub start: Duration,
    /// How it reads.
    pub pace: Pace,
    /// Its batches of requests.
    pub batches: Vec<Batch>,
    /// Whether it ends its direction before the last answers arrive.
    pub half_close: bool,
}

/// Requests that are sent without waiting for answers (a pipeline).
#[derive(Clone, Debug)]
pub struct Batch {
    /// The pause before the batch.
    pub pause: Duration,
    /// Whether the batch uses a new connection.
    pub fresh: bool,
    /// The requests.
    pub asks: Vec<Ask>,
    /// How the requests are written: the size of the pieces, and the pause after each.
    pub pace: Pace,
    /// Whether the client closes: after how many bytes, after how much more time, and how.
    pub leave: Option<(usize, Duration, Leave)>,
}

/// How a client closes before it has its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// With a reset.
    Reset,
    /// With a FIN, as a process that ends.
    Close,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number, which is unique in the scenario.
    pub number: u64,
    /// Its method.
    pub method: &'static str,
    /// The route's number.
    pub route: u32,
    /// Its body.
    pub body: Body,
    /// Whether it is HTTP/1.0.
    pub old: bool,
    /// Whether it has `Connection: close`.
    pub close: bool,
    /// Whether it waits for `100 Continue`.
    pub expect: bool,
    /// Whether it requests a tunnel, and how many bytes it sends through it.
    pub upgrade: Option<usize>,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// With a `Content-Length` in bytes.
    Length(usize),
    /// Chunked: the size of each chunk, the total size, and whether trailers follow.
    Chunked(usize, usize, bool),
    /// Chunked, with an invalid chunk after this many bytes.
    Broken(usize),
}

impl Body {
    /// Returns the total size in bytes.
    #[must_use]
    pub fn length(self) -> usize {
        match self {
            Self::None => 0,
            Self::Length(length) | Self::Chunked(_, length, _) | Self::Broken(length) => length,
        }
    }
}

/// Generates the clients. `half_close` is whether clients may end their direction before their last answers
/// arrive.
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

pub(super) fn pace(rng: &mut Rng, piece: usize) -> Pace {
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
    // A client must not send after its last request (RFC 9112, 9.6), and nothing can be parsed after an
    // invalid message.
    let is_last = |ask: &Ask| ask.close || ask.old || matches!(ask.body, Body::Broken(_));
    if let Some(last) = asks.iter().position(is_last) {
        asks.truncate(last + 1);
    }
    // A client that waits in the middle cannot pipeline.
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

/// Returns a number below one of several bounds.
pub(super) fn below<const N: usize>(rng: &mut Rng, bounds: [usize; N]) -> usize {
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
