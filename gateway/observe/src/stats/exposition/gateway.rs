//! The metrics of the gateway itself: its logs, cost, admin listener, traces and process.

use std::fmt;

use super::Scrape;
use crate::AdminRefusal;
use crate::stats::page::Exporter;

impl Scrape {
    pub(super) fn log_and_cost(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    pub(super) fn admin(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    pub(super) fn traces(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    pub(super) fn process(&self, page: &mut Exporter<'_>) -> fmt::Result {
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

    /// Writes the families of the proxy cache.
    pub(super) fn cache(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let Some(cache) = self.snapshot.status.cache else { return Ok(()) };
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
            .set(u64::from(cache.disk_serves))
    }
}
