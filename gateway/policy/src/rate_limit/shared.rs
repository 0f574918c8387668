//! A rate limit that several gateways share through one Redis.
//!
//! [`SharedLimit`] decides from a lease if it can, and otherwise returns a [`PreparedCall`] for the
//! background I/O thread. A lease holds requests that Redis has already counted, so it saves round trips and
//! never exceeds the limit.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::gcra::{Clock, Decision, Gcra};
use crate::identity_hasher::IdentityHasher;
use crate::redis::{OnFailure, RedisRule, RedisStore, StoreCall, Unavailable};
use crate::{CountKey, PolicyStates, Request};

/// The lifetime of a lease.
const LEASE_TIME: Duration = Duration::from_secs(1);
/// How long the next sweep waits after a sweep that freed nothing.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

/// The settings of a limit that several gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRate {
    /// The Redis that counts.
    pub redis: RedisRule,
    /// The number of requests that one call to Redis takes in advance, valid for one second; 1: each request
    /// calls Redis.
    pub lease: u32,
}

/// The connection of a limit to the shared store.
#[derive(Debug)]
pub(super) struct SharedLimit {
    pub rule: SharedRate,
    /// How far responses can take a bucket below zero.
    debt: u64,
    store: Arc<RedisStore>,
    shared: Arc<PolicyStates>,
    /// The name of the limit in the store. It contains the rate, because counts of another rate are
    /// meaningless.
    name: Vec<u8>,
    clock: Clock,
    hash: RandomState,
    leases: Mutex<Leases>,
}

/// Leases by the hash of their key, because a client's value may be long.
#[derive(Debug, Default)]
struct Leases {
    by_key: HashMap<u64, Arc<Lease>, BuildHasherDefault<IdentityHasher>>,
    /// The number of keys from which the next insertion sweeps first.
    sweep_at: usize,
    /// The time before which no sweep is tried.
    next_sweep: Duration,
}

/// The requests that were taken in advance for one key.
#[derive(Debug, Default)]
struct Lease {
    taken: Mutex<LeaseState>,
    /// The task that holds this lock calls the store; others wait for its result.
    asking: tokio::sync::Mutex<()>,
}

/// The state of a lease. Times count from the start of the clock.
#[derive(Clone, Copy, Debug, Default)]
struct LeaseState {
    left: u64,
    /// The end of the lease.
    until: Duration,
    /// The time before which the store grants nothing.
    none_before: Duration,
    /// The time at which the bucket is full.
    full: Duration,
}

/// The result of a local attempt to decide.
pub(super) enum LocalDecision {
    /// The lease decided.
    Decided(Decision),
    /// The store is unavailable.
    Lost,
    /// The store must be asked.
    PreparedCall(Box<PreparedCall>),
}

/// A prepared call to the store.
pub(super) struct PreparedCall {
    store: Arc<RedisStore>,
    shared: Arc<PolicyStates>,
    key: Vec<u8>,
    gcra: Gcra,
    /// The cost of the request.
    cost: u64,
    /// The amount to take, including the lease.
    want: u64,
    /// How far responses can take the bucket below zero.
    debt: u64,
    clock: Clock,
    lease: Option<Arc<Lease>>,
}

impl SharedLimit {
    pub fn new(rule: &SharedRate, name: String, debt: u64, shared: &Arc<PolicyStates>) -> Self {
        Self {
            debt,
            store: RedisStore::for_rule(&rule.redis, shared),
            rule: rule.clone(),
            shared: shared.clone(),
            name: name.into_bytes(),
            clock: Clock::start(),
            hash: RandomState::new(),
            leases: Mutex::default(),
        }
    }

    /// Whether the store is lost and must not be asked.
    pub fn is_lost(&self) -> bool {
        self.store.is_lost()
    }

    /// Returns the rule for requests while the store is unavailable.
    pub fn on_failure(&self) -> OnFailure {
        self.rule.redis.on_failure
    }

    /// Decides on a request locally if its lease allows that.
    pub fn decide(
        &self,
        request: &Request<'_>,
        by: &CountKey,
        gcra: Gcra,
        keys: usize,
        cost: u64,
    ) -> LocalDecision {
        if self.store.is_lost() {
            return LocalDecision::Lost;
        }
        let lease = (self.rule.lease > 1).then(|| {
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            leases.of(by.hash(request, &self.hash), keys, self.clock.elapsed())
        });
        let lease = lease.flatten();
        if let Some(decision) =
            lease.as_ref().and_then(|lease| lease.decide(gcra, self.clock.elapsed(), cost))
        {
            return LocalDecision::Decided(decision);
        }
        let sampling = if lease.is_some() { u64::from(self.rule.lease) } else { 1 };
        LocalDecision::PreparedCall(Box::new(PreparedCall {
            store: self.store.clone(),
            shared: self.shared.clone(),
            key: self.key(request, by),
            gcra,
            cost,
            want: sampling.max(cost),
            debt: self.debt,
            clock: self.clock,
            lease,
        }))
    }

