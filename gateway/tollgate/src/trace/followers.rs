//! The clients of the admin API that follow requests.
//!
//! [`RequestFollowers`] sends the workers a new list whenever a client starts or stops to follow. Without a
//! client, the workers gather nothing.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Receiver;
use tollgate_observe::trace::TraceCounts;
use tollgate_proxy::{GatheredTrace, Mailbox, Receipt, Receipts, TraceFilter, TraceFollower, WorkerCommand};

/// How many clients may follow at once.
pub const FOLLOWERS_MAX: usize = 4;

/// The clients that follow requests, and the workers that gather for them.
#[derive(Debug)]
pub struct RequestFollowers {
    mailboxes: Vec<Mailbox>,
    counts: Arc<TraceCounts>,
    followers: Mutex<Vec<Arc<TraceFollower>>>,
}

/// A client that follows requests until this is dropped.
#[derive(Debug)]
pub struct Following {
    all: Arc<RequestFollowers>,
    pub follower: Arc<TraceFollower>,
}

impl RequestFollowers {
    /// Creates it for these workers, without a client.
    pub fn new(mailboxes: Vec<Mailbox>, counts: Arc<TraceCounts>) -> Arc<Self> {
        Arc::new(Self { mailboxes, counts, followers: Mutex::default() })
    }

    /// Has the workers gather traces for one more client. Returns its end of them, and receipts that complete
    /// when all workers gather. `None`: [`FOLLOWERS_MAX`] clients follow already.
    pub fn follow(
        self: &Arc<Self>,
        filter: TraceFilter,
    ) -> Option<(Following, Receiver<Arc<GatheredTrace>>, Receipts)> {
        let (follower, traces) = TraceFollower::new(filter, self.counts.clone());
        let receipts = self.change(|followers| {
            let has_room = followers.len() < FOLLOWERS_MAX;
            followers.extend(has_room.then(|| follower.clone()));
            has_room
        })?;
        Some((Following { all: self.clone(), follower }, traces, receipts))
    }

    /// Changes the list and sends it to the workers, unless `change` returns false.
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<TraceFollower>>) -> bool) -> Option<Receipts> {
        // Held while the list is sent, so that all workers get the lists in the same order.
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if !change(&mut followers) {
            return None;
        }
        self.counts.set_followers(followers.len());
        let list: Arc<[_]> = followers.iter().cloned().collect();
        let (receipt, receipts) = Receipt::new();
        for mailbox in &self.mailboxes {
            // A worker that is gone has no requests.
            let _ = mailbox.send(WorkerCommand::Follow(list.clone(), Some(receipt.clone())));
        }
        Some(receipts)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.change(|followers| {
            followers.retain(|other| !Arc::ptr_eq(other, &self.follower));
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_each_change_and_clients_are_bounded() {
        let (mailbox, mut commands) = Mailbox::new();
        let all = RequestFollowers::new(vec![mailbox], Arc::default());
        let mut following: Vec<_> =
            (0..FOLLOWERS_MAX).map(|_| all.follow(TraceFilter::default()).expect("there is room")).collect();
        assert!(all.follow(TraceFilter::default()).is_none());
        following.clear();
        let mut counts = Vec::new();
        while let Ok(WorkerCommand::Follow(list, _)) = commands.try_recv() {
            counts.push(list.len());
        }
        assert_eq!(counts, [1, 2, 3, 4, 3, 2, 1, 0]);
    }
}
