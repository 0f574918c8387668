//! The scheduler of HTTP/2 input: which of a worker's client connections is processed next.
//!
//! A *round* lets every ready task of the worker run once. Connections that have spent their [`Intake`]
//! budget, or are new and come when the round has served enough new clients, wait in queues. After each
//! round, [`Turns::give`] gives a turn to one trusted connection and to a few new ones. So a client that
//! sends little does not wait for clients that send much, and a trusted client does not wait for new ones,
//! however many there are.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::intake::Intake;
use super::shared::Shared;

/// How many untrusted connections are read in one round; the others queue. A thousand of them that send one
/// frame each delay a trusted client as long as a few that send much.
const NEW: usize = 2;
/// After a round that took n times `SHARE`, n + 1 times as many connections get a turn, at most `AT_ONCE`
/// times as many. Otherwise a worker with much other work would leave the waiting connections almost nothing.
/// The bound exists because waiting connections also lengthen the round.
const SHARE: Duration = Duration::from_millis(2);
const AT_ONCE: usize = 8;
/// The length of a round after which an untrusted client that did not wait for its turn starts at most one
/// request in it. Each request can cost a connection to an endpoint, and one request of a trusted client
/// lasts several rounds.
const ENOUGH: Duration = Duration::from_micros(250);
/// How many streams of ended connections are notified in one round. Each closes its connection to an
/// endpoint, which takes 10 to 20 us, and an ended client can have a hundred requests in progress.
const ENDS: usize = 8;

/// The state of a connection in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It needs no turn.
    Free,
    /// It is queued for its next turn.
    Awaited,
    /// It was given a turn, and its task has not run since.
    Given,
    /// Its task runs in the turn that it waited for.
    Taken,
}

/// The queues of a worker's HTTP/2 connections. All three hold connections in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Trusted clients that have used up their turn and have more to process.
    known: Queue,
    /// Untrusted clients that have used up their turn and have more to process.
    new: Queue,
    /// Untrusted clients that have not used up a turn and came when the round had served enough. A client
    /// that sends one request after another does not wait for clients that send a hundred at once: FQ-CoDel
    /// treats sparse flows alike (RFC 8290, 4.2).
    late: Queue,
    /// Ended connections whose streams do not all know it yet.
    ended: RefCell<VecDeque<Weak<Shared>>>,
    /// Untrusted clients that were read in this round.
    heard: Cell<usize>,
    /// When this round started, if one is in progress.
    begun: Cell<Option<Instant>>,
    /// The waker of the task that ends rounds, while no round is in progress.
    task: RefCell<Option<Waker>>,
}

/// Connections that wait for a turn, each once. Some may have closed since.
#[derive(Debug, Default)]
struct Queue(RefCell<VecDeque<(Weak<Intake>, Waker)>>);

impl Turns {
    /// Queues a connection. `late`: it has not used up a turn.
    pub(super) fn queue(&self, intake: &Rc<Intake>, late: bool, cx: &Context<'_>) {
        let queue = match intake.is_new() {
            true if late => &self.late,
            true => &self.new,
            false => &self.known,
        };
        queue.0.borrow_mut().push_back((Rc::downgrade(intake), cx.waker().clone()));
        self.wake();
    }

