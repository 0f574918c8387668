//! The last hour in steps of ten seconds, for the whole gateway and for the busiest routes and upstreams.
//!
//! [`Registry::record_second`](crate::Registry::record_second) calls [`HourHistory::add`] every ten seconds
//! with a [`Snapshot`], on the control thread; a worker does nothing for it. `GET /api/v1/live/history`
//! answers with a [`HistoryDocument`].
//!
//! Memory is bounded, as in a round-robin database: a series has at most 360 points of 48 bytes (17 KiB), and at most
//! 100 routes and 100 upstreams have a series (together 3.4 MiB). A busier name takes the place of the least busy one
//! ([`Group::admit`]). A series ends with the newest step, and all series share the times of the steps.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::latency::percentile;
use crate::status::seconds;
use crate::{BUCKETS, HistogramSnapshot, Reason, RouteSnapshot, Snapshot, UpstreamSnapshot};

/// Number of points: an hour.
const POINTS_MAX: usize = 360;
/// Time between two points.
const STEP: Duration = Duration::from_secs(10);
/// How early the caller's timer may be.
const TIMER_TOLERANCE: Duration = Duration::from_millis(500);
/// Bound of routes with a series, and of upstreams with a series.
const SERIES_MAX: usize = 100;
/// Part of a name's score that remains after a step: half of it after 11 minutes.
const SCORE_DECAY: f64 = 0.99;
/// How many times busier than the least busy kept name another one must be to take its place, so that two
/// names do not take turns.
const SCORE_FACTOR: f64 = 2.0;

/// The subject of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryScope {
    /// All requests.
    Gateway,
    /// The requests of one route.
    Route,
    /// The attempts of one upstream.
    Upstream,
}

/// The last hour of the gateway, a route or an upstream, as columns of equal length: one row per step. Rates
/// are per second. Unknown figures are `null`: those before the series began, and percentiles without
/// requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryDocument {
    /// Seconds between two rows.
    pub step: u64,
    /// Whether this name has a series. If not, it had no requests, or 100 others are busier.
    pub kept: bool,
    /// The end of each step, in seconds since 1970.
    pub time: Vec<f64>,
    /// Requests per second; empty for an upstream.
    pub requests: Vec<Option<f64>>,
    /// Requests per second by class of status: `none`, `1xx`, ... `5xx`. Empty for an upstream.
    pub codes: BTreeMap<String, Vec<Option<f64>>>,
    /// Attempts per second that ended: with a response's head, or failed. Empty for a route.
    pub attempts: Vec<Option<f64>>,
    /// Attempts per second that failed. Empty for a route.
    pub failures: Vec<Option<f64>>,
    /// Attempts per second after a failed one. Empty for a route.
    pub retries: Vec<Option<f64>>,
    /// The 50th percentile, in seconds: of the exchanges, or of an upstream's time to the response's head.
    pub p50: Vec<Option<f64>>,
    /// The 99th percentile.
    pub p99: Vec<Option<f64>>,
    /// Reasons since the start: of the gateway's own responses, or of an upstream's failed attempts. Empty
    /// for a route.
    pub reasons: BTreeMap<String, u64>,
}

/// The classes of status, in the order of [`Counts::codes`].
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts since the start.
#[derive(Clone, Debug, Default)]
struct Counts {
    requests: u64,
    codes: [u64; CLASSES.len()],
    attempts: u64,
    failures: u64,
    retries: u64,
    latency: [u64; BUCKETS + 1],
}

impl Counts {
    fn of_route(route: &RouteSnapshot) -> Self {
        let requests = route.codes.iter().sum();
        Self { requests, codes: route.codes, latency: route.duration.counts, ..Self::default() }
    }

    fn of_upstream(upstream: &UpstreamSnapshot) -> Self {
        let failures = upstream.failures.iter().sum();
        Self {
            attempts: upstream.header.count() + failures,
            failures,
            retries: upstream.resilience.retries,
            latency: upstream.header.counts,
            ..Self::default()
        }
    }

    fn of_gateway(snapshot: &Snapshot) -> Self {
        let mut sum = Self { requests: snapshot.requests, ..Self::default() };
        let mut latency = HistogramSnapshot::default();
        for route in &snapshot.routes {
            for (sum, count) in sum.codes.iter_mut().zip(route.codes) {
                *sum += count;
            }
            latency.add(&route.duration);
        }
        sum.latency = latency.counts;
        for upstream in &snapshot.upstreams {
            let counts = Self::of_upstream(upstream);
            sum.attempts += counts.attempts;
            sum.failures += counts.failures;
            sum.retries += counts.retries;
        }
        sum
    }

