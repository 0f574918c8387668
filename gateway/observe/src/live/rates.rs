//! Rates of routes, upstreams and endpoints over the last seconds.
//!
//! The lists of the admin API ([`lists`](super::lists)) sort by these rates. A sample of the counters is
//! taken when a client asks, at most once per second, and dropped when no client has asked for
//! [`SAMPLE_AGE_MAX`]. So an idle process keeps no samples, and takes none. A first request has no earlier
//! sample, and therefore no rates.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::latency::percentile;
use crate::{HistogramSnapshot, Snapshot, UpstreamStatus};

/// Span over which rates are computed: rates of one second would fluctuate.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Least time between two samples, a little less than the interval at which the dashboard asks.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(900);

/// Age at which a sample is dropped.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(30);

/// Counts of the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecentRates {
    /// Requests, or attempts, per second.
    pub rate: f64,
    /// The fraction of them that failed: 5xx for a route, failures for an upstream or endpoint.
    pub errors: f64,
    /// The 50th percentile of latency, in seconds; `None`: no observations, or of an endpoint.
    pub p50: Option<f64>,
    /// The 99th percentile of latency, in seconds.
    pub p99: Option<f64>,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
struct Counts {
    requests: u64,
    failures: u64,
    latency: HistogramSnapshot,
}

/// All counters at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    routes: HashMap<Arc<str>, Counts>,
    upstreams: HashMap<String, UpstreamCounts>,
}

/// The counters of one upstream at one moment.
#[derive(Debug)]
struct UpstreamCounts {
    latency: HistogramSnapshot,
    /// Attempts that ended, and failed ones, by address.
    endpoints: HashMap<String, (u64, u64)>,
}

/// The samples of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct RateSamples {
    samples: VecDeque<Sample>,
}

/// Rates by name. Empty if there is no earlier sample.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pub(super) routes: HashMap<Arc<str>, RecentRates>,
    pub(super) upstreams: HashMap<String, RecentRates>,
    pub(super) endpoints: HashMap<String, HashMap<String, RecentRates>>,
    /// The span that they cover; 0: there is no earlier sample.
    pub(super) window: Duration,
}

impl RateSamples {
    /// Drops samples that are too old. Called once per second.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self.samples.front().is_some_and(|sample| now - sample.at > SAMPLE_AGE_MAX) {
            self.samples.pop_front();
        }
        if self.samples.is_empty() {
            self.samples = VecDeque::new();
        }
    }

    /// Returns the rates since the oldest sample of the window, and keeps a sample of this moment.
    pub(super) fn rates(&mut self, now: Instant, snapshot: &Snapshot, upstreams: &[UpstreamStatus]) -> Rates {
        while self.samples.get(1).is_some_and(|second| now - second.at >= RATE_WINDOW) {
            self.samples.pop_front();
        }
        self.expire(now);
        let sample = Sample::new(now, snapshot, upstreams);
        let rates = self.samples.front().map(|before| sample.since(before)).unwrap_or_default();
        if self.samples.back().is_none_or(|last| now - last.at >= SAMPLE_INTERVAL) {
            self.samples.push_back(sample);
        }
        rates
    }
}

impl Sample {
    fn new(at: Instant, snapshot: &Snapshot, upstreams: &[UpstreamStatus]) -> Self {
        let routes = snapshot.routes.iter().map(|route| {
            let counts = Counts {
                requests: route.codes.iter().sum(),
                failures: route.codes[5],
                latency: route.duration.clone(),
            };
            (route.name.clone(), counts)
        });
        let latencies: HashMap<&str, &HistogramSnapshot> =
            snapshot.upstreams.iter().map(|upstream| (&*upstream.name, &upstream.header)).collect();
        let upstreams = upstreams.iter().map(|upstream| {
            let endpoints = upstream
                .endpoints
                .iter()
                .map(|endpoint| (endpoint.address.clone(), (endpoint.requests, endpoint.failures)))
                .collect();
            let latency = latencies.get(&*upstream.name).map_or_else(Default::default, |all| (*all).clone());
            (upstream.name.clone(), UpstreamCounts { latency, endpoints })
        });
        Self { at, routes: routes.collect(), upstreams: upstreams.collect() }
    }

