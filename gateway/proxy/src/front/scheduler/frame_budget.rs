//! The frame budget of a connection: how much of its input is processed in one turn, before other connections
//! have theirs.
//!
//! The connection's task and its socket share one [`FrameBudget`]. It counts
//! bytes and requests, and queues the connection with [`Scheduler`] when its budget is spent or when it must
//! wait for its first turn. Clients that are not trusted yet have a smaller budget.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;

use super::{Scheduler, TurnState};

/// Requests that one turn may start: a single read can bring a hundred.
pub(crate) const REQUESTS_PER_TURN: usize = 16;
/// Bytes that one turn may read. Bytes that cost more to process count for more.
pub(crate) const BYTES_PER_TURN: usize = 64 * 1024;
/// Bytes read at once from a client that is not trusted, or whose last bytes were expensive to process. Bytes
/// beyond its turn wait in memory.
const DENSE_READ_MAX_BYTES: usize = 16 * 1024;
/// By how much heads and requests of untrusted clients weigh more than others. Otherwise all the requests
/// that a thousand of them send at once would run before the next request of a trusted client. An untested
/// client's turn is one request: before it starts the next, others have their turn, and more of what it has
/// sent is examined.
const NEW_CLIENT_WEIGHT: usize = 4;

/// How far the gateway trusts a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientTrust {
    /// It has taken no part of a response. Its requests start only after more of its input was examined.
    /// Floods start with the largest number of requests that the limits allow, and each can cost a connection
    /// to an endpoint.
    Untested,
    /// It has taken few pieces. It may be one of a thousand clients that send requests and read no responses;
    /// these must not delay clients that do.
    New,
    /// It has taken enough pieces to be served without extra limits.
    Trusted,
}

/// The state that a connection's task and its socket share: what was processed in this turn, whether a
/// request was ever started, and whether the meter has run out of credit. A worker runs its tasks one at a
/// time, so hundreds of connections with much input would delay every other connection.
#[derive(Debug)]
pub(crate) struct FrameBudget {
    scheduler: Rc<Scheduler>,
    requests: Cell<usize>,
    bytes: Cell<usize>,
    /// Whether the last bytes cost more to process than their number suggests.
    is_dense: Cell<bool>,
    turn: Cell<TurnState>,
    client: Cell<ClientTrust>,
    has_begun: Cell<bool>,
    exhausted: Cell<bool>,
}

impl FrameBudget {
    pub fn new(scheduler: Rc<Scheduler>) -> Rc<Self> {
        Rc::new(Self {
            scheduler,
            requests: Cell::new(0),
            bytes: Cell::new(0),
            is_dense: Cell::new(true),
            turn: Cell::new(TurnState::Free),
            client: Cell::new(ClientTrust::Untested),
            has_begun: Cell::new(false),
            exhausted: Cell::new(false),
        })
    }

