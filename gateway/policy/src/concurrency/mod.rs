//! `concurrency`: limits the number of concurrent requests.
//!
//! A request takes a [`ConcurrencyPermit`] for each limit and holds it in its context, so that the permits are returned
//! however the exchange ends. All workers share the counts, which survive a change of plan.

mod config;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_observe::Reason;

use crate::cost::Cost;
use crate::exempt::Exempt;
use crate::identity_hasher::IdentityHasher;
use crate::{CountKey, Planned, Policy, PolicyStates, Refusal, Request, Verdict};

pub(crate) use config::ConcurrencySettings;

/// The number of shards of the table, each with its own lock.
const SHARDS: usize = 64;

/// Limits of concurrent requests, all of which a request must pass.
#[derive(Clone, Debug, Default)]
pub struct ConcurrencyRules {
    /// The limits in configuration order.
    pub limits: Vec<Concurrency>,
}

/// A limit of concurrent requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The limit.
    pub limit: u64,
    /// The key by which requests are counted.
    pub by: CountKey,
    /// The number of permits that a request takes.
    pub cost: Cost,
    /// Requests that the limit does not count.
    pub exempt: Exempt,
    /// The name of a scope whose limits share one count; `None`: the limit counts for its own place only.
    pub scope: Option<String>,
    /// The status of a refusal; `None`: 429.
    pub status: Option<u16>,
    /// Whether the limit refuses nothing and only logs what it would refuse.
    pub dry_run: bool,
}

impl Planned for ConcurrencyRules {
    fn kind(&self) -> &'static str {
        "concurrency"
    }

    fn summary(&self) -> String {
        let one = |limit: &Concurrency| {
            let by = if limit.by == CountKey::All { String::new() } else { format!(" by {}", limit.by) };
            let (cost, exempt) = (limit.cost.summary(), limit.exempt.summary());
            let dry_run = if limit.dry_run { ", dry run" } else { "" };
            format!("{} at once{by}{cost}{exempt}{dry_run}", limit.limit)
        };
        self.limits.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let one = |(number, limit): (usize, &Concurrency)| {
            // A changed limit keeps the count of the requests in progress.
            let fits = |counts: &PermitCounts| counts.by == limit.by;
            let own = || format!("{key}/{number}");
            let key = limit.scope.as_ref().map_or_else(own, |scope| format!("scope/{scope}/concurrency"));
            let counts = shared.state(&key, fits, || PermitCounts::new(limit.by.clone()));
            (limit.clone(), counts)
        };
        Arc::new(ConcurrencyState(self.limits.iter().enumerate().map(one).collect()))
    }
}

#[derive(Debug)]
struct ConcurrencyState(Box<[(Concurrency, Arc<PermitCounts>)]>);

/// The permits in use. A key without permits is removed, so there are never more keys than concurrent
/// requests.
#[derive(Debug)]
struct PermitCounts {
    by: CountKey,
    hash: RandomState,
    all: AtomicU64,
    each: Box<[Mutex<PermitShard>]>,
}

type PermitShard = HashMap<u64, u64, BuildHasherDefault<IdentityHasher>>;

impl PermitCounts {
    fn new(by: CountKey) -> Self {
        let parts = if by == CountKey::All { 0 } else { SHARDS };
        let each = (0..parts).map(|_| Mutex::default()).collect();
        Self { by, hash: RandomState::new(), all: AtomicU64::new(0), each }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, PermitShard> {
        self.each[(key >> 40) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `cost` permits if the total stays within `limit`.
    fn try_acquire(
        self: &Arc<Self>,
        request: &Request<'_>,
        limit: u64,
        cost: u64,
    ) -> Option<ConcurrencyPermit> {
        let more = |count: u64| count.checked_add(cost).filter(|after| *after <= limit);
        if self.by == CountKey::All {
            self.all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
            return Some(ConcurrencyPermit { counts: self.clone(), key: 0, cost });
        }
        let key = self.by.hash(request, &self.hash);
        let mut shard = self.shard(key);
        let count = shard.get(&key).copied().unwrap_or(0);
        shard.insert(key, more(count)?);
        Some(ConcurrencyPermit { counts: self.clone(), key, cost })
    }
}

/// The permits of a request; dropping this returns them.
#[derive(Debug)]
struct ConcurrencyPermit {
    counts: Arc<PermitCounts>,
    key: u64,
    cost: u64,
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        if self.counts.by == CountKey::All {
            self.counts.all.fetch_sub(self.cost, Ordering::Relaxed);
            return;
        }
        let mut shard = self.counts.shard(self.key);
        match shard.get_mut(&self.key) {
            Some(count) if *count > self.cost => *count -= self.cost,
            _ => {
                shard.remove(&self.key);
                // After a flood of keys, the table's memory is returned too.
                if shard.capacity() > 1024 && shard.len() < shard.capacity() / 8 {
                    shard.shrink_to_fit();
                }
            }
        }
    }
}

impl Policy for ConcurrencyState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        for (rule, counts) in &self.0 {
            let limit = if rule.dry_run { u64::MAX } else { rule.limit };
            let cost = rule.cost.charge(request);
            if cost == 0 || rule.exempt.has(request) {
                continue;
            }
            let Some(permit) = counts.try_acquire(request, limit, cost) else {
                // The permits of the previous limits are dropped with the context.
                return Refusal { status: rule.status, ..Reason::ConcurrencyLimited.into() }.into();
            };
            if rule.dry_run && permit.count() > rule.limit {
                request.context.note = Some("a concurrency limit would refuse it (dry run)");
            }
            request.context.hold(permit);
        }
        Verdict::Continue
    }
}

