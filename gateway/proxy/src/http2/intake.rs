//! The frame budget of a connection: how much of its input is processed in one turn, before other connections
//! have theirs.
//!
//! The connection's task and [`Io`](super::io::Io) share one [`Intake`]. It counts bytes and requests, and
//! queues the connection with [`Turns`] when its budget is spent or when it must wait for its first turn.
//! Clients that are not trusted yet have a smaller budget.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;

use super::turns::{Turn, Turns};

/// Requests that one turn may start: a single read can bring a hundred.
pub(super) const REQUESTS: usize = 16;
/// Bytes that one turn may read. Bytes that cost more to process count for more.
pub(super) const BYTES: usize = 64 * 1024;
/// Bytes read at once from a client that is not trusted, or whose last bytes were expensive to process. Bytes
/// beyond its turn wait in memory.
const DENSE: usize = 16 * 1024;
/// By how much heads and requests of untrusted clients weigh more than others. Otherwise all the requests
/// that a thousand of them send at once would run before the next request of a trusted client. A stranger's
/// turn is one request: before it starts the next, others have their turn, and more of what it has sent is
/// examined.
const WEIGHT: usize = 4;

/// How far the gateway trusts a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has taken no part of a response. Its requests start only after more of its input was examined.
    /// Floods start with the largest number of requests that the limits allow, and each can cost a connection
    /// to an endpoint.
    Stranger,
    /// It has taken few pieces. It may be one of a thousand clients that send requests and read no responses;
    /// these must not delay clients that do.
    New,
    /// It has taken enough pieces to be served without extra limits.
    Known,
}

/// The state that a connection's task and its socket share: what was processed in this turn, whether a
/// request was ever started, and whether the meter has run out of credit. A worker runs its tasks one at a
/// time, so hundreds of connections with much input would delay every other connection.
#[derive(Debug)]
pub(super) struct Intake {
    turns: Rc<Turns>,
    requests: Cell<usize>,
    bytes: Cell<usize>,
    /// Whether the last bytes cost more to process than their number suggests.
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

    /// Called when the connection's task runs. Starts a new turn with a full budget, unless the connection
    /// still waits for one.
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

    /// Returns whether the connection ever started a request.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Marks that the connection has run out of credit: no more input is processed.
    pub fn exhaust(&self) {
        self.exhausted.set(true);
    }

    /// Returns whether the connection must be ended because it has run out of credit.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Updates how far the client is trusted.
    pub fn client_is(&self, standing: Standing) {
        self.client.set(standing);
    }

    /// Counts a request that starts.
    pub fn request(&self) {
        self.has_begun.set(true);
        let weight = match self.client.get() {
            Standing::Stranger => REQUESTS,
            Standing::New => WEIGHT,
            Standing::Known => 1,
        };
        self.requests.set(self.requests.get() + weight);
    }

    /// Counts a request that was refused.
    pub fn refusal(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Counts `count` bytes that were read. `extra` is their processing cost beyond that, in bytes.
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

    /// Returns the factor for bytes that cost more to process than their number suggests.
    fn weight(&self) -> usize {
        if self.is_new() { WEIGHT } else { 1 }
    }

    /// Returns how much extra cost, in bytes, this turn still allows.
    pub fn left(&self) -> u64 {
        (BYTES.saturating_sub(self.bytes.get()) / self.weight()).max(1) as u64
    }

    /// Returns how many bytes may be read at once.
    pub fn most(&self) -> usize {
        if self.is_new() || self.is_dense.get() { DENSE } else { BYTES }
    }

    /// Returns whether the connection must wait before its input is read, because enough new clients were
    /// read in this round.
    pub fn comes_late(&self) -> bool {
        self.begins_without_a_turn() && self.turns.have_heard_enough()
    }

    /// Returns whether this is an untrusted client that would start without having waited for a turn.
    fn begins_without_a_turn(&self) -> bool {
        self.is_new() && self.bytes.get() == 0 && self.turn.get() == Turn::Free
    }

    /// Returns whether this turn may read no more. If so, the task is woken for the next turn.
    pub fn has_read_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.bytes.get() >= BYTES {
            self.wait(false, cx);
        }
        self.waits()
    }

    /// Returns whether this turn may start no more requests. If so, the task is woken for the next turn.
    pub fn has_begun_enough(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.requests.get() >= REQUESTS || self.has_taken_long() {
            self.wait(false, cx);
        } else if self.comes_late() {
            self.wait(true, cx);
        }
        self.waits()
    }

    /// Returns whether this is an untrusted client that did not wait for its turn and has started a request
    /// in a round that has taken too long.
    fn has_taken_long(&self) -> bool {
        let has_waited = self.turn.get() == Turn::Taken;
        self.is_new() && !has_waited && self.requests.get() > 0 && self.turns.have_taken_enough()
    }

    fn waits(&self) -> bool {
        self.turn.get() == Turn::Awaited
    }

    /// Gives the connection its next turn; the caller wakes its task.
    pub fn has_a_turn(&self) {
        self.turn.set(Turn::Given);
    }

    /// Returns whether the client is not trusted yet.
    pub fn is_new(&self) -> bool {
        self.client.get() != Standing::Known
    }

    /// Queues the connection for its next turn. `late`: it has not used up a turn before.
    pub fn wait(self: &Rc<Self>, late: bool, cx: &Context<'_>) {
        if self.turn.replace(Turn::Awaited) != Turn::Awaited {
            self.turns.queue(self, late, cx);
        }
    }
}

/// Wakes the task after all other ready tasks have run and the kernel was polled for new input.
pub(super) fn after_others(cx: &mut Context<'_>) {
    let _ = pin!(tollgate_net::yield_now()).poll(cx);
}

#[cfg(test)]
pub(super) mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns the budget of a trusted client.
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
