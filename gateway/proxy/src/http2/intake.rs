//! How much of what a connection sends is taken in, and when others have their turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Requests that are taken up: a hundred of them can come in one read.
const REQUESTS: usize = 16;
/// For how many of them one counts of a client that has not taken a whole answer yet. What a thousand new connections ask for
/// at once would all come before the next request of others.
const OF_STRANGER: usize = 8;
/// Bytes that are read, or as many as cost the same.
pub(super) const BYTES: usize = 64 * 1024;
/// Bytes that are read at once of who sends what costs more than its bytes, and of who is new: 64 KiB hold 1,700 heads, and
/// others wait until all that a read has brought is done.
const DENSE: usize = 8 * 1024;
/// Bytes of heads that may wait, as they are in memory: those of some hundred requests of browsers.
pub(super) const HELD: usize = 128 * 1024;

/// What the socket of a connection and its task have to know of each other: how much was taken in since others had their
/// turn, whether a request was ever begun, and whether the meter has had enough. A worker's tasks run one after the other,
/// and hundreds of connections that each have much to say make a good one wait for all of them.
#[derive(Debug)]
pub(super) struct Intake {
    turns: Rc<Turns>,
    requests: Cell<usize>,
    bytes: Cell<usize>,
    /// Whether what came last costs more than its bytes.
    is_dense: Cell<bool>,
    /// Whether it waits for its next turn.
    waits: Cell<bool>,
    has_begun: Cell<bool>,
    exhausted: Cell<bool>,
}

impl Intake {
    pub fn new(turns: Rc<Turns>) -> Rc<Self> {
        Rc::new(Self {
            turns,
            requests: Cell::new(0),
            bytes: Cell::new(0),
            is_dense: Cell::new(true),
            waits: Cell::new(false),
            has_begun: Cell::new(false),
            exhausted: Cell::new(false),
        })
    }

    /// The connection's task runs. If its last turn was not over, it has one.
    pub fn turn(&self) {
        if !self.waits.get() {
            self.requests.set(0);
            self.bytes.set(0);
        }
    }

    /// A request of the connection is begun.
    pub fn request_begins(&self) {
        self.has_begun.set(true);
    }

    /// Whether a request of the connection was ever begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// The connection costs more than it is worth: nothing more is taken in.
    pub fn exhaust(&self) {
        self.exhausted.set(true);
    }

    /// Whether the connection is to be ended.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// A request was taken up. `of_stranger`: the client has not taken a whole answer yet.
    pub fn request(&self, of_stranger: bool) {
        let weight = if of_stranger { OF_STRANGER } else { 1 };
        self.requests.set(self.requests.get() + weight);
    }

    /// Bytes were read that weigh as much as so many more.
    pub fn read(&self, count: usize, extra: u64) {
        let extra = usize::try_from(extra).unwrap_or(usize::MAX);
        self.bytes.set(self.bytes.get().saturating_add(count).saturating_add(extra));
        self.is_dense.set(extra > count);
    }

    /// Bytes that may be read at once.
    pub fn most(&self) -> usize {
        if self.is_dense.get() { DENSE } else { BYTES }
    }

    /// Whether no more is to be read in this turn. So, the task is woken when it has its next one.
    pub fn has_read_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        self.ends(self.bytes.get() >= BYTES, cx)
    }

    /// The same of further requests that are to be taken up.
    pub fn has_begun_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        self.ends(self.requests.get() >= REQUESTS, cx)
    }

    fn ends(self: &Rc<Self>, is_over: bool, cx: &Context<'_>) -> bool {
        if is_over && !self.waits.replace(true) {
            self.turns.queue(self, cx);
        }
        self.waits.get()
    }
}

/// The connections of a worker that have taken all of their turn and have more to say. They have the next one after the
/// other, and all that is ready to run has its own between two of them: who says little does not wait for those who say
/// much, however many they are.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: RefCell<VecDeque<(Weak<Intake>, Waker)>>,
    /// The task that gives the turns, while none waits.
    task: RefCell<Option<Waker>>,
}

/// For so long that a round has taken one more has a turn, up to so many: where much else is to be done, those who say much are
/// not left with nothing. What a round takes is also what they took in it, hence the bound.
const SHARE: Duration = Duration::from_millis(2);
const AT_ONCE: u128 = 8;