    fn key(&self, request: &Request<'_>, by: &CountKey) -> Vec<u8> {
        by.with(request, |value| self.store.key(&[&self.name], value))
    }

    /// Refunds the cost of a refused request to its lease, or else to the store without waiting for it.
    pub fn undo(&self, request: &Request<'_>, by: &CountKey, gcra: Gcra, cost: u64) {
        if self.rule.lease > 1 {
            let key = by.hash(request, &self.hash);
            let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lease) = leases.by_key.get(&key) {
                let mut taken = lease.taken();
                taken.left = taken.left.saturating_add(cost);
                return;
            }
        }
        self.account(request, by, gcra).settle(cost, 0);
    }

    /// Returns the account of a request's key, which is settled when the cost is known.
    pub fn account(&self, request: &Request<'_>, by: &CountKey, gcra: Gcra) -> RateAccount {
        let (store, shared, key) = (self.store.clone(), self.shared.clone(), self.key(request, by));
        RateAccount { store, shared, key, gcra, debt: self.debt }
    }
}

/// The bucket of one key in the store.
pub(super) struct RateAccount {
    store: Arc<RedisStore>,
    shared: Arc<PolicyStates>,
    key: Vec<u8>,
    gcra: Gcra,
    debt: u64,
}

impl RateAccount {
    /// Corrects the bucket to the reported cost. No request waits for the store; if it does not respond, the
    /// bucket stays.
    pub fn settle(self, taken: u64, reported: u64) {
        let Self { store, shared, key, gcra, debt } = self;
        if taken == reported || store.is_lost() {
            return;
        }
        let (interval, tolerance) = gcra.microseconds();
        let amount = interval * (reported as f64 - taken as f64);
        let question = StoreCall::Adjust { key, amount, ceiling: tolerance + interval * debt as f64 };
        let states = shared.clone();
        shared.background().spawn(async move {
            let _ = store.ask(states.background(), question).await;
        });
    }
}

impl Leases {
    /// Returns the lease of a key; `None` if there are too many, so that the store must be asked for each
    /// request.
    fn of(&mut self, key: u64, most: usize, now: Duration) -> Option<Arc<Lease>> {
        if let Some(lease) = self.by_key.get(&key) {
            return Some(lease.clone());
        }
        let len = self.by_key.len();
        if len >= self.sweep_at.max(64).min(most) {
            // A sweep scans all leases, so it must not run for each key of a flood.
            if len >= most && now < self.next_sweep {
                return None;
            }
            self.by_key.retain(|_, lease| Arc::strong_count(lease) > 1 || lease.is_used(now));
            self.sweep_at = 2 * self.by_key.len();
            if self.by_key.len() >= most {
                self.next_sweep = now + SWEEP_PAUSE;
                return None;
            }
        }
        let lease = Arc::<Lease>::default();
        self.by_key.insert(key, lease.clone());
        Some(lease)
    }
}

impl Lease {
    fn taken(&self) -> std::sync::MutexGuard<'_, LeaseState> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_used(&self, now: Duration) -> bool {
        let taken = self.taken();
        now < taken.until || now < taken.none_before
    }

    /// Decides from the lease: takes the cost, or refuses while the store grants nothing. `None`: the store
    /// must be asked.
    fn decide(&self, gcra: Gcra, now: Duration, cost: u64) -> Option<Decision> {
        let mut taken = self.taken();
        if taken.left >= cost && now < taken.until {
            taken.left -= cost;
            return Some(gcra.decision_from_store(true, taken.full.saturating_sub(now), cost));
        }
        (now < taken.none_before)
            .then(|| gcra.decision_from_store(false, taken.full.saturating_sub(now), cost))
    }
}

impl PreparedCall {
    /// Asks the store on the background I/O thread. Dropping the future does not cancel a call that takes a
    /// lease. Otherwise the granted requests would be lost, and clients that disconnect early could exhaust a
    /// limit.
    pub fn ask(self) -> impl Future<Output = Result<Decision, Unavailable>> {
        let shared = self.shared.clone();
        let states = shared.clone();
        let leased = self.lease.is_some();
        let run = async move { self.run(&states).await };
        let asked = shared.background().run(async move {
            if leased { tokio::spawn(run).await.unwrap_or(Err(Unavailable)) } else { run.await }
        });
        async move { asked.await.unwrap_or(Err(Unavailable)) }
    }

