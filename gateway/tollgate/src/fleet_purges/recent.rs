//! The purges of the last hour, for a disk tier that starts after they were carried out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tollgate_fleet::PURGE_KEPT_TIME;

use crate::purge_request::PurgeRequest;

/// The most purges that are kept. Beyond that, a purge of everything replaces the oldest.
const RECENT_MAX: usize = 4096;

/// The purges of the last hour, the oldest first.
#[derive(Debug, Default)]
pub struct RecentPurges(VecDeque<(Instant, Arc<PurgeRequest>)>);

impl RecentPurges {
    /// Adds a purge.
    pub fn add(&mut self, request: Arc<PurgeRequest>, now: Instant) {
        self.forget(now);
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
            if let (Some((_, oldest)), Ok(all)) =
                (self.0.front_mut(), PurgeRequest::parse(&json!({ "all": true })))
            {
                *oldest = Arc::new(all);
            }
        }
        self.0.push_back((now, request));
    }

    /// Returns the purges of the last hour.
    pub fn within(&mut self, now: Instant) -> Vec<Arc<PurgeRequest>> {
        self.forget(now);
        self.0.iter().map(|(_, request)| request.clone()).collect()
    }

    fn forget(&mut self, now: Instant) {
        let is_old = |(at, _): &mut (Instant, _)| now.saturating_duration_since(*at) > PURGE_KEPT_TIME;
        while self.0.pop_front_if(is_old).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn purge(tag: &str) -> Arc<PurgeRequest> {
        Arc::new(PurgeRequest::parse(&json!({ "tag": tag })).expect("valid"))
    }

    #[test]
    fn purges_are_kept_for_an_hour_and_too_many_become_one() {
        let (mut recent, start) = (RecentPurges::default(), Instant::now());
        recent.add(purge("old"), start);
        let later = start + PURGE_KEPT_TIME + Duration::from_secs(1);
        recent.add(purge("new"), later);
        assert_eq!(recent.within(later), [purge("new")]);
        (0..RECENT_MAX).for_each(|_| recent.add(purge("x"), later));
        let all = PurgeRequest::parse(&json!({ "all": true })).expect("valid");
        let kept = recent.within(later);
        assert_eq!((kept.len(), &*kept[0], &kept[1]), (RECENT_MAX, &all, &purge("x")));
    }
}
