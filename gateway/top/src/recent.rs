//! Rates over the last seconds, from the difference of two live documents.

use std::collections::{HashMap, VecDeque};

use tollgate_observe::live::{Columns, EndpointLive, Latency, LiveDocument, RouteLive, UpstreamLive};

/// Seconds over which rates are computed: rates of one second would fluctuate.
const RATE_WINDOW_SECONDS: f64 = 5.0;

/// Bound of history points that are kept.
const HISTORY_POINTS_MAX: usize = 300;

/// The documents of the last seconds.
#[derive(Debug, Default)]
pub struct RecentDocuments {
    documents: VecDeque<LiveDocument>,
    /// Requests in each of the last seconds.
    requests: VecDeque<f64>,
    /// Time of the last received history point.
    after: f64,
}

/// Rates over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestRates {
    /// Requests per second.
    pub rate: f64,
    /// The fraction of them that failed.
    pub errors: f64,
    /// The 50th percentile of latency, in seconds.
    pub p50: Option<f64>,
    /// The 99th percentile of latency, in seconds.
    pub p99: Option<f64>,
}

impl RecentDocuments {
    /// Adds a document that was requested with [`after`](Self::after).
    pub fn add(&mut self, mut live: LiveDocument) {
        let started = |live: &LiveDocument| live.time - live.uptime;
        // The process was replaced: earlier counts belong to the old one.
        if self.documents.back().is_some_and(|last| started(&live) > started(last) + 5.0) {
            *self = Self::default();
        }
        let Columns { time, requests, .. } = &live.history;
        self.after = time.last().copied().unwrap_or(self.after);
        self.requests.extend(requests);
        while self.requests.len() > HISTORY_POINTS_MAX {
            self.requests.pop_front();
        }
        // Only the last point of these columns is used.
        let Columns { requests, client_errors, server_errors, .. } = &mut live.history;
        for column in [requests, client_errors, server_errors] {
            column.drain(..column.len().saturating_sub(1));
        }
        while self.documents.get(1).is_some_and(|second| live.time - second.time >= RATE_WINDOW_SECONDS) {
            self.documents.pop_front();
        }
        self.documents.push_back(live);
    }

    /// Returns the time of the last history point: the next request asks only for later ones.
    #[must_use]
    pub fn after(&self) -> f64 {
        self.after
    }

    /// Returns the last document.
    #[must_use]
    pub fn latest(&self) -> Option<&LiveDocument> {
        self.documents.back()
    }

    /// Returns the requests in each of the last seconds.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator {
        self.requests.iter().copied()
    }

    /// Returns the rates of all requests.
    pub fn all(&self) -> RequestRates {
        let counts = |live: &LiveDocument| {
            (live.requests.total, live.requests.codes[5], live.requests.latency.clone())
        };
        let first = self.documents.front().map(counts);
        self.latest().map_or_else(RequestRates::default, |live| self.rates_between(counts(live), first))
    }

    /// Returns each route with its rates, in the order of the document.
    pub fn routes(&self) -> Vec<(&RouteLive, RequestRates)> {
        let (Some(now), Some(first)) = (self.latest(), self.documents.front()) else { return Vec::new() };
        let counts = |route: &RouteLive| (route.requests, route.codes[5], route.latency.clone());
        let before: HashMap<&str, &RouteLive> =
            first.routes.iter().map(|route| (route.name.as_str(), route)).collect();
        let mut all = Vec::with_capacity(now.routes.len());
        for route in &now.routes {
            let previous = before.get(route.name.as_str()).map(|route| counts(route));
            all.push((route, self.rates_between(counts(route), previous)));
        }
        all
    }

    /// Returns each endpoint with its upstream and rates, in the order of the document.
    pub fn endpoints(&self) -> Vec<(&UpstreamLive, &EndpointLive, RequestRates)> {
        let (Some(now), Some(first)) = (self.latest(), self.documents.front()) else { return Vec::new() };
        let counts = |endpoint: &EndpointLive| (endpoint.requests, endpoint.failures, Latency::default());
        let mut before: HashMap<(&str, &str), &EndpointLive> = HashMap::new();
        for upstream in &first.upstreams {
            for endpoint in &upstream.endpoints {
                before.insert((&upstream.name, &endpoint.address), endpoint);
            }
        }
        let mut all = Vec::new();
        for upstream in &now.upstreams {
            for endpoint in &upstream.endpoints {
                let key = (upstream.name.as_str(), endpoint.address.as_str());
                let previous = before.get(&key).map(|endpoint| counts(endpoint));
                all.push((upstream, endpoint, self.rates_between(counts(endpoint), previous)));
            }
        }
        all
    }

    /// Computes the rates between two counts of requests, failures and latency.
    fn rates_between(&self, now: (u64, u64, Latency), before: Option<(u64, u64, Latency)>) -> RequestRates {
        let (Some(last), Some(first)) = (self.documents.back(), self.documents.front()) else {
            return RequestRates::default();
        };
        let passed = last.time - first.time;
        if passed <= 0.0 {
            return RequestRates::default();
        }
        let before = before.unwrap_or_default();
        let requests = now.0.saturating_sub(before.0);
        let errors = now.1.saturating_sub(before.1);
        let latency = now.2.since(&before.2);
        RequestRates {
            rate: requests as f64 / passed,
            errors: if requests > 0 { errors as f64 / requests as f64 } else { 0.0 },
            p50: latency.p50,
            p99: latency.p99,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::live;

    #[test]
    fn rates_are_what_happened_between_two_documents() {
        let mut recent = RecentDocuments::default();
        recent.add(live(1_000.0, 100));
        assert_eq!(recent.all().rate, 0.0, "one document tells no rate");
        recent.add(live(1_002.0, 300));
        assert_eq!(recent.all().rate, 100.0);
        let routes = recent.routes();
        assert_eq!((routes[0].0.name.as_str(), routes[0].1.rate), ("items", 75.0));
        assert!(routes[0].1.p99.is_some());
        let endpoints = recent.endpoints();
        assert_eq!((endpoints[0].1.address.as_str(), endpoints[0].2.rate), ("10.0.0.1:8080", 50.0));
    }

    #[test]
    fn only_the_last_seconds_count() {
        let mut recent = RecentDocuments::default();
        for second in 0..60_u32 {
            let time = 1_000.0 + f64::from(second);
            recent.add(live(time, u64::from(second) * if second < 50 { 1 } else { 100 }));
        }
        assert!(recent.documents.len() <= 6 && recent.all().rate > 90.0, "{:?}", recent.all());
        assert_eq!((recent.after(), recent.requests().len()), (1_059.0, 60));
    }

    #[test]
    fn another_process_resets_the_rates() {
        let mut recent = RecentDocuments::default();
        recent.add(live(1_000.0, 5_000));
        recent.add(LiveDocument { uptime: 1.0, ..live(1_010.0, 3) });
        recent.add(LiveDocument { uptime: 2.0, ..live(1_011.0, 13) });
        assert_eq!(recent.all().rate, 10.0);
    }
}
