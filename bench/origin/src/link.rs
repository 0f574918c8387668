//! A link that is long and narrow, between a client and a system: a relay for TCP.

mod bottleneck;
mod pipe;
mod traffic;

use crate::failure::Failure;
use crate::socket::listen_on;
use crate::threads::Threads;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::net::SocketAddr;
use traffic::Traffic;

/// A link.
///
/// Bytes arrive half a round trip after the relay took them, in either direction; so do the ends of streams, each
/// direction by itself. A direction of a connection holds up to 256 KiB on the way, as a TCP window of that size would
/// allow; beyond that the sender has to wait.
///
/// The handshake: the client's kernel completes it with the relay at once, which a long link would not. The relay
/// therefore reads nothing from the client until a whole round trip after it accepted the connection, and only then
/// connects to the system. A request that is sent at once is answered two round trips later, and a connection that
/// has been idle for a while costs one: both as on the real link. Not as there: the system sees the connection half a
/// round trip later, the client's `connect` itself takes no time, nothing is lost, and no window grows slowly.
///
/// Towards the client all connections share the rate, in turn, some milliseconds' worth each; what exceeds it waits in
/// the system's sockets and holds the system up there. Counted are the bytes that TCP carries, without headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where clients connect. Port 0: the kernel chooses, and [`Relay::address`] tells.
    pub listen: SocketAddr,
    /// Where the relay connects to.
    pub to: SocketAddr,
    /// What the way there and back adds, milliseconds; 0 for nothing.
    pub round_trip_ms: f64,
    /// Bytes a second towards the client, over all connections.
    pub bytes_per_second: f64,
}

/// Longest round trip, a minute.
const LONGEST_MS: f64 = 60_000.0;

/// Lowest and highest rate. At the upper end it is no limit any more.
const RATES: std::ops::RangeInclusive<f64> = 1_000.0..=1e12;

impl Link {
    /// Looks for what cannot be.
    ///
    /// # Errors
    /// [`Failure::Settings`] with the field and what it should be.
    pub fn check(&self) -> Result<(), Failure> {
        if !(0.0..=LONGEST_MS).contains(&self.round_trip_ms) {
            return Err(Failure::Settings(format!(
                "`round_trip_ms` is {}: expected 0 to {LONGEST_MS}",
                self.round_trip_ms
            )));
        }
        if !RATES.contains(&self.bytes_per_second) {
            return Err(Failure::Settings(format!(
                "`bytes_per_second` is {}: expected {} to {}",
                self.bytes_per_second,
                RATES.start(),
                RATES.end()
            )));
        }
        Ok(())
    }
}

/// A relay that runs on a thread of this process until it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    threads: Threads,
}

impl Relay {
    /// Starts one. When this returns it listens. Each connection takes two of the files that the process may open.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(link: &Link) -> Result<Self, Failure> {
        link.check()?;
        // With less than the most, connections beyond wait in the listen queue.
        let _ = tollgate_lab_load::raise_limit();
        let mut threads = Threads::new()?;
        let (listener, address) = listen_on(link.listen, false)?;
        let traffic = Traffic::new(link, listener, threads.stop())?;
        threads.spawn("relay".into(), || traffic.run())?;
        Ok(Self { address, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs a relay for the rest of this process, which a signal (SIGTERM) ends.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn relay(link: &Link) -> Result<Infallible, Failure> {
    Relay::start(link)?.threads.wait()
}
