//! How much of what a connection sends is taken in before others have their turn.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;

use super::turns::{Turn, Turns};

/// Requests that are taken up: a hundred of them can come in one read.
pub(super) const REQUESTS: usize = 16;
/// Bytes that are read, or as many as cost the same.
pub(super) const BYTES: usize = 64 * 1024;
/// Bytes that are read at once of who is not known, or has sent what costs more than its bytes: what his turn is too short for
/// waits in memory.
const DENSE: usize = 16 * 1024;
/// How many times as much heads of new clients weigh as those of others, and their requests: what a thousand ask for at once
/// would all come before the next request of others. Of a stranger, one request is a turn: others are heard, and more of what
/// it has sent is seen, before it begins the next.
const WEIGHT: usize = 4;

/// What is known of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing: what it asks for is begun only once more of what it has sent was looked at. Floods begin with requests, as many as
    /// they may, and each can cost a connection to an endpoint.
    Stranger,
    /// It has taken little yet: it may be one of a thousand that ask and do not listen, which are not to come before those that
    /// do.
    New,
    Known,
}

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
    turn: Cell<Turn>,
    client: Cell<Standing>,
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
            turn: Cell::new(Turn::Free),
            client: Cell::new(Standing::Stranger),
            has_begun: Cell::new(false),
            exhausted: Cell::new(false),
        })
    }

    /// The connection's task runs. If its last turn was not over, it has one.
    pub fn turn(&self) {
        let turn = match self.turn.get() {
            Turn::Awaited => return,
            Turn::Given => Turn::Taken,
            Turn::Free | Turn::Taken => Turn::Free,
        };
        self.turn.set(turn);
        self.requests.set(0);
        self.bytes.set(0);
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

    /// What is known of the client by now.
    pub fn client_is(&self, standing: Standing) {
        self.client.set(standing);
    }

    /// A request is begun.
    pub fn request(&self) {
        self.has_begun.set(true);
        let weight = match self.client.get() {
            Standing::Stranger => REQUESTS,
            Standing::New => WEIGHT,
            Standing::Known => 1,
        };
        self.requests.set(self.requests.get() + weight);
    }

    /// A request was refused.
    pub fn refusal(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Bytes were read that weigh as much as so many more.
    pub fn read(&self, count: usize, extra: u64) {
        if self.begins_without_a_turn() {
            self.turns.new_one_is_heard();
        }
        let extra = usize::try_from(extra).unwrap_or(usize::MAX);
        self.is_dense.set(extra > count);
        let weight = if extra > count { self.weight() } else { 1 };
        let bytes = count.saturating_add(extra).saturating_mul(weight);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// What its bytes count for where they cost more than themselves.
    fn weight(&self) -> usize {
        if self.is_new() { WEIGHT } else { 1 }
    }

    /// What its bytes may yet cost beside themselves in this turn.
    pub fn left(&self) -> u64 {
        (BYTES.saturating_sub(self.bytes.get()) / self.weight()).max(1) as u64
    }

    /// Bytes that may be read at once.
    pub fn most(&self) -> usize {
        if self.is_new() || self.is_dense.get() { DENSE } else { BYTES }
    }

    /// Whether it is to wait if there is something to be done: enough of new clients were heard in this round.
    pub fn comes_late(&self) -> bool {
        self.begins_without_a_turn() && self.turns.have_heard_enough()
    }

    /// Whether it is a new client that has not waited for its turn, and nothing was read of it since others had theirs.
    fn begins_without_a_turn(&self) -> bool {
        self.is_new() && self.bytes.get() == 0 && self.turn.get() == Turn::Free
    }

    /// Whether no more is to be read in this turn. So, the task is woken when it has its next one.
    pub fn has_read_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.bytes.get() >= BYTES {
            self.wait(false, cx);
        }
        self.waits()
    }

    /// The same of further requests that are to be taken up.
    pub fn has_begun_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.requests.get() >= REQUESTS || self.has_taken_long() {
            self.wait(false, cx);
        } else if self.comes_late() {
            self.wait(true, cx);
        }
        self.waits()
    }

    /// Whether it is a new client that has begun something in a round which has taken enough, and has not waited for it.
    fn has_taken_long(&self) -> bool {
        let has_waited = self.turn.get() == Turn::Taken;
        self.is_new() && !has_waited && self.requests.get() > 0 && self.turns.have_taken_enough()
    }

    fn waits(&self) -> bool {
        self.turn.get() == Turn::Awaited
    }

    /// It has its next turn: its task runs soon.
    pub fn has_a_turn(&self) {
        self.turn.set(Turn::Given);
    }

    /// Whether the client is not known yet.
    pub fn is_new(&self) -> bool {
        self.client.get() != Standing::Known
    }

    /// Waits for the next turn; `late`: it has not taken all of one.
    pub fn wait(self: &Rc<Self>, late: bool, cx: &Context<'_>) {
        if self.turn.replace(Turn::Awaited) != Turn::Awaited {
            self.turns.queue(self, late, cx);
        }
    }
}

/// Has the task woken when the others have had their turn, and the kernel was asked what has come meanwhile.
pub(super) fn after_others(cx: &mut Context<'_>) {
    let _ = pin!(tollgate_net::yield_now()).poll(cx);
}

#[cfg(test)]
pub(super) mod tests {
    use std::task::Waker;

    use super::*;

    /// That of a client that is not new.
    pub fn known(turns: &Rc<Turns>) -> Rc<Intake> {
        let intake = Intake::new(turns.clone());
        intake.client_is(Standing::Known);
        intake
    }

    pub fn waker() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn what_costs_more_than_its_bytes_ends_a_turn_sooner_and_is_read_in_small_pieces() {
        let intake = known(&Rc::default());
        assert_eq!(intake.most(), DENSE, "nothing is known of it");
        intake.read(BYTES / 2, 0);
        assert!(!intake.has_read_enough(&waker()));
        assert_eq!((intake.most(), intake.left()), (BYTES, BYTES as u64 / 2));
        intake.read(DENSE, BYTES as u64 / 2);
        assert!(!intake.has_begun_enough(&waker()), "what was read is begun");
        assert!(intake.has_read_enough(&waker()));
        assert_eq!((intake.most(), intake.left()), (DENSE, 1));
    }

    #[test]
    fn who_is_new_has_a_small_turn() {
        let stranger = Intake::new(Rc::default());
        assert!(!stranger.has_begun_enough(&waker()));
        stranger.request();
        assert!(stranger.has_begun_enough(&waker()));

        let intake = Intake::new(Rc::default());
        intake.client_is(Standing::New);
        (1..REQUESTS / WEIGHT).for_each(|_| intake.request());
        assert!(!intake.has_begun_enough(&waker()));
        intake.request();
        assert!(!intake.has_read_enough(&waker()), "what follows is read: it may be all that there is");
        assert!(intake.has_begun_enough(&waker()));

        let [heads, body] = [(); 2].map(|()| Intake::new(Rc::default()));
        body.read(BYTES / WEIGHT, 100);
        assert!(!body.has_read_enough(&waker()), "a body weighs what it weighs");
        heads.read(100, (BYTES / WEIGHT) as u64);
        assert!(heads.has_read_enough(&waker()));
    }
}
