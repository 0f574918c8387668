//! Decides which endpoints are ejected, until when, and how many at a time.
//!
//! Workers report failures, and the control thread ends ejections and evaluates success rates at each interval. All of
//! them use one [`Ejections`] for each upstream, under a lock that only failing requests take. Invariant: at most
//! `max_ejected` of the members are ejected, and at least one available endpoint remains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_net::Address;
use tollgate_plan::Outlier;

use super::{EjectionCause, TrafficTotals, success_rate};
use crate::state::StampClock;
use crate::{EndpointState, ProbeHealth};

/// How long an endpoint must have been ejected before it gives way to another; multiplied by its ejections in
/// a row. So a request that fails at every endpoint does not eject and return endpoints within a few
/// requests.
const GIVE_WAY_AFTER: Duration = Duration::from_secs(1);

/// The ejections of one upstream. A caller that locks it may change which endpoints are ejected.
///
/// It has no members until [`set_members`](Self::set_members) names them, and ejects only members. So without
/// a control thread that ends ejections, no endpoint is ejected.
#[derive(Debug)]
pub(crate) struct Ejections {
    clock: StampClock,
    rules: Outlier,
    members: BTreeMap<Address, EjectionMember>,
    counts: [u64; EjectionCause::ALL.len()],
    refused: u64,
}

/// An endpoint that takes requests.
#[derive(Debug)]
struct EjectionMember {
    endpoint: Arc<EndpointState>,
    /// Ejections in a row.
    times: u32,
    /// When the last ejection began.
    since: Instant,
    /// When the current ejection ends; `None` if the endpoint is not ejected.
    until: Option<Instant>,
    /// When the last ejection ended.
    back: Option<Instant>,
    /// Number of ejections in all.
    count: u64,
    cause: Option<EjectionCause>,
    /// The totals of its traffic at the end of the last interval.
    seen: TrafficTotals,
}

/// An ejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ejection {
    pub(crate) cause: EjectionCause,
    pub(crate) time: Duration,
    /// How many in a row, including this one.
    pub(crate) times: u32,
}

/// One endpoint's ejections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EjectionHistory {
    /// When the current ejection ends; `None` if the endpoint is not ejected.
    pub(crate) until: Option<Instant>,
    pub(crate) count: u64,
    pub(crate) times: u32,
    /// Why it was last ejected.
    pub(crate) cause: Option<EjectionCause>,
}

impl Ejections {
    pub(crate) fn new(clock: StampClock) -> Self {
        let rules = Outlier::default();
        Self { clock, rules, members: BTreeMap::new(), counts: [0; EjectionCause::ALL.len()], refused: 0 }
    }

    /// Sets the rules and the endpoints that take requests. Returns the endpoints whose ejection ends by
    /// this, because they left or because fewer may be ejected now.
    pub(crate) fn set_members(
        &mut self,
        rules: &Outlier,
        endpoints: impl Iterator<Item = Arc<EndpointState>>,
        now: Instant,
    ) -> Vec<Arc<EndpointState>> {
        self.rules = rules.clone();
        let mut before = std::mem::take(&mut self.members);
        for endpoint in endpoints {
            let member = before
                .remove(&endpoint.address)
                .unwrap_or_else(|| EjectionMember::new(endpoint.clone(), now));
            self.members.insert(endpoint.address.clone(), member);
        }
        let mut back = Vec::new();
        for mut gone in before.into_values().filter(|member| member.until.is_some()) {
            gone.readmit(self.clock, now);
            back.push(gone.endpoint);
        }
        while self.ejected_count() > self.max_ejected() {
            let out = self.members.values_mut().filter(|member| member.until.is_some());
            let Some(first) = out.min_by_key(|member| member.until) else { break };
            first.readmit(self.clock, now);
            back.push(first.endpoint.clone());
        }
        back
    }

    /// Ejects an endpoint, unless too many are ejected or no other healthy endpoint would remain. In that case another
    /// endpoint, ejected a while ago, can give way, if the new one fails in a row, because its failures are current.
    /// Otherwise a rolling restart, in which each endpoint is down in turn, would end with a healthy endpoint ejected
    /// and a dead endpoint that receives requests. Returns the ejection and the endpoint that gave way.
    pub(crate) fn eject(
        &mut self,
        address: &Address,
        cause: EjectionCause,
        now: Instant,
    ) -> Option<(Ejection, Option<Arc<EndpointState>>)> {
        let member = self.members.get(address)?;
        if member.until.is_some() || !self.rules.enabled {
            return None;
        }
        let most = self.max_ejected();
        let others_well =
            self.members.values().any(|other| other.endpoint.address != *address && other.is_available());
        let mut gave_way = None;
        if self.ejected_count() >= most || !others_well {
            gave_way =
                (most > 0 && cause != EjectionCause::SuccessRate).then(|| self.give_way(now)).flatten();
            if gave_way.is_none() {
                self.refused += 1;
                return None;
            }
        }
        let longest = self.rules.ejection_max.max(self.rules.ejection);
        let (base, clock) = (self.rules.ejection, self.clock);
        let member = self.members.get_mut(address)?;
        // At the longest time it grows no further, so that a recovered endpoint is soon forgiven.
        if base.saturating_mul(member.times) < longest {
            member.times += 1;
        }
        let time = base.saturating_mul(member.times).min(longest);
        let until = now + time;
        (member.since, member.until) = (now, Some(until));
        member.count += 1;
        member.cause = Some(cause);
        member.endpoint.set_ejected_until(clock.stamp(until));
        self.counts[cause as usize] += 1;
        Some((Ejection { cause, time, times: member.times }, gave_way))
    }