    /// Returns what was counted since `before`.
    fn since(&self, before: &Self) -> Point {
        let count = |now: u64, then: u64| u32::try_from(now.saturating_sub(then)).unwrap_or(u32::MAX);
        let mut buckets = self.latency;
        for (now, then) in buckets.iter_mut().zip(before.latency) {
            *now = now.saturating_sub(then);
        }
        let observed = buckets.iter().sum();
        let at = |part| percentile(&buckets, observed, part).map_or(f32::NAN, |value| value as f32);
        Point {
            requests: count(self.requests, before.requests),
            codes: std::array::from_fn(|class| count(self.codes[class], before.codes[class])),
            attempts: count(self.attempts, before.attempts),
            failures: count(self.failures, before.failures),
            retries: count(self.retries, before.retries),
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}

/// The counts of one step. A percentile is NaN if there were no requests.
#[derive(Clone, Copy, Debug)]
struct Point {
    requests: u32,
    codes: [u32; CLASSES.len()],
    attempts: u32,
    failures: u32,
    retries: u32,
    p50: f32,
    p99: f32,
}

/// One name: its last counts, and its points if it is kept.
#[derive(Debug, Default)]
struct Tracked {
    before: Counts,
    /// Requests or attempts, of which older ones count less.
    score: f64,
    points: Option<VecDeque<Point>>,
}

impl Tracked {
    /// Adds a step. A name in use begins a series with it; [`Group::admit`] decides whether it stays.
    fn add(&mut self, now: Counts) {
        let point = now.since(&self.before);
        self.before = now;
        let happened = point.requests.max(point.attempts);
        self.score = self.score * SCORE_DECAY + f64::from(happened);
        match &mut self.points {
            Some(points) => push(points, point),
            None if happened > 0 => self.points = Some(VecDeque::from([point])),
            None => {}
        }
    }
}

/// The routes, or the upstreams.
#[derive(Debug, Default)]
struct Group(HashMap<Arc<str>, Tracked>);

impl Group {
    /// Adds a step. Names that are missing have lost their counters and are forgotten.
    fn add<'a>(&mut self, all: impl Iterator<Item = (&'a Arc<str>, Counts)>, first: bool) {
        let mut before = std::mem::take(&mut self.0);
        for (name, counts) in all {
            let mut tracked = before.remove(name).unwrap_or_default();
            if first {
                tracked.before = counts;
            } else {
                tracked.add(counts);
            }
            self.0.insert(name.clone(), tracked);
        }
        self.admit();
    }

    /// Drops the points of names that are not among the busiest. A name that had points before stays unless
    /// a new one is clearly busier.
    fn admit(&mut self) {
        let rank = |tracked: &Tracked| {
            let is_new = tracked.points.as_ref().is_some_and(|points| points.len() <= 1);
            if is_new { tracked.score / SCORE_FACTOR } else { tracked.score }
        };
        let mut kept: Vec<&mut Tracked> =
            self.0.values_mut().filter(|tracked| tracked.points.is_some()).collect();
        kept.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        for tracked in kept.into_iter().skip(SERIES_MAX) {
            tracked.points = None;
        }
    }
}

fn push<T>(points: &mut VecDeque<T>, point: T) {
    if points.len() == POINTS_MAX {
        points.pop_front();
    }
    points.push_back(point);
}

/// The end of a step, and its length in seconds.
#[derive(Clone, Copy, Debug)]
struct Step {
    end: f64,
    length: f64,
}

/// The history of the last hour.
#[derive(Debug, Default)]
pub(crate) struct HourHistory {
    last: Option<SystemTime>,
    steps: VecDeque<Step>,
    gateway: Tracked,
    routes: Group,
    upstreams: Group,
}

