//! Counts wrong credentials by source address, and slows their senders down.
//!
//! The first five wrong credentials of an address within a minute are answered at once, further ones after a
//! second. While several answers to one address wait, its requests with credentials are refused unchecked. An
//! address can therefore try a few tokens a second, and is admitted again a second after it stops. Addresses
//! without wrong credentials are not affected.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_observe::PeerAddress;

/// How long wrong credentials are remembered after the last ones.
const MEMORY: Duration = Duration::from_secs(60);
/// How many wrong credentials of an address are answered at once.
const FREE: u64 = 5;
/// The delay of each further answer.
const DELAY: Duration = Duration::from_secs(1);
/// How many delayed answers to one address make the guard refuse its credentials unchecked.
const WAITING_EACH: usize = 4;
/// How many delayed answers in total make the guard refuse unchecked every address that is past `FREE`.
const WAITING: usize = 24;
/// The most addresses that are remembered.
const PEERS: usize = 1024;
/// The most log lines per minute.
const LINES: u32 = 20;

/// The source of credentials. IPv6 addresses count per /64, since one host usually has a whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Ip(IpAddr),
    User(Option<u32>),
}

impl From<PeerAddress> for Source {
    fn from(address: PeerAddress) -> Self {
        match address {
            PeerAddress::Unix(user) => Self::User(user),
            PeerAddress::Tcp(address) => Self::Ip(match address.ip().to_canonical() {
                IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
                ip @ IpAddr::V4(_) => ip,
            }),
        }
    }
}

#[derive(Debug)]
struct Peer {
    failures: u64,
    last: Instant,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Table {
    peers: HashMap<Source, Peer>,
    waiting: usize,
    /// How many lines were logged since `since`.
    lines: u32,
    since: Option<Instant>,
}

/// The wrong credentials of the last minute, by source.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Table>);

/// The consequences of wrong credentials.
#[derive(Debug)]
pub struct Failure {
    /// The number of wrong credentials from the address within a minute, if the log should get a line.
    pub told: Option<u64>,
    /// Present if the answer is delayed. It counts as waiting until it is dropped.
    wait: Option<Waiting>,
}

impl Failure {
    /// Waits until the answer may be sent.
    pub async fn wait(self) {
        if self.wait.is_some() {
            tokio::time::sleep(DELAY).await;
        }
    }
}

#[derive(Debug)]
struct Waiting {
    attempts: Arc<Attempts>,
    source: Source,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = self.attempts.lock();
        table.waiting = table.waiting.saturating_sub(1);
        if let Some(peer) = table.peers.get_mut(&self.source) {
            peer.waiting = peer.waiting.saturating_sub(1);
        }
    }
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether credentials from this address are checked now.
    pub fn may_try(&self, source: Source) -> bool {
        let table = self.lock();
        match table.peers.get(&source) {
            Some(peer) => peer.waiting < WAITING_EACH && (table.waiting < WAITING || peer.failures <= FREE),
            None => true,
        }
    }

    /// Records wrong credentials.
    pub fn failed(self: &Arc<Self>, source: Source) -> Failure {
        let now = Instant::now();
        let mut table = self.lock();
        table.make_room(source);
        let peer = table.peers.entry(source).or_insert(Peer { failures: 0, last: now, waiting: 0 });
        if now - peer.last > MEMORY {
            peer.failures = 0;
        }
        (peer.failures, peer.last) = (peer.failures.saturating_add(1), now);
        let failures = peer.failures;
        let waits = failures > FREE;
        if waits {
            peer.waiting += 1;
            table.waiting += 1;
        }
        // The log gets a line at 1, 10, 100 and so on.
        let is_round = failures == 10_u64.saturating_pow(failures.ilog10());
        let told = (is_round && table.may_tell(now)).then_some(failures);
        drop(table);
        Failure { told, wait: waits.then(|| Waiting { attempts: self.clone(), source }) }
    }

    /// Returns whether the audit log records a failure whose answer cannot be delayed: the first ten of an
    /// address, then every hundredth.
    pub fn may_audit(&self, source: Source) -> bool {
        let failures = self.lock().peers.get(&source).map_or(0, |peer| peer.failures);
        failures <= 10 || failures.is_multiple_of(100)
    }
}

impl Table {
    /// Makes room for a new address, by forgetting the one whose last failure is the oldest.
    fn make_room(&mut self, source: Source) {
        if self.peers.len() < PEERS || self.peers.contains_key(&source) {
            return;
        }
        self.peers.retain(|_, peer| peer.waiting > 0 || peer.last.elapsed() <= MEMORY);
        if self.peers.len() >= PEERS {
            let idle = self.peers.iter().filter(|(_, peer)| peer.waiting == 0);
            if let Some(oldest) = idle.min_by_key(|(_, peer)| peer.last).map(|(source, _)| *source) {
                self.peers.remove(&oldest);
            }
        }
    }

    fn may_tell(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= MEMORY) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        self.lines <= LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> Source {
        Source::Ip(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn further_wrong_credentials_wait_and_then_nothing_is_looked_at() {
        let attempts = Arc::new(Attempts::default());
        let first: Vec<Failure> = (0..FREE).map(|_| attempts.failed(source(1))).collect();
        assert!(first.iter().all(|failure| failure.wait.is_none()));
        assert_eq!(first.iter().filter_map(|failure| failure.told).collect::<Vec<_>>(), [1]);
        let waiting: Vec<Failure> = (0..WAITING_EACH).map(|_| attempts.failed(source(1))).collect();
        assert!(waiting.iter().all(|failure| failure.wait.is_some()));
        assert!(!attempts.may_try(source(1)) && attempts.may_try(source(2)));
        assert_eq!(attempts.failed(source(1)).told, Some(10));
        drop(waiting);
        assert!(attempts.may_try(source(1)), "it is let in again");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let attempts = Arc::new(Attempts::default());
        let told = (0..3 * PEERS as u32).filter_map(|number| attempts.failed(source(number)).told).count();
        assert_eq!(told, LINES as usize);
        assert_eq!(attempts.lock().peers.len(), PEERS);
        let same = |text: &str| Source::from(PeerAddress::Tcp(text.parse().expect("an address")));
        assert_eq!(same("[2001:db8::1]:1"), same("[2001:db8::ffff]:2"));
        assert_eq!(same("[::ffff:10.0.0.1]:1"), same("10.0.0.1:2"));
        assert_ne!(same("10.0.0.1:1"), same("10.0.0.2:1"));
    }
}