    /// Called when the connection's task runs. Starts a new turn with a full budget, unless the connection
    /// still waits for one.
    pub fn turn(&self) {
        let turn = match self.turn.get() {
            TurnState::Awaited => return,
            TurnState::Given => TurnState::Taken,
            TurnState::Free | TurnState::Taken => TurnState::Free,
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
    pub fn set_trust(&self, trust: ClientTrust) {
        self.client.set(trust);
    }

    /// Counts a request that starts.
    pub fn request(&self) {
        self.has_begun.set(true);
        let weight = match self.client.get() {
            ClientTrust::Untested => REQUESTS_PER_TURN,
            ClientTrust::New => NEW_CLIENT_WEIGHT,
            ClientTrust::Trusted => 1,
        };
        self.requests.set(self.requests.get() + weight);
    }

    /// Counts a request that was refused.
    pub fn count_refusal(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Counts `count` bytes that were read. `extra` is their processing cost beyond that, in bytes.
    pub fn read(&self, count: usize, extra: u64) {
        if self.starts_without_turn() {
            self.scheduler.count_new_client();
        }
        let extra = usize::try_from(extra).unwrap_or(usize::MAX);
        self.is_dense.set(extra > count);
        let weight = if extra > count { self.weight() } else { 1 };
        let bytes = count.saturating_add(extra).saturating_mul(weight);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Returns the factor for bytes that cost more to process than their number suggests.
    fn weight(&self) -> usize {
        if self.is_new() { NEW_CLIENT_WEIGHT } else { 1 }
    }

    /// Returns how much extra cost, in bytes, this turn still allows.
    pub fn remaining_cost(&self) -> u64 {
        (BYTES_PER_TURN.saturating_sub(self.bytes.get()) / self.weight()).max(1) as u64
    }

    /// Returns how many bytes may be read at once.
    pub fn read_size(&self) -> usize {
        if self.is_new() || self.is_dense.get() { DENSE_READ_MAX_BYTES } else { BYTES_PER_TURN }
    }

    /// Returns whether the connection must wait before its input is read, because enough new clients were
    /// read in this round.
    pub fn must_wait_for_turn(&self) -> bool {
        self.starts_without_turn() && self.scheduler.new_clients_are_enough()
    }

    /// Returns whether this is an untrusted client that would start without having waited for a turn.
    fn starts_without_turn(&self) -> bool {
        self.is_new() && self.bytes.get() == 0 && self.turn.get() == TurnState::Free
    }

    /// Returns whether this turn may read no more. If so, the task is woken for the next turn.
    pub fn byte_budget_is_spent(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.bytes.get() >= BYTES_PER_TURN {
            self.wait(false, cx);
        }
        self.waits()
    }

    /// Returns whether this turn may start no more requests. If so, the task is woken for the next turn.
    pub fn request_budget_is_spent(self: &Rc<Self>, cx: &Context<'_>) -> bool {
        if self.requests.get() >= REQUESTS_PER_TURN || self.is_in_late_round() {
            self.wait(false, cx);
        } else if self.must_wait_for_turn() {
            self.wait(true, cx);
        }
        self.waits()
    }

    /// Returns whether this is an untrusted client that did not wait for its turn and has started a request
    /// in a round that has taken too long.
    fn is_in_late_round(&self) -> bool {
        let has_waited = self.turn.get() == TurnState::Taken;
        self.is_new() && !has_waited && self.requests.get() > 0 && self.scheduler.is_round_late()
    }

    fn waits(&self) -> bool {
        self.turn.get() == TurnState::Awaited
    }

    /// Gives the connection its next turn; the caller wakes its task.
    pub fn grant_turn(&self) {
        self.turn.set(TurnState::Given);
    }

    /// Returns whether the client is not trusted yet.
    pub fn is_new(&self) -> bool {
        self.client.get() != ClientTrust::Trusted
    }

    /// Queues the connection for its next turn. `late`: it has not used up a turn before.
    pub fn wait(self: &Rc<Self>, late: bool, cx: &Context<'_>) {
        if self.turn.replace(TurnState::Awaited) != TurnState::Awaited {
            self.scheduler.queue(self, late, cx);
        }
    }
}

/// Wakes the task after all other ready tasks have run and the kernel was polled for new input.
pub(crate) fn after_others(cx: &mut Context<'_>) {
    let _ = pin!(tollgate_net::yield_now()).poll(cx);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns the budget of a trusted client.
    pub fn known(scheduler: &Rc<Scheduler>) -> Rc<FrameBudget> {
        let frame_budget = FrameBudget::new(scheduler.clone());
        frame_budget.set_trust(ClientTrust::Trusted);
        frame_budget
    }

    pub fn waker() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn expensive_frames_end_a_turn_early_and_are_read_in_pieces() {
        let frame_budget = known(&Rc::default());
        assert_eq!(frame_budget.read_size(), DENSE_READ_MAX_BYTES, "nothing is known of it");
        frame_budget.read(BYTES_PER_TURN / 2, 0);
        assert!(!frame_budget.byte_budget_is_spent(&waker()));
        assert_eq!(
            (frame_budget.read_size(), frame_budget.remaining_cost()),
            (BYTES_PER_TURN, BYTES_PER_TURN as u64 / 2)
        );
        frame_budget.read(DENSE_READ_MAX_BYTES, BYTES_PER_TURN as u64 / 2);
        assert!(!frame_budget.request_budget_is_spent(&waker()), "what was read is begun");
        assert!(frame_budget.byte_budget_is_spent(&waker()));
        assert_eq!((frame_budget.read_size(), frame_budget.remaining_cost()), (DENSE_READ_MAX_BYTES, 1));
    }

    #[test]
    fn new_clients_get_a_small_budget() {
        let untested = FrameBudget::new(Rc::default());
        assert!(!untested.request_budget_is_spent(&waker()));
        untested.request();
        assert!(untested.request_budget_is_spent(&waker()));

        let frame_budget = FrameBudget::new(Rc::default());
        frame_budget.set_trust(ClientTrust::New);
        (1..REQUESTS_PER_TURN / NEW_CLIENT_WEIGHT).for_each(|_| frame_budget.request());
        assert!(!frame_budget.request_budget_is_spent(&waker()));
        frame_budget.request();
        assert!(
            !frame_budget.byte_budget_is_spent(&waker()),
            "what follows is read: it may be all that there is"
        );
        assert!(frame_budget.request_budget_is_spent(&waker()));

        let [heads, body] = [(); 2].map(|()| FrameBudget::new(Rc::default()));
        body.read(BYTES_PER_TURN / NEW_CLIENT_WEIGHT, 100);
        assert!(!body.byte_budget_is_spent(&waker()), "a body weighs what it weighs");
        heads.read(100, (BYTES_PER_TURN / NEW_CLIENT_WEIGHT) as u64);
        assert!(heads.byte_budget_is_spent(&waker()));
    }
}