impl HourHistory {
    /// Returns whether a step is over. It also is after the clock was set back.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let Some(last) = self.last else { return true };
        now.duration_since(last).map_or(true, |passed| passed + TIMER_TOLERANCE >= STEP)
    }

    /// Adds a step. The first call, and one after the clock was set back, only set the counts from which the
    /// next step counts.
    pub(crate) fn add(&mut self, now: SystemTime, snapshot: &Snapshot) {
        let length = self.last.replace(now).and_then(|last| now.duration_since(last).ok());
        let length = length.map(|length| length.as_secs_f64()).filter(|length| *length > 0.0);
        let gateway = Counts::of_gateway(snapshot);
        match length {
            Some(length) => {
                push(&mut self.steps, Step { end: seconds(now), length });
                self.gateway.points.get_or_insert_default();
                self.gateway.add(gateway);
            }
            None => self.gateway.before = gateway,
        }
        let first = length.is_none();
        self.routes.add(snapshot.routes.iter().map(|it| (&it.name, Counts::of_route(it))), first);
        self.upstreams.add(snapshot.upstreams.iter().map(|it| (&it.name, Counts::of_upstream(it))), first);
    }

    /// Returns the rows after a time, in seconds since 1970; 0: all. `name` counts only for a route or an
    /// upstream.
    pub(crate) fn document(&self, scope: HistoryScope, name: &str, after: f64) -> HistoryDocument {
        let tracked = match scope {
            HistoryScope::Gateway => Some(&self.gateway),
            HistoryScope::Route => self.routes.0.get(name),
            HistoryScope::Upstream => self.upstreams.0.get(name),
        };
        let points = tracked.and_then(|tracked| tracked.points.as_ref());
        let missing = self.steps.len() - points.map_or(0, VecDeque::len);
        let row = |(index, step): (usize, &Step)| {
            let point = index.checked_sub(missing).and_then(|index| points?.get(index).copied());
            (*step, point)
        };
        let rows: Vec<(Step, Option<Point>)> =
            self.steps.iter().enumerate().map(row).filter(|(step, _)| step.end > after).collect();
        let rates = |count: &dyn Fn(&Point) -> u32| -> Vec<Option<f64>> {
            let rate = |(step, point): &(Step, Option<Point>)| {
                let rate = f64::from(count(point.as_ref()?)) / step.length;
                Some((rate * 1e3).round() / 1e3)
            };
            rows.iter().map(rate).collect()
        };
        let times = |value: fn(&Point) -> f32| -> Vec<Option<f64>> {
            let one = |(_, point): &(Step, Option<Point>)| {
                let value = f64::from(value(point.as_ref()?));
                (!value.is_nan()).then_some((value * 1e6).round() / 1e6)
            };
            rows.iter().map(one).collect()
        };
        let mut document = HistoryDocument {
            step: STEP.as_secs(),
            kept: points.is_some(),
            time: rows.iter().map(|(step, _)| step.end).collect(),
            p50: times(|point| point.p50),
            p99: times(|point| point.p99),
            ..HistoryDocument::default()
        };
        if scope != HistoryScope::Upstream {
            document.requests = rates(&|point| point.requests);
            let class = |(index, name): (usize, &str)| (name.to_owned(), rates(&|point| point.codes[index]));
            document.codes = CLASSES.into_iter().enumerate().map(class).collect();
        }
        if scope != HistoryScope::Route {
            document.attempts = rates(&|point| point.attempts);
            document.failures = rates(&|point| point.failures);
            document.retries = rates(&|point| point.retries);
        }
        document
    }
}

