//! Renders the metrics as text, in the Prometheus format and in OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};

use super::endpoints::EndpointsSnapshot;
use super::grpc;
use super::handshakes;
use super::page::{Exporter, Exposition};
use super::policies;
use super::process::Process;
use super::queueing;
use super::resilience;
use super::responses;
use super::shedding;
use super::snapshot::{Snapshot, UpstreamSnapshot};
use super::streams;
use crate::live::WorkerLive;
use crate::{AdminRefusal, EndpointState, Protocol, Reason};

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

pub(super) fn render(snapshot: Snapshot, format: Exposition) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(Scrape { snapshot, process: Process::read(), format }));
    let mut text = String::with_capacity(16 * 1024);
    let written = match format {
        Exposition::Text => text::encode_registry(&mut text, &registry),
        Exposition::OpenMetrics => text::encode(&mut text, &registry),
    };
    debug_assert!(written.is_ok(), "writing to a String does not fail");
    text
}

#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    process: Process,
    format: Exposition,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exporter::new(encoder, self.format);
        self.requests(&mut page)?;
        self.clients(&mut page)?;
        handshakes::encode(&self.snapshot.handshakes, &self.snapshot.status.certificates, &mut page)?;
        self.upstreams(&mut page)?;
        queueing::encode(&self.of_upstreams(|upstream| &upstream.queueing), &mut page)?;
        self.endpoints(&mut page)?;
        resilience::encode(&self.of_upstreams(|upstream| &upstream.resilience), &mut page)?;
        shedding::encode_adaptive(&self.snapshot.endpoints, &mut page)?;
        shedding::encode_upstreams(
            &self.of_upstreams(|upstream| &upstream.shed),
            &self.snapshot.endpoints,
            &mut page,
        )?;
        shedding::encode_process(&self.snapshot.shed, &self.snapshot.status.resources, &mut page)?;
        streams::encode(&self.snapshot.streams, &mut page)?;
        policies::encode(&self.snapshot.policies, &mut page)?;
        self.log_and_cost(&mut page)?;
        self.admin(&mut page)?;
        self.traces(&mut page)?;
        self.config(&mut page)?;
        self.process(&mut page)
    }
}

impl Scrape {
    /// Returns one part of the counts of each upstream, beside its name.
    fn of_upstreams<T>(&self, part: impl Fn(&UpstreamSnapshot) -> &T) -> Vec<(&str, &T)> {
        self.snapshot.upstreams.iter().map(|upstream| (&*upstream.name, part(upstream))).collect()
    }

    fn requests(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let sum = &self.snapshot;
        let mut family =
            page.counter("tollgate_requests_total", "Finished requests, by route, status and method.")?;
        for route in &sum.routes {
            for ((status, method), count) in &route.responses {
                let code = responses::label(*status);
                family
                    .add(&[("route", &*route.name), ("code", &code), ("method", method.as_str())], *count)?;
            }
        }
        let mut family = page.counter("tollgate_reasons_total", "Finished requests, by route and reason.")?;
        for route in &sum.routes {
            for (reason, count) in Reason::ALL.iter().zip(route.reasons) {
                if count > 0 {
                    family.add(&[("route", &*route.name), ("reason", reason.as_str())], count)?;
                }
            }
        }
        page.counter(
            "tollgate_internal_errors_total",
            "Requests that failed because of the gateway itself.",
        )?
        .set(sum.reasons[Reason::ProxyInternalError as usize])?;
        let mut family = page.gauge(
            "tollgate_other_names",
            "Routes and upstreams that were used, and share the label `other`.",
        )?;
        for (label, count) in ["route", "upstream"].into_iter().zip(sum.in_other) {
            family.add(&[("label", label)], count)?;
        }
        let mut family = page.histogram(
            "tollgate_request_duration_seconds",
            "Time from the first byte of a request to the end of its exchange.",
        )?;
        for route in &sum.routes {
            family.add(&[("route", &*route.name)], &route.duration)?;
        }
        grpc::encode(sum.routes.iter().map(|route| (&*route.name, route.grpc)), page)?;
        grpc::encode_methods(&sum.grpc_methods, page)?;
        page.gauge("tollgate_requests_in_flight", "Requests in flight.")?.set(sum.in_flight)?;
        let mut family =
            page.counter("tollgate_protocol_requests_total", "Finished requests, by HTTP version.")?;
        for (protocol, count) in Protocol::ALL.iter().zip(sum.protocols) {
            family.add(&[("protocol", protocol.as_str())], count)?;
        }
        page.counter("tollgate_received_bytes_total", "Bytes of request bodies from clients.")?
            .set(sum.bytes_in)?;
        page.counter("tollgate_sent_bytes_total", "Bytes of response bodies to clients.")?.set(sum.bytes_out)
    }

