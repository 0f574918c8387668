//! Events that policies count, each labelled with the place of its policy in the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::page::Exporter;

/// Number of separate counters. Further places are counted together as `other`, so that a scrape has a
/// bounded size.
const COUNTERS_MAX: usize = 8192;
const OTHER: &str = "other";

/// Counters of policy events, by the policy's kind and place. A counter lives as long as the process.
#[derive(Debug, Default)]
pub struct PolicyEvents(Mutex<BTreeMap<Event, Arc<AtomicU64>>>);

/// Kind, place and event.
pub type Event = (&'static str, String, &'static str);

/// The counts of events, for a scrape.
pub type PolicyEventsSnapshot = Vec<(Event, u64)>;

impl PolicyEvents {
    /// Returns the counter of an event for the policy of this kind at this place (`route/NAME` and the like).
    /// Called when a policy is set up, not for a request: it takes a lock.
    pub fn counter(&self, kind: &'static str, place: &str, event: &'static str) -> Arc<AtomicU64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (kind, place.to_owned(), event);
        if known.len() >= COUNTERS_MAX && !known.contains_key(&key) {
            key.1 = OTHER.to_owned();
        }
        known.entry(key).or_default().clone()
    }

    pub(super) fn snapshot(&self) -> PolicyEventsSnapshot {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(event, count)| (event.clone(), count.load(Ordering::Relaxed))).collect()
    }
}

pub(super) fn encode(events: &PolicyEventsSnapshot, page: &mut Exporter<'_>) -> fmt::Result {
    let mut family =
        page.counter("tollgate_policy_events_total", "Actions of policies, by policy, place and event.")?;
    for ((kind, place, event), count) in events {
        family.add(&[("policy", kind), ("place", place), ("event", event)], *count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_stays_within_a_known_size() {
        let events = PolicyEvents::default();
        for n in 0..2 * COUNTERS_MAX {
            events.counter("mirror", &format!("route/{n}"), "sent").fetch_add(1, Ordering::Relaxed);
        }
        events.counter("mirror", "route/0", "sent").fetch_add(1, Ordering::Relaxed);
        let snapshot = events.snapshot();
        assert!(snapshot.len() <= COUNTERS_MAX + 1);
        assert_eq!(snapshot.iter().map(|(_, count)| count).sum::<u64>(), 2 * COUNTERS_MAX as u64 + 1);
        assert!(snapshot.contains(&(("mirror", "route/0".to_owned(), "sent"), 2)));
    }
}