/// Returns the reasons of a scope that were counted since the start.
pub(crate) fn reasons(snapshot: &Snapshot, scope: HistoryScope, name: &str) -> BTreeMap<String, u64> {
    let counts = match scope {
        HistoryScope::Gateway => Some(&snapshot.reasons),
        HistoryScope::Route => snapshot.routes.iter().find(|it| &*it.name == name).map(|it| &it.reasons),
        HistoryScope::Upstream => {
            snapshot.upstreams.iter().find(|it| &*it.name == name).map(|it| &it.failures)
        }
    };
    let counted = counts.into_iter().flat_map(|counts| Reason::ALL.iter().zip(counts));
    let counted = counted.filter(|(reason, count)| **reason != Reason::None && **count > 0);
    counted.map(|(reason, count)| (reason.as_str().to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use crate::{Registry, Slot, Tally};

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + second)
    }

    fn snapshot_of(routes: &[(&str, u64)]) -> Snapshot {
        let mut snapshot = Registry::new(true).snapshot();
        for (name, requests) in routes {
            let mut route = RouteSnapshot::new((*name).into());
            route.codes[2] = *requests;
            route.duration.counts[0] = *requests;
            snapshot.routes.push(route);
            snapshot.requests += requests;
        }
        snapshot
    }

    #[test]
    fn a_row_covers_the_time_since_the_previous_one() {
        let mut history = HourHistory::default();
        assert!(history.is_due(at(0)));
        history.add(at(0), &snapshot_of(&[("a", 7)]));
        assert!(!history.is_due(at(9)) && history.is_due(at(10)));
        history.add(at(10), &snapshot_of(&[("a", 27)]));
        history.add(at(20), &snapshot_of(&[("a", 27), ("b", 5)]));
        let a = history.document(HistoryScope::Route, "a", 0.0);
        assert_eq!((a.step, a.kept, a.time.as_slice()), (10, true, &[1_010.0, 1_020.0][..]));
        assert_eq!(a.requests, [Some(2.0), Some(0.0)]);
        assert_eq!(history.document(HistoryScope::Route, "b", 0.0).requests, [None, Some(0.5)]);
        let gateway = history.document(HistoryScope::Gateway, "", 0.0);
        assert_eq!(gateway.requests, [Some(2.0), Some(0.5)]);
        assert_eq!(gateway.codes["2xx"], [Some(2.0), Some(0.5)]);
        assert_eq!(gateway.p50, [Some(50e-6), Some(50e-6)]);
        assert_eq!(history.document(HistoryScope::Gateway, "", 1_010.0).time, [1_020.0]);
        assert!(!history.document(HistoryScope::Route, "nothing", 0.0).kept);
        assert!(a.attempts.is_empty() && a.reasons.is_empty());
    }

    #[test]
    fn an_upstream_has_attempts_and_reasons() {
        let registry = Registry::new(true);
        let (worker, shop) = (registry.worker(), registry.upstream_slot("shop"));
        let mut history = HourHistory::default();
        history.add(at(0), &registry.snapshot());
        for step in 1..=2 {
            worker.upstream_failed(shop, Reason::ConnectionRefused);
            worker.request_started();
            worker.record(&Tally { upstream_slot: shop, ..sample::tally() }, || Slot::OTHER);
            history.add(at(10 * step), &registry.snapshot());
        }
        let shop = history.document(HistoryScope::Upstream, "shop", 0.0);
        assert_eq!((shop.attempts[1], shop.failures[1]), (Some(0.2), Some(0.1)));
        assert!(shop.requests.is_empty() && shop.codes.is_empty());
        let found = reasons(&registry.snapshot(), HistoryScope::Upstream, "shop");
        assert_eq!(found, BTreeMap::from([("connection_refused".to_owned(), 2)]));
    }

    #[test]
    fn only_the_busiest_have_a_series_and_an_hour_of_it() {
        let names: Vec<String> = (0..SERIES_MAX + 20).map(|index| format!("r{index}")).collect();
        // Each takes requests at its own rate, and those past the bound only at the end.
        let count = |index: usize, step: u64, late: u64| {
            let rate = if index == 0 { 1 } else { 10 };
            if index < SERIES_MAX { rate * step } else { late }
        };
        let counts = |step: u64, late: u64| -> Vec<(&str, u64)> {
            let all = names.iter().enumerate();
            all.map(|(index, name)| (name.as_str(), count(index, step, late))).collect()
        };
        let mut history = HourHistory::default();
        for step in 0..400 {
            history.add(at(step * 10), &snapshot_of(&counts(step, 0)));
        }
        let kept = |history: &HourHistory, name: &str| history.document(HistoryScope::Route, name, 0.0).kept;
        assert_eq!(history.document(HistoryScope::Gateway, "", 0.0).time.len(), POINTS_MAX);
        assert!(kept(&history, "r0") && !kept(&history, "r100"));
        // Fewer requests than the least busy kept name has: nothing changes.
        history.add(at(4_000), &snapshot_of(&counts(400, 1)));
        assert!(kept(&history, "r0") && !kept(&history, "r100"));
        history.add(at(4_010), &snapshot_of(&counts(401, 100_000)));
        assert!(!kept(&history, "r0") && kept(&history, "r100"));
        let all = history.routes.0.values().filter(|it| it.points.is_some());
        assert_eq!(all.count(), SERIES_MAX);
        assert!(size_of::<Point>() <= 52, "the memory that the module's head states");
    }

    #[test]
    fn a_clock_that_is_set_back_starts_a_new_step() {
        let mut history = HourHistory::default();
        history.add(at(100), &snapshot_of(&[]));
        assert!(history.is_due(at(0)));
        history.add(at(0), &snapshot_of(&[("a", 1_000)]));
        history.add(at(10), &snapshot_of(&[("a", 1_010)]));
        assert_eq!(history.document(HistoryScope::Gateway, "", 0.0).requests, [Some(1.0)]);
    }
}
