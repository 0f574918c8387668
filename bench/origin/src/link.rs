//! A TCP relay that simulates a link with high latency and low bandwidth between a client and a system.

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

/// A simulated link.
///
/// Bytes arrive half a round trip after the relay read them, in both directions. The end of a stream is
/// delayed in the same way, for each direction separately. Each direction of a connection holds up to 256 KiB
/// in transit, as a TCP window of that size would allow; beyond that the sender has to wait.
///
/// The handshake: the client's kernel completes it with the relay at once, which a long link would not. The
/// relay therefore reads nothing from the client until a full round trip after it accepted the connection,
/// and only then connects to the system. A request that is sent at once gets its response two round trips
/// later, and a request on an established connection one round trip later; both as on the real link. The
/// simulation differs from a real link in these points: the system sees the connection half a round trip
/// later, the client's `connect` itself takes no time, no packet is lost, and there is no slow start.
///
/// All connections share the rate towards the client in turn, with some milliseconds' worth each. Data beyond
/// the rate waits in the system's sockets and delays the system there. The rate counts the bytes that TCP
/// carries, without headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The address for clients. With port 0 the kernel chooses; see [`Relay::address`].
    pub listen: SocketAddr,
    /// The address that the relay connects to.
    pub to: SocketAddr,
    /// The added round-trip time in milliseconds; 0 adds none.
    pub round_trip_ms: f64,
    /// Bytes per second towards the client, over all connections.
    pub bytes_per_second: f64,
}

/// Longest round trip: a minute.
const LONGEST_MS: f64 = 60_000.0;

/// Lowest and highest rate in bytes per second. The highest is no limit in practice.
const RATES: std::ops::RangeInclusive<f64> = 1_000.0..=1e12;

impl Link {
    /// Checks the values.
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
    /// Starts a relay, which listens when this returns. Each connection takes two descriptors.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(link: &Link) -> Result<Self, Failure> {
        link.check()?;
        // The result is ignored: with a low limit, further connections wait in the listen queue.
        let _ = tollgate_lab_load::raise_limit();
        let mut threads = Threads::new()?;
        let (listener, address) = listen_on(link.listen, false)?;
        let traffic = Traffic::new(link, listener, threads.stop())?;
        threads.spawn("relay".into(), || traffic.run())?;
        Ok(Self { address, threads })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs a relay until a signal (SIGTERM) ends the process.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn relay(link: &Link) -> Result<Infallible, Failure> {
    Relay::start(link)?.threads.wait()
}
