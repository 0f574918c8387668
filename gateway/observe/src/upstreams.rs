//! The state of upstreams and their endpoints, as the admin listener and the metrics show it.

use std::fmt::Debug;
use std::time::Duration;

/// Who knows the state of upstreams.
pub trait UpstreamSource: Debug + Send + Sync {
    /// Every upstream, in the order in which they are to be shown.
    fn upstreams(&self) -> Vec<UpstreamStatus>;
}

/// One upstream at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// Its endpoints: those of the plan first, then those that were looked up.
    pub endpoints: Vec<EndpointStatus>,
    /// Probes by what they came to: `good`, `skipped`, or why they failed. Every word is there, also with 0.
    pub probes: Vec<(&'static str, u64)>,
    /// TLS connections to its endpoints that failed, by what was wrong. Only words with a count are there.
    pub tls_failures: Vec<(&'static str, u64)>,
    /// Ejections by cause. Every cause is there, also with 0.
    pub ejections: Vec<(&'static str, u64)>,
    /// Ejections that were due, but would have left too few.
    pub ejections_refused: u64,
    /// How looking its endpoints up goes; `None`: they are all written down.
    pub lookups: Option<LookupStatus>,
    /// How its adaptive limit stands; `None`: it has none.
    pub adaptive: Option<AdaptiveStatus>,
}

/// How an adaptive limit of requests under way stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveStatus {
    /// As many may be under way.
    pub limit: u32,
    /// As many are: from when they are let through to the head of their response.
    pub in_flight: u32,
    /// The latency without load; `None`: not known yet.
    pub base: Option<Duration>,
}

/// How looking the endpoints of an upstream up goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupStatus {
    /// What is looked up, in its short form: `dns://orders.internal:8080`.
    pub source: String,
    /// Look-ups that have ended.
    pub count: u64,
    /// Those that failed.
    pub failures: u64,
    /// How long ago the last good one ended; `None`: there was none yet.
    pub good_ago: Option<Duration>,
    /// Why the last one failed; `None`: it did not.
    pub problem: Option<String>,
}

/// One endpoint at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointStatus {
    /// Its address.
    pub address: String,
    /// Its share of the requests.
    pub weight: u32,
    /// 0 is used first.
    pub priority: u8,
    /// The zone that it is in.
    pub zone: Option<String>,
    /// What probes tell of it.
    pub health: EndpointHealth,
    /// For how long that has been so; `None`: no probe has told anything yet.
    pub health_for: Option<Duration>,
    /// The last probe.
    pub last_probe: Option<ProbeStatus>,
    /// The last failure of its TLS; `None`: no failure is known.
    pub tls_failure: Option<TlsStatus>,
    /// How long it is still ejected; `None`: it is not.
    pub ejected_for: Option<Duration>,
    /// Why it was ejected last.
    pub ejection_cause: Option<&'static str>,
    /// Ejections since it became known.
    pub ejections: u64,
    /// Ejections in a row, which lengthen the next one.
    pub ejections_in_a_row: u32,
    /// Connections that are open or being opened.
    pub connections: u32,
    /// Attempts that came to an end, a failed one too.
    pub requests: u64,
    /// Those that failed, or were answered 5xx.
    pub failures: u64,
}

/// What probes tell of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointHealth {
    /// Nothing: it is taken to be well.
    #[default]
    Unknown,
    /// It is well.
    Healthy,
    /// It is not.
    Unhealthy,
}

/// The last probe of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeStatus {
    /// How long ago it ended.
    pub ago: Duration,
    /// How long it took.
    pub took: Duration,
    /// Why it failed: the word in metrics, and what it means; `None`: it was good.
    pub failure: Option<(&'static str, String)>,
}

/// What is wrong with the TLS of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStatus {
    /// How long ago that was met last.
    pub ago: Duration,
    /// The word in metrics.
    pub kind: &'static str,
    /// What it means.
    pub detail: String,
}

impl EndpointHealth {
    /// The spelling on the admin listener.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointHealth::Unknown => "unknown",
            EndpointHealth::Healthy => "healthy",
            EndpointHealth::Unhealthy => "unhealthy",
        }
    }
}

/// What an endpoint is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It takes requests.
    Available,
    /// Probes say that it is not well.
    Unhealthy,
    /// It is well as far as probes tell, but ejected.
    Ejected,
    /// It is taken out: it has no share of the requests.
    Draining,
}

impl EndpointState {
    /// Every state, in the order of the metrics.
    pub const ALL: [EndpointState; 4] =
        [EndpointState::Available, EndpointState::Unhealthy, EndpointState::Ejected, EndpointState::Draining];

    /// The spelling on the admin listener and in metrics.
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
    /// What it is good for.
    #[must_use]
    pub fn state(&self) -> EndpointState {
        match (self.health, self.ejected_for) {
            (EndpointHealth::Unhealthy, _) => EndpointState::Unhealthy,
            (_, Some(_)) => EndpointState::Ejected,
            (_, None) if self.weight == 0 => EndpointState::Draining,
            (_, None) => EndpointState::Available,
        }
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    /// One upstream with an endpoint in every state.
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

    /// A source that always says the same.
    #[derive(Debug)]
    pub(crate) struct Fixed(pub(crate) Vec<UpstreamStatus>);

    impl UpstreamSource for Fixed {
        fn upstreams(&self) -> Vec<UpstreamStatus> {
            self.0.clone()
        }
    }
}