    async fn run(self, shared: &PolicyStates) -> Result<Decision, Unavailable> {
        let Some(lease) = &self.lease else {
            let (got, full) = self.store_result(shared).await?;
            return Ok(self.gcra.decision_from_store(got >= self.cost, full, self.cost));
        };
        let turn = tokio::time::timeout(self.store.timeout(), lease.asking.lock());
        let _turn = turn.await.map_err(|_| Unavailable)?;
        if let Some(decision) = lease.decide(self.gcra, self.clock.elapsed(), self.cost) {
            return Ok(decision);
        }
        if self.store.is_lost() {
            return Err(Unavailable);
        }
        let (got, full) = self.store_result(shared).await?;
        let now = self.clock.elapsed();
        let decision = self.gcra.decision_from_store(got >= self.cost, full, self.cost);
        // The bucket may refuse an expensive request while a cheap one still passes.
        let none = if got == 0 { self.gcra.decision_from_store(false, full, 1).wait } else { Duration::ZERO };
        let mut taken = lease.taken();
        if got > 0 {
            let left = got.saturating_sub(self.cost);
            *taken =
                LeaseState { left, until: now + LEASE_TIME, none_before: Duration::ZERO, full: now + full };
        } else {
            // The rest of the old lease is too small for this request but may suffice for others.
            let left = taken.left > 0 && now < taken.until;
            (taken.none_before, taken.full) = (if left { Duration::ZERO } else { now + none }, now + full);
        }
        Ok(decision)
    }

    /// Returns the granted amount, and the time until the bucket is full.
    async fn store_result(&self, shared: &PolicyStates) -> Result<(u64, Duration), Unavailable> {
        let (interval, tolerance) = self.gcra.microseconds();
        let (key, want, least) = (self.key.clone(), self.want, self.cost);
        let ceiling = tolerance + interval * self.debt as f64;
        let question = StoreCall::Rate { key, interval, tolerance, want, least, ceiling };
        let (got, full) = self.store.ask(shared.background(), question).await?;
        let full = Duration::from_micros(u64::try_from(full).unwrap_or(0));
        Ok((u64::try_from(got).unwrap_or(0).min(self.want), full))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc;

    use super::*;
    use crate::Context;
    use crate::redis::RedisServers;
    use crate::testing::Sent;

    /// Starts a store that grants ten units per question, each time the test permits it. It signals each
    /// question.
    fn store() -> (SocketAddr, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let ((asked, hears), (grants, granted)) = (mpsc::channel(), mpsc::channel());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the policies' thread connects");
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                let answer: &[u8] = if chunk[..count].windows(7).any(|word| word == b"EVALSHA") {
                    asked.send(()).expect("the test listens");
                    granted.recv().expect("the test goes on");
                    b"*2\r\n:10\r\n:1000\r\n"
                } else {
                    b"+PONG\r\n"
                };
                stream.write_all(answer).expect("the other end is there");
            }
        });
        (address, hears, grants)
    }

    #[test]
    fn a_cancelled_request_leaves_its_lease_to_others() {
        let (address, asked, grant) = store();
        let redis = RedisRule {
            servers: RedisServers::One { url: format!("redis://{address}") },
            password: None,
            timeout: Duration::from_secs(60),
            on_failure: OnFailure::Closed,
            prefix: "t".to_owned(),
        };
        let shared = Arc::new(PolicyStates::default());
        let remote = SharedLimit::new(&SharedRate { redis, lease: 10 }, "n".to_owned(), 0, &shared);
        let gcra = Gcra::new(10, Duration::from_secs(3600), 10);
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        let request = sent.request(&mut context);
        let LocalDecision::PreparedCall(ask) = remote.decide(&request, &CountKey::Address, gcra, 100, 1)
        else {
            panic!("it is to be asked")
        };
        let waiting = ask.ask();
        asked.recv_timeout(Duration::from_secs(60)).expect("the store is asked");
        drop(waiting);
        grant.send(()).expect("the store waits");
        let lease = remote.leases.lock().expect("not poisoned").by_key.values().next().cloned();
        let lease = lease.expect("it is known");
        let start = std::time::Instant::now();
        while lease.taken().left != 9 {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", lease.taken());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_flood_of_keys_is_not_swept_each_time() {
        let (mut leases, most) = (Leases::default(), 100);
        let kept: Vec<_> = (0..100).map(|key| leases.of(key, most, Duration::ZERO).expect("room")).collect();
        assert!(leases.of(1000, most, Duration::ZERO).is_none(), "all are in use");
        drop(kept);
        let soon = SWEEP_PAUSE - Duration::from_nanos(1);
        assert!(leases.of(1001, most, soon).is_none(), "it is not looked for room again so soon");
        assert!(leases.of(7, most, soon).is_some(), "who is known is found");
        assert!(leases.of(1001, most, SWEEP_PAUSE).is_some());
        assert!(leases.by_key.len() < 10);
    }
}
