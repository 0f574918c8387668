//! `rate_limit`: limits the rate of requests.
//!
//! A request must pass each limit of the list. If one refuses it, the policy refunds the cost in the previous
//! limits, also in a shared store.

mod buckets;
mod config;
pub(crate) mod gcra;
mod shared;

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use tollgate_observe::Reason;

use self::buckets::Buckets;
use self::gcra::{Bucket, Clock, Decision, Gcra};
pub use self::shared::SharedRate;
use self::shared::{LocalDecision, SharedLimit};
use crate::cost::Cost;
use crate::exempt::Exempt;
use crate::limit_fields::{self, LimitFields};
use crate::redis::OnFailure;
use crate::{Continuation, CountKey, Planned, Policy, PolicyStates, Refusal, Request, Verdict};

pub(crate) use config::RateLimitSettings;

/// Limits, all of which a request must pass, in order.
#[derive(Clone, Debug, Default)]
pub struct RateLimitRules {
    /// The limits in configuration order.
    pub limits: Vec<RateLimit>,
}

/// A limit of the rate of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The name that response fields show to clients: letters, digits, `-`, `_`, `.` and spaces.
    pub name: String,
    /// The number of requests per period.
    pub count: u64,
    /// The period. Requests are replenished evenly over it.
    pub period: Duration,
    /// The number of requests that are allowed at once after a pause.
    pub burst: u64,
    /// The key by which requests are counted.
    pub by: CountKey,
    /// The cost of a request.
    pub cost: Cost,
    /// Requests that the limit does not count.
    pub exempt: Exempt,
    /// The name of a scope whose limits share one count; `None`: the limit counts for its own place only.
    pub scope: Option<String>,
    /// The maximum number of keys; further keys share buckets.
    pub keys: usize,
    /// Whether every response reports the state of the limit, instead of refusals only.
    pub headers: bool,
    /// The status of a refusal; `None`: 429.
    pub status: Option<u16>,
    /// Whether the limit refuses nothing and only logs what it would refuse.
    pub dry_run: bool,
    /// How several gateways share the limit; `None`: each gateway has its own.
    pub shared: Option<SharedRate>,
}

impl Planned for RateLimitRules {
    fn kind(&self) -> &'static str {
        "rate_limit"
    }

    fn summary(&self) -> String {
        let limits = self.limits.iter().map(RateLimit::summary);
        limits.collect::<Vec<_>>().join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let one = |(number, limit): (usize, &RateLimit)| {
            let own = || format!("{key}/{number}");
            let key = limit.scope.as_ref().map_or_else(own, |scope| format!("scope/{scope}/rate_limit"));
            RateLimitState::new(limit, &key, shared)
        };
        Arc::new(RateLimits(self.limits.iter().enumerate().map(one).collect()))
    }
}

impl RateLimit {
    fn summary(&self) -> String {
        let Self { count, burst, by, .. } = self;
        let unit = match self.period.as_secs() {
            1 => "s".to_owned(),
            60 => "m".to_owned(),
            3600 => "h".to_owned(),
            86_400 => "d".to_owned(),
            _ => format!("{:?}", self.period),
        };
        let by = if *by == CountKey::All { String::new() } else { format!(" by {by}") };
        let dry_run = if self.dry_run { ", dry run" } else { "" };
        let shared = if self.shared.is_some() { ", shared by Redis" } else { "" };
        let (cost, exempt) = (self.cost.summary(), self.exempt.summary());
        format!("{count}/{unit}{by}, burst {burst}{cost}{exempt}{shared}{dry_run}")
    }
}

/// The limits of a place, with their counts.
#[derive(Debug)]
struct RateLimits(Arc<[RateLimitState]>);

/// A limit with its counts.
#[derive(Debug)]
struct RateLimitState {
    rule: RateLimit,
    /// Its item of `RateLimit-Policy`.
    policy: String,
    counts: Arc<RateCounts>,
    /// The shared store that counts instead of this process.
    remote: Option<Arc<SharedLimit>>,
}

/// The counts of this process. They survive a change of plan that keeps the rate and the key.
#[derive(Debug)]
struct RateCounts {
    gcra: Gcra,
    by: CountKey,
    keys: usize,
    clock: Clock,
    hash: RandomState,
    all: Bucket,
    each: Buckets,
}

