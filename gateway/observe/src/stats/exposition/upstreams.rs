//! The metrics of upstreams, their endpoints and the look-ups of endpoints.

use std::fmt;

use super::Scrape;
use crate::stats::endpoints::EndpointsSnapshot;
use crate::stats::page::Exporter;
use crate::{EndpointState, Reason};

/// Reasons of failed attempts whose counters start at 0 for each upstream. Without a sample of 0, `rate` does not see
/// the first failure.
const COMMON_FAILURES: [Reason; 6] = [
    Reason::ConnectionRefused,
    Reason::ConnectionTimeout,
    Reason::ConnectionTerminated,
    Reason::HttpResponseTimeout,
    Reason::ConnectionReadTimeout,
    Reason::TlsProtocolError,
];

impl Scrape {
    pub(super) fn upstreams(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let upstreams = &self.snapshot.upstreams;
        let mut family = page.histogram(
            "tollgate_upstream_header_seconds",
            "Time from the first byte of a request to the head of the upstream's response.",
        )?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name)], &upstream.header)?;
        }
        let mut family = page.counter(
            "tollgate_upstream_errors_total",
            "Requests that the upstream answered with an error, by class of status.",
        )?;
        for upstream in upstreams {
            for (class, count) in ["4xx", "5xx"].into_iter().zip(upstream.errors) {
                family.add(&[("upstream", &*upstream.name), ("code", class)], count)?;
            }
        }
        let mut family =
            page.gauge("tollgate_upstream_connections", "Open connections to upstreams, by state.")?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name), ("state", "active")], upstream.active())?;
            family.add(&[("upstream", &*upstream.name), ("state", "idle")], upstream.idle)?;
        }
        let mut family =
            page.counter("tollgate_upstream_connections_opened_total", "Connections opened to upstreams.")?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name)], upstream.opened)?;
        }
        let mut family =
            page.counter("tollgate_upstream_pool_hits_total", "Requests that reused a pooled connection.")?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name)], upstream.reused)?;
        }
        let mut family = page.counter(
            "tollgate_upstream_stale_total",
            "Pooled connections that the endpoint had closed when a request used them.",
        )?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name)], upstream.stale)?;
        }
        let mut family =
            page.counter("tollgate_upstream_failures_total", "Failed attempts, by upstream and reason.")?;
        for upstream in upstreams {
            for (reason, count) in Reason::ALL.iter().zip(upstream.failures) {
                // Most upstreams never have most of the reasons.
                if count > 0 || COMMON_FAILURES.contains(reason) {
                    family.add(&[("upstream", &*upstream.name), ("reason", reason.as_str())], count)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn endpoints(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let EndpointsSnapshot { upstreams, endpoints } = &self.snapshot.endpoints;
        let mut family = page.gauge("tollgate_upstream_endpoints", "Endpoints of upstreams, by state.")?;
        for upstream in upstreams {
            for (state, count) in EndpointState::ALL.iter().zip(upstream.states) {
                family.add(&[("upstream", &*upstream.name), ("state", state.as_str())], count)?;
            }
        }
        let mut family =
            page.gauge("tollgate_endpoint_up", "Whether an endpoint is available for requests.")?;
        for one in endpoints {
            family.add(&one.labels(), u64::from(one.is_up))?;
        }
        let mut family = page.counter(
            "tollgate_endpoint_attempts_total",
            "Attempts at an endpoint that ended, failed ones included.",
        )?;
        for one in endpoints {
            family.add(&one.labels(), one.attempts)?;
        }
        let mut family = page.counter(
            "tollgate_endpoint_failures_total",
            "Attempts at an endpoint that failed, or were answered with 5xx.",
        )?;
        for one in endpoints {
            family.add(&one.labels(), one.failures)?;
        }
        let mut family = page.gauge(
            "tollgate_upstream_limit",
            "Limits of an upstream, by what they limit; absent without a limit.",
        )?;
        for upstream in upstreams {
            for (resource, limit) in &upstream.limits {
                family.add(&[("upstream", &*upstream.name), ("resource", resource)], *limit)?;
            }
        }
        let mut family = page.counter("tollgate_upstream_probes_total", "Health check probes, by result.")?;
        for upstream in upstreams {
            for (result, count) in &upstream.probes {
                family.add(&[("upstream", &*upstream.name), ("result", result)], *count)?;
            }
        }
        let mut family = page.counter(
            "tollgate_upstream_tls_failures_total",
            "Failed TLS connections to endpoints, by cause.",
        )?;
        for upstream in upstreams {
            for (kind, count) in &upstream.tls_failures {
                family.add(&[("upstream", &*upstream.name), ("kind", kind)], *count)?;
            }
        }
        let mut family =
            page.counter("tollgate_upstream_ejections_total", "Ejections of endpoints, by cause.")?;
        for upstream in upstreams {
            for (cause, count) in &upstream.ejections {
                family.add(&[("upstream", &*upstream.name), ("cause", cause)], *count)?;
            }
        }
        let mut family = page.counter(
            "tollgate_upstream_ejections_refused_total",
            "Ejections that were not made because too few endpoints would have remained.",
        )?;
        for upstream in upstreams {
            family.add(&[("upstream", &*upstream.name)], upstream.refused)?;
        }
        self.lookups(page)
    }

    fn lookups(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let upstreams = &self.snapshot.endpoints.upstreams;
        let all = || {
            upstreams.iter().filter_map(|upstream| Some(([("upstream", &*upstream.name)], upstream.lookups?)))
        };
        let mut family =
            page.counter("tollgate_upstream_lookups_total", "Lookups of endpoints, by DNS or in a file.")?;
        for (label, counts) in all() {
            family.add(&label, counts.count)?;
        }
        let mut family =
            page.counter("tollgate_upstream_lookup_failures_total", "Lookups that returned no endpoints.")?;
        for (label, counts) in all() {
            family.add(&label, counts.failures)?;
        }
        let mut family = page.gauge(
            "tollgate_upstream_lookup_age_seconds",
            "Time since the last successful lookup of endpoints.",
        )?;
        for (label, counts) in all() {
            if let Some(age) = counts.age {
                family.add(&label, age.as_secs_f64())?;
            }
        }
        Ok(())
    }
}
