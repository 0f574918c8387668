//! The streams of layer 4 in a scenario: their clients, and the echo servers behind the gateway.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fastrand::Rng;

use super::asks::{Leave, below, pace};
use super::{ECHOES, Mood, any};
use crate::wire::Pace;

/// A client of the layer 4 listener: one connection.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Its number, which is unique among streams.
    pub number: u64,
    /// The client's address.
    pub address: SocketAddr,
    /// When it starts, in virtual time.
    pub start: Duration,
    /// How many bytes it sends and expects back.
    pub length: usize,
    /// How it writes.
    pub writes: Pace,
    /// How it reads.
    pub reads: Pace,
    /// Whether it closes before the end: after how many bytes, and how.
    pub leave: Option<(usize, Leave)>,
    /// Whether its server closes before the end: after how many bytes, and how.
    pub cut: Option<(usize, Leave)>,
}

/// Generates the streams, and whether each echo server is there.
pub(super) fn generate(rng: &mut Rng, mood: Mood, most: usize) -> (Vec<StreamPlan>, [bool; ECHOES.len()]) {
    let streams = (0..rng.u32(0..6)).map(|index| stream(rng, mood, index as u8, most)).collect();
    // A connect that is refused goes to the other server.
    let second = mood != Mood::Rough || rng.bool();
    (streams, [true, second])
}

fn stream(rng: &mut Rng, mood: Mood, index: u8, most: usize) -> StreamPlan {
    let length = below(rng, [2, 1000, 100_000, 300_000]).min(most);
    let ends_early = |rng: &mut Rng| {
        let early = mood == Mood::Rough && rng.u32(0..4) == 0;
        early.then(|| (rng.usize(0..=length), any(rng, [Leave::Reset, Leave::Close])))
    };
    let speed = |rng: &mut Rng| if rng.u32(0..3) == 0 { pace(rng, length / 4 + 1) } else { Pace::default() };
    StreamPlan {
        number: u64::from(index) + 1,
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 4, 0, index + 1)), 20_000),
        start: Duration::from_micros(rng.u64(0..2_000_000)),
        length,
        writes: speed(rng),
        reads: speed(rng),
        leave: ends_early(rng),
        cut: ends_early(rng),
    }
}
