//! One endpoint that is probed repeatedly.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tollgate_net::{Deadline, ProxyVersion, Timers};
use tollgate_plan::{Health, Probe, Tls};

use super::ProbeFailure;
use super::probe::probe;
use super::record::LastProbe;
use super::verdict::Verdict;
use crate::cap::Permit;
use crate::{EndpointState, Event, UpstreamState, Wellness};

/// Upper bound of concurrent probes. More wait for their turn, so that thousands of endpoints do not use all
/// descriptors at startup.
const AT_ONCE: usize = 256;

/// The state that all probes share.
#[derive(Debug)]
pub(super) struct Prober {
    timers: Timers,
    turns: Semaphore,
    random: RefCell<fastrand::Rng>,
}

impl Prober {
    pub(super) fn new(timers: Timers, seed: u64) -> Self {
        let random = RefCell::new(fastrand::Rng::with_seed(seed));
        Self { timers, turns: Semaphore::new(AT_ONCE), random }
    }

    /// Returns the time from the start of one probe to the start of the next.
    fn interval(&self, rules: &Health) -> Duration {
        let shorter = rules.jitter.share() * self.random.borrow_mut().f64();
        rules.interval.mul_f64(1.0 - shorter.min(1.0))
    }
}

/// How an upstream's endpoints are probed.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) health: Health,
    /// The TLS settings of its requests; `None` without TLS.
    pub(super) tls: Option<Tls>,
    /// Whether its requests use HTTP/2.
    pub(super) http2: bool,
    /// The local address of its connections.
    pub(super) source: Option<IpAddr>,
    /// The PROXY protocol version of its connections.
    pub(super) proxy_protocol: Option<ProxyVersion>,
}

/// One endpoint that is probed. Its task ends after [`stop`](Self::stop).
#[derive(Debug)]
pub(super) struct Target {
    upstream: Arc<UpstreamState>,
    endpoint: Arc<EndpointState>,
    rules: RefCell<Rc<Rules>>,
    verdict: RefCell<Verdict>,
    /// Ends the current probe, or the wait for the next one.
    due: Deadline,
    /// The rules have changed, so the result of a probe under the old rules does not count.
    changed: Cell<bool>,
    stopped: Cell<bool>,
}

impl Target {
    /// Starts with a probe at once.
    pub(super) fn start(
        upstream: Arc<UpstreamState>,
        endpoint: Arc<EndpointState>,
        rules: Rc<Rules>,
        prober: &Rc<Prober>,
    ) -> Rc<Self> {
        let target = Rc::new(Self {
            upstream,
            endpoint,
            rules: RefCell::new(rules),
            verdict: RefCell::default(),
            due: prober.timers.deadline(),
            changed: Cell::new(false),
            stopped: Cell::new(false),
        });
        tollgate_net::spawn(again_and_again(target.clone(), prober.clone()));
        target
    }

    /// Continues with other rules and a probe at once. The endpoint's state is kept.
    pub(super) fn change(&self, rules: Rc<Rules>) {
        self.rules.replace(rules);
        self.changed.set(true);
        self.due.set(tollgate_net::now(), Some(Duration::ZERO));
    }

    /// Ends the task. The result of a running probe does not count.
    pub(super) fn stop(&self) {
        self.stopped.set(true);
        self.due.set(tollgate_net::now(), Some(Duration::ZERO));
    }

    fn count(&self, begun: Instant, result: Result<(), ProbeFailure>, rules: &Rules) {
        let (endpoint, at) = (&self.endpoint, tollgate_net::now());
        self.upstream.probes().count(&result);
        let before = endpoint.wellness();
        let change = self.verdict.borrow_mut().take(before, result.is_ok(), &rules.health);
        {
            let mut record = endpoint.probed();
            record.last =
                Some(LastProbe { at, took: at.saturating_duration_since(begun), result: result.clone() });
            if change.is_some() {
                record.since = Some(at);
            }
        }
        let Some((wellness, after)) = change else { return };
        endpoint.set_wellness(wellness);
        match (before, result) {
            (_, Err(last)) => {
                self.upstream.tell(endpoint, Event::Unhealthy { last, failures: after });
            }
            (Wellness::Unhealthy, Ok(())) => {
                endpoint.set_ready_since(self.upstream.stamp(at));
                // The endpoint was restarted, so its earlier failures do not count.
                endpoint.outlier.forgive();
                self.upstream.ejections().pardon(&endpoint.address, at);
                self.upstream.tell(endpoint, Event::Healthy);
            }
            // It was assumed to be healthy before.
            (_, Ok(())) => {}
        }
        self.upstream.changed();
    }
}

async fn again_and_again(target: Rc<Target>, prober: Rc<Prober>) {
    loop {
        let Ok(turn) = prober.turns.acquire().await else { return };
        if target.stopped.get() {
            return;
        }
        target.changed.set(false);
        let rules = target.rules.borrow().clone();
        let begun = tollgate_net::now();
        let result = once(&target, &rules).await;
        drop(turn);
        if target.stopped.get() {
            return;
        }
        if target.changed.get() {
            continue;
        }
        match result {
            Some(result) => target.count(begun, result, &rules),
            None => target.upstream.probes().skipped += 1,
        }
        let now = tollgate_net::now();
        let next = begun + prober.interval(&rules.health);
        target.due.set(now, Some(next.saturating_duration_since(now)));
        poll_fn(|cx| target.due.poll_passed(cx)).await;
    }
}

/// Runs one probe. Returns `None` if a limit of connections is reached or the process lacks resources, which
/// says nothing about the endpoint.
async fn once(target: &Target, rules: &Rules) -> Option<Result<(), ProbeFailure>> {
    // The limits do not apply to connections to another port.
    let _permit = match rules.health.port {
        None => Some(Permit::take(&target.upstream, &target.endpoint)?),
        Some(_) => None,
    };
    let result = probe(&target.endpoint.address, rules, &target.due).await;
    match &result {
        Some(Err(ProbeFailure::Tls(fault))) => target.upstream.tls_failed(&target.endpoint, fault),
        // A connection alone does not prove that the endpoint accepts the gateway.
        Some(Ok(())) if rules.tls.is_some() && !matches!(rules.health.probe, Probe::Tcp) => {
            target.upstream.tls_is_over(&target.endpoint);
        }
        _ => {}
    }
    result
}