impl Turns {
    fn queue(&self, intake: &Rc<Intake>, cx: &Context<'_>) {
        self.waiting.borrow_mut().push_back((Rc::downgrade(intake), cx.waker().clone()));
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Gives turns as long as the worker runs.
    pub async fn give(self: Rc<Self>) {
        loop {
            poll_fn(|cx| self.poll_any(cx)).await;
            let before = tollgate_net::now();
            tollgate_net::yield_now().await;
            self.give_some(tollgate_net::now() - before);
        }
    }

    /// Whether any waits.
    fn poll_any(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.waiting.borrow().is_empty() {
            return Poll::Ready(());
        }
        self.task.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Gives turns to one, and to more when the last round has taken long.
    fn give_some(&self, round: Duration) {
        let most = (1 + round.as_nanos() / SHARE.as_nanos()).min(AT_ONCE);
        for _ in 0..most {
            let Some((intake, task)) = self.next() else { return };
            intake.waits.set(false);
            task.wake();
        }
    }

    /// The next one that has not gone.
    fn next(&self) -> Option<(Rc<Intake>, Waker)> {
        loop {
            let (intake, task) = self.waiting.borrow_mut().pop_front()?;
            if let Some(intake) = intake.upgrade() {
                return Some((intake, task));
            }
        }
    }
}

/// Has the task woken when the others have had their turn, and the kernel was asked what has come meanwhile.
pub(super) fn after_others(cx: &mut Context<'_>) {
    let _ = pin!(tollgate_net::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it may go on, as its task asks when it runs.
    fn has_turn(intake: &Rc<Intake>) -> bool {
        let cx = Context::from_waker(Waker::noop());
        intake.turn();
        !intake.has_begun_enough(&cx) && !intake.has_read_enough(&cx)
    }

    fn take_all(intake: &Rc<Intake>) {
        intake.turn();
        (0..REQUESTS).for_each(|_| intake.request(false));
        assert!(intake.has_begun_enough(&Context::from_waker(Waker::noop())));
    }

    #[test]
    fn what_costs_more_than_its_bytes_ends_a_turn_sooner_and_is_read_in_small_pieces() {
        let cx = Context::from_waker(Waker::noop());
        let intake = Intake::new(Rc::default());
        assert_eq!(intake.most(), DENSE, "nothing is known of it");
        intake.read(BYTES / 2, 100);
        assert!(!intake.has_read_enough(&cx));
        assert_eq!(intake.most(), BYTES);
        intake.read(DENSE, BYTES as u64 / 2);
        assert!(!intake.has_begun_enough(&cx), "what was read is begun");
        assert!(intake.has_read_enough(&cx));
        assert_eq!(intake.most(), DENSE);
    }

    #[test]
    fn who_is_new_has_a_small_turn() {
        let cx = Context::from_waker(Waker::noop());
        let intake = Intake::new(Rc::default());
        intake.request(true);
        assert!(!intake.has_begun_enough(&cx));
        intake.request(true);
        assert!(!intake.has_read_enough(&cx), "what follows is read: it may be all that there is");
        assert!(intake.has_begun_enough(&cx));
    }

    #[test]
    fn turns_are_given_one_after_the_other() {
        let cx = Context::from_waker(Waker::noop());
        let turns = Rc::new(Turns::default());
        let [one, gone, other] = [(); 3].map(|()| Intake::new(turns.clone()));
        [&one, &gone, &other].into_iter().for_each(take_all);
        drop(gone);
        assert!(!has_turn(&one), "to run for another reason is no turn");
        assert_eq!(turns.waiting.borrow().len(), 3, "who waits is there once");

        turns.give_some(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [true, false]);
        take_all(&one);
        turns.give_some(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [false, true]);
        turns.give_some(Duration::ZERO);
        assert!(has_turn(&one) && turns.poll_any(&cx).is_pending());
    }

    #[test]
    fn where_rounds_are_long_more_than_one_has_a_turn() {
        let turns = Rc::new(Turns::default());
        let all: Vec<_> = (0..20).map(|_| Intake::new(turns.clone())).collect();
        all.iter().for_each(take_all);
        for (round, left) in [(SHARE / 2, 19), (SHARE * 2, 16), (SHARE * 100, 8)] {
            turns.give_some(round);
            assert_eq!(turns.waiting.borrow().len(), left, "{round:?}");
        }
    }
}
