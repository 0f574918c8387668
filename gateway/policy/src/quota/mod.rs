//! `quota`: limits requests per calendar day or month, in UTC.
//!
//! Counts live in this process or, for several gateways, in a Redis. A request must pass each quota of the
//! list; if one refuses it, the policy refunds the cost in the previous quotas.

mod config;
mod period;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_observe::Reason;

use self::period::CalendarPeriod;
pub use self::period::Period;
use crate::cost::Cost;
use crate::exempt::Exempt;
use crate::identity_hasher::IdentityHasher;
use crate::limit_fields::LimitFields;
use crate::redis::{OnFailure, RedisRule, RedisStore, StoreCall};
use crate::{Continuation, CountKey, Planned, Policy, PolicyStates, Refusal, Request, Verdict};

pub(crate) use config::QuotaSettings;

/// Quotas, all of which a request must pass.
#[derive(Clone, Debug, Default)]
pub struct QuotaRules {
    /// The quotas in configuration order.
    pub quotas: Vec<Quota>,
}

/// A limit of requests per day or month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The name that response fields show to clients.
    pub name: String,
    /// The limit.
    pub limit: u64,
    /// The period of the limit.
    pub per: Period,
    /// The key by which requests are counted.
    pub by: CountKey,
    /// The cost of a request.
    pub cost: Cost,
    /// Requests that the quota does not count.
    pub exempt: Exempt,
    /// The name of a scope whose quotas share one count; `None`: the quota counts for its own place only.
    pub scope: Option<String>,
    /// The maximum number of keys; further keys share one count.
    pub keys: usize,
    /// Whether every response reports the state of the quota.
    pub headers: bool,
    /// The status of a refusal; `None`: 429.
    pub status: Option<u16>,
    /// Whether the quota refuses nothing and only logs what it would refuse.
    pub dry_run: bool,
    /// The Redis in which several gateways count together.
    pub redis: Option<RedisRule>,
}

impl Planned for QuotaRules {
    fn kind(&self) -> &'static str {
        "quota"
    }

    fn summary(&self) -> String {
        let one = |quota: &Quota| {
            let by = if quota.by == CountKey::All { String::new() } else { format!(" by {}", quota.by) };
            let shared = if quota.redis.is_some() { ", shared by Redis" } else { "" };
            let dry_run = if quota.dry_run { ", dry run" } else { "" };
            let (cost, exempt) = (quota.cost.summary(), quota.exempt.summary());
            format!("{} a {}{by}{cost}{exempt}{shared}{dry_run}", quota.limit, quota.per.as_str())
        };
        self.quotas.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let one = |(number, quota): (usize, &Quota)| {
            let own = || format!("{key}/{number}");
            let key = quota.scope.as_ref().map_or_else(own, |scope| format!("scope/{scope}/quota"));
            QuotaState::new(quota, key, shared)
        };
        Arc::new(Quotas(self.quotas.iter().enumerate().map(one).collect()))
    }
}

#[derive(Debug)]
struct Quotas(Arc<[QuotaState]>);

#[derive(Debug)]
struct QuotaState {
    rule: Quota,
    counts: Arc<QuotaCounts>,
    remote: Option<QuotaStore>,
}

/// The connection of a quota to a shared store.
#[derive(Debug)]
struct QuotaStore {
    store: Arc<RedisStore>,
    shared: Arc<PolicyStates>,
    on_failure: OnFailure,
    name: String,
}

/// The counts of this process. They survive a change of plan, even if it changes the limit.
#[derive(Debug)]
struct QuotaCounts {
    by: CountKey,
    per: Period,
    keys: usize,
    hash: RandomState,
    period_counts: Mutex<PeriodCounts>,
}

#[derive(Debug, Default)]
struct PeriodCounts {
    /// The start of the counted period, in seconds since 1970.
    begun: u64,
    each: HashMap<u64, u64, BuildHasherDefault<IdentityHasher>>,
    /// The count of all keys beyond the maximum number.
    overflow: u64,
}

/// The result of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountResult {
    passes: bool,
    remaining: u64,
}

impl QuotaState {
    fn new(rule: &Quota, key: String, shared: &Arc<PolicyStates>) -> Self {
        let fits =
            |counts: &QuotaCounts| counts.by == rule.by && counts.per == rule.per && counts.keys == rule.keys;
        let (by, per, keys) = (rule.by.clone(), rule.per, rule.keys);
        let make =
            || QuotaCounts { by, per, keys, hash: RandomState::new(), period_counts: Mutex::default() };
        let counts = shared.state(&key, fits, make);
        let remote = rule.redis.as_ref().map(|redis| QuotaStore {
            store: RedisStore::for_rule(redis, shared),
            shared: shared.clone(),
            on_failure: redis.on_failure,
            name: key,
        });
        Self { rule: rule.clone(), counts, remote }
    }

