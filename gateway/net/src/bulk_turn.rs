//! Turns of the flows that move many bytes, so that short messages do not wait for long ones.
//!
//! A worker runs its ready tasks one after another. If two hundred of them each move as much as their sockets
//! hold, a request of some bytes waits for all of them, and several times: for its request, its response, and
//! each hop between two tasks. So each relay of bytes holds a [`BulkTurn`], and stops when the turn is over.
//! Flows whose turn is over wait in the worker's [`BulkQueue`]. In each round of the runtime, in which every
//! other ready task runs once, [`TURNS_PER_ROUND`] of them get another turn, in the order in which they came.
//!
//! Invariant: a flow in the queue is woken after a bounded number of rounds, and a flow that has moved fewer
//! bytes than a turn holds never waits. FQ-CoDel shares a link in the same way (RFC 8290, 4.2).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// The bytes that a flow moves in a turn while others wait. Moving them takes some 40 us.
const TURN_BYTES: u32 = 64 * 1024;
/// The same while no other flow waits. A longer turn saves the round between two turns, which includes a look
/// at all sockets.
const TURN_ALONE_BYTES: u32 = 256 * 1024;
/// How many waiting flows get a turn in one round. More of them would lengthen the round, which short messages
/// wait for. Fewer would spend a larger share of the time on looks at the sockets.
const TURNS_PER_ROUND: usize = 4;

/// The flows of a worker that wait for a turn. Clones are handles to the same queue.
///
/// The default is a queue that gives no turns. Its flows only let the other ready tasks run first.
#[derive(Clone, Debug, Default)]
pub struct BulkQueue(Rc<WaitingFlows>);

#[derive(Debug, Default)]
struct WaitingFlows {
    places: RefCell<VecDeque<Rc<Place>>>,
    /// How many flows were given a turn in this round.
    given: Cell<usize>,
    /// Whether the task that gives turns exists.
    is_served: Cell<bool>,
    /// The waker of that task, while no flow waits.
    server: RefCell<Option<Waker>>,
}

/// The place of a flow in the queue.
#[derive(Debug, Default)]
struct Place {
    /// `None` once the flow was given its turn, or is gone.
    task: RefCell<Option<Waker>>,
}

/// The share of a worker's time that one flow of bytes uses before other tasks run.
#[derive(Debug)]
pub struct BulkTurn {
    queue: BulkQueue,
    moved_bytes: u32,
    /// Created when the flow first waits.
    place: Option<Rc<Place>>,
    /// Whether it waits, or was given a turn that it has not begun.
    is_queued: bool,
}

impl BulkQueue {
    /// Creates a queue for this thread, and spawns the task that gives turns on its runtime. The task ends when the last
    /// handle is dropped.
    #[must_use]
    pub fn start() -> Self {
        let queue = Self::default();
        queue.0.is_served.set(true);
        crate::spawn(serve(Rc::downgrade(&queue.0)));
        queue
    }
}

impl BulkTurn {
    /// Begins the first turn of a flow.
    #[must_use]
    pub fn new(queue: &BulkQueue) -> Self {
        Self { queue: queue.clone(), moved_bytes: 0, place: None, is_queued: false }
    }