    fn clients(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let sum = &self.snapshot;
        page.gauge("tollgate_client_connections", "Open client connections.")?.set(sum.client_connections)?;
        // Without "opened" OpenMetrics would declare two families of one name, because it omits "_total".
        page.counter("tollgate_client_connections_opened_total", "Client connections accepted.")?
            .set(sum.client_connections_opened)?;
        page.counter(
            "tollgate_client_connections_rejected_total",
            "Rejected client connections: at the limit, or for lack of memory or file descriptors.",
        )?
        .set(sum.client_connections_rejected)?;
        page.counter(
            "tollgate_client_connections_handed_over_total",
            "Client connections passed to a less loaded worker.",
        )?
        .set(sum.client_connections_handed_over)?;
        let limit = sum.status.connections_limit;
        let mut family = page.gauge(
            "tollgate_client_connections_limit",
            "Limit of open client connections; absent without a limit.",
        )?;
        if let Some(limit) = limit {
            family.set(limit)?;
        }
        page.counter("tollgate_worker_messages_total", "Messages between workers.")?.set(sum.messages)?;
        self.workers(page)
    }

    fn workers(&self, page: &mut Exporter<'_>) -> fmt::Result {
        type Value = fn(&WorkerLive) -> u64;
        let workers = || self.snapshot.workers.iter().enumerate();
        let mut family = page.counter("tollgate_worker_requests_total", "Finished requests, by worker.")?;
        for (id, worker) in workers() {
            family.add(&[("worker", &id.to_string())], worker.requests)?;
        }
        let gauges: [(_, _, Value); 2] = [
            ("tollgate_worker_requests_in_flight", "Requests in flight, by worker.", |worker| {
                worker.in_flight
            }),
            ("tollgate_worker_client_connections", "Open client connections, by worker.", |worker| {
                worker.clients
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = page.gauge(name, help)?;
            for (id, worker) in workers() {
                family.add(&[("worker", &id.to_string())], value(worker))?;
            }
        }
        let mut family = page.counter(
            "tollgate_worker_cpu_seconds_total",
            "User and system CPU time of the thread of each worker.",
        )?;
        for (id, cpu) in &self.process.workers {
            family.add(&[("worker", id)], cpu.as_secs_f64())?;
        }
        Ok(())
    }

    fn upstreams(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    fn endpoints(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    fn log_and_cost(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let sum = &self.snapshot;
        page.counter("tollgate_access_log_lines_total", "Access log lines written.")?.set(sum.log_lines)?;
        page.counter(
            "tollgate_access_log_dropped_total",
            "Access log lines dropped because the log could not keep up.",
        )?
        .set(sum.log_dropped)?;
        page.counter(
            "tollgate_log_lost_total",
            "Lines of the gateway's own log that were lost because the output could not keep up.",
        )?
        .set(sum.status.log_lines_lost)?;
        let window = sum.cost.now();
        page.gauge("tollgate_cores", "Cores that the workers can use.")?.set(sum.cost.cores)?;
        let mut family = page.gauge(
            "tollgate_cost_cpu_seconds_per_request",
            "CPU time of the process per request, over 10 s; absent while unknown.",
        )?;
        if let Some(cost) = window.cpu_microseconds_per_request() {
            family.set(cost / 1e6)?;
        }
        let mut family = page.gauge(
            "tollgate_headroom_requests_per_second",
            "Additional requests per second that the cores can carry with the present mix; absent while unknown.",
        )?;
        if let Some(headroom) = window.headroom(sum.cost.cores) {
            family.set(headroom.floor())?;
        }
        Ok(())
    }

    fn admin(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let admin = &self.snapshot.admin;
        let mut family = page.counter(
            "tollgate_admin_refused_total",
            "Connections and requests that the admin listener rejected, by reason.",
        )?;
        for (why, count) in AdminRefusal::ALL.iter().zip(admin.refused) {
            family.add(&[("reason", why.as_str())], count)?;
        }
        page.counter(
            "tollgate_admin_connections_evicted_total",
            "Idle or slow connections of the admin listener that were closed to make room for others.",
        )?
        .set(admin.evicted)
    }

    fn traces(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let traces = &self.snapshot.traces;
        page.gauge("tollgate_trace_followers", "Clients of the admin API that follow requests.")?
            .set(traces.followers)?;
        page.counter("tollgate_traces_total", "Requests whose trace was gathered for a follower.")?
            .set(traces.gathered)?;
        page.counter(
            "tollgate_traces_lost_total",
            "Traces that a follower did not get because it read too slowly.",
        )?
        .set(traces.lost)
    }

    fn config(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let status = &self.snapshot.status;
        page.gauge(
            "tollgate_config_generation",
            "Generation of the configuration that every worker runs; 1 at the start.",
        )?
        .set(status.generation)?;
        page.gauge("tollgate_config_last_reload_successful", "Whether the last reload took effect.")?
            .set(u64::from(status.last_reload_succeeded()))?;
        page.gauge(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "Time at which the present configuration took effect.",
        )?
        .set(crate::status::seconds(status.in_force_since))?;
        if let Some(controller) = status.controller {
            page.gauge("tollgate_controller_connected", "Whether a controller is connected.")?
                .set(u64::from(controller.connected))?;
            page.counter(
                "tollgate_controller_losses_total",
                "How often the connection to a controller was lost.",
            )?
            .set(controller.losses)?;
            page.gauge(
                "tollgate_controller_version",
                "Version of the controller's documents that is in use.",
            )?
            .set(controller.version)?;
            page.gauge(
                "tollgate_controller_refused_documents",
                "Invalid documents of the controller, instead of which the last valid ones stay in use.",
            )?
            .set(controller.refused as u64)?;
            page.gauge(
                "tollgate_controller_purge",
                "Number of the controller's last purge that is carried out.",
            )?
            .set(controller.purge)?;
        }
        if let Some(fleet) = status.fleet {
            page.gauge("tollgate_fleet_version", "Version of the documents that gateways get.")?
                .set(fleet.version)?;
            page.gauge("tollgate_fleet_documents", "Documents that gateways get.")?
                .set(fleet.documents as u64)?;
            page.gauge("tollgate_fleet_gateways", "Connected gateways.")?.set(fleet.gateways as u64)?;
            page.gauge(
                "tollgate_fleet_gateways_behind",
                "Connected gateways that do not use the present version.",
            )?
            .set(fleet.behind as u64)?;
            page.gauge(
                "tollgate_fleet_refused_documents",
                "Largest number of documents that one connected gateway refuses.",
            )?
            .set(fleet.refused as u64)?;
            page.counter(
                "tollgate_fleet_rejected_connections_total",
                "Connections without a valid certificate, or of something else than a gateway.",
            )?
            .set(fleet.rejected)?;
            page.counter("tollgate_fleet_purges_total", "Purges of caches that were made.")?
                .set(fleet.purges)?;
            page.gauge(
                "tollgate_fleet_gateways_behind_purges",
                "Connected gateways that have not carried out all purges.",
            )?
            .set(fleet.purges_behind as u64)?;
        }
        if let Some(cache) = status.cache {
            let tiers = || [("memory", Some(cache.memory)), ("disk", cache.disk)].into_iter();
            let tiers = || tiers().filter_map(|(name, tier)| Some((name, tier?)));
            let mut family = page.gauge("tollgate_cache_objects", "Stored responses, by tier.")?;
            for (name, tier) in tiers() {
                family.add(&[("tier", name)], tier.objects)?;
            }
            let mut family = page.gauge("tollgate_cache_bytes", "Bytes of stored responses, by tier.")?;
            for (name, tier) in tiers() {
                family.add(&[("tier", name)], tier.bytes)?;
            }
            let mut family =
                page.gauge("tollgate_cache_capacity_bytes", "Maximum bytes of stored responses, by tier.")?;
            for (name, tier) in tiers() {
                family.add(&[("tier", name)], tier.capacity_bytes)?;
            }
            page.gauge("tollgate_cache_disk_serving", "Whether the cache's disk tier answers requests.")?
                .set(u64::from(cache.disk_serves))?;
        }
        let Some(etcd) = status.etcd else { return Ok(()) };
        page.gauge(
            "tollgate_etcd_connected",
            "Whether a member of the etcd that provides the configuration answers.",
        )?
        .set(u64::from(etcd.connected))?;
        page.counter(
            "tollgate_etcd_losses_total",
            "How often the connection to all members of etcd was lost.",
        )?
        .set(etcd.losses)?;
        page.gauge(
            "tollgate_etcd_revision",
            "Revision of etcd up to which every entry is applied or rejected.",
        )?
        .set(etcd.revision)?;
        page.gauge(
            "tollgate_etcd_refused_entries",
            "Invalid entries of etcd, instead of which the last valid ones stay in use.",
        )?
        .set(etcd.refused as u64)
    }

    fn process(&self, page: &mut Exporter<'_>) -> fmt::Result {
        page.counter("process_cpu_seconds_total", "User and system CPU time of the process.")?
            .set(self.process.cpu.as_secs_f64())?;
        let mut family = page.gauge("process_resident_memory_bytes", "Resident memory of the process.")?;
        if let Some(bytes) = self.process.resident_bytes {
            family.set(bytes)?;
        }
        let mut family = page.gauge("process_virtual_memory_bytes", "Virtual memory of the process.")?;
        if let Some(bytes) = self.process.virtual_bytes {
            family.set(bytes)?;
        }
        let mut family = page.gauge(
            "process_start_time_seconds",
            "Time at which the process started, in seconds since 1970.",
        )?;
        if let Some(started) = self.process.started {
            family.set(started)?;
        }
        let mut family = page.gauge(
            "process_max_fds",
            "File descriptors that the process may have open; absent without a limit.",
        )?;
        if let Some(count) = self.process.max_fds {
            family.set(count)?;
        }
        let mut family = page.gauge("process_open_fds", "Open file descriptors of the process.")?;
        if let Some(count) = self.process.open_fds {
            family.set(count)?;
        }
        page.gauge("tollgate_build_info", "Always 1; the version is in the label.")?
            .add(&[("version", env!("CARGO_PKG_VERSION"))], 1_u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::record::sample;
    use crate::upstreams::sample::{Fixed, shop};
    use crate::{Exposition, Reason, Registry, Tally};

    fn busy() -> std::sync::Arc<Registry> {
        let registry = Registry::new(true);
        let worker = registry.worker();
        let upstream_slot = registry.upstream_slot("shop");
        let route_slot = registry.route_slot("a\"b\\c\nd");
        worker.upstream_opened(upstream_slot);
        worker.upstream_failed(upstream_slot, Reason::DnsError);
        worker.request_started();
        worker.record(&Tally { route_slot, upstream_slot, ..sample::tally() }, || route_slot);
        registry
    }

    #[test]
    fn the_state_of_endpoints() {
        let registry = busy();
        registry.watch_upstreams(std::sync::Arc::new(Fixed(vec![shop()])));
        let text = registry.render_as(Exposition::Text);
        for line in [
            "tollgate_upstream_endpoints{upstream=\"shop\",state=\"available\"} 1",
            "tollgate_upstream_endpoints{upstream=\"shop\",state=\"ejected\"} 1",
            "tollgate_endpoint_up{upstream=\"shop\",endpoint=\"10.0.0.1:8080\"} 1",
            "tollgate_endpoint_up{upstream=\"shop\",endpoint=\"10.0.0.2:8080\"} 0",
            "tollgate_endpoint_attempts_total{upstream=\"shop\",endpoint=\"10.0.0.1:8080\"} 1000",
            "tollgate_endpoint_failures_total{upstream=\"shop\",endpoint=\"10.0.0.2:8080\"} 10",
            "tollgate_upstream_limit{upstream=\"shop\",resource=\"connections\"} 500",
            "tollgate_upstream_adaptive_shed_total{upstream=\"shop\",priority=\"low\"} 0",
            "tollgate_upstream_probes_total{upstream=\"shop\",result=\"connection_refused\"} 18",
            "tollgate_upstream_ejections_total{upstream=\"shop\",cause=\"consecutive_5xx\"} 3",
            "tollgate_upstream_ejections_refused_total{upstream=\"shop\"} 2",
            "tollgate_upstream_lookups_total{upstream=\"shop\"} 90",
            "tollgate_upstream_lookup_failures_total{upstream=\"shop\"} 4",
            "tollgate_upstream_lookup_age_seconds{upstream=\"shop\"} 15.0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }

    fn declared(text: &str) -> BTreeSet<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect()
    }

    #[test]
    fn open_metrics() {
        let text = busy().render();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# TYPE tollgate_requests counter\n"), "{text}");
        assert!(
            text.contains(
                "tollgate_requests_total{route=\"a\\\"b\\\\c\\nd\",code=\"200\",method=\"GET\"} 1\n"
            ),
            "{text}"
        );
        assert!(text.contains("tollgate_reasons_total{route=\"a\\\"b\\\\c\\nd\",reason=\"-\"} 1\n"));
        assert!(
            text.contains("tollgate_upstream_failures_total{upstream=\"shop\",reason=\"dns_error\"} 1\n")
        );
        let names = declared(&text);
        assert_eq!(text.matches("# TYPE ").count(), names.len(), "a family is declared twice");
    }

    #[test]
    fn prometheus_text() {
        let text = busy().render_as(Exposition::Text);
        assert!(!text.contains("# EOF"));
        assert!(text.contains("# TYPE tollgate_requests_total counter\n"));
        assert!(text.contains("tollgate_upstream_connections_opened_total{upstream=\"shop\"} 1\n"), "{text}");
        assert!(text.contains("tollgate_request_duration_seconds_bucket{le=\"0.0032\",route="), "{text}");
        assert!(text.contains("le=\"+Inf\""));
        assert!(text.contains("tollgate_sent_bytes_total 1234\n"));
        assert_eq!(text.matches("# TYPE ").count(), declared(&text).len());
    }

    #[test]
    fn every_sample_belongs_to_the_family_declared_above_it() {
        for format in [Exposition::Text, Exposition::OpenMetrics] {
            let text = busy().render_as(format);
            let mut family = "";
            for line in text.lines() {
                match line.strip_prefix("# TYPE ") {
                    Some(declaration) => family = declaration.split(' ').next().unwrap(),
                    None if line.starts_with('#') => {}
                    None => assert!(line.starts_with(family), "{line:?} under {family:?}"),
                }
            }
        }
    }

    #[test]
    fn unknown_costs_have_no_series() {
        let text = busy().render();
        assert!(!text.contains("\ntollgate_headroom_requests_per_second "));
        assert!(!text.contains("\ntollgate_cost_cpu_seconds_per_request "));
    }

    #[test]
    fn the_page_names_exactly_what_is_exposed() {
        let page = include_str!("../../../../docs/metrics.md");
        let documented: BTreeSet<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split(['`', '{']).next())
            .filter(|name| name.starts_with("tollgate_") || name.starts_with("process_"))
            .collect();
        let registry = busy();
        // The metrics of sources are exposed only if they are in use.
        registry.update_status(|status| {
            status.etcd = Some(crate::EtcdStatus::default());
            status.controller = Some(crate::ControllerStatus::default());
            status.fleet = Some(crate::FleetStatus::default());
            status.cache = Some(crate::CacheStatus::default());
        });
        assert_eq!(documented, declared(&registry.render_as(Exposition::Text)));
    }
}