    /// Returns the cost of a request; `None`: it is not counted.
    fn cost(&self, request: &Request<'_>) -> Option<u64> {
        let cost = self.rule.cost.charge(request);
        (cost > 0 && !self.rule.exempt.has(request)).then_some(cost)
    }

    /// Refunds the cost of a refused request, in the local or the shared count.
    fn undo(&self, request: &Request<'_>, span: CalendarPeriod) {
        let Some(cost) = self.cost(request).filter(|_| !self.rule.dry_run) else { return };
        match &self.remote {
            Some(remote) if !remote.store.is_lost() => {
                remote.account(&self.rule, request, span).settle(cost, 0);
            }
            Some(remote) if remote.on_failure != OnFailure::Local => {}
            _ => self.counts.refund(self.counts.key(request), span, cost),
        }
    }

    /// Registers the settlement of the cost that the response reports. `taken` is already counted.
    fn settle_with_response(&self, taken: u64, span: CalendarPeriod, request: &mut Request<'_>) {
        let cost = self.rule.cost.clone();
        match &self.remote {
            Some(remote) if !remote.store.is_lost() => {
                let account = remote.account(&self.rule, request, span);
                request.context.on_head(move |response| {
                    if let Some(reported) = cost.take_reported(response) {
                        account.settle(taken, reported);
                    }
                });
            }
            _ => {
                let (counts, key) = (self.counts.clone(), self.counts.key(request));
                request.context.on_head(move |response| {
                    if let Some(reported) = cost.take_reported(response) {
                        counts.settle(key, span, taken, reported);
                    }
                });
            }
        }
    }

    /// Decides on a request while the store is unavailable.
    fn decide_without_store(
        &self,
        request: &Request<'_>,
        span: CalendarPeriod,
        cost: u64,
    ) -> Result<Option<CountResult>, Refusal> {
        match self.remote.as_ref().map(|remote| remote.on_failure) {
            None | Some(OnFailure::Local) => {
                Ok(Some(self.counts.count(self.counts.key(request), span, self.rule.limit, cost)))
            }
            Some(OnFailure::Open) => Ok(None),
            Some(OnFailure::Closed) if self.rule.dry_run => Ok(None),
            Some(OnFailure::Closed) => Err(Reason::LimitUnavailable.into()),
        }
    }
}

impl QuotaStore {
    fn key(&self, rule: &Quota, request: &Request<'_>, span: CalendarPeriod) -> Vec<u8> {
        let begin = span.begin.to_string();
        rule.by.with(request, |value| self.store.key(&[self.name.as_bytes(), begin.as_bytes()], value))
    }

    /// Returns the account of a request's key, which is settled when the cost is known.
    fn account(&self, rule: &Quota, request: &Request<'_>, span: CalendarPeriod) -> QuotaAccount {
        let key = self.key(rule, request, span);
        QuotaAccount { store: self.store.clone(), shared: self.shared.clone(), key, keep: keep(span) }
    }
}

/// Returns for how many milliseconds a count is kept: until one minute after its period.
fn keep(span: CalendarPeriod) -> u64 {
    u64::try_from(span.left.as_millis()).unwrap_or(u64::MAX).saturating_add(60_000)
}

/// The count of one key in the store.
struct QuotaAccount {
    store: Arc<RedisStore>,
    shared: Arc<PolicyStates>,
    key: Vec<u8>,
    keep: u64,
}

impl QuotaAccount {
    /// Corrects the count to the reported cost. No request waits for the store; if it does not respond, the
    /// count stays.
    fn settle(self, taken: u64, reported: u64) {
        let Self { store, shared, key, keep } = self;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let more = signed(reported).saturating_sub(signed(taken));
        if more == 0 || store.is_lost() {
            return;
        }
        let states = shared.clone();
        let question = StoreCall::Recount { key, more, keep };
        shared.background().spawn(async move {
            let _ = store.ask(states.background(), question).await;
        });
    }
}

impl PeriodCounts {
    /// Returns the count of a key in a period.
    fn count(&mut self, key: u64, span: CalendarPeriod, keys: usize) -> &mut u64 {
        // A clock that is set back does not restart a period. But after a clock was far ahead for a moment,
        // counting must not stop until that time.
        if span.begin > self.begun || self.begun > span.begin + span.length.as_secs() {
            *self = PeriodCounts { begun: span.begin, ..PeriodCounts::default() };
        }
        let PeriodCounts { each, overflow, .. } = self;
        if each.len() < keys || each.contains_key(&key) { each.entry(key).or_insert(0) } else { overflow }
    }
}

impl QuotaCounts {
    fn key(&self, request: &Request<'_>) -> u64 {
        self.by.hash(request, &self.hash)
    }

