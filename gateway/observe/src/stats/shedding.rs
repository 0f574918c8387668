//! Counts of requests rejected under overload, by priority, and the use of the overload bounds.

use std::collections::BTreeMap;
use std::fmt;

use super::counter::Counter;
use super::endpoints::EndpointsSnapshot;
use super::page::Exporter;
use crate::ResourceReading;

/// The priorities of routes, the lowest first.
const PRIORITIES: [&str; 3] = ["low", "normal", "high"];

/// One worker's counts of rejected requests, by priority.
#[derive(Debug, Default)]
pub(super) struct Shedding(pub(super) [Counter; PRIORITIES.len()]);

/// Rejected requests by priority, the lowest first.
pub type ShedSnapshot = [u64; PRIORITIES.len()];

impl Shedding {
    pub(super) fn add_to(&self, sum: &mut ShedSnapshot) {
        for (sum, count) in sum.iter_mut().zip(&self.0) {
            *sum += count.get();
        }
    }
}

/// Writes the attempts that adaptive limits rejected, for upstreams with any.
pub(super) fn encode_upstreams(
    upstreams: &[(&str, &ShedSnapshot)],
    endpoints: &EndpointsSnapshot,
    page: &mut Exporter<'_>,
) -> fmt::Result {
    let mut family = page.counter(
        "tollgate_upstream_adaptive_shed_total",
        "Attempts that the adaptive limit rejected, by priority.",
    )?;
    let mut all: BTreeMap<&str, ShedSnapshot> = BTreeMap::new();
    // From 0, so that `rate` sees the first one.
    let limited = endpoints.upstreams.iter().filter(|one| one.adaptive.is_some());
    all.extend(limited.map(|one| (&*one.name, ShedSnapshot::default())));
    let used = upstreams.iter().filter(|(_, shed)| **shed != ShedSnapshot::default());
    all.extend(used.map(|(upstream, shed)| (*upstream, **shed)));
    for (upstream, shed) in all {
        for (priority, count) in PRIORITIES.iter().zip(shed) {
            family.add(&[("upstream", upstream), ("priority", priority)], count)?;
        }
    }
    Ok(())
}

/// Writes what the process rejected for lack of memory or descriptors, and how much of each bound is used.
pub(super) fn encode_process(
    shed: &ShedSnapshot,
    resources: &ResourceReading,
    page: &mut Exporter<'_>,
) -> fmt::Result {
    let mut family = page.counter(
        "tollgate_overload_shed_total",
        "Requests rejected because the process is short of memory or file descriptors, by priority.",
    )?;
    for (priority, count) in PRIORITIES.iter().zip(*shed) {
        family.add(&[("priority", priority)], count)?;
    }
    let mut family = page.gauge(
        "tollgate_overload_ratio",
        "Used share of a bound of `overload`, 1 at the bound; absent without a bound.",
    )?;
    for (resource, guarded) in [("memory", resources.memory), ("files", resources.files)] {
        if let Some(guarded) = guarded {
            family.add(&[("resource", resource)], guarded.ratio())?;
        }
    }
    Ok(())
}

/// Writes the state of adaptive limits.
pub(super) fn encode_adaptive(endpoints: &EndpointsSnapshot, page: &mut Exporter<'_>) -> fmt::Result {
    let all = || endpoints.upstreams.iter().filter_map(|one| Some((&*one.name, one.adaptive?)));
    let mut family =
        page.gauge("tollgate_upstream_adaptive_limit", "The adaptive limit of concurrent requests.")?;
    for (name, adaptive) in all() {
        family.add(&[("upstream", name)], u64::from(adaptive.limit))?;
    }
    let mut family = page.gauge(
        "tollgate_upstream_adaptive_in_flight",
        "Requests that wait for the head of a response, which the adaptive limit counts.",
    )?;
    for (name, adaptive) in all() {
        family.add(&[("upstream", name)], u64::from(adaptive.in_flight))?;
    }
    let mut family = page.gauge(
        "tollgate_upstream_adaptive_base_seconds",
        "Latency without load, as measured by the adaptive limit; absent while unknown.",
    )?;
    for (name, adaptive) in all() {
        if let Some(base) = adaptive.base {
            family.add(&[("upstream", name)], base.as_secs_f64())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::upstreams::sample::Fixed;
    use crate::{AdaptiveStatus, Exposition, Registry, ResourceReading, ResourceUse, UpstreamStatus};

    #[test]
    fn shed_requests_are_counted_by_reason() {
        let registry = Registry::new(true);
        let (worker, slot) = (registry.worker(), registry.upstream_slot("shop"));
        worker.upstream_shed(slot, 0);
        worker.upstream_shed(slot, 0);
        worker.upstream_shed(slot, 2);
        worker.shed(1);
        let base = Some(Duration::from_millis(250));
        let adaptive = Some(AdaptiveStatus { limit: 40, in_flight: 12, base });
        let shop = UpstreamStatus { name: "shop".to_owned(), adaptive, ..UpstreamStatus::default() };
        registry.watch_upstreams(Arc::new(Fixed(vec![shop])));
        let files = Some(ResourceUse { used: 50, bound: 200 });
        registry.update_status(|status| {
            status.resources = ResourceReading { files, ..ResourceReading::default() }
        });
        let text = registry.render_as(Exposition::Text);
        for line in [
            "tollgate_upstream_adaptive_limit{upstream=\"shop\"} 40",
            "tollgate_upstream_adaptive_in_flight{upstream=\"shop\"} 12",
            "tollgate_upstream_adaptive_base_seconds{upstream=\"shop\"} 0.25",
            "tollgate_upstream_adaptive_shed_total{upstream=\"shop\",priority=\"low\"} 2",
            "tollgate_upstream_adaptive_shed_total{upstream=\"shop\",priority=\"high\"} 1",
            "tollgate_overload_shed_total{priority=\"normal\"} 1",
            "tollgate_overload_ratio{resource=\"files\"} 0.25",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(!text.contains("resource=\"memory\""));
    }
}
