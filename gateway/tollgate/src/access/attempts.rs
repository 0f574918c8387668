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
const FAILURE_MEMORY: Duration = Duration::from_secs(60);
/// How many wrong credentials of an address are answered at once.
const UNDELAYED_MAX: u64 = 5;
/// The delay of each further answer.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
/// How many delayed answers to one address make the guard refuse its credentials unchecked.
const DELAYED_PER_SOURCE_MAX: usize = 4;
/// How many delayed answers in total make the guard refuse unchecked every address that is past `UNDELAYED_MAX`.
const DELAYED_MAX: usize = 24;
/// The most addresses that are remembered.
const SOURCES_MAX: usize = 1024;
/// The most log lines per minute.
const LOG_LINES_MAX: u32 = 20;

/// The source of credentials. IPv6 addresses count per /64, since one host usually has a whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientSource {
    Ip(IpAddr),
    User(Option<u32>),
}

impl From<PeerAddress> for ClientSource {
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
struct SourceRecord {
    failures: u64,
    last: Instant,
    waiting: usize,
}

#[derive(Debug, Default)]
struct FailureTable {
    sources: HashMap<ClientSource, SourceRecord>,
    waiting: usize,
    /// How many lines were logged since `since`.
    lines: u32,
    since: Option<Instant>,
}

/// The wrong credentials of the last minute, by source.
#[derive(Debug, Default)]
pub struct FailedAttempts(Mutex<FailureTable>);

/// The consequences of wrong credentials.
#[derive(Debug)]
pub struct FailedAttempt {
    /// The number of wrong credentials from the address within a minute, if the log should get a line.
    pub logged_count: Option<u64>,
    /// Present if the answer is delayed. It counts as waiting until it is dropped.
    wait: Option<DelayedAnswer>,
}

impl FailedAttempt {
    /// Waits until the answer may be sent.
    pub async fn wait(self) {
        if self.wait.is_some() {
            tokio::time::sleep(ANSWER_DELAY).await;
        }
    }
}

#[derive(Debug)]
struct DelayedAnswer {
    attempts: Arc<FailedAttempts>,
    source: ClientSource,
}

impl Drop for DelayedAnswer {
    fn drop(&mut self) {
        let mut table = self.attempts.lock();
        table.waiting = table.waiting.saturating_sub(1);
        if let Some(peer) = table.sources.get_mut(&self.source) {
            peer.waiting = peer.waiting.saturating_sub(1);
        }
    }
}

impl FailedAttempts {
    fn lock(&self) -> MutexGuard<'_, FailureTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether credentials from this address are checked now.
    pub fn may_try(&self, source: ClientSource) -> bool {
        let table = self.lock();
        match table.sources.get(&source) {
            Some(peer) => {
                peer.waiting < DELAYED_PER_SOURCE_MAX
                    && (table.waiting < DELAYED_MAX || peer.failures <= UNDELAYED_MAX)
            }
            None => true,
        }
    }

    /// Records wrong credentials.
    pub fn record_failure(self: &Arc<Self>, source: ClientSource) -> FailedAttempt {
        let now = Instant::now();
        let mut table = self.lock();
        table.evict_oldest_if_full(source);
        let peer = table.sources.entry(source).or_insert(SourceRecord { failures: 0, last: now, waiting: 0 });
        if now - peer.last > FAILURE_MEMORY {
            peer.failures = 0;
        }
        (peer.failures, peer.last) = (peer.failures.saturating_add(1), now);
        let failures = peer.failures;
        let waits = failures > UNDELAYED_MAX;
        if waits {
            peer.waiting += 1;
            table.waiting += 1;
        }
        // The log gets a line at 1, 10, 100 and so on.
        let is_round = failures == 10_u64.saturating_pow(failures.ilog10());
        let logged_count = (is_round && table.may_log(now)).then_some(failures);
        drop(table);
        FailedAttempt { logged_count, wait: waits.then(|| DelayedAnswer { attempts: self.clone(), source }) }
    }

    /// Returns whether the audit log records a failure whose answer cannot be delayed: the first ten of an
    /// address, then every hundredth.
    pub fn may_audit(&self, source: ClientSource) -> bool {
        let failures = self.lock().sources.get(&source).map_or(0, |peer| peer.failures);
        failures <= 10 || failures.is_multiple_of(100)
    }
}

impl FailureTable {
    /// Makes room for a new address, by forgetting the one whose last failure is the oldest.
    fn evict_oldest_if_full(&mut self, source: ClientSource) {
        if self.sources.len() < SOURCES_MAX || self.sources.contains_key(&source) {
            return;
        }
        self.sources.retain(|_, peer| peer.waiting > 0 || peer.last.elapsed() <= FAILURE_MEMORY);
        if self.sources.len() >= SOURCES_MAX {
            let idle = self.sources.iter().filter(|(_, peer)| peer.waiting == 0);
            if let Some(oldest) = idle.min_by_key(|(_, peer)| peer.last).map(|(source, _)| *source) {
                self.sources.remove(&oldest);
            }
        }
    }

    fn may_log(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= FAILURE_MEMORY) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        self.lines <= LOG_LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> ClientSource {
        ClientSource::Ip(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn further_wrong_credentials_wait_and_then_nothing_is_looked_at() {
        let attempts = Arc::new(FailedAttempts::default());
        let first: Vec<FailedAttempt> =
            (0..UNDELAYED_MAX).map(|_| attempts.record_failure(source(1))).collect();
        assert!(first.iter().all(|failure| failure.wait.is_none()));
        assert_eq!(first.iter().filter_map(|failure| failure.logged_count).collect::<Vec<_>>(), [1]);
        let waiting: Vec<FailedAttempt> =
            (0..DELAYED_PER_SOURCE_MAX).map(|_| attempts.record_failure(source(1))).collect();
        assert!(waiting.iter().all(|failure| failure.wait.is_some()));
        assert!(!attempts.may_try(source(1)) && attempts.may_try(source(2)));
        assert_eq!(attempts.record_failure(source(1)).logged_count, Some(10));
        drop(waiting);
        assert!(attempts.may_try(source(1)), "it is let in again");
    }

    #[test]
    fn remembered_attempts_are_bounded() {
        let attempts = Arc::new(FailedAttempts::default());
        let logged_count = (0..3 * SOURCES_MAX as u32)
            .filter_map(|number| attempts.record_failure(source(number)).logged_count)
            .count();
        assert_eq!(logged_count, LOG_LINES_MAX as usize);
        assert_eq!(attempts.lock().sources.len(), SOURCES_MAX);
        let same = |text: &str| ClientSource::from(PeerAddress::Tcp(text.parse().expect("an address")));
        assert_eq!(same("[2001:db8::1]:1"), same("[2001:db8::ffff]:2"));
        assert_eq!(same("[::ffff:10.0.0.1]:1"), same("10.0.0.1:2"));
        assert_ne!(same("10.0.0.1:1"), same("10.0.0.2:1"));
    }
}
