//! Collects the access logs that the gateway and its routes name, each once.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{CombinedResources, Problem};
use tollgate_policy::CollectorRule;

/// The most access logs that a gateway may have. Each has its own thread, and a buffer in every worker.
const LOGS_MAX: usize = 64;

/// An access log.
#[derive(Clone, Debug)]
pub struct PlannedLog {
    /// Identifies the log to routes. The same log has the same key in every plan.
    pub key: u64,
    /// Whether it records the requests of routes that name no logs.
    pub is_default: bool,
    /// Format, filter and destination.
    pub log: config::AccessLog,
    /// The OTLP collector that receives each record; `None`: records are not exported.
    pub collector: Option<CollectorRule>,
}

impl PartialEq for PlannedLog {
    fn eq(&self, other: &Self) -> bool {
        let ca = |planned: &Self| planned.log.otlp.as_ref()?.export.ca.as_ref().map(|ca| ca.bytes.clone());
        (self.key, self.is_default) == (other.key, other.is_default) && ca(self) == ca(other)
    }
}

/// Returns the keys of a route's own logs; `None`: it uses the gateway's.
pub(crate) fn of_route(route: &config::Route) -> Option<Arc<[u64]>> {
    let logs = route.access_log.as_ref()?;
    Some(logs.iter().map(config::AccessLog::key).collect())
}

/// Returns all logs, each once. `routes` are those with logs of their own.
pub(crate) fn all(
    parts: &CombinedResources<'_>,
    routes: &[&config::Route],
    problems: &mut Vec<Problem>,
) -> Vec<PlannedLog> {
    let mut out: Vec<PlannedLog> = Vec::new();
    let gateway_logs = parts.config.access_log.iter().map(|log| (log, true));
    let own =
        routes.iter().flat_map(|route| route.access_log.iter().flatten().map(move |log| (log, route.at)));
    for (log, is_default) in gateway_logs {
        add(&mut out, log, is_default, problems);
    }
    for (log, at) in own {
        if out.len() == LOGS_MAX && !out.iter().any(|known| known.key == log.key()) {
            let problem = Problem::error(at, format!("more than {LOGS_MAX} different access logs"));
            problems.push(problem);
            break;
        }
        add(&mut out, log, false, problems);
    }
    out
}

fn add(out: &mut Vec<PlannedLog>, log: &config::AccessLog, is_default: bool, problems: &mut Vec<Problem>) {
    let key = log.key();
    if out.iter().all(|known| known.key != key) {
        let collector = log
            .otlp
            .as_ref()
            .map(|written| tollgate_policy::collector(&written.url, &written.export, problems));
        out.push(PlannedLog { key, is_default, log: log.clone(), collector });
    }
}