impl RateLimitState {
    fn new(rule: &RateLimit, key: &str, shared: &Arc<PolicyStates>) -> Self {
        let gcra = Gcra::new(rule.count, rule.period, rule.burst);
        let fits =
            |counts: &RateCounts| counts.gcra == gcra && counts.by == rule.by && counts.keys == rule.keys;
        let counts = shared.state(key, fits, || RateCounts::new(gcra, rule.by.clone(), rule.keys));
        let policy = limit_fields::policy(&rule.name, rule.count, rule.period);
        let name = || format!("{key}/{}-{}-{}", rule.count, rule.period.as_secs(), rule.burst);
        let remote = rule
            .shared
            .as_ref()
            .map(|shared_rule| Arc::new(SharedLimit::new(shared_rule, name(), rule.cost.debt(), shared)));
        Self { rule: rule.clone(), policy, counts, remote }
    }

    /// Returns the cost of a request; `None`: it is not counted.
    #[inline]
    fn cost(&self, request: &Request<'_>) -> Option<u64> {
        let cost = self.rule.cost.charge(request);
        (cost > 0 && !self.rule.exempt.has(request)).then_some(cost)
    }

    /// Refunds the cost of a refused request, in the local or the shared count.
    fn undo(&self, request: &Request<'_>) {
        let Some(cost) = self.cost(request).filter(|_| !self.rule.dry_run) else { return };
        match &self.remote {
            Some(remote) if !remote.is_lost() => remote.undo(request, &self.rule.by, self.counts.gcra, cost),
            Some(remote) if remote.on_failure() != OnFailure::Local => {}
            _ => self.counts.undo(request, cost),
        }
    }

    /// Registers the settlement of the cost that the response reports. `taken` is already counted.
    fn settle_with_response(&self, taken: u64, request: &mut Request<'_>) {
        let (counts, cost) = (self.counts.clone(), self.rule.cost.clone());
        match &self.remote {
            Some(remote) if !remote.is_lost() => {
                let account = remote.account(request, &self.rule.by, counts.gcra);
                request.context.on_head(move |response| {
                    if let Some(reported) = cost.take_reported(response) {
                        account.settle(taken, reported);
                    }
                });
            }
            _ => {
                let key = counts.key(request);
                request.context.on_head(move |response| {
                    if let Some(reported) = cost.take_reported(response) {
                        counts.settle(key, taken, reported, cost.debt());
                    }
                });
            }
        }
    }
}

impl RateCounts {
    fn new(gcra: Gcra, by: CountKey, keys: usize) -> Self {
        let (clock, hash) = (Clock::start(), RandomState::new());
        Self { gcra, by, keys, clock, hash, all: Bucket::default(), each: Buckets::new(keys) }
    }

    /// Returns the hash of the request's key; `None`: all requests share one bucket.
    fn key(&self, request: &Request<'_>) -> Option<u64> {
        match self.by {
            CountKey::All => None,
            _ => Some(self.by.hash(request, &self.hash)),
        }
    }

    fn decide(&self, request: &Request<'_>, cost: u64) -> Decision {
        // Uses the current time instead of the start of the request: a slow head must not move the request to
        // an earlier time.
        let now = self.clock.now();
        let (full, decided) = match self.key(request) {
            None => self.all.decide(&self.gcra, now, cost),
            Some(key) => self.each.decide(key, &self.gcra, now, cost),
        };
        self.gcra.decision(full, now, decided)
    }

    fn undo(&self, request: &Request<'_>, cost: u64) {
        self.refund(self.key(request), cost);
    }

    fn refund(&self, key: Option<u64>, cost: u64) {
        match key {
            None => self.all.undo(&self.gcra, cost),
            Some(key) => self.each.undo(key, &self.gcra, cost),
        }
    }

    /// Corrects the count to the reported cost.
    fn settle(&self, key: Option<u64>, taken: u64, reported: u64, debt: u64) {
        let now = self.clock.now();
        match (reported.checked_sub(taken), key) {
            (Some(0), _) => {}
            (None, key) => self.refund(key, taken - reported),
            (Some(more), None) => self.all.debit(&self.gcra, now, more, debt),
            (Some(more), Some(key)) => self.each.debit(key, &self.gcra, now, more, debt),
        }
    }
}

