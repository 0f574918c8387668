//! Follows the purges that a controller sends.
//!
//! The client of the fleet hands them over in [batches](PurgeBatch), and reports to the controller which are carried
//! out.

use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tollgate_fleet::PurgeBatch;
use tollgate_proxy::Rollout;
use tollgate_sources::SharedControllerStatus;

use super::{FleetPurges, GAP_MAX, TICK_INTERVAL, Work};

impl FleetPurges {
    /// Carries out the purges of a controller until it is no longer a source.
    pub async fn follow_controller(
        self: Arc<Self>,
        mut batches: mpsc::Receiver<PurgeBatch>,
        status: SharedControllerStatus,
        plan: watch::Receiver<Arc<Rollout>>,
    ) {
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Every purge made up to this time is carried out. True at the start: memory is empty, and the disk tier keeps
        // a time of its own.
        let mut known_at = SystemTime::now();
        let mut has_list = false;
        loop {
            tokio::select! {
                batch = batches.recv() => {
                    let Some(PurgeBatch { purges, is_complete, answer }) = batch else { return };
                    let now = SystemTime::now();
                    let removes_all = !is_complete && is_gap(known_at, now);
                    let counts = self.carry_out(Work { removes_all, purges }, &plan).await;
                    // The client's thread may be gone.
                    let _ = answer.send(counts);
                    (known_at, has_list) = (now, true);
                }
                _ = tick.tick() => {
                    let status = status.lock().unwrap_or_else(PoisonError::into_inner);
                    known_at = status.purges_known_at.filter(|_| has_list).unwrap_or(known_at);
                }
            }
            if has_list {
                self.confirm(known_at, &plan).await;
            }
        }
    }
}

/// Returns whether purges made after `known_at` may have expired at the controller.
fn is_gap(known_at: SystemTime, now: SystemTime) -> bool {
    // A clock that was set back counts as no gap.
    now.duration_since(known_at).unwrap_or_default() >= GAP_MAX
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn half_an_hour_without_a_known_list_is_too_long() {
        let now = SystemTime::now();
        assert!(!is_gap(now - (GAP_MAX - Duration::from_secs(1)), now));
        assert!(is_gap(now - GAP_MAX, now));
        assert!(!is_gap(now + Duration::from_secs(5), now));
    }
}
