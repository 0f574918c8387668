//! A limit that several gateways hold together, by one Redis.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::gcra::{Clock, Decision, Gcra};
use crate::redis::{OnFailure, Question, RedisRule, Store, Unavailable};
use crate::{By, Request, Shared};

/// How long what was taken in advance may be spent.
const LEASE: Duration = Duration::from_secs(1);

/// How several gateways hold a limit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRate {
    /// The Redis that counts.
    pub redis: RedisRule,
    /// How many are taken at once, to be given out here within a second; 1: each is asked for.
    pub lease: u32,
}

/// The part of a limit that is not in this process.
#[derive(Debug)]
pub(super) struct Remote {
    pub rule: SharedRate,
    store: Arc<Store>,
    shared: Arc<Shared>,
    /// What tells this limit from others. The rate is in it: a count by another one says nothing.
    name: Vec<u8>,
    clock: Clock,
    leases: Mutex<Leases>,
}

#[derive(Debug, Default)]
struct Leases {
    by_key: HashMap<Vec<u8>, Arc<Lease>>,
    sweep_at: usize,
}

/// What was taken of one key.
#[derive(Debug, Default)]
struct Lease {
    taken: Mutex<Taken>,
    /// Who has it asks; the others wait for what comes of it.
    asking: tokio::sync::Mutex<()>,
}

/// Times in nanoseconds since the clock was started.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    left: u32,
    /// It may be spent until then.
    until: Duration,
    /// Before this there is none, as the store has said.
    none_before: Duration,
    /// The bucket is full then.
    full: Duration,
}

/// What can be said at once, or has to be asked.
pub(super) enum Step {
    /// It is decided.
    Decided(Decision),
    /// The store is not there.
    Lost,
    /// This has to be asked.
    Ask(Box<Ask>),
}

/// A question, ready to be asked.
pub(super) struct Ask {
    store: Arc<Store>,
    shared: Arc<Shared>,
    key: Vec<u8>,
    gcra: Gcra,
    want: u32,
    clock: Clock,
    lease: Option<Arc<Lease>>,
}

impl Remote {
    pub fn new(rule: &SharedRate, name: String, shared: &Arc<Shared>) -> Self {
        Self {
            store: Store::of(&rule.redis, shared),
            rule: rule.clone(),
            shared: shared.clone(),
            name: name.into_bytes(),
            clock: Clock::start(),
            leases: Mutex::default(),
        }
    }

    /// What becomes of requests that it cannot be asked for.
    pub fn on_failure(&self) -> OnFailure {
        self.rule.redis.on_failure
    }

    /// Decides on a request, if that can be done here.
    pub fn decide(&self, request: &Request<'_>, by: &By, gcra: Gcra, keys: usize) -> Step {
        if self.store.is_lost() {
            return Step::Lost;
        }
        let key = by.with(request, |value| self.store.key(&[&self.name, value.unwrap_or_default()]));
        let lease = if self.rule.lease > 1 { self.lease(&key, keys) } else { None };
        if let Some(decision) = lease.as_ref().and_then(|lease| lease.decide(gcra, self.clock.elapsed())) {
            return Step::Decided(decision);
        }
        Step::Ask(Box::new(Ask {
            store: self.store.clone(),
            shared: self.shared.clone(),
            key,
            gcra,
            want: if lease.is_some() { self.rule.lease } else { 1 },
            clock: self.clock,
            lease,
        }))
    }

    /// The lease of a key; nothing if there are too many, and each has to be asked for.
    fn lease(&self, key: &[u8], most: usize) -> Option<Arc<Lease>> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = leases.by_key.get(key) {
            return Some(lease.clone());
        }
        if leases.by_key.len() >= leases.sweep_at.max(64).min(most) {
            let now = self.clock.elapsed();
            leases.by_key.retain(|_, lease| Arc::strong_count(lease) > 1 || lease.is_used(now));
            leases.sweep_at = 2 * leases.by_key.len();
            if leases.by_key.len() >= most {
                return None;
            }
        }
        let lease = Arc::<Lease>::default();
        leases.by_key.insert(key.to_vec(), lease.clone());
        Some(lease)
    }
}

impl Lease {
    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_used(&self, now: Duration) -> bool {
        let taken = self.taken();
        now < taken.until || now < taken.none_before
    }

    /// Gives out one of what was taken, or says that there is none; nothing: it has to be asked.
    fn decide(&self, gcra: Gcra, now: Duration) -> Option<Decision> {
        let mut taken = self.taken();
        if taken.left > 0 && now < taken.until {
            taken.left -= 1;
            return Some(gcra.elsewhere(true, taken.full.saturating_sub(now)));
        }
        (now < taken.none_before).then(|| gcra.elsewhere(false, taken.full.saturating_sub(now)))
    }
}

impl Ask {
    /// Asks, on the policies' thread.
    pub fn ask(self) -> impl Future<Output = Result<Decision, Unavailable>> {
        let shared = self.shared.clone();
        let there = shared.clone();
        let asked = shared.side().ask(async move { self.run(&there).await });
        async move { asked.await.unwrap_or(Err(Unavailable)) }
    }

    async fn run(self, shared: &Shared) -> Result<Decision, Unavailable> {
        let Some(lease) = &self.lease else {
            let (got, full) = self.question(shared).await?;
            return Ok(self.gcra.elsewhere(got > 0, full));
        };
        let turn = tokio::time::timeout(self.store.timeout(), lease.asking.lock());
        let _turn = turn.await.map_err(|_| Unavailable)?;
        if let Some(decision) = lease.decide(self.gcra, self.clock.elapsed()) {
            return Ok(decision);
        }
        if self.store.is_lost() {
            return Err(Unavailable);
        }
        let (got, full) = self.question(shared).await?;
        let now = self.clock.elapsed();
        let decision = self.gcra.elsewhere(got > 0, full);
        *lease.taken() = Taken {
            left: got.saturating_sub(1),
            until: now + LEASE,
            none_before: if got == 0 { now + decision.wait } else { Duration::ZERO },
            full: now + full,
        };
        Ok(decision)
    }

    /// How many may, and after what time the bucket is full.
    async fn question(&self, shared: &Shared) -> Result<(u32, Duration), Unavailable> {
        let (interval, tolerance) = self.gcra.microseconds();
        let question = Question::Rate { key: self.key.clone(), interval, tolerance, want: self.want };
        let (got, full) = self.store.ask(shared.side(), question).await?;
        let full = Duration::from_micros(u64::try_from(full).unwrap_or(0));
        Ok((u32::try_from(got).unwrap_or(0).min(self.want), full))
    }
}
