//! Hands a controller's purges to the gateway, one batch at a time, and knows which are carried out.
//!
//! The client calls it with the controller's messages. What arrives while a batch is carried out is merged into the next
//! one. Invariant: [`PurgeDelivery::position`] covers only purges that are carried out.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::delivery::GatewayEnded;
use crate::message::{PurgePosition, ToController};
use crate::purge_list::purge_of_all;

/// The most purges that wait to be carried out. More become a purge of everything.
const PENDING_MAX: usize = 10_000;
/// The most counts that a report has, so that it is short enough for a message.
const COUNTS_MAX: usize = 10_000;

/// The epoch of a controller that has no purges. No list has it: their epochs are random, or begin with `etcd`.
const NO_LIST: &str = "none";

/// Purges for the gateway to carry out, in their order.
#[derive(Debug)]
pub struct PurgeBatch {
    /// Number and request of each purge.
    pub purges: Vec<(u64, Arc<Value>)>,
    /// Whether these are all that the gateway lacks, however long it was away.
    pub is_complete: bool,
    /// Takes how many stored responses each purge concerned, by number, when all of them are carried out.
    pub answer: oneshot::Sender<Vec<(u64, u64)>>,
}

/// The purges on their way to the gateway.
#[derive(Debug)]
pub(crate) struct PurgeDelivery {
    batches: mpsc::Sender<PurgeBatch>,
    /// Purges whose end was not announced yet.
    received: Vec<(u64, Arc<Value>)>,
    /// Purges that the gateway does not have.
    pending: Vec<(u64, Arc<Value>)>,
    /// The position after them.
    next: PurgePosition,
    is_complete: bool,
    /// Whether `pending` is handed over even if it is empty.
    is_due: bool,
    /// The batch that the gateway is carrying out.
    sent: Option<SentBatch>,
    done: PurgePosition,
    counts: Vec<(u64, u64)>,
    /// Whether the controller has sent its purges on this connection.
    is_connected: bool,
    /// Whether it has announced them, even if it does not know them yet.
    is_announced: bool,
}

/// A batch that the gateway is carrying out.
#[derive(Debug)]
struct SentBatch {
    /// The position after its purges.
    position: PurgePosition,
    /// Receives how many stored responses each purge concerned, by number.
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

    /// Forgets what belongs to a connection that ended.
    pub fn disconnect(&mut self) {
        self.received.clear();
        (self.is_connected, self.is_announced) = (false, false);
    }

    /// Takes in a purge.
    pub fn receive(&mut self, number: u64, request: Arc<Value>) {
        if self.received.len() >= PENDING_MAX {
            self.received.clear();
            self.received.push((number, purge_of_all()));
        } else {
            self.received.push((number, request));
        }
    }

    /// Takes in the end of the purges that were sent.
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

    /// Takes in a commit. A controller that has announced no purges before it is of an older program, and has none.
    pub fn note_commit(&mut self) {
        if !std::mem::replace(&mut self.is_announced, true) {
            self.complete(PurgePosition { epoch: NO_LIST.to_owned(), number: 0 }, true);
        }
    }

    /// Returns the position up to which purges are carried out.
    pub fn position(&self) -> &PurgePosition {
        &self.done
    }

    /// Whether every purge that the controller has sent is carried out, and it has sent all that it has.
    pub fn is_current(&self) -> bool {
        self.is_connected && !self.is_due && self.sent.is_none()
    }

    /// Whether the controller of this connection expects reports: an older program does not.
    pub fn has_report(&self) -> bool {
        self.is_connected && self.done.epoch != NO_LIST
    }

    /// Returns the report of the purges that were carried out since the last one.
    pub fn take_report(&mut self) -> ToController {
        ToController::Purged { position: self.done.clone(), counts: std::mem::take(&mut self.counts) }
    }

    /// Hands over due purges, and returns when a batch is carried out. It may be dropped at any time.
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

    /// Lets the delivery act until it waits. Returns whether a batch was carried out.
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
            // Two more arrive meanwhile, and the connection breaks in the middle of a third.
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