    fn count(&self, key: u64, span: CalendarPeriod, limit: u64, cost: u64) -> CountResult {
        let mut period_counts = self.period_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = period_counts.count(key, span, self.keys);
        let after = count.saturating_add(cost);
        if after > limit {
            return CountResult { passes: false, remaining: limit.saturating_sub(*count) };
        }
        *count = after;
        CountResult { passes: true, remaining: limit - after }
    }

    /// Subtracts a cost that was counted in this period.
    fn refund(&self, key: u64, span: CalendarPeriod, cost: u64) {
        self.settle(key, span, cost, 0);
    }

    /// Corrects a cost that was counted in this period to the reported one. If the period is over, the count of the
    /// next period stays unchanged.
    fn settle(&self, key: u64, span: CalendarPeriod, taken: u64, reported: u64) {
        let mut period_counts = self.period_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let PeriodCounts { begun, each, overflow } = &mut *period_counts;
        if *begun == span.begin {
            let count = each.get_mut(&key).unwrap_or(overflow);
            *count = match reported.checked_sub(taken) {
                Some(more) => count.saturating_add(more),
                None => count.saturating_sub(taken - reported),
            };
        }
    }
}

impl Policy for Quotas {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        check_from(&self.0, 0, None, request)
    }
}

/// Checks a request against each quota from index `from`.
fn check_from(
    quotas: &Arc<[QuotaState]>,
    from: usize,
    mut fields: Option<LimitFields>,
    request: &mut Request<'_>,
) -> Verdict {
    let now = tollgate_net::wall_clock();
    for (index, quota) in quotas.iter().enumerate().skip(from) {
        let span = quota.rule.per.span(now);
        let Some(cost) = quota.cost(request) else { continue };
        let result = match &quota.remote {
            Some(remote) if !remote.store.is_lost() => {
                return ask(quotas, (index, remote), fields, (span, cost), request);
            }
            _ => quota.decide_without_store(request, span, cost),
        };
        if let Some(end) = settle(quotas, index, result, (span, cost), &mut fields, request) {
            return end;
        }
    }
    if let Some(fields) = fields {
        request.context.on_head(move |response| fields.respond(response));
    }
    Verdict::Continue
}

/// Asks the store of a quota, then continues with the next quota.
fn ask(
    quotas: &Arc<[QuotaState]>,
    (index, remote): (usize, &QuotaStore),
    mut fields: Option<LimitFields>,
    (span, cost): (CalendarPeriod, u64),
    request: &Request<'_>,
) -> Verdict {
    let (rule, QuotaStore { store, shared, .. }) = (&quotas[index].rule, remote);
    let key = remote.key(rule, request, span);
    let question = StoreCall::Quota { key, limit: rule.limit, keep: keep(span), cost };
    let (store, states, quotas) = (store.clone(), shared.clone(), quotas.clone());
    let asked = shared.background().run(async move { store.ask(states.background(), question).await });
    Verdict::Wait(Box::pin(async move {
        let answer = asked.await;
        let after: Continuation = Box::new(move |request| {
            let quota = &quotas[index];
            let result = match answer {
                Some(Ok((passes, period_counts))) => {
                    let remaining =
                        quota.rule.limit.saturating_sub(u64::try_from(period_counts).unwrap_or(0));
                    Ok(Some(CountResult { passes: passes == 1, remaining }))
                }
                Some(Err(_)) | None => quota.decide_without_store(request, span, cost),
            };
            match settle(&quotas, index, result, (span, cost), &mut fields, request) {
                Some(end) => end,
                None => check_from(&quotas, index + 1, fields, request),
            }
        });
        after
    }))
}