impl Policy for RateLimits {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        check_from(&self.0, 0, None, request)
    }
}

/// Checks a request against each limit from index `from`.
fn check_from(
    limits: &Arc<[RateLimitState]>,
    from: usize,
    mut fields: Option<LimitFields>,
    request: &mut Request<'_>,
) -> Verdict {
    for (index, limit) in limits.iter().enumerate().skip(from) {
        let RateLimitState { rule, counts, remote, .. } = limit;
        let Some(cost) = limit.cost(request) else { continue };
        let decision = match remote {
            None => Some(counts.decide(request, cost)),
            Some(remote) => match remote.decide(request, &rule.by, counts.gcra, rule.keys, cost) {
                LocalDecision::Decided(decision) => Some(decision),
                LocalDecision::Lost => match limit.decide_without_store(remote, request, cost) {
                    Ok(decision) => decision,
                    Err(refusal) => return refuse(limits, index, refusal, request),
                },
                LocalDecision::PreparedCall(ask) => {
                    let (asked, limits, remote) = (ask.ask(), limits.clone(), remote.clone());
                    return Verdict::Wait(Box::pin(async move {
                        let answer = asked.await;
                        let after: Continuation = Box::new(move |request| {
                            let decision = match answer {
                                Ok(decision) => Some(decision),
                                Err(_) => match limits[index].decide_without_store(&remote, request, cost) {
                                    Ok(decision) => decision,
                                    Err(refusal) => return refuse(&limits, index, refusal, request),
                                },
                            };
                            match settle(&limits, index, decision, cost, &mut fields, request) {
                                Some(refusal) => refusal,
                                None => check_from(&limits, index + 1, fields, request),
                            }
                        });
                        after
                    }));
                }
            },
        };
        if let Some(refusal) = settle(limits, index, decision, cost, &mut fields, request) {
            return refusal;
        }
    }
    if let Some(fields) = fields {
        request.context.on_head(move |response| fields.respond(response));
    }
    Verdict::Continue
}

/// Processes a decision; returns a verdict if the request does not continue. Without a decision the request
/// passes.
#[inline]
fn settle(
    limits: &[RateLimitState],
    index: usize,
    decision: Option<Decision>,
    cost: u64,
    fields: &mut Option<LimitFields>,
    request: &mut Request<'_>,
) -> Option<Verdict> {
    let (RateLimitState { rule, policy, .. }, decision) = (&limits[index], decision?);
    if rule.headers {
        fields.get_or_insert_with(LimitFields::default).add(
            &rule.name,
            policy,
            decision.remaining,
            decision.full,
        );
    }
    if decision.passes {
        if rule.cost.field().is_some() {
            limits[index].settle_with_response(cost, request);
        }
        return None;
    }
    if rule.dry_run {
        request.context.note = Some("a rate limit would refuse it (dry run)");
        return None;
    }
    let mut fields = fields.take().unwrap_or_default();
    if !rule.headers {
        fields.add(&rule.name, policy, decision.remaining, decision.full);
    }
    let refusal =
        Refusal { lines: fields.refusal(decision.wait), status: rule.status, ..Reason::RateLimited.into() };
    Some(refuse(limits, index, refusal, request))
}

/// Refuses a request and refunds its cost in the previous limits.
fn refuse(limits: &[RateLimitState], index: usize, refusal: Refusal, request: &Request<'_>) -> Verdict {
    limits[..index].iter().for_each(|limit| limit.undo(request));
    refusal.into()
}