    fn since(&self, before: &Sample) -> Rates {
        let window = self.at - before.at;
        if window.is_zero() {
            return Rates::default();
        }
        let none = Counts::default();
        let routes = self.routes.iter().map(|(name, now)| {
            let previous = before.routes.get(name).unwrap_or(&none);
            (name.clone(), now.since(previous, window))
        });
        let mut rates = Rates { routes: routes.collect(), window, ..Rates::default() };
        for (name, now) in &self.upstreams {
            let previous = before.upstreams.get(name);
            let mut sum = Counts { latency: now.latency.clone(), ..Counts::default() };
            let mut earlier = Counts::default();
            if let Some(previous) = previous {
                earlier.latency = previous.latency.clone();
            }
            let mut endpoints = HashMap::with_capacity(now.endpoints.len());
            for (address, &(requests, failures)) in &now.endpoints {
                let counts = Counts { requests, failures, ..Counts::default() };
                let (requests, failures) = previous
                    .and_then(|previous| previous.endpoints.get(address).copied())
                    .unwrap_or_default();
                let previous = Counts { requests, failures, ..Counts::default() };
                endpoints.insert(address.clone(), counts.since(&previous, window));
                sum.requests += counts.requests;
                sum.failures += counts.failures;
                earlier.requests += previous.requests;
                earlier.failures += previous.failures;
            }
            rates.upstreams.insert(name.clone(), sum.since(&earlier, window));
            rates.endpoints.insert(name.clone(), endpoints);
        }
        rates
    }
}

impl Counts {
    fn since(&self, before: &Counts, window: Duration) -> RecentRates {
        let requests = self.requests.saturating_sub(before.requests);
        let failures = self.failures.saturating_sub(before.failures);
        let both = self.latency.counts.iter().zip(&before.latency.counts);
        let buckets: Vec<u64> = both.map(|(now, previous)| now.saturating_sub(*previous)).collect();
        let count = buckets.iter().sum();
        RecentRates {
            rate: (requests as f64 / window.as_secs_f64() * 1e3).round() / 1e3,
            errors: if requests == 0 { 0.0 } else { failures.min(requests) as f64 / requests as f64 },
            p50: percentile(&buckets, count, 0.5),
            p99: percentile(&buckets, count, 0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::Tally;
    use crate::record::sample;
    use crate::upstreams::sample::shop;

    #[test]
    fn rates_are_of_the_window_and_end_with_the_requests() {
        let registry = Registry::new(true);
        let worker = registry.worker();
        let route_slot = registry.route_slot("items");
        let mut samples = RateSamples::default();
        let start = Instant::now();
        let upstreams = [shop()];
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let first = samples.rates(at(0), &registry.snapshot(), &upstreams);
        assert!(first.routes.is_empty() && first.window.is_zero());
        for _ in 0..20 {
            worker.record(&Tally { route_slot, ..sample::tally() }, || route_slot);
        }
        let mut later = [shop()];
        later[0].endpoints[0].requests += 8;
        later[0].endpoints[0].failures += 2;
        let rates = samples.rates(at(2), &registry.snapshot(), &later);
        assert_eq!((rates.routes["items"].rate, rates.routes["items"].errors), (10.0, 0.0));
        assert!(rates.routes["items"].p99.is_some());
        assert_eq!((rates.upstreams["shop"].rate, rates.upstreams["shop"].errors), (4.0, 0.25));
        assert_eq!(rates.endpoints["shop"]["10.0.0.1:8080"].rate, 4.0);
        assert_eq!(rates.endpoints["shop"]["10.0.0.2:8080"].rate, 0.0);
        for second in 3..=8 {
            samples.rates(at(second), &registry.snapshot(), &later);
        }
        let quiet = samples.rates(at(9), &registry.snapshot(), &later);
        assert_eq!((quiet.routes["items"].rate, quiet.routes["items"].p99), (0.0, None));
        assert!(quiet.window <= Duration::from_secs(6), "{:?}", quiet.window);
    }

    #[test]
    fn samples_are_few_and_are_dropped_when_no_client_asks() {
        let registry = Registry::new(true);
        let (mut samples, start) = (RateSamples::default(), Instant::now());
        for step in 0..1_000 {
            samples.rates(start + Duration::from_millis(step * 20), &registry.snapshot(), &[]);
        }
        assert!(samples.samples.len() <= 7, "{}", samples.samples.len());
        samples.expire(start + Duration::from_secs(60));
        assert!(samples.samples.is_empty());
    }
}
