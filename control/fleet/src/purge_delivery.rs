//! Hands a controller's purges to the gateway, one batch at a time, and tracks which are carried out.
//!
//! The [client](crate::client) calls it with the controller's messages. Purges that arrive while a batch is carried out
//! form the next batch. Invariant: [`PurgeDelivery::position`] covers only purges that are carried out.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::delivery::GatewayEnded;
use crate::message::{PurgePosition, ToController};
use crate::purge_list::purge_of_all;

/// The most purges that wait for the gateway. Beyond that, a purge of everything replaces them.
const PENDING_MAX: usize = 10_000;
/// The most counts in a report, so that it fits into a message. The oldest are dropped.
const COUNTS_MAX: usize = 10_000;

/// The epoch for a controller without purges. No list uses it: epochs of lists are random, or begin with `etcd`.
const NO_LIST: &str = "none";

/// Purges for the gateway to carry out in this order.
#[derive(Debug)]
pub struct PurgeBatch {
    /// Number and request of each purge.
    pub purges: Vec<(u64, Arc<Value>)>,
    /// Whether the batch has every purge that the gateway missed, however long it was disconnected.
    pub is_complete: bool,
    /// The gateway's answer once all are carried out: the number of each purge, and how many stored responses it
    /// matched.
    pub answer: oneshot::Sender<Vec<(u64, u64)>>,
}

/// The purges in flight between the controller's messages and the gateway.
#[derive(Debug)]
pub(crate) struct PurgeDelivery {
    batches: mpsc::Sender<PurgeBatch>,
    /// Purges received since the controller last announced a position.
    received: Vec<(u64, Arc<Value>)>,
    /// Purges for the next batch.
    pending: Vec<(u64, Arc<Value>)>,
    /// The position after `pending`.
    next: PurgePosition,
    /// The `is_complete` of the next batch.
    is_complete: bool,
    /// Whether the next batch is due, even if `pending` is empty: the gateway must learn that it missed nothing.
    is_due: bool,
    /// The batch that the gateway is carrying out.
    sent: Option<SentBatch>,
    /// The position up to which purges are carried out.
    done: PurgePosition,
    /// The counts for the next report.
    counts: Vec<(u64, u64)>,
    /// Whether the controller has sent its purges on this connection.
    is_connected: bool,
    /// Whether the controller has announced a position on this connection, known or not.
    is_announced: bool,
}

/// A batch that the gateway is carrying out.
#[derive(Debug)]
struct SentBatch {
    /// The position after its purges.
    position: PurgePosition,
    /// Receives the number of each purge, and how many stored responses it matched.
    answer: oneshot::Receiver<Vec<(u64, u64)>>,
}

impl PurgeDelivery {
    pub fn new(batches: mpsc::Sender<PurgeBatch>) -> Self {
        Self {
            batches,
            received: Vec::new(),
            pending: Vec::new(),
            next: PurgePosition::default(),
            is_complete: true,
            is_due: false,
            sent: None,
            done: PurgePosition::default(),
            counts: Vec::new(),
            is_connected: false,
            is_announced: false,
        }
    }

    /// Drops the state of a connection that ended.
    pub fn disconnect(&mut self) {
        self.received.clear();
        (self.is_connected, self.is_announced) = (false, false);
    }

    /// Adds a purge from the controller.
    pub fn receive(&mut self, number: u64, request: Arc<Value>) {
        if self.received.len() >= PENDING_MAX {
            self.received.clear();
            self.received.push((number, purge_of_all()));
        } else {
            self.received.push((number, request));
        }
    }

    /// Queues the received purges for the gateway: the controller has sent all of them up to `position`.
    pub fn complete(&mut self, position: PurgePosition, is_complete: bool) {
        self.is_announced = true;
        if position.epoch.is_empty() {
            return;
        }
        self.pending.append(&mut self.received);
        if self.pending.len() > PENDING_MAX {
            self.pending = vec![(position.number, purge_of_all())];
        }
        self.next = position;
        self.is_complete &= is_complete;
        (self.is_due, self.is_connected) = (true, true);
    }

    /// Notes a commit. A controller that announced no position before its first commit runs a version without purges.
    pub fn note_commit(&mut self) {
        if !std::mem::replace(&mut self.is_announced, true) {
            self.complete(PurgePosition { epoch: NO_LIST.to_owned(), number: 0 }, true);
        }
    }

    /// Returns the position up to which purges are carried out.
    pub fn position(&self) -> &PurgePosition {
        &self.done
    }

    /// Returns whether the controller has sent all its purges and each is carried out.
    pub fn is_current(&self) -> bool {
        self.is_connected && !self.is_due && self.sent.is_none()
    }

    /// Returns whether the connected controller expects reports. An older version does not.
    pub fn has_report(&self) -> bool {
        self.is_connected && self.done.epoch != NO_LIST
    }