impl ConcurrencyPermit {
    /// Returns the permits in use for this key.
    fn count(&self) -> u64 {
        match self.counts.by {
            CountKey::All => self.counts.all.load(Ordering::Relaxed),
            _ => self.counts.shard(self.key).get(&self.key).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn limits(limit: u64, by: CountKey, dry_run: bool) -> Concurrency {
        let (cost, exempt) = (Cost::default(), Exempt::default());
        Concurrency { limit, by, cost, exempt, scope: None, status: None, dry_run }
    }

    fn activate(limit: u64, by: CountKey, dry_run: bool, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(ConcurrencyRules { limits: vec![limits(limit, by, dry_run)] }).activate("r", shared)
    }

    /// Returns the context of an admitted request; `None` if it is refused.
    fn enter(policy: &Arc<dyn Policy>, fields: &str) -> Option<Context> {
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        let verdict = policy.request(&mut sent.request(&mut context));
        matches!(verdict, Verdict::Continue).then_some(context)
    }

    #[test]
    fn as_many_as_may_are_under_way() {
        let shared = Arc::new(PolicyStates::default());
        for by in [CountKey::All, CountKey::Header("x-a".into())] {
            let policy = activate(2, by.clone(), false, &shared);
            let (one, two) = (enter(&policy, "X-A: a\r\n"), enter(&policy, "X-A: a\r\n"));
            assert!(one.is_some() && two.is_some());
            assert!(enter(&policy, "X-A: a\r\n").is_none());
            assert_eq!(enter(&policy, "X-A: b\r\n").is_some(), by != CountKey::All);
            let changed = activate(3, by, false, &shared);
            assert!(enter(&changed, "X-A: a\r\n").is_some(), "another limit, the same requests");
            drop(one);
            let three = enter(&policy, "X-A: a\r\n");
            assert!(three.is_some() && enter(&policy, "X-A: a\r\n").is_none());
        }
    }

    #[test]
    fn threads_get_no_more_and_give_all_back() {
        let shared = Arc::new(PolicyStates::default());
        for by in [CountKey::All, CountKey::Route] {
            let policy = activate(3, by, false, &shared);
            let most = AtomicU64::new(0);
            let under_way = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..2000 {
                            let Some(context) = enter(&policy, "") else { continue };
                            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            under_way.fetch_sub(1, Ordering::SeqCst);
                            drop(context);
                        }
                    });
                }
            });
            assert!((1..=3).contains(&most.into_inner()));
            let held: Vec<_> = (0..3).map(|_| enter(&policy, "")).collect();
            assert!(held.iter().all(Option::is_some), "all were given back");
            assert!(enter(&policy, "").is_none());
        }
    }

    #[test]
    fn a_dry_run_refuses_nothing() {
        let policy = activate(1, CountKey::Route, true, &Arc::new(PolicyStates::default()));
        let (one, two) = (enter(&policy, ""), enter(&policy, ""));
        assert_eq!((one.expect("it goes on").note, two.expect("it too").note.is_some()), (None, true));
    }

    #[test]
    fn an_expensive_request_takes_several_permits() {
        let cost = Cost { by: crate::CostSource::Header("x-cost".into()), default: 1, max: 3 };
        let rules =
            ConcurrencyRules { limits: vec![Concurrency { cost, ..limits(3, CountKey::Route, false) }] };
        let policy = Arc::new(rules).activate("r", &Arc::new(PolicyStates::default()));
        let dear = enter(&policy, "X-Cost: 2\r\n").expect("two of three");
        assert!(enter(&policy, "X-Cost: 2\r\n").is_none());
        let cheap = enter(&policy, "").expect("the third");
        assert!(enter(&policy, "").is_none());
        drop(dear);
        assert!(enter(&policy, "X-Cost: 3\r\n").is_none() && enter(&policy, "X-Cost: 2\r\n").is_some());
        drop(cheap);
        assert!(enter(&policy, "X-Cost: 3\r\n").is_some());
    }
}
