//! The state of endpoints for the metrics, in a bounded number of series.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::{AdaptiveStatus, EndpointState, UpstreamStatus};

/// Number of endpoints with a series of their own.
const NAMED_ENDPOINTS_MAX: usize = 1000;

/// The label of upstreams past the bound.
const OTHER: &str = "other";

/// The state of endpoints at one moment.
#[derive(Clone, Debug, Default)]
pub struct EndpointsSnapshot {
    /// One entry per upstream; upstreams past the bound of labels are added up.
    pub upstreams: Vec<UpstreamEndpoints>,
    /// The first 1,000 endpoints.
    pub endpoints: Vec<EndpointCounts>,
}

/// The state and counts of one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointCounts {
    /// The label of its upstream.
    pub upstream: Arc<str>,
    /// Its address.
    pub address: String,
    /// Whether it takes requests.
    pub is_up: bool,
    /// Attempts that ended.
    pub attempts: u64,
    /// Attempts that failed, or were answered with 5xx.
    pub failures: u64,
}

/// The state and counts of one upstream's endpoints.
#[derive(Clone, Debug)]
pub struct UpstreamEndpoints {
    /// The label: the upstream's name, or `other`.
    pub name: Arc<str>,
    /// Number of endpoints in each state, in the order of [`EndpointState::ALL`].
    pub states: [u64; EndpointState::ALL.len()],
    /// Probes by result; empty if there was none.
    pub probes: Vec<(&'static str, u64)>,
    /// Failed TLS connections, by kind of failure.
    pub tls_failures: Vec<(&'static str, u64)>,
    /// Ejections by cause.
    pub ejections: Vec<(&'static str, u64)>,
    /// Ejections that were due but refused, because too few endpoints would have remained.
    pub refused: u64,
    /// The limits that are set, added up over the upstreams of a label.
    pub limits: Vec<(&'static str, u64)>,
    /// Look-ups of endpoints; `None`: all endpoints are written in the configuration.
    pub lookups: Option<LookupCounts>,
    /// The adaptive limit; `None`: there is none. Those under one label are added up, with the longest
    /// latency.
    pub adaptive: Option<AdaptiveStatus>,
}

/// Look-ups of the endpoints of one or several upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Look-ups that ended.
    pub count: u64,
    /// Look-ups that failed.
    pub failures: u64,
    /// Age of the last successful look-up, or of the oldest one if there are several upstreams; `None`: none
    /// succeeded.
    pub age: Option<Duration>,
}

/// The counters of the upstreams that share `other`. An upstream may leave them, or join them with a history: only
/// what it counts between two snapshots is added, so that no counter of `other` goes back.
#[derive(Debug, Default)]
pub(super) struct OtherUpstreams {
    last: HashMap<String, Counters>,
    sum: Counters,
}

/// Counters by family and label.
type Counters = BTreeMap<(&'static str, &'static str), u64>;

impl OtherUpstreams {
    /// Adds what these upstreams counted since the last snapshot in which they shared `other`.
    fn add<'a>(&mut self, all: impl Iterator<Item = &'a UpstreamStatus>) {
        let mut last = HashMap::new();
        for upstream in all {
            let counters = counters(upstream);
            let before = self.last.get(&upstream.name);
            for (key, count) in &counters {
                let known = before.map_or(*count, |before| before.get(key).copied().unwrap_or_default());
                *self.sum.entry(*key).or_default() += count.saturating_sub(known);
            }
            last.insert(upstream.name.clone(), counters);
        }
        self.last = last;
    }

    fn family(&self, family: &str) -> Vec<(&'static str, u64)> {
        let own = self.sum.iter().filter(|((of, _), _)| *of == family);
        own.map(|((_, label), count)| (*label, *count)).collect()
    }

    fn single(&self, family: &str) -> u64 {
        self.family(family).iter().map(|(_, count)| count).sum()
    }
}

fn counters(upstream: &UpstreamStatus) -> Counters {
    let lookups = upstream.lookups.as_ref().map_or((0, 0), |lookups| (lookups.count, lookups.failures));
    let single =
        [("refused", upstream.ejections_refused), ("lookups", lookups.0), ("lookup_failures", lookups.1)];
    let families =
        [("probes", &upstream.probes), ("tls", &upstream.tls_failures), ("ejections", &upstream.ejections)];
    let labelled = families
        .into_iter()
        .flat_map(|(family, all)| all.iter().map(move |(label, count)| ((family, *label), *count)));
    single.into_iter().map(|(family, count)| ((family, ""), count)).chain(labelled).collect()
}

impl EndpointsSnapshot {
    /// `labels` has the label of each upstream.
    pub(super) fn new(all: Vec<UpstreamStatus>, labels: &[Arc<str>], other: &mut OtherUpstreams) -> Self {
        let in_other = all.iter().zip(labels).filter(|(_, label)| &***label == OTHER);
        other.add(in_other.map(|(upstream, _)| upstream));
        let mut snapshot = Self::default();
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        for (upstream, name) in all.into_iter().zip(labels) {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                let (probes, ejections) = (Vec::new(), Vec::new());
                let states = [0; EndpointState::ALL.len()];
                snapshot.upstreams.push(UpstreamEndpoints {
                    name: name.clone(),
                    states,
                    probes,
                    tls_failures: Vec::new(),
                    ejections,
                    refused: 0,
                    limits: Vec::new(),
                    lookups: None,
                    adaptive: None,
                });
                snapshot.upstreams.len() - 1
            });
            let sum = &mut snapshot.upstreams[place];
            if upstream.probes.iter().any(|(_, count)| *count > 0) {
                add(&mut sum.probes, &upstream.probes);
            }
            add(&mut sum.tls_failures, &upstream.tls_failures);
            add(&mut sum.ejections, &upstream.ejections);
            sum.refused += upstream.ejections_refused;
            add(&mut sum.limits, &upstream.limits);
            if let Some(lookups) = upstream.lookups {
                let counts = sum.lookups.get_or_insert_default();
                counts.count += lookups.count;
                counts.failures += lookups.failures;
                counts.age = counts.age.max(lookups.good_ago);
            }
            sum.adaptive = added(sum.adaptive, upstream.adaptive);
            for endpoint in upstream.endpoints {
                let state = endpoint.state();
                for (count, one) in sum.states.iter_mut().zip(EndpointState::ALL) {
                    *count += u64::from(one == state);
                }
                if snapshot.endpoints.len() < NAMED_ENDPOINTS_MAX && &**name != OTHER {
                    snapshot.endpoints.push(EndpointCounts {
                        upstream: name.clone(),
                        address: endpoint.address,
                        is_up: state == EndpointState::Available,
                        attempts: endpoint.requests,
                        failures: endpoint.failures,
                    });
                }
            }
        }
        if let Some(sum) = snapshot.upstreams.iter_mut().find(|sum| &*sum.name == OTHER) {
            if !sum.probes.is_empty() {
                sum.probes = other.family("probes");
            }
            (sum.tls_failures, sum.ejections) = (other.family("tls"), other.family("ejections"));
            sum.refused = other.single("refused");
            if let Some(lookups) = &mut sum.lookups {
                (lookups.count, lookups.failures) =
                    (other.single("lookups"), other.single("lookup_failures"));
            }
        }
        snapshot
    }
}

