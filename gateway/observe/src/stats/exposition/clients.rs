//! The metrics of client connections and workers.

use std::fmt;

use super::Scrape;
use crate::live::WorkerLive;
use crate::stats::page::Exporter;

impl Scrape {
    pub(super) fn clients(&self, page: &mut Exporter<'_>) -> fmt::Result {
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
}
