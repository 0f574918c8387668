//! The state of upstreams, in the form of the admin listener and the metrics.

use tollgate_observe::{
    EndpointHealth, EndpointStatus, ProbeStatus, TlsStatus, UpstreamSource, UpstreamStatus,
};
use tollgate_plan::Endpoint;

use super::ProbeFailure;
use crate::outlier::EjectionCause;
use crate::{ProbeHealth, UpstreamState, UpstreamStates};

impl UpstreamSource for UpstreamStates {
    fn upstreams(&self) -> Vec<UpstreamStatus> {
        UpstreamStates::upstreams(self).iter().map(|upstream| upstream_status(upstream)).collect()
    }
}

fn upstream_status(upstream: &UpstreamState) -> UpstreamStatus {
    let probes = *upstream.probes();
    let (ejections, ejections_refused) = upstream.ejections().counts();
    let bad = ProbeFailure::NAMES.into_iter().zip(probes.bad);
    UpstreamStatus {
        name: upstream.name.clone(),
        endpoints: upstream.members().iter().map(|member| endpoint_status(upstream, member)).collect(),
        probes: [("good", probes.good), ("skipped", probes.skipped)].into_iter().chain(bad).collect(),
        ejections: EjectionCause::ALL.iter().map(|cause| cause.as_str()).zip(ejections).collect(),
        ejections_refused,
        limits: upstream.limits.by_name(),
        adaptive: upstream.adaptive.status(),
        tls_failures: upstream.tls.by_name(),
        lookups: upstream.lookups.report().map(|report| report.status(tollgate_net::now())),
    }
}

fn endpoint_status(upstream: &UpstreamState, member: &Endpoint) -> EndpointStatus {
    let now = tollgate_net::now();
    let endpoint = upstream.endpoint(&member.address);
    let probed = endpoint.probe_record().clone();
    let history = upstream.ejections().history(&member.address);
    let totals = endpoint.outlier.totals();
    EndpointStatus {
        address: member.address.to_string(),
        weight: member.weight,
        priority: member.priority,
        zone: member.zone.clone(),
        health: match endpoint.health() {
            ProbeHealth::Unknown => EndpointHealth::Unknown,
            ProbeHealth::Healthy => EndpointHealth::Healthy,
            ProbeHealth::Unhealthy => EndpointHealth::Unhealthy,
        },
        health_for: probed.since.map(|since| now.saturating_duration_since(since)),
        last_probe: probed.last.map(|last| ProbeStatus {
            ago: now.saturating_duration_since(last.at),
            took: last.took,
            failure: last.result.err().map(|failure| (failure.as_str(), failure.to_string())),
        }),
        tls_failure: endpoint.tls.last().map(|(at, fault)| TlsStatus {
            ago: now.saturating_duration_since(at),
            kind: fault.kind.as_str(),
            detail: fault.text().to_owned(),
        }),
        ejected_for: history.until.map(|until| until.saturating_duration_since(now)),
        ejection_cause: history.cause.map(EjectionCause::as_str),
        ejections: history.count,
        ejections_in_a_row: history.times,
        connections: endpoint.connections(),
        requests: totals.attempts,
        failures: totals.failures,
    }
}
