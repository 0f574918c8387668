//! The state of upstreams and their endpoints, as the admin listener and the metrics show it.

use std::fmt::Debug;
use std::time::Duration;

/// Source of the state of upstreams; the registry asks it for each scrape and each page.
pub trait UpstreamSource: Debug + Send + Sync {
    /// Returns every upstream, in the order in which pages show them.
    fn upstreams(&self) -> Vec<UpstreamStatus>;
}

/// One upstream at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// Its endpoints: first the plan's, then the looked-up ones.
    pub endpoints: Vec<EndpointStatus>,
    /// Probes by result: `good`, `skipped`, or the cause of failure. Every result is listed, also with 0.
    pub probes: Vec<(&'static str, u64)>,
    /// Failed TLS connections to its endpoints, by kind of failure. Only kinds with a count are listed.
    pub tls_failures: Vec<(&'static str, u64)>,
    /// Ejections by cause. Every cause is listed, also with 0.
    pub ejections: Vec<(&'static str, u64)>,
    /// Ejections that were due but refused, because too few endpoints would have remained.
    pub ejections_refused: u64,
    /// The limits that are set: `connections`, `endpoint_connections`, `requests` and `retries`.
    pub limits: Vec<(&'static str, u64)>,
    /// State of endpoint look-ups; `None`: all endpoints are written in the configuration.
    pub lookups: Option<LookupStatus>,
    /// State of the adaptive limit; `None`: the upstream has none.
    pub adaptive: Option<AdaptiveStatus>,
}

/// The state of an adaptive limit on concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveStatus {
    /// How many requests may be in flight.
    pub limit: u32,
    /// How many are in flight. A request counts from its admission to the head of its response.
    pub in_flight: u32,
    /// Latency without load; `None`: not known yet.
    pub base: Option<Duration>,
}

/// The state of an upstream's endpoint look-ups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupStatus {
    /// The looked-up source in its short form: `dns://orders.internal:8080`.
    pub source: String,
    /// Look-ups that ended.
    pub count: u64,
    /// Look-ups that failed.
    pub failures: u64,
    /// Time since the last successful look-up; `None`: none succeeded yet.
    pub good_ago: Option<Duration>,
    /// Why the last look-up failed; `None`: it succeeded.
    pub problem: Option<String>,
}

/// One endpoint at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointStatus {
    /// Its address.
    pub address: String,
    /// Its share of the requests, relative to the other weights.
    pub weight: u32,
    /// Its priority; endpoints with 0 are used first.
    pub priority: u8,
    /// Its zone.
    pub zone: Option<String>,
    /// The verdict of the probes.
    pub health: EndpointHealth,
    /// How long the verdict has stood; `None`: there is no verdict yet.
    pub health_for: Option<Duration>,
    /// The last probe.
    pub last_probe: Option<ProbeStatus>,
    /// Its last TLS failure; `None`: none is known.
    pub tls_failure: Option<TlsStatus>,
    /// Time until its ejection ends; `None`: it is not ejected.
    pub ejected_for: Option<Duration>,
    /// Cause of its last ejection.
    pub ejection_cause: Option<&'static str>,
    /// Ejections since the gateway first knew the endpoint.
    pub ejections: u64,
    /// Consecutive ejections; each one lengthens the next.
    pub ejections_in_a_row: u32,
    /// Connections that are open or being opened.
    pub connections: u32,
    /// Attempts that ended, including failed ones.
    pub requests: u64,
    /// Attempts that failed, or were answered with 5xx.
    pub failures: u64,
}

/// The verdict of the probes on an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointHealth {
    /// No verdict yet: the endpoint is taken to be healthy.
    #[default]
    Unknown,
    /// Probes succeed.
    Healthy,
    /// Probes fail.
    Unhealthy,
}

/// The last probe of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeStatus {
    /// How long ago it ended.
    pub ago: Duration,
    /// How long it took.
    pub took: Duration,
    /// Why it failed: the metric label, and its meaning; `None`: it succeeded.
    pub failure: Option<(&'static str, String)>,
}

/// A TLS failure of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStatus {
    /// Time since it last occurred.
    pub ago: Duration,
    /// The metric label.
    pub kind: &'static str,
    /// The meaning, for people.
    pub detail: String,
}

impl EndpointHealth {
    /// Returns the spelling on the admin listener.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointHealth::Unknown => "unknown",
            EndpointHealth::Healthy => "healthy",
            EndpointHealth::Unhealthy => "unhealthy",
        }
    }
}

/// Whether an endpoint takes requests, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It takes requests.
    Available,
    /// Probes fail.
    Unhealthy,
    /// It is ejected, and no probe fails.
    Ejected,
    /// It is being taken out: its weight is 0.
    Draining,
}

