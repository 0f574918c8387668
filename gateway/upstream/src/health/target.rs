//! One endpoint that is probed repeatedly.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tollgate_net::{Deadline, Timers, component};
use tollgate_plan::{Health, Probe};
use tracing::{debug, trace};

use super::ProbeFailure;
use super::probe::{ProbeRules, probe};
use super::record::LastProbe;
use super::threshold::HealthThreshold;
use crate::{EndpointEvent, EndpointState, Permit, ProbeHealth, UpstreamState};

/// Upper bound of concurrent probes. More wait for their turn, so that thousands of endpoints do not use all
/// descriptors at startup.
const CONCURRENT_PROBES_MAX: usize = 256;

/// The state that all probes share.
#[derive(Debug)]
pub(super) struct Prober {
    timers: Timers,
    slots: Semaphore,
    random: RefCell<fastrand::Rng>,
}

impl Prober {
    pub(super) fn new(timers: Timers, seed: u64) -> Self {
        let random = RefCell::new(fastrand::Rng::with_seed(seed));
        Self { timers, slots: Semaphore::new(CONCURRENT_PROBES_MAX), random }
    }

    /// Returns the time from the start of one probe to the start of the next.
    fn interval(&self, rules: &Health) -> Duration {
        let shorter = rules.jitter.share() * self.random.borrow_mut().f64();
        rules.interval.mul_f64(1.0 - shorter.min(1.0))
    }
}

/// One endpoint that is probed. Its task ends after [`stop`](Self::stop).
#[derive(Debug)]
pub(super) struct ProbeTarget {
    upstream: Arc<UpstreamState>,
    endpoint: Arc<EndpointState>,
    rules: RefCell<Rc<ProbeRules>>,
    threshold: RefCell<HealthThreshold>,
    /// Ends the current probe, or the wait for the next one.
    due: Deadline,
    /// The rules have changed, so the result of a probe under the old rules does not count.
    rules_changed: Cell<bool>,
    stopped: Cell<bool>,
}

impl ProbeTarget {
    /// Starts with a probe at once.
    pub(super) fn start(
        upstream: Arc<UpstreamState>,
        endpoint: Arc<EndpointState>,
        rules: Rc<ProbeRules>,
        prober: &Rc<Prober>,
    ) -> Rc<Self> {
        let target = Rc::new(Self {
            upstream,
            endpoint,
            rules: RefCell::new(rules),
            threshold: RefCell::default(),
            due: prober.timers.deadline(),
            rules_changed: Cell::new(false),
            stopped: Cell::new(false),
        });
        tollgate_net::spawn(probe_loop(target.clone(), prober.clone()));
        target
    }

    /// Continues with other rules and a probe at once. The endpoint's state is kept.
    pub(super) fn set_rules(&self, rules: Rc<ProbeRules>) {
        self.rules.replace(rules);
        self.rules_changed.set(true);
        self.due.set(tollgate_net::now(), Some(Duration::ZERO));
    }

    /// Ends the task. The result of a running probe does not count.
    pub(super) fn stop(&self) {
        self.stopped.set(true);
        self.due.set(tollgate_net::now(), Some(Duration::ZERO));
    }

    fn log_result(&self, took: Duration, result: &Result<(), ProbeFailure>) {
        let (upstream, endpoint) = (self.upstream.name.as_str(), &self.endpoint.address);
        let took_ms = took.as_secs_f64() * 1e3;
        match result {
            Ok(()) => trace!(target: component::HEALTH, upstream, %endpoint, took_ms, "the probe succeeded"),
            Err(failure) => {
                debug!(
                    target: component::HEALTH,
                    upstream,
                    %endpoint,
                    took_ms,
                    "the probe failed: {failure}"
                );
            }
        }
    }

    fn record_result(&self, begun: Instant, result: Result<(), ProbeFailure>, rules: &ProbeRules) {
        let (endpoint, at) = (&self.endpoint, tollgate_net::now());
        self.upstream.probes().count(&result);
        self.log_result(at.saturating_duration_since(begun), &result);
        let before = endpoint.health();
        let change = self.threshold.borrow_mut().record(before, result.is_ok(), &rules.health);
        {
            let mut record = endpoint.probe_record();
            record.last =
                Some(LastProbe { at, took: at.saturating_duration_since(begun), result: result.clone() });
            if change.is_some() {
                record.since = Some(at);
            }
        }
        let Some((health, after)) = change else { return };
        endpoint.set_health(health);
        match (before, result) {
            (_, Err(last)) => {
                self.upstream.notify(endpoint, EndpointEvent::Unhealthy { last, failures: after });
            }
            (ProbeHealth::Unhealthy, Ok(())) => {
                endpoint.set_ready_since(self.upstream.stamp(at));
                // The endpoint was restarted, so its earlier failures do not count.
                endpoint.outlier.reset_streaks();
                self.upstream.ejections().end_early(&endpoint.address, at);
                self.upstream.notify(endpoint, EndpointEvent::Healthy);
            }
            // It was assumed to be healthy before.
            (_, Ok(())) => {}
        }
        self.upstream.mark_changed();
    }
}

async fn probe_loop(target: Rc<ProbeTarget>, prober: Rc<Prober>) {
    loop {
        let Ok(turn) = prober.slots.acquire().await else { return };
        if target.stopped.get() {
            return;
        }
        target.rules_changed.set(false);
        let rules = target.rules.borrow().clone();
        let begun = tollgate_net::now();
        let result = probe_once(&target, &rules).await;
        drop(turn);
        if target.stopped.get() {
            return;
        }
        if target.rules_changed.get() {
            continue;
        }
        match result {
            Some(result) => target.record_result(begun, result, &rules),
            None => {
                let (upstream, endpoint) = (target.upstream.name.as_str(), &target.endpoint.address);
                debug!(
                    target: component::HEALTH,
                    upstream,
                    %endpoint,
                    "no connection was left for the probe"
                );
                target.upstream.probes().skipped += 1;
            }
        }
        let now = tollgate_net::now();
        let next = begun + prober.interval(&rules.health);
        target.due.set(now, Some(next.saturating_duration_since(now)));
        poll_fn(|cx| target.due.poll_passed(cx)).await;
    }
}

/// Runs one probe. Returns `None` if a limit of connections is reached or the process lacks resources, which
/// says nothing about the endpoint.
async fn probe_once(target: &ProbeTarget, rules: &ProbeRules) -> Option<Result<(), ProbeFailure>> {
    // The limits do not apply to connections to another port.
    let _permit = match rules.health.port {
        None => Some(Permit::try_acquire(&target.upstream, &target.endpoint)?),
        Some(_) => None,
    };
    let result = probe(&target.endpoint.address, rules, &target.due).await;
    match &result {
        Some(Err(ProbeFailure::Tls(fault))) => target.upstream.tls_failed(&target.endpoint, fault),
        // A connection alone does not prove that the endpoint accepts the gateway.
        Some(Ok(())) if rules.tls.is_some() && !matches!(rules.health.probe, Probe::Tcp) => {
            target.upstream.tls_answered(&target.endpoint);
        }
        _ => {}
    }
    result
}