    /// Ends the ejection of the endpoint that has been ejected longest, if this is long enough and probes do
    /// not report it as unhealthy.
    fn give_way(&mut self, now: Instant) -> Option<Arc<EndpointState>> {
        let may = |member: &&mut EjectionMember| {
            member.until.is_some()
                && now.saturating_duration_since(member.since) >= GIVE_WAY_AFTER.saturating_mul(member.times)
                && member.endpoint.health() != ProbeHealth::Unhealthy
        };
        let first = self.members.values_mut().filter(may).min_by_key(|member| member.since)?;
        first.readmit(self.clock, now);
        Some(first.endpoint.clone())
    }

    /// Returns when the next ejection ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.members.values().filter_map(|member| member.until).min()
    }

    /// Ends the ejections whose time is over.
    pub(crate) fn release(&mut self, now: Instant) -> Vec<Arc<EndpointState>> {
        let over = |member: &&mut EjectionMember| member.until.is_some_and(|until| until <= now);
        let mut back = Vec::new();
        for member in self.members.values_mut().filter(over) {
            member.readmit(self.clock, now);
            back.push(member.endpoint.clone());
        }
        back
    }

    /// Ends an ejection early. Returns whether the endpoint was ejected.
    pub(crate) fn end_early(&mut self, address: &Address, now: Instant) -> bool {
        let Some(member) = self.members.get_mut(address).filter(|member| member.until.is_some()) else {
            return false;
        };
        member.readmit(self.clock, now);
        true
    }

    /// Ends an interval: compares success rates, and forgives one ejection of each endpoint that was not
    /// ejected during the interval. Returns the endpoints that it ejected.
    pub(crate) fn end_interval(&mut self, now: Instant) -> Vec<(Arc<EndpointState>, Ejection)> {
        let interval = self.rules.interval;
        let mut traffic = Vec::with_capacity(self.members.len());
        for member in self.members.values_mut() {
            let total = member.endpoint.outlier.totals();
            traffic.push((member.endpoint.clone(), total.since(member.seen)));
            member.seen = total;
            let in_throughout =
                member.back.is_some_and(|back| now.saturating_duration_since(back) >= interval);
            if member.until.is_none() && member.times > 0 && in_throughout {
                member.times -= 1;
            }
        }
        if !self.rules.success_rate || !self.rules.enabled {
            return Vec::new();
        }
        let of_all: Vec<TrafficTotals> = traffic.iter().map(|(_, traffic)| *traffic).collect();
        let Some(threshold) = success_rate::threshold(&of_all) else { return Vec::new() };
        let mut below: Vec<_> = traffic
            .into_iter()
            .filter_map(|(endpoint, traffic)| Some((endpoint, success_rate::rate(traffic)?)))
            .filter(|(_, rate)| *rate < threshold)
            .collect();
        // The worst first, because not all may be ejected.
        below.sort_by(|(a, x), (b, y)| {
            x.total_cmp(y).then_with(|| a.address.to_string().cmp(&b.address.to_string()))
        });
        let ejected = below.into_iter().filter_map(|(endpoint, _)| {
            let (ejected, _) = self.eject(&endpoint.address, EjectionCause::SuccessRate, now)?;
            Some((endpoint, ejected))
        });
        ejected.collect()
    }

    /// Returns how often [`Self::end_interval`] must be called; `None` if outlier detection is off.
    pub(crate) fn interval_length(&self) -> Option<Duration> {
        self.rules.enabled.then_some(self.rules.interval)
    }

    pub(crate) fn history(&self, address: &Address) -> EjectionHistory {
        self.members.get(address).map_or_else(EjectionHistory::default, |member| EjectionHistory {
            until: member.until,
            count: member.count,
            times: member.times,
            cause: member.cause,
        })
    }

    /// Returns the number of ejections by cause, and how many were refused.
    pub(crate) fn counts(&self) -> ([u64; EjectionCause::ALL.len()], u64) {
        (self.counts, self.refused)
    }

    fn ejected_count(&self) -> usize {
        self.members.values().filter(|member| member.until.is_some()).count()
    }

    /// Returns how many endpoints may be ejected: the configured share, at least one, and never all.
    fn max_ejected(&self) -> usize {
        let (all, most) = (self.members.len(), self.rules.max_ejected);
        if !self.rules.enabled || most.is_zero() {
            return 0;
        }
        (most.of(all as u64) as usize).max(1).min(all.saturating_sub(1))
    }
}

impl EjectionMember {
    fn new(endpoint: Arc<EndpointState>, now: Instant) -> Self {
        let seen = endpoint.outlier.totals();
        Self { endpoint, times: 0, since: now, until: None, back: None, count: 0, cause: None, seen }
    }

    fn is_available(&self) -> bool {
        self.until.is_none() && self.endpoint.health() != ProbeHealth::Unhealthy
    }

    fn readmit(&mut self, clock: StampClock, now: Instant) {
        self.until = None;
        self.back = Some(now);
        self.endpoint.outlier.reset_streaks();
        self.endpoint.set_ejected_until(0);
        self.endpoint.set_ready_since(clock.stamp(now));
    }
}

#[cfg(test)]
mod tests;
