//! No gateway misses a purge. A test case drives one [`PurgeList`] and several [`PurgeDelivery`]s. At the end, every
//! gateway must have carried out each purge that was made since its store was empty.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;

use super::{ConnectionStep, GATEWAYS, connection_step};
use crate::message::{PurgePosition, ToGateway, line};
use crate::purge_delivery::{PurgeBatch, PurgeDelivery};
use crate::purge_list::PurgeList;

/// A gateway that was out of touch for this long removes everything, unless the list still has every purge that it
/// missed.
const GAP_MAX: Duration = Duration::from_secs(30 * 60);

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// A purge is made.
    Purge,
    /// Some minutes pass.
    Wait(u64),
    /// A gateway carries out the batch that its delivery handed over.
    CarryOut(usize),
    /// Something happens to a connection or a process. A gateway starts again with an empty store, the controller with
    /// its file.
    Connection(ConnectionStep),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Purge),
        2 => (1..40u64).prop_map(Step::Wait),
        4 => (0..GATEWAYS).prop_map(Step::CarryOut),
        11 => connection_step(5).prop_map(Step::Connection),
    ]
}

/// A gateway, and its connection.
struct Gateway {
    delivery: PurgeDelivery,
    batches: mpsc::Receiver<PurgeBatch>,
    /// The position up to which the controller has sent purges, and the lines in flight.
    connection: Option<(PurgePosition, VecDeque<Bytes>)>,
    /// How many purges were made before it started. Its store was empty then, so it needs none of them.
    before: u64,
    /// It knows every purge made up to this time.
    known_at: SystemTime,
    carried_out: BTreeSet<u64>,
}

impl Gateway {
    fn new(before: u64, known_at: SystemTime) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let delivery = PurgeDelivery::new(sender);
        Self { delivery, batches, connection: None, before, known_at, carried_out: BTreeSet::new() }
    }

    fn connect(&mut self) {
        if self.connection.is_none() {
            self.connection = Some((self.delivery.position().clone(), VecDeque::new()));
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.delivery.disconnect();
    }

    /// Sends the purges that the gateway lacks, as the server does, and receives the first `count` lines.
    fn receive(&mut self, list: &mut PurgeList, now: SystemTime, count: usize) {
        let Some((known, lines)) = &mut self.connection else { return };
        if lines.is_empty() && list.position() != *known {
            let delta = list.since(known, now);
            known.clone_from(&delta.position);
            let end = ToGateway::Purges { position: delta.position, is_complete: delta.is_complete };
            lines.extend(delta.lines.into_iter().chain([line(&end).into()]));
        }
        for line in lines.drain(..count.min(lines.len())).collect::<Vec<_>>() {
            match serde_json::from_slice(&line).expect("a message") {
                ToGateway::Purge { number, request } => {
                    self.delivery.receive(number, Arc::new(request));
                }
                ToGateway::Purges { position, is_complete } => self.delivery.complete(position, is_complete),
                other => panic!("{other:?}"),
            }
        }
        self.progress();
        if self.delivery.is_current() {
            self.known_at = now;
        }
    }

    /// Polls the delivery once. Returns whether a batch was answered.
    fn progress(&mut self) -> bool {
        let mut progress = std::pin::pin!(self.delivery.progress());
        match progress.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => {
                done.expect("the gateway runs");
                true
            }
            Poll::Pending => false,
        }
    }

    /// Carries out the next batch, if one was handed over. `made`: how many purges exist.
    fn carry_out(&mut self, made: u64, now: SystemTime) {
        self.progress();
        let Ok(batch) = self.batches.try_recv() else { return };
        let gap = now.duration_since(self.known_at).expect("time passes");
        if !batch.is_complete && gap >= GAP_MAX {
            self.carried_out.extend(1..=made);
        }
        for (number, request) in &batch.purges {
            match request["tag"].as_u64() {
                Some(tag) => drop(self.carried_out.insert(tag)),
                None => self.carried_out.extend(1..=*number),
            }
        }
        batch.answer.send(Vec::new()).expect("it waits");
        assert!(self.progress());
        self.known_at = now;
    }
}

/// Runs the steps, then lets every gateway catch up.
fn run(steps: Vec<Step>) {
    let mut list = PurgeList::new("one".to_owned());
    let mut now = UNIX_EPOCH;
    let mut gateways: Vec<Gateway> = (0..GATEWAYS).map(|_| Gateway::new(0, now)).collect();
    for step in steps {
        let last = list.position().number;
        match step {
            Step::Purge => {
                list.push(Arc::new(json!({ "tag": last + 1 })), now);
            }
            Step::Wait(minutes) => now += Duration::from_secs(60 * minutes),
            Step::Connection(ConnectionStep::Connect(gateway)) => gateways[gateway].connect(),
            Step::Connection(ConnectionStep::Receive(gateway, count)) => {
                gateways[gateway].receive(&mut list, now, count);
            }
            Step::CarryOut(gateway) => gateways[gateway].carry_out(last, now),
            Step::Connection(ConnectionStep::Disconnect(gateway)) => gateways[gateway].disconnect(),
            Step::Connection(ConnectionStep::RestartGateway(gateway)) => {
                gateways[gateway] = Gateway::new(last, now);
            }
            Step::Connection(ConnectionStep::RestartController) => {
                gateways.iter_mut().for_each(Gateway::disconnect);
                let file = serde_json::to_vec(&list.saved()).expect("a text");
                list = PurgeList::parse(&file, now).expect("a list");
            }
        }
    }
    let position = list.position();
    for gateway in &mut gateways {
        gateway.connect();
        // Twice: once for lines or a batch still in flight, and once for the rest.
        (0..2).for_each(|_| gateway.receive(&mut list, now, usize::MAX));
        (0..2).for_each(|_| gateway.carry_out(position.number, now));
        assert_eq!(*gateway.delivery.position(), position);
        let missed: Vec<u64> =
            (gateway.before + 1..=position.number).filter(|of| !gateway.carried_out.contains(of)).collect();
        assert_eq!(missed, Vec::<u64>::new(), "purges after {}", gateway.before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_interleaving_misses_no_purge(steps in vec(step(), 0..80)) {
        run(steps);
    }
}
