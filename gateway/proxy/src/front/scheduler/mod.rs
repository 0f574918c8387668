//! The scheduler of HTTP/2 input: which of a worker's client connections is processed next.
//!
//! A *round* lets every ready task of the worker run once. Connections that have spent their [`FrameBudget`]
//! budget, or are new and come when the round has served enough new clients, wait in queues. After each
//! round, [`Scheduler::give`] gives a turn to one trusted connection and to a few new ones. So a client that
//! sends little does not wait for clients that send much, and a trusted client does not wait for new ones,
//! however many there are.

pub(crate) mod frame_budget;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use self::frame_budget::FrameBudget;

/// How many untrusted connections are read in one round; the others queue. A thousand of them that send one
/// frame each delay a trusted client as long as a few that send much.
const NEW_CLIENTS_PER_ROUND: usize = 2;
/// A round that took n times `ROUND_SHARE` gives n + 1 turns where a short round gives one, and at most
/// `ROUNDS_AT_ONCE_MAX`. Otherwise a worker with much other work would leave the waiting connections almost
/// nothing. The bound exists because waiting connections also lengthen the round.
const ROUND_SHARE: Duration = Duration::from_millis(2);
const ROUNDS_AT_ONCE_MAX: usize = 8;
/// The length of a round after which an untrusted client that did not wait for its turn starts at most one
/// request in it. Each request can cost a connection to an endpoint, and one request of a trusted client
/// lasts several rounds.
const ROUND_LATE_AFTER: Duration = Duration::from_micros(250);
/// How many streams of ended connections are notified in one round. Each closes its connection to an
/// endpoint, which takes 10 to 20 us, and an ended client can have a hundred requests in progress.
const NOTIFIED_STREAMS: usize = 8;

/// The state of a connection in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnState {
    /// It needs no turn.
    Free,
    /// It is queued for its next turn.
    Awaited,
    /// It was given a turn, and its task has not run since.
    Given,
    /// Its task runs in the turn that it waited for.
    Taken,
}

/// A closed connection of which some streams are still running.
pub(crate) trait EndedConnection {
    /// Notifies at most `max_count` streams. Returns how many it notified.
    fn notify_streams(&self, max_count: usize) -> usize;
}

/// The queues of a worker's HTTP/2 connections. All three hold connections in the order in which they came.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// Trusted clients that have used up their turn and have more to process.
    known: TurnQueue,
    /// Untrusted clients that have used up their turn and have more to process.
    new: TurnQueue,
    /// Untrusted clients that have not used up a turn and came when the round had served enough. A client
    /// that sends one request after another does not wait for clients that send a hundred at once: FQ-CoDel
    /// treats sparse flows alike (RFC 8290, 4.2).
    late: TurnQueue,
    /// Ended connections whose streams do not all know it yet.
    ended: RefCell<VecDeque<Weak<dyn EndedConnection>>>,
    /// Untrusted clients that were read in this round.
    new_clients_read: Cell<usize>,
    /// When this round started, if one is in progress.
    round_started: Cell<Option<Instant>>,
    /// The waker of the task that ends rounds, while no round is in progress.
    task: RefCell<Option<Waker>>,
}

/// Connections that wait for a turn, each once. Some may have closed since.
#[derive(Debug, Default)]
struct TurnQueue(RefCell<VecDeque<(Weak<FrameBudget>, Waker)>>);

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scheduler")
    }
}

impl Scheduler {
    /// Queues a connection. `late`: it has not used up a turn.
    pub(super) fn queue(&self, frame_budget: &Rc<FrameBudget>, late: bool, cx: &Context<'_>) {
        let queue = match frame_budget.is_new() {
            true if late => &self.late,
            true => &self.new,
            false => &self.known,
        };
        queue.0.borrow_mut().push_back((Rc::downgrade(frame_budget), cx.waker().clone()));
        self.wake();
    }

