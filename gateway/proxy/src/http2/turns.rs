//! Who of a worker's connections has its turn when.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::intake::Intake;
use super::shared::Shared;

/// New clients of which something is read in a round: all others of them that have something to say wait for a turn. A
/// thousand that say one word each make a good one wait as long as a few that say much.
const NEW: usize = 2;
/// For so long that a round has taken twice as many have a turn, and so on, up to so many times: where much else is to be
/// done, those who wait are not left with nothing. What a round takes is also what they took in it, hence the bound.
const SHARE: Duration = Duration::from_millis(2);
const AT_ONCE: usize = 8;
/// What a round takes, past which new clients that have not waited for their turn begin one request in it. Each can cost a
/// connection to an endpoint, and good clients meet several rounds in one request.
const ENOUGH: Duration = Duration::from_micros(250);
/// Requests of connections that have ended of which as much is told in a round: to close a connection to an endpoint takes
/// 10 to 20 us, and a client that is thrown out can have a hundred under way.
const ENDS: usize = 8;

/// What a connection has of the turns that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has had no need of one.
    Free,
    /// It waits for its next one.
    Awaited,
    /// It has one, and its task has not run since.
    Given,
    /// Its task runs because of it.
    Taken,
}

/// The connections of a worker that have taken all of their turn and have more to say, and those of new clients that come
/// when enough of these were heard. They have the next one after the other, and all that is ready to run has its own between
/// two of them: who says little does not wait for those who say much, nor who is known for those who are new, however many
/// they are.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    known: Queue,
    /// New clients that have taken all of their turn and have more to say.
    new: Queue,
    /// Those that have not, and come when enough were heard: who asks for one thing after the other does not wait for those who
    /// ask for a hundred at once, as sparse flows do not in FQ-CoDel (RFC 8290, 4.2).
    late: Queue,
    /// Those that have ended, while streams wait that do not know it.
    ended: RefCell<VecDeque<Weak<Shared>>>,
    /// New clients that were heard in this round.
    heard: Cell<usize>,
    /// When this round has begun, if one has.
    begun: Cell<Option<Instant>>,
    /// The task that ends rounds, while none has begun.
    task: RefCell<Option<Waker>>,
}

/// Those that wait for a turn, each once. Some have gone.
#[derive(Debug, Default)]
struct Queue(RefCell<VecDeque<(Weak<Intake>, Waker)>>);

impl Turns {
    /// `late`: it has not taken all of a turn.
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

    /// Something was read of a new client that had not waited for it.
    pub(super) fn new_one_is_heard(&self) {
        self.heard.set(self.heard.get() + 1);
        self.wake();
    }

    /// Whether no other new client is to be heard in this round.
    pub(super) fn have_heard_enough(&self) -> bool {
        self.heard.get() >= NEW
    }

    /// Whether this round has taken so long that new clients are to begin no more in it.
    pub(super) fn have_taken_enough(&self) -> bool {
        self.begun.get().is_some_and(|begun| tollgate_net::now() - begun >= ENOUGH)
    }

    /// The streams of a connection that has ended are to hear of it.
    pub(super) fn ends(&self, connection: &Rc<Shared>) {
        self.ended.borrow_mut().push_back(Rc::downgrade(connection));
        self.wake();
    }

    /// Gives turns as long as the worker runs.
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

    /// Whether any waits, or may have to.
    fn poll_round(&self, cx: &Context<'_>) -> Poll<()> {
        let some_wait = [&self.known, &self.new, &self.late].into_iter().any(|queue| !queue.is_empty());
        if some_wait || self.heard.get() > 0 || !self.ended.borrow().is_empty() {
            return Poll::Ready(());
        }
        self.task.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// A round is over. Gives turns to one client and to some that are new, and to more when it has taken long.
    fn give_some(&self, round: Duration) {
        let rounds = 1 + usize::try_from(round.as_nanos() / SHARE.as_nanos()).unwrap_or(AT_ONCE);
        let rounds = rounds.min(AT_ONCE);
        self.known.give(rounds);
        self.heard.set(self.give_new(NEW * rounds));
        self.tell_of_ends(ENDS * rounds);
    }

    /// Gives turns to so many new clients, half of them to those that came late, if there are as many. Says to how many.
    fn give_new(&self, most: usize) -> usize {
        let late = self.late.give(most / 2);
        let new = self.new.give(most - late);
        late + new + self.late.give(most - late - new)
    }

    /// Tells so many streams that their connection has ended, if as many wait.
    fn tell_of_ends(&self, most: usize) {
        let mut left = most;
        let mut ended = self.ended.borrow_mut();
        while left > 0
            && let Some(next) = ended.front()
        {
            let told = next.upgrade().map_or(0, |connection| connection.connection.tell_of_end(left));
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

    /// Gives turns to so many, if there are as many. Says to how many.
    fn give(&self, most: usize) -> usize {
        for given in 0..most {
            let Some((intake, task)) = self.next() else { return given };
            intake.has_a_turn();
            task.wake();
        }
        most
    }

    /// The next one that has not gone.
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

    /// Whether it may go on, as its task asks when it runs.
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

    /// Has its task run, which reads a byte if it may.
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

        // Those that wait come before those that were heard, if these have more to say.
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