    /// Returns the report of the purges that were carried out since the last one.
    pub fn take_report(&mut self) -> ToController {
        ToController::Purged { position: self.done.clone(), counts: std::mem::take(&mut self.counts) }
    }

    /// Hands over due purges, and returns when a batch is carried out. Cancel safe.
    ///
    /// # Errors
    /// The gateway ended.
    pub async fn progress(&mut self) -> Result<(), GatewayEnded> {
        loop {
            match &mut self.sent {
                Some(batch) => {
                    let counts = (&mut batch.answer).await.map_err(|_| GatewayEnded)?;
                    if let Some(batch) = self.sent.take() {
                        self.done = batch.position;
                    }
                    self.counts.extend(counts);
                    let excess = self.counts.len().saturating_sub(COUNTS_MAX);
                    self.counts.drain(..excess);
                    return Ok(());
                }
                None if self.is_due => {
                    let batches = self.batches.clone();
                    let permit = batches.reserve().await.map_err(|_| GatewayEnded)?;
                    let (answer, answer_receiver) = oneshot::channel();
                    let is_complete = std::mem::replace(&mut self.is_complete, true);
                    permit.send(PurgeBatch {
                        purges: std::mem::take(&mut self.pending),
                        is_complete,
                        answer,
                    });
                    self.is_due = false;
                    self.sent = Some(SentBatch { position: self.next.clone(), answer: answer_receiver });
                }
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn at(epoch: &str, number: u64) -> PurgePosition {
        PurgePosition { epoch: epoch.to_owned(), number }
    }

    fn numbers(batch: &PurgeBatch) -> Vec<u64> {
        batch.purges.iter().map(|(number, _)| *number).collect()
    }

    /// Runs the delivery for 20 ms. Returns whether a batch was carried out.
    async fn act(delivery: &mut PurgeDelivery) -> bool {
        tokio::time::timeout(Duration::from_millis(20), delivery.progress()).await.is_ok()
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn one_batch_is_on_its_way_and_the_position_follows_it() {
        run(async {
            let (sender, mut batches) = mpsc::channel(1);
            let mut delivery = PurgeDelivery::new(sender);
            delivery.receive(1, Arc::new(json!({})));
            assert!(!act(&mut delivery).await && batches.is_empty(), "its end is not announced");
            delivery.complete(at("a", 1), false);
            assert!(!act(&mut delivery).await && !delivery.is_current());
            let first = batches.try_recv().expect("a batch");
            assert_eq!((numbers(&first), first.is_complete), (vec![1], false));
            // Two more arrive while it is carried out, and the connection breaks in the middle of a third.
            delivery.receive(2, Arc::new(json!({})));
            delivery.complete(at("a", 2), true);
            delivery.receive(3, Arc::new(json!({})));
            delivery.complete(at("a", 3), true);
            delivery.receive(4, Arc::new(json!({})));
            delivery.disconnect();
            assert_eq!(*delivery.position(), at("", 0), "nothing is carried out yet");
            first.answer.send(vec![(1, 7)]).expect("it waits");
            assert!(act(&mut delivery).await);
            assert_eq!(*delivery.position(), at("a", 1));
            assert!(!act(&mut delivery).await);
            let second = batches.try_recv().expect("a batch");
            assert_eq!((numbers(&second), second.is_complete), (vec![2, 3], true));
            second.answer.send(vec![(2, 0), (3, 1)]).expect("it waits");
            assert!(act(&mut delivery).await && !delivery.is_current(), "no controller is connected");
            let counts = vec![(1, 7), (2, 0), (3, 1)];
            assert_eq!(delivery.take_report(), ToController::Purged { position: at("a", 3), counts });
        });
    }

    #[test]
    fn a_controller_without_purges_is_current_and_one_that_does_not_know_them_is_not() {
        run(async {
            let (sender, mut batches) = mpsc::channel(1);
            let mut delivery = PurgeDelivery::new(sender);
            delivery.complete(at("", 0), false);
            delivery.note_commit();
            assert!(!act(&mut delivery).await && batches.is_empty() && !delivery.is_current());
            delivery.disconnect();
            delivery.note_commit();
            assert!(!act(&mut delivery).await);
            let batch = batches.try_recv().expect("an empty batch");
            assert_eq!((numbers(&batch), batch.is_complete), (vec![], true));
            batch.answer.send(Vec::new()).expect("it waits");
            assert!(act(&mut delivery).await && delivery.is_current());
        });
    }

    #[test]
    fn too_many_purges_become_one() {
        run(async {
            let (sender, mut batches) = mpsc::channel(1);
            let mut delivery = PurgeDelivery::new(sender);
            (0..=PENDING_MAX as u64).for_each(|number| delivery.receive(number, Arc::new(json!({}))));
            delivery.complete(at("a", PENDING_MAX as u64), true);
            assert!(!act(&mut delivery).await);
            let batch = batches.try_recv().expect("a batch");
            assert_eq!(batch.purges, [(PENDING_MAX as u64, purge_of_all())]);
        });
    }
}