    fn wake(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Counts an untrusted client that was read without having waited.
    pub(super) fn count_new_client(&self) {
        self.new_clients_read.set(self.new_clients_read.get() + 1);
        self.wake();
    }

    /// Returns whether no other untrusted client may be read in this round.
    pub(super) fn new_clients_are_enough(&self) -> bool {
        self.new_clients_read.get() >= NEW_CLIENTS_PER_ROUND
    }

    /// Returns whether this round is so late that untrusted clients may start no more requests.
    pub(super) fn is_round_late(&self) -> bool {
        self.round_started
            .get()
            .is_some_and(|round_started| tollgate_net::now() - round_started >= ROUND_LATE_AFTER)
    }

    /// Queues an ended connection, so that its streams are notified.
    pub(crate) fn connection_ended(&self, connection: Rc<dyn EndedConnection>) {
        self.ended.borrow_mut().push_back(Rc::downgrade(&connection));
        self.wake();
    }

    /// Gives turns for as long as the worker runs.
    pub async fn give(self: Rc<Self>) {
        loop {
            poll_fn(|cx| self.poll_round(cx)).await;
            let round_started = tollgate_net::now();
            self.round_started.set(Some(round_started));
            tollgate_net::yield_now().await;
            self.round_started.set(None);
            self.end_round(tollgate_net::now() - round_started);
        }
    }

    /// Ready if any connection waits, or if this round counts against new clients.
    fn poll_round(&self, cx: &Context<'_>) -> Poll<()> {
        let some_wait = [&self.known, &self.new, &self.late].into_iter().any(|queue| !queue.is_empty());
        if some_wait || self.new_clients_read.get() > 0 || !self.ended.borrow().is_empty() {
            return Poll::Ready(());
        }
        self.task.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Called when a round is over. Gives turns to one trusted client and to `NEW_CLIENTS_PER_ROUND`
    /// untrusted ones, and to more if the round took long.
    fn end_round(&self, round: Duration) {
        let rounds =
            1 + usize::try_from(round.as_nanos() / ROUND_SHARE.as_nanos()).unwrap_or(ROUNDS_AT_ONCE_MAX);
        let rounds = rounds.min(ROUNDS_AT_ONCE_MAX);
        self.known.give(rounds);
        self.new_clients_read.set(self.give_to_new(NEW_CLIENTS_PER_ROUND * rounds));
        self.notify_ended(NOTIFIED_STREAMS * rounds);
    }

    /// Gives turns to at most `max_count` untrusted clients, half of them from `late` if it has enough.
    /// Returns how many got one.
    fn give_to_new(&self, max_count: usize) -> usize {
        let late = self.late.give(max_count / 2);
        let new = self.new.give(max_count - late);
        late + new + self.late.give(max_count - late - new)
    }

    /// Notifies at most `max_count` streams that their connection is over.
    fn notify_ended(&self, max_count: usize) {
        let mut left = max_count;
        let mut ended = self.ended.borrow_mut();
        while left > 0
            && let Some(next) = ended.front()
        {
            let notified = next.upgrade().map_or(0, |connection| connection.notify_streams(left));
            if notified < left {
                ended.pop_front();
            }
            left -= notified;
        }
    }
}

impl TurnQueue {
    fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Gives turns to at most `max_count` connections. Returns how many got one.
    fn give(&self, max_count: usize) -> usize {
        for given in 0..max_count {
            let Some((frame_budget, task)) = self.next() else { return given };
            frame_budget.grant_turn();
            task.wake();
        }
        max_count
    }

    /// Removes and returns the next connection that still exists.
    fn next(&self) -> Option<(Rc<FrameBudget>, Waker)> {
        loop {
            let (frame_budget, task) = self.0.borrow_mut().pop_front()?;
            if let Some(frame_budget) = frame_budget.upgrade() {
                return Some((frame_budget, task));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::frame_budget::tests::{known, waker};
    use super::frame_budget::{ClientTrust, REQUESTS_PER_TURN};
    use super::*;

    fn news(scheduler: &Rc<Scheduler>, count: usize) -> Vec<Rc<FrameBudget>> {
        (0..count).map(|_| FrameBudget::new(scheduler.clone())).collect()
    }

    /// Returns whether the connection may go on, as its task asks when it runs.
    fn has_turn(frame_budget: &Rc<FrameBudget>) -> bool {
        frame_budget.turn();
        !frame_budget.request_budget_is_spent(&waker()) && !frame_budget.byte_budget_is_spent(&waker())
    }

    fn waiting(queue: &TurnQueue) -> usize {
        queue.0.borrow().len()
    }

    fn take_all(frame_budget: &Rc<FrameBudget>) {
        frame_budget.turn();
        (0..REQUESTS_PER_TURN).for_each(|_| frame_budget.request());
        assert!(frame_budget.request_budget_is_spent(&waker()));
    }

    /// Runs the connection's task, which reads a byte if it may.
    fn hears(frame_budget: &Rc<FrameBudget>) -> bool {
        let has_turn = has_turn(frame_budget);
        if has_turn {
            frame_budget.read(1, 0);
            assert!(!frame_budget.byte_budget_is_spent(&waker()), "there may be more of it");
        }
        has_turn
    }

    #[test]
    fn turns_are_given_one_after_the_other() {
        let scheduler = Rc::new(Scheduler::default());
        let [one, gone, other] = [(); 3].map(|()| known(&scheduler));
        [&one, &gone, &other].into_iter().for_each(take_all);
        drop(gone);
        assert!(!has_turn(&one), "to run for another reason is no turn");
        assert_eq!(waiting(&scheduler.known), 3, "who waits is there once");

        scheduler.end_round(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [true, false]);
        take_all(&one);
        scheduler.end_round(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [false, true]);
        scheduler.end_round(Duration::ZERO);
        assert!(has_turn(&one) && scheduler.poll_round(&waker()).is_pending());
    }

    #[test]
    fn long_rounds_serve_several_connections() {
        let scheduler = Rc::new(Scheduler::default());
        let all: Vec<_> = (0..20).map(|_| known(&scheduler)).collect();
        all.iter().for_each(take_all);
        for (round, left) in [(ROUND_SHARE / 2, 19), (ROUND_SHARE * 2, 16), (ROUND_SHARE * 100, 8)] {
            scheduler.end_round(round);
            assert_eq!(waiting(&scheduler.known), left, "{round:?}");
        }
    }

    #[test]
    fn a_round_serves_few_new_clients_and_all_trusted_ones() {
        let scheduler = Rc::new(Scheduler::default());
        let all = news(&scheduler, 3 * NEW_CLIENTS_PER_ROUND);
        let new_clients_read = |all: &[Rc<FrameBudget>]| all.iter().filter(|one| hears(one)).count();
        assert_eq!(new_clients_read(&all), NEW_CLIENTS_PER_ROUND);
        assert!((0..3 * NEW_CLIENTS_PER_ROUND).all(|_| hears(&known(&scheduler))));

        // Connections that wait are served before connections that were served already and have more.
        scheduler.end_round(Duration::ZERO);
        assert_eq!(
            [
                new_clients_read(&all[NEW_CLIENTS_PER_ROUND..2 * NEW_CLIENTS_PER_ROUND]),
                new_clients_read(&all[2 * NEW_CLIENTS_PER_ROUND..]),
                new_clients_read(&all[..NEW_CLIENTS_PER_ROUND])
            ],
            [NEW_CLIENTS_PER_ROUND, 0, 0]
        );
        scheduler.end_round(Duration::ZERO);
        assert_eq!(
            [
                new_clients_read(&all[NEW_CLIENTS_PER_ROUND..2 * NEW_CLIENTS_PER_ROUND]),
                new_clients_read(&all[2 * NEW_CLIENTS_PER_ROUND..]),
                new_clients_read(&all[..NEW_CLIENTS_PER_ROUND])
            ],
            [0, NEW_CLIENTS_PER_ROUND, 0]
        );
    }

    #[test]
    fn trusted_clients_do_not_wait_for_new_ones() {
        let scheduler = Rc::new(Scheduler::default());
        news(&scheduler, 100).iter().for_each(|one| {
            hears(one);
        });
        let one = known(&scheduler);
        take_all(&one);
        scheduler.end_round(Duration::ZERO);
        assert!(has_turn(&one));
    }

    #[test]
    fn quiet_new_clients_do_not_wait_for_busy_new_ones() {
        let scheduler = Rc::new(Scheduler::default());
        let all = news(&scheduler, 10);
        for frame_budget in &all {
            scheduler.new_clients_read.set(0);
            hears(frame_budget);
            frame_budget.request();
            assert!(frame_budget.request_budget_is_spent(&waker()));
        }
        scheduler.new_clients_read.set(NEW_CLIENTS_PER_ROUND);
        let late = news(&scheduler, 2);
        assert!(!late.iter().any(hears));
        scheduler.end_round(Duration::ZERO);
        assert_eq!(
            [hears(&late[0]), hears(&late[1]), has_turn(&all[0]), has_turn(&all[1])],
            [true, false, true, false]
        );
        scheduler.end_round(Duration::ZERO);
        assert!(hears(&late[1]) && has_turn(&all[1]));
    }

    #[test]
    fn in_a_long_round_a_new_client_starts_one_request() {
        let scheduler = Rc::new(Scheduler::default());
        let (one, other) = (news(&scheduler, 1).remove(0), known(&scheduler));
        one.set_trust(ClientTrust::New);
        let started = |frame_budget: &Rc<FrameBudget>| {
            frame_budget.turn();
            let started = (0..3).take_while(|_| !frame_budget.request_budget_is_spent(&waker()));
            started.map(|_| frame_budget.request()).count()
        };
        assert_eq!([started(&one), started(&other)], [3, 3]);
        scheduler.round_started.set(Some(tollgate_net::now() - ROUND_LATE_AFTER));
        assert_eq!([started(&one), started(&other)], [1, 3]);
        assert_eq!(waiting(&scheduler.new), 1);
    }

    #[test]
    fn a_round_ends_without_waiting_connections() {
        let scheduler = Rc::new(Scheduler::default());
        assert!(scheduler.poll_round(&waker()).is_pending());
        assert!(news(&scheduler, NEW_CLIENTS_PER_ROUND).iter().all(hears));
        assert!(scheduler.poll_round(&waker()).is_ready());
        scheduler.end_round(Duration::ZERO);
        assert!(scheduler.poll_round(&waker()).is_pending());
        assert!(news(&scheduler, NEW_CLIENTS_PER_ROUND).iter().all(hears));
    }
}