/// Processes the result of a count; returns a verdict if the request does not continue.
fn settle(
    quotas: &[QuotaState],
    index: usize,
    result: Result<Option<CountResult>, Refusal>,
    (span, cost): (CalendarPeriod, u64),
    fields: &mut Option<LimitFields>,
    request: &mut Request<'_>,
) -> Option<Verdict> {
    let QuotaState { rule, .. } = &quotas[index];
    let refusal = match result {
        Ok(None) => return None,
        Ok(Some(result)) => {
            let window = span.length.as_secs();
            let tell = |fields: &mut LimitFields| {
                let policy = format!("\"{}\";q={};w={window}", rule.name, rule.limit);
                fields.add(&rule.name, &policy, result.remaining, span.left);
            };
            if rule.headers {
                tell(fields.get_or_insert_with(LimitFields::default));
            }
            if result.passes {
                if rule.cost.field().is_some() {
                    quotas[index].settle_with_response(cost, span, request);
                }
                return None;
            }
            if rule.dry_run {
                request.context.note = Some("a quota would refuse it (dry run)");
                return None;
            }
            let mut fields = fields.take().unwrap_or_default();
            if !rule.headers {
                tell(&mut fields);
            }
            Refusal { lines: fields.refusal(span.left), status: rule.status, ..Reason::QuotaExceeded.into() }
        }
        Err(refusal) => refusal,
    };
    // The previous quotas get their costs back.
    let now = tollgate_net::wall_clock();
    quotas[..index].iter().for_each(|quota| quota.undo(request, quota.rule.per.span(now)));
    Some(refusal.into())
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn left(now: SystemTime, end: u64) -> Duration {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(end).saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn quota(limit: u64, by: CountKey, keys: usize) -> Quota {
        let name = "q".to_owned();
        let (cost, exempt) = (Cost::default(), Exempt::default());
        let (per, headers, dry_run) = (Period::Month, false, false);
        Quota {
            name,
            limit,
            per,
            by,
            cost,
            exempt,
            scope: None,
            keys,
            headers,
            status: None,
            dry_run,
            redis: None,
        }
    }

    fn activate(quotas: Vec<Quota>, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(QuotaRules { quotas }).activate("r", shared)
    }

    fn passes(policy: &Arc<dyn Policy>, fields: &str) -> bool {
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        match policy.request(&mut sent.request(&mut context)) {
            Verdict::Continue => true,
            Verdict::Refuse(refusal) => {
                assert_eq!(refusal.reason, Reason::QuotaExceeded);
                false
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_counts_and_survives_a_change_of_plan() {
        let shared = Arc::new(PolicyStates::default());
        let by = CountKey::Header("x-a".into());
        let first = activate(vec![quota(2, by.clone(), 100)], &shared);
        let passed: Vec<_> =
            ["a", "a", "a", "b"].iter().map(|a| passes(&first, &format!("X-A: {a}\r\n"))).collect();
        assert_eq!(passed, [true, true, false, true]);
        let second = activate(vec![quota(3, by, 100)], &shared);
        drop(first);
        assert!(passes(&second, "X-A: a\r\n"), "one more by the new limit");
        assert!(!passes(&second, "X-A: a\r\n"));
    }

    #[test]
    fn a_refund_after_its_period_leaves_the_next_one_alone() {
        let state = QuotaState::new(
            &quota(10, CountKey::All, 100),
            "k".to_owned(),
            &Arc::new(PolicyStates::default()),
        );
        let day = |day: u64| Period::Month.span(UNIX_EPOCH + Duration::from_secs(day * 86_400));
        let (november, december) = (day(20_779), day(20_809));
        let counts = &state.counts;
        let remaining = |span, cost| counts.count(1, span, 10, cost).remaining;
        assert_eq!([remaining(november, 4), remaining(december, 3)], [6, 7]);
        counts.refund(1, november, 4);
        counts.settle(1, november, 4, 1);
        counts.settle(1, november, 4, 9);
        assert_eq!(remaining(december, 0), 7);
        counts.refund(1, december, 1);
        counts.settle(1, december, 2, 4);
        assert_eq!(remaining(december, 0), 6);
    }

    #[test]
    fn keys_past_the_cap_count_as_one() {
        let policy =
            activate(vec![quota(2, CountKey::Header("x-a".into()), 2)], &Arc::new(PolicyStates::default()));
        let passed = (0..100).filter(|n| passes(&policy, &format!("X-A: {n}\r\n"))).count();
        assert_eq!(passed, 2 + 2);
    }

    #[test]
    fn a_clock_that_was_far_ahead_stops_no_count() {
        let shared = Arc::new(PolicyStates::default());
        let state = QuotaState::new(&quota(1, CountKey::All, 100), "k".to_owned(), &shared);
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        let request = sent.request(&mut context);
        // 2026-11-22 as days since 1970, and other days of that time.
        let passes = |day: u64| {
            let span = Period::Month.span(UNIX_EPOCH + Duration::from_secs(day * 86_400));
            state.counts.count(state.counts.key(&request), span, 1, 1).passes
        };
        assert_eq!([passes(20_779), passes(20_779)], [true, false]);
        assert_eq!(
            [passes(20_809), passes(20_779)],
            [true, false],
            "a month ahead and back: none begins again"
        );
        assert_eq!(
            [passes(30_000), passes(20_779), passes(20_779)],
            [true, true, false],
            "years ahead and back"
        );
    }

    #[test]
    fn a_quota_is_refunded_when_the_next_one_refuses() {
        let quotas = vec![quota(3, CountKey::All, 100), quota(1, CountKey::Header("x-a".into()), 100)];
        let policy = activate(quotas, &Arc::new(PolicyStates::default()));
        let passed: Vec<_> = ["a", "a", "a", "b", "c", "d"]
            .iter()
            .map(|a| passes(&policy, &format!("X-A: {a}\r\n")))
            .collect();
        assert_eq!(passed, [true, false, false, true, true, false]);
    }
}
