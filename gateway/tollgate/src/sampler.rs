//! The control thread's work of each second: it samples the cost of requests, renews the statuses that metrics and the
//! status page show, and logs new problems of access logs and of the cache's disk tier.
//!
//! [`control`](crate::control) starts a [`Sampler`] and calls it at each tick. Workers take no part in it.

use std::time::{Duration, Instant, SystemTime};

use tollgate_net::component;
use tollgate_observe::{CostMeter, available_cores, process_cpu_time};
use tracing::warn;

use crate::controller;
use crate::diagnostics;
use crate::fleet;
use crate::gateway::Gateway;

/// How often the CPU quota and affinity are read again, which means reading a dozen files.
const CORES_INTERVAL: Duration = Duration::from_secs(30);

/// The state between two samples.
pub struct Sampler {
    meter: CostMeter,
    cores: f64,
    cores_read_at: Instant,
    /// The problem of the access logs that was logged last.
    log_problem: Option<String>,
    /// The problem of the disk tier that was logged last.
    disk_problem: Option<String>,
}

impl Sampler {
    /// Takes the first sample, to which the next one is compared.
    pub fn start(gateway: &Gateway) -> Self {
        let mut sampler = Self {
            meter: CostMeter::new(),
            cores: cores_of(gateway),
            cores_read_at: Instant::now(),
            log_problem: None,
            disk_problem: None,
        };
        sampler.sample_cost(gateway);
        sampler
    }

    /// Takes a sample.
    pub fn sample(&mut self, gateway: &Gateway) {
        if self.cores_read_at.elapsed() >= CORES_INTERVAL {
            self.cores_read_at = Instant::now();
            self.cores = cores_of(gateway);
        }
        self.sample_cost(gateway);
        gateway.registry.record_second(SystemTime::now());
        let controller = controller::status(&gateway.context().view);
        let fleet = gateway.fleet.as_ref().map(fleet::status);
        let cache = gateway.cache_status();
        gateway.registry.update_status(|status| {
            status.log_lines_lost = diagnostics::lines_lost();
            (status.controller, status.fleet, status.cache) = (controller, fleet, cache);
        });
        warn_once(&mut self.log_problem, gateway.log.problem(), "access log");
        warn_once(&mut self.disk_problem, gateway.cache_problem(), "the cache's disk tier");
    }

    fn sample_cost(&mut self, gateway: &Gateway) {
        self.meter.sample(Instant::now(), process_cpu_time(), gateway.registry.requests(), self.cores);
        gateway.registry.set_cost(self.meter.reading());
    }
}

/// Returns how many cores the workers can use.
fn cores_of(gateway: &Gateway) -> f64 {
    available_cores().usable.min(gateway.workers.count() as f64)
}

/// Logs a problem unless it was the last one.
fn warn_once(last: &mut Option<String>, now: Option<String>, what: &str) {
    if now != *last {
        if let Some(problem) = &now {
            warn!(target: component::GATEWAY, "{what}: {problem}");
        }
        *last = now;
    }
}