    /// Counts bytes that the flow has moved.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        self.moved_bytes = self.moved_bytes.saturating_add(bytes as u32);
    }

    /// Ready if the flow may move more bytes now. Otherwise its task is woken when the flow has its next turn.
    #[inline]
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.moved_bytes < TURN_BYTES { Poll::Ready(()) } else { self.poll_spent(cx) }
    }

    /// Waits until the flow may move more bytes.
    pub async fn wait(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Ends the turn, however little the flow has moved, because it took long for another reason. Its task is
    /// woken when the flow has its next turn.
    pub fn end(&mut self, cx: &Context<'_>) {
        self.moved_bytes = self.moved_bytes.max(TURN_ALONE_BYTES);
        let poll = self.poll_spent(cx);
        debug_assert!(poll.is_pending(), "a spent turn");
    }

    fn poll_spent(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.is_queued {
            let mut task = self.place.get_or_insert_default().task.borrow_mut();
            let Some(task) = &mut *task else {
                self.is_queued = false;
                self.moved_bytes = 0;
                return Poll::Ready(());
            };
            task.clone_from(cx.waker());
            return Poll::Pending;
        }
        let waiting = &self.queue.0;
        if self.moved_bytes < TURN_ALONE_BYTES && waiting.is_quiet() {
            return Poll::Ready(());
        }
        self.is_queued = true;
        let place = self.place.get_or_insert_default();
        if waiting.is_served.get() {
            *place.task.borrow_mut() = Some(cx.waker().clone());
            waiting.queue(place.clone());
        } else {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for BulkTurn {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.task.take();
        }
    }
}

impl WaitingFlows {
    /// Whether no flow waits, and at most the asking one runs.
    fn is_quiet(&self) -> bool {
        self.given.get() <= 1 && self.places.borrow().is_empty()
    }

    fn queue(&self, place: Rc<Place>) {
        self.places.borrow_mut().push_back(place);
        if let Some(server) = self.server.take() {
            server.wake();
        }
    }

    /// Gives a turn to at most `count_max` flows.
    fn give(&self, count_max: usize) {
        self.given.set(0);
        while self.given.get() < count_max {
            let Some(place) = self.places.borrow_mut().pop_front() else { return };
            if let Some(task) = place.task.take() {
                self.given.set(self.given.get() + 1);
                task.wake();
            }
        }
    }

    /// Registers the task that gives turns, if no flow waits.
    fn poll_waiting(&self, cx: &Context<'_>) -> Poll<()> {
        if self.places.borrow().is_empty() && self.given.get() == 0 {
            self.server.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl Drop for WaitingFlows {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.wake();
        }
    }
}

/// Gives turns until the last handle of the queue is dropped.
async fn serve(queue: Weak<WaitingFlows>) {
    loop {
        let waiting = |cx: &mut Context<'_>| match queue.upgrade() {
            Some(queue) => queue.poll_waiting(cx),
            None => Poll::Ready(()),
        };
        poll_fn(waiting).await;
        // The tasks whose sockets became ready meanwhile come first.
        crate::yield_now().await;
        let Some(queue) = queue.upgrade() else { return };
        queue.give(TURNS_PER_ROUND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves `bytes` in pieces, and counts the turns in which it did.
    async fn flow(queue: BulkQueue, bytes: u32, pieces: usize, log: Rc<RefCell<Vec<usize>>>, number: usize) {
        let mut turn = BulkTurn::new(&queue);
        for _ in 0..pieces {
            turn.wait().await;
            turn.count(bytes as usize);
            log.borrow_mut().push(number);
        }
    }

    fn run<F: Future>(future: F) -> F::Output {
        crate::Runtime::new().expect("a runtime").run(future)
    }

    async fn all_end(log: &Rc<RefCell<Vec<usize>>>, entries: usize) {
        for _ in 0..10_000 {
            if log.borrow().len() == entries {
                return;
            }
            crate::yield_now().await;
        }
        panic!("{} of {entries}", log.borrow().len());
    }

    #[test]
    fn a_short_flow_never_waits() {
        let mut turn = BulkTurn::new(&BulkQueue::default());
        let cx = Context::from_waker(Waker::noop());
        for _ in 0..8 {
            assert!(turn.poll(&cx).is_ready());
            turn.count(TURN_BYTES as usize / 8);
        }
    }

    #[test]
    fn a_flow_alone_moves_more_in_a_turn() {
        run(async {
            let mut turn = BulkTurn::new(&BulkQueue::start());
            let cx = Context::from_waker(Waker::noop());
            turn.count(TURN_BYTES as usize);
            assert!(turn.poll(&cx).is_ready());
            turn.count((TURN_ALONE_BYTES - TURN_BYTES) as usize);
            assert!(turn.poll(&cx).is_pending());
            assert!(turn.poll(&cx).is_pending());
            crate::yield_now().await;
            crate::yield_now().await;
            assert!(turn.poll(&cx).is_ready());
        });
    }

    #[test]
    fn flows_take_turns() {
        const FLOWS: usize = 20;
        const PIECES: usize = 30;
        let log = Rc::new(RefCell::default());
        run(async {
            let queue = BulkQueue::start();
            for number in 0..FLOWS {
                crate::spawn(flow(queue.clone(), TURN_BYTES, PIECES, log.clone(), number));
            }
            all_end(&log, FLOWS * PIECES).await;
        });
        // The first flow has a longer turn, until the second one comes.
        let log = log.borrow();
        let (first, last) =
            (log.iter().rposition(|flow| *flow == 0), log.iter().position(|flow| *flow == 19));
        assert!(first.expect("it ran") > FLOWS * (PIECES - 5), "{first:?}");
        assert!(last.expect("it ran") < FLOWS * 5, "{last:?}");
    }

    #[test]
    fn a_short_message_waits_for_few_of_many_flows() {
        const FLOWS: usize = 200;
        let log = Rc::new(RefCell::default());
        let longest = run(async {
            let queue = BulkQueue::start();
            for number in 0..FLOWS {
                crate::spawn(flow(queue.clone(), TURN_BYTES, 20, log.clone(), number));
            }
            let mut longest = 0;
            // A new flow has a turn without waiting for it.
            while log.borrow().len() < 2 * FLOWS {
                crate::yield_now().await;
            }
            while log.borrow().len() < FLOWS * 20 {
                let before = log.borrow().len();
                crate::yield_now().await;
                longest = longest.max(log.borrow().len() - before);
            }
            longest
        });
        assert!(longest <= TURNS_PER_ROUND, "{longest} turns in one round");
    }

    #[test]
    fn a_flow_that_is_gone_takes_no_turn() {
        run(async {
            let (cx, queue) = (Context::from_waker(Waker::noop()), BulkQueue::start());
            let mut turns: Vec<_> = (0..100).map(|_| BulkTurn::new(&queue)).collect();
            for turn in &mut turns {
                turn.end(&cx);
            }
            let mut last = turns.pop().expect("one");
            drop(turns);
            crate::yield_now().await;
            crate::yield_now().await;
            assert!(last.poll(&cx).is_ready());
        });
    }

    #[test]
    fn without_a_task_that_gives_turns_flows_run_at_once() {
        let log = Rc::new(RefCell::default());
        run(async {
            crate::spawn(flow(BulkQueue::default(), TURN_ALONE_BYTES, 10, log.clone(), 0));
            all_end(&log, 10).await;
        });
    }
}