    fn wake(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Counts an untrusted client that was read without having waited.
    pub(super) fn new_one_is_heard(&self) {
        self.heard.set(self.heard.get() + 1);
        self.wake();
    }

    /// Returns whether no other untrusted client may be read in this round.
    pub(super) fn have_heard_enough(&self) -> bool {
        self.heard.get() >= NEW
    }

    /// Returns whether this round is so late that untrusted clients may start no more requests.
    pub(super) fn have_taken_enough(&self) -> bool {
        self.begun.get().is_some_and(|begun| tollgate_net::now() - begun >= ENOUGH)
    }

    /// Queues an ended connection, so that its streams are notified.
    pub(super) fn ends(&self, connection: &Rc<Shared>) {
        self.ended.borrow_mut().push_back(Rc::downgrade(connection));
        self.wake();
    }

    /// Gives turns for as long as the worker runs.
    pub async fn give(self: Rc<Self>) {
        loop {
            poll_fn(|cx| self.poll_round(cx)).await;
            let begun = tollgate_net::now();
            self.begun.set(Some(begun));
            tollgate_net::yield_now().await;
            self.begun.set(None);
            self.give_some(tollgate_net::now() - begun);
        }
    }

    /// Ready if any connection waits, or if this round counts against new clients.
    fn poll_round(&self, cx: &Context<'_>) -> Poll<()> {
        let some_wait = [&self.known, &self.new, &self.late].into_iter().any(|queue| !queue.is_empty());
        if some_wait || self.heard.get() > 0 || !self.ended.borrow().is_empty() {
            return Poll::Ready(());
        }
        self.task.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Called when a round is over. Gives turns to one trusted client and to `NEW` untrusted ones, and to
    /// more if the round took long.
    fn give_some(&self, round: Duration) {
        let rounds = 1 + usize::try_from(round.as_nanos() / SHARE.as_nanos()).unwrap_or(AT_ONCE);
        let rounds = rounds.min(AT_ONCE);
        self.known.give(rounds);
        self.heard.set(self.give_new(NEW * rounds));
        self.tell_of_ends(ENDS * rounds);
    }

    /// Gives turns to at most `most` untrusted clients, half of them from `late` if it has enough. Returns
    /// how many got one.
    fn give_new(&self, most: usize) -> usize {
        let late = self.late.give(most / 2);
        let new = self.new.give(most - late);
        late + new + self.late.give(most - late - new)
    }

    /// Notifies at most `most` streams that their connection is over.
    fn tell_of_ends(&self, most: usize) {
        let mut left = most;
        let mut ended = self.ended.borrow_mut();
        while left > 0
            && let Some(next) = ended.front()
        {
            let told = next.upgrade().map_or(0, |connection| connection.connection.wake_ended_streams(left));
            if told < left {
                ended.pop_front();
            }
            left -= told;
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Gives turns to at most `most` connections. Returns how many got one.
    fn give(&self, most: usize) -> usize {
        for given in 0..most {
            let Some((intake, task)) = self.next() else { return given };
            intake.has_a_turn();
            task.wake();
        }
        most
    }

    /// Removes and returns the next connection that still exists.
    fn next(&self) -> Option<(Rc<Intake>, Waker)> {
        loop {
            let (intake, task) = self.0.borrow_mut().pop_front()?;
            if let Some(intake) = intake.upgrade() {
                return Some((intake, task));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::intake::tests::{known, waker};
    use super::super::intake::{REQUESTS, Standing};
    use super::*;

    fn news(turns: &Rc<Turns>, count: usize) -> Vec<Rc<Intake>> {
        (0..count).map(|_| Intake::new(turns.clone())).collect()
    }

    /// Returns whether the connection may go on, as its task asks when it runs.
    fn has_turn(intake: &Rc<Intake>) -> bool {
        intake.turn();
        !intake.has_begun_enough(&waker()) && !intake.has_read_enough(&waker())
    }

    fn waiting(queue: &Queue) -> usize {
        queue.0.borrow().len()
    }

    fn take_all(intake: &Rc<Intake>) {
        intake.turn();
        (0..REQUESTS).for_each(|_| intake.request());
        assert!(intake.has_begun_enough(&waker()));
    }

    /// Runs the connection's task, which reads a byte if it may.
    fn hears(intake: &Rc<Intake>) -> bool {
        let has_turn = has_turn(intake);
        if has_turn {
            intake.read(1, 0);
            assert!(!intake.has_read_enough(&waker()), "there may be more of it");
        }
        has_turn
    }

    #[test]
    fn turns_are_given_one_after_the_other() {
        let turns = Rc::new(Turns::default());
        let [one, gone, other] = [(); 3].map(|()| known(&turns));
        [&one, &gone, &other].into_iter().for_each(take_all);
        drop(gone);
        assert!(!has_turn(&one), "to run for another reason is no turn");
        assert_eq!(waiting(&turns.known), 3, "who waits is there once");

        turns.give_some(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [true, false]);
        take_all(&one);
        turns.give_some(Duration::ZERO);
        assert_eq!([has_turn(&one), has_turn(&other)], [false, true]);
        turns.give_some(Duration::ZERO);
        assert!(has_turn(&one) && turns.poll_round(&waker()).is_pending());
    }

    #[test]
    fn where_rounds_are_long_more_than_one_has_a_turn() {
        let turns = Rc::new(Turns::default());
        let all: Vec<_> = (0..20).map(|_| known(&turns)).collect();
        all.iter().for_each(take_all);
        for (round, left) in [(SHARE / 2, 19), (SHARE * 2, 16), (SHARE * 100, 8)] {
            turns.give_some(round);
            assert_eq!(waiting(&turns.known), left, "{round:?}");
        }
    }

    #[test]
    fn of_new_clients_so_many_are_heard_in_a_round_and_of_known_ones_all() {
        let turns = Rc::new(Turns::default());
        let all = news(&turns, 3 * NEW);
        let heard = |all: &[Rc<Intake>]| all.iter().filter(|one| hears(one)).count();
        assert_eq!(heard(&all), NEW);
        assert!((0..3 * NEW).all(|_| hears(&known(&turns))));

        // Connections that wait are served before connections that were served already and have more.
        turns.give_some(Duration::ZERO);
        assert_eq!([heard(&all[NEW..2 * NEW]), heard(&all[2 * NEW..]), heard(&all[..NEW])], [NEW, 0, 0]);
        turns.give_some(Duration::ZERO);
        assert_eq!([heard(&all[NEW..2 * NEW]), heard(&all[2 * NEW..]), heard(&all[..NEW])], [0, NEW, 0]);
    }

    #[test]
    fn who_is_known_does_not_wait_for_those_who_are_new() {
        let turns = Rc::new(Turns::default());
        news(&turns, 100).iter().for_each(|one| {
            hears(one);
        });
        let one = known(&turns);
        take_all(&one);
        turns.give_some(Duration::ZERO);
        assert!(has_turn(&one));
    }

    #[test]
    fn who_is_new_and_says_little_does_not_wait_for_those_who_are_new_and_say_much() {
        let turns = Rc::new(Turns::default());
        let all = news(&turns, 10);
        for intake in &all {
            turns.heard.set(0);
            hears(intake);
            intake.request();
            assert!(intake.has_begun_enough(&waker()));
        }
        turns.heard.set(NEW);
        let late = news(&turns, 2);
        assert!(!late.iter().any(hears));
        turns.give_some(Duration::ZERO);
        assert_eq!(
            [hears(&late[0]), hears(&late[1]), has_turn(&all[0]), has_turn(&all[1])],
            [true, false, true, false]
        );
        turns.give_some(Duration::ZERO);
        assert!(hears(&late[1]) && has_turn(&all[1]));
    }

    #[test]
    fn in_a_round_that_takes_long_who_is_new_begins_one_request() {
        let turns = Rc::new(Turns::default());
        let (one, other) = (news(&turns, 1).remove(0), known(&turns));
        one.client_is(Standing::New);
        let begun = |intake: &Rc<Intake>| {
            intake.turn();
            let begun = (0..3).take_while(|_| !intake.has_begun_enough(&waker()));
            begun.map(|_| intake.request()).count()
        };
        assert_eq!([begun(&one), begun(&other)], [3, 3]);
        turns.begun.set(Some(tollgate_net::now() - ENOUGH));
        assert_eq!([begun(&one), begun(&other)], [1, 3]);
        assert_eq!(waiting(&turns.new), 1);
    }

    #[test]
    fn a_round_ends_although_nobody_waits() {
        let turns = Rc::new(Turns::default());
        assert!(turns.poll_round(&waker()).is_pending());
        assert!(news(&turns, NEW).iter().all(hears));
        assert!(turns.poll_round(&waker()).is_ready());
        turns.give_some(Duration::ZERO);
        assert!(turns.poll_round(&waker()).is_pending());
        assert!(news(&turns, NEW).iter().all(hears));
    }
}