impl RateLimitState {
    /// Decides on a request while the store is unavailable.
    fn decide_without_store(
        &self,
        remote: &SharedLimit,
        request: &Request<'_>,
        cost: u64,
    ) -> Result<Option<Decision>, Refusal> {
        match remote.on_failure() {
            OnFailure::Local => Ok(Some(self.counts.decide(request, cost))),
            OnFailure::Open => Ok(None),
            OnFailure::Closed if self.rule.dry_run => Ok(None),
            OnFailure::Closed => Err(Reason::LimitUnavailable.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn limit(count: u64, by: CountKey) -> RateLimit {
        let (name, period) = (by.to_string(), Duration::from_secs(3600));
        RateLimit {
            name,
            count,
            period,
            burst: count,
            by,
            cost: Cost::default(),
            exempt: Exempt::default(),
            scope: None,
            keys: 1000,
            headers: false,
            status: None,
            dry_run: false,
            shared: None,
        }
    }

    fn activate(limits: Vec<RateLimit>, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(RateLimitRules { limits }).activate("route/r/rate_limit", shared)
    }

    fn passes(policy: &Arc<dyn Policy>, fields: &str) -> bool {
        let (mut sent, mut context) = (Sent::new(fields), Context::default());
        match policy.request(&mut sent.request(&mut context)) {
            Verdict::Continue => true,
            Verdict::Refuse(refusal) => {
                assert_eq!(refusal.reason, Reason::RateLimited);
                false
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_limit_is_refunded_when_the_next_one_refuses() {
        let policy = activate(
            vec![limit(3, CountKey::All), limit(1, CountKey::Header("x-a".into()))],
            &Arc::new(PolicyStates::default()),
        );
        assert!(passes(&policy, "X-A: a\r\n"));
        assert!(!passes(&policy, "X-A: a\r\n"));
        assert!(!passes(&policy, "X-A: a\r\n"));
        assert!(passes(&policy, "X-A: b\r\n"), "those that were refused took nothing");
        assert!(passes(&policy, ""), "all without one are one");
        assert!(!passes(&policy, "X-A: c\r\n"));
    }

    #[test]
    fn counts_survive_a_change_of_plan() {
        let shared = Arc::new(PolicyStates::default());
        let first = activate(vec![limit(1, CountKey::All)], &shared);
        assert!(passes(&first, ""));
        let mut fields = limit(1, CountKey::All);
        fields.headers = true;
        let second = activate(vec![fields], &shared);
        assert!(!passes(&second, ""));
        assert!(
            passes(&activate(vec![limit(2, CountKey::All)], &shared), ""),
            "another rate is another limit"
        );
    }

    #[test]
    fn a_dry_run_refuses_nothing_and_tells() {
        let mut dry = limit(1, CountKey::All);
        dry.dry_run = true;
        let policy = activate(vec![dry], &Arc::new(PolicyStates::default()));
        assert!(passes(&policy, ""));
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        assert!(matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue));
        assert!(context.note.is_some());
    }

    #[test]
    fn limits_of_one_scope_count_together_wherever_they_stand() {
        let shared = Arc::new(PolicyStates::default());
        let at = |place: &str, scope: Option<&str>| {
            let limit = RateLimit { scope: scope.map(str::to_owned), ..limit(2, CountKey::All) };
            Arc::new(RateLimitRules { limits: vec![limit] }).activate(place, &shared)
        };
        let (one, two) = (at("route/a/rate_limit", Some("s")), at("route/b/rate_limit", Some("s")));
        assert!(passes(&one, "") && passes(&two, "") && !passes(&one, "") && !passes(&two, ""));
        let other = at("route/c/rate_limit", None);
        assert!(passes(&other, "") && passes(&other, "") && !passes(&other, ""));
    }

    #[test]
    fn a_response_reports_the_cost_of_its_request() {
        use crate::{BodyKind, CostSource};
        let cost = Cost { by: CostSource::Response("x-cost".into()), default: 1, max: 10 };
        for by in [CountKey::All, CountKey::Header("x-a".into())] {
            let limit = RateLimit { cost: cost.clone(), ..limit(10, by) };
            let policy = activate(vec![limit], &Arc::new(PolicyStates::default()));
            let costs = |line: &str| {
                let (mut sent, mut context) = (Sent::new(""), Context::default());
                let passes = matches!(policy.request(&mut sent.request(&mut context)), Verdict::Continue);
                let mut head = format!("HTTP/1.1 200 OK\r\n{line}\r\n").into_bytes();
                drop(context.respond(&mut head, BodyKind::Fixed, true));
                assert_eq!(head, b"HTTP/1.1 200 OK\r\n\r\n");
                passes
            };
            assert!(costs("X-Cost: 0\r\n"), "it was for nothing");
            assert!(costs("X-Cost: 9\r\n"));
            assert!(costs(""), "the one that is left");
            assert!(!costs(""));
        }
    }
}