impl EndpointCounts {
    pub(super) fn labels(&self) -> [(&str, &str); 2] {
        [("upstream", &self.upstream), ("endpoint", &self.address)]
    }
}

fn added(one: Option<AdaptiveStatus>, other: Option<AdaptiveStatus>) -> Option<AdaptiveStatus> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(AdaptiveStatus {
        limit: one.limit.saturating_add(other.limit),
        in_flight: one.in_flight.saturating_add(other.in_flight),
        base: one.base.max(other.base),
    })
}

fn add(sum: &mut Vec<(&'static str, u64)>, more: &[(&'static str, u64)]) {
    for (word, count) in more {
        match sum.iter_mut().find(|(known, _)| known == word) {
            Some((_, sum)) => *sum += count,
            None => sum.push((*word, *count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::sample::shop;
    use crate::{EndpointStatus, LookupStatus};

    #[test]
    fn upstreams_past_the_bound_are_added_up() {
        let all = ["a", "b", "c"].map(|name| UpstreamStatus { name: name.to_owned(), ..shop() }).to_vec();
        let labels = ["other".into(), "other".into(), "other".into()];
        let mut other = OtherUpstreams::default();
        // Their earlier counts do not belong to `other`.
        let fresh = all.iter().map(|upstream| UpstreamStatus {
            name: upstream.name.clone(),
            lookups: upstream.lookups.clone().map(|lookups| LookupStatus {
                count: 0,
                failures: 0,
                ..lookups
            }),
            ..UpstreamStatus::default()
        });
        EndpointsSnapshot::new(fresh.collect(), &labels, &mut other);
        let snapshot = EndpointsSnapshot::new(all, &labels, &mut other);
        assert_eq!(snapshot.upstreams.len(), 1);
        assert_eq!(snapshot.upstreams[0].states, [3, 3, 3, 0]);
        assert!(snapshot.upstreams[0].probes.contains(&("connection_refused", 54)));
        assert_eq!((snapshot.upstreams[0].refused, snapshot.endpoints.len()), (6, 0));
        let age = Some(Duration::from_secs(15));
        let adaptive = snapshot.upstreams[0].adaptive.map(|adaptive| (adaptive.limit, adaptive.in_flight));
        assert_eq!(adaptive, Some((120, 36)));
        assert_eq!(snapshot.upstreams[0].lookups, Some(LookupCounts { count: 270, failures: 12, age }));
    }

    #[test]
    fn counters_of_other_do_not_go_back_when_an_upstream_leaves_it() {
        let mut other = OtherUpstreams::default();
        let mut refused = |all: &[(&str, u64, &str)]| {
            let status = |(name, count, _): &(&str, u64, &str)| UpstreamStatus {
                name: (*name).to_owned(),
                ejections_refused: *count,
                ..UpstreamStatus::default()
            };
            let labels: Vec<Arc<str>> = all.iter().map(|(.., label)| (*label).into()).collect();
            let snapshot = EndpointsSnapshot::new(all.iter().map(status).collect(), &labels, &mut other);
            snapshot.upstreams.iter().find(|sum| &*sum.name == OTHER).map(|sum| sum.refused)
        };
        assert_eq!(refused(&[("a", 100, "other"), ("b", 7, "other")]), Some(0));
        assert_eq!(refused(&[("a", 103, "other"), ("b", 8, "other")]), Some(4));
        assert_eq!(refused(&[("a", 105, "a"), ("b", 8, "other")]), Some(4));
        assert_eq!(refused(&[("a", 105, "other"), ("b", 9, "other")]), Some(5));
        assert_eq!(refused(&[("a", 106, "other")]), Some(6));
        // A new upstream with the name of an old one counts from 0.
        assert_eq!(refused(&[("a", 1, "other")]), Some(6));
        assert_eq!(refused(&[("a", 3, "other")]), Some(8));
    }

    #[test]
    fn endpoints_past_the_bound_are_only_counted() {
        let endpoint = |index| EndpointStatus {
            address: format!("10.0.0.1:{index}"),
            weight: 1,
            ..EndpointStatus::default()
        };
        let endpoints = (0..NAMED_ENDPOINTS_MAX + 500).map(endpoint).collect();
        let all = vec![UpstreamStatus { name: "big".to_owned(), endpoints, ..UpstreamStatus::default() }];
        let snapshot = EndpointsSnapshot::new(all, &["big".into()], &mut OtherUpstreams::default());
        assert_eq!((snapshot.endpoints.len(), snapshot.upstreams[0].states[0]), (NAMED_ENDPOINTS_MAX, 1500));
    }

    #[test]
    fn endpoints_without_probes_have_no_probe_series() {
        let quiet = UpstreamStatus { probes: vec![("good", 0)], ..shop() };
        let snapshot = EndpointsSnapshot::new(vec![quiet], &["shop".into()], &mut OtherUpstreams::default());
        assert!(snapshot.upstreams[0].probes.is_empty());
    }
}
