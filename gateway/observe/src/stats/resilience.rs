//! Counts of retries, hedged attempts, circuit breakers and fallbacks.

use std::fmt;

use super::counter::Counter;
use super::page::Exporter;

/// One worker's counts for one upstream.
#[derive(Debug, Default)]
pub(super) struct Resilience {
    pub(super) retries: Counter,
    pub(super) retries_denied: Counter,
    pub(super) retried_well: Counter,
    pub(super) retried_badly: Counter,
    pub(super) hedges: Counter,
    pub(super) hedges_won: Counter,
    pub(super) opened: Counter,
    pub(super) opened_again: Counter,
    pub(super) closed: Counter,
    pub(super) refused: Counter,
    pub(super) fallbacks: Counter,
}

/// A change in the state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerTransition {
    /// It was closed, and now refuses attempts.
    Opened,
    /// Its probes failed, so it stays open.
    OpenedAgain,
    /// It admits all attempts again.
    Closed,
}

/// The counts for one upstream, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResilienceSnapshot {
    /// Attempts after a failed one.
    pub retries: u64,
    /// Retries and hedged attempts that the budget or the limit prevented.
    pub retries_denied: u64,
    /// Requests that succeeded after a retry.
    pub retried_well: u64,
    /// Requests that failed despite a retry.
    pub retried_badly: u64,
    /// Hedged attempts, started in parallel with a slow first one.
    pub hedges: u64,
    /// Hedged attempts that provided the answer.
    pub hedges_won: u64,
    /// How often a closed breaker opened.
    pub opened: u64,
    /// How often a breaker stayed open after failed probes.
    pub opened_again: u64,
    /// How often a breaker closed.
    pub closed: u64,
    /// Attempts that a breaker refused.
    pub refused: u64,
    /// Upstream errors that a fallback replaced.
    pub fallbacks: u64,
}

impl ResilienceSnapshot {
    /// Returns whether the breaker admits only probes.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened > self.closed
    }
}

impl Resilience {
    pub(super) fn add_to(&self, sum: &mut ResilienceSnapshot) {
        sum.retries += self.retries.get();
        sum.retries_denied += self.retries_denied.get();
        sum.retried_well += self.retried_well.get();
        sum.retried_badly += self.retried_badly.get();
        sum.hedges += self.hedges.get();
        sum.hedges_won += self.hedges_won.get();
        // Read in this order: a change between the two reads never shows more closings than openings.
        sum.closed += self.closed.get();
        sum.opened += self.opened.get();
        sum.opened_again += self.opened_again.get();
        sum.refused += self.refused.get();
        sum.fallbacks += self.fallbacks.get();
    }
}

/// Writes the families, one sample per upstream.
pub(super) fn encode(upstreams: &[(&str, &ResilienceSnapshot)], page: &mut Exporter<'_>) -> fmt::Result {
    type Value = fn(&ResilienceSnapshot) -> u64;
    let counters: [(&'static str, &str, Value); 7] = [
        ("tollgate_upstream_retries_total", "Retries: attempts after a failed one.", |sum| sum.retries),
        (
            "tollgate_upstream_retries_denied_total",
            "Retries that the budget or the limit did not allow.",
            |sum| sum.retries_denied,
        ),
        (
            "tollgate_upstream_hedges_total",
            "Hedged requests: second attempts alongside a slow first one.",
            |sum| sum.hedges,
        ),
        (
            "tollgate_upstream_hedges_won_total",
            "Hedged requests whose second attempt responded first.",
            |sum| sum.hedges_won,
        ),
        ("tollgate_upstream_breaker_opened_total", "How often a circuit breaker opened.", |sum| {
            sum.opened + sum.opened_again
        }),
        ("tollgate_upstream_breaker_refused_total", "Attempts that a circuit breaker rejected.", |sum| {
            sum.refused
        }),
        ("tollgate_upstream_fallbacks_total", "Error responses that a fallback replaced.", |sum| {
            sum.fallbacks
        }),
    ];
    for (name, help, value) in counters {
        let mut family = page.counter(name, help)?;
        for (upstream, counts) in upstreams {
            family.add(&[("upstream", upstream)], value(counts))?;
        }
    }
    let mut family = page.counter(
        "tollgate_upstream_retried_requests_total",
        "Requests that took more than one attempt, by result.",
    )?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream), ("result", "succeeded")], counts.retried_well)?;
        family.add(&[("upstream", upstream), ("result", "failed")], counts.retried_badly)?;
    }
    let mut family =
        page.gauge("tollgate_upstream_breaker_open", "1 while a breaker lets nothing through but probes.")?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream)], u64::from(counts.is_open()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn workers_add_up_and_a_breaker_is_open_once() {
        let registry = Registry::new(true);
        let slot = registry.upstream_slot("shop");
        let workers = [registry.worker(), registry.worker()];
        for worker in &workers {
            worker.upstream_opened(slot);
            worker.upstream_retried(slot);
            worker.upstream_retry_denied(slot);
            worker.upstream_hedged(slot);
        }
        workers[1].upstream_hedge_won(slot);
        let sum = || registry.snapshot().upstreams[0].resilience;
        assert_eq!((sum().retries, sum().retries_denied, sum().hedges, sum().hedges_won), (2, 2, 2, 1));
        assert!(!sum().is_open());
        // One worker opens it, another worker's probe fails, a third closes it.
        workers[0].upstream_breaker(slot, BreakerTransition::Opened);
        workers[1].upstream_breaker(slot, BreakerTransition::OpenedAgain);
        assert!(sum().is_open());
        assert!(registry.render().contains("tollgate_upstream_breaker_opened_total{upstream=\"shop\"} 2\n"));
        assert!(registry.render().contains("tollgate_upstream_breaker_open{upstream=\"shop\"} 1\n"));
        workers[1].upstream_breaker(slot, BreakerTransition::Closed);
        assert!(!sum().is_open());
    }
}