impl EndpointState {
    /// Every state, in the order of the metrics.
    pub const ALL: [EndpointState; 4] =
        [EndpointState::Available, EndpointState::Unhealthy, EndpointState::Ejected, EndpointState::Draining];

    /// Returns the spelling on the admin listener and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointState::Available => "available",
            EndpointState::Unhealthy => "unhealthy",
            EndpointState::Ejected => "ejected",
            EndpointState::Draining => "draining",
        }
    }
}

impl EndpointStatus {
    /// Returns whether the endpoint takes requests. Failed probes take precedence over an ejection.
    #[must_use]
    pub fn state(&self) -> EndpointState {
        match (self.health, self.ejected_for) {
            (EndpointHealth::Unhealthy, _) => EndpointState::Unhealthy,
            (_, Some(_)) => EndpointState::Ejected,
            (_, None) if self.weight == 0 => EndpointState::Draining,
            (_, None) => EndpointState::Available,
        }
    }

    /// Returns the state for people: like [`state`](Self::state), but `unknown` if the endpoint would take
    /// requests, and neither a probe nor a request ever reached out to it. The metrics count it as available.
    #[must_use]
    pub fn shown_state(&self) -> &'static str {
        let untouched = self.health == EndpointHealth::Unknown && self.requests == 0 && self.connections == 0;
        match self.state() {
            EndpointState::Available if untouched && self.tls_failure.is_none() => "unknown",
            state => state.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_was_never_contacted_is_unknown() {
        let untouched = EndpointStatus { weight: 1, ..EndpointStatus::default() };
        assert_eq!((untouched.shown_state(), untouched.state()), ("unknown", EndpointState::Available));
        for touched in [
            EndpointStatus { requests: 1, ..untouched.clone() },
            EndpointStatus { connections: 1, ..untouched.clone() },
            EndpointStatus { health: EndpointHealth::Healthy, ..untouched.clone() },
        ] {
            assert_eq!(touched.shown_state(), "available");
        }
        assert_eq!(EndpointStatus { weight: 0, ..untouched }.shown_state(), "draining");
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    /// Returns an upstream with an endpoint in every state.
    pub(crate) fn shop() -> UpstreamStatus {
        let seconds = Duration::from_secs;
        let healthy = EndpointStatus {
            address: "10.0.0.1:8080".to_owned(),
            weight: 2,
            health: EndpointHealth::Healthy,
            health_for: Some(seconds(3600)),
            last_probe: Some(ProbeStatus { ago: seconds(1), took: Duration::from_millis(2), failure: None }),
            connections: 3,
            requests: 1000,
            ..EndpointStatus::default()
        };
        let unhealthy = EndpointStatus {
            address: "10.0.0.2:8080".to_owned(),
            weight: 1,
            zone: Some("a<b".to_owned()),
            health: EndpointHealth::Unhealthy,
            health_for: Some(seconds(90)),
            last_probe: Some(ProbeStatus {
                ago: seconds(4),
                took: Duration::from_millis(1),
                failure: Some(("connection_refused", "no connection".to_owned())),
            }),
            requests: 10,
            failures: 10,
            ..EndpointStatus::default()
        };
        let ejected = EndpointStatus {
            address: "shop.internal:8080".to_owned(),
            weight: 1,
            priority: 1,
            ejected_for: Some(seconds(28)),
            ejection_cause: Some("consecutive_5xx"),
            ejections: 3,
            ejections_in_a_row: 1,
            requests: 20,
            failures: 15,
            ..EndpointStatus::default()
        };
        UpstreamStatus {
            name: "shop".to_owned(),
            endpoints: vec![healthy, unhealthy, ejected],
            probes: vec![("good", 3600), ("skipped", 0), ("connection_refused", 18)],
            ejections: vec![("consecutive_5xx", 3), ("success_rate", 0)],
            tls_failures: Vec::new(),
            ejections_refused: 2,
            limits: vec![("connections", 500)],
            lookups: Some(LookupStatus {
                source: "dns://shop.internal:8080".to_owned(),
                count: 90,
                failures: 4,
                good_ago: Some(seconds(15)),
                problem: Some("error: a < b\n  --> list:1:1".to_owned()),
            }),
            adaptive: Some(AdaptiveStatus {
                limit: 40,
                in_flight: 12,
                base: Some(Duration::from_micros(2500)),
            }),
        }
    }

    /// A source that always returns the same upstreams.
    #[derive(Debug)]
    pub(crate) struct Fixed(pub(crate) Vec<UpstreamStatus>);

    impl UpstreamSource for Fixed {
        fn upstreams(&self) -> Vec<UpstreamStatus> {
            self.0.clone()
        }
    }
}
