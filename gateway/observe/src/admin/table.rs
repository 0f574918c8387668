//! The open connections of the admin listener, and the choice of a connection to close when there is no room.
//!
//! There are [`REGULAR_SLOTS`] regular slots, and [`RESERVED_SLOTS`] slots for health and readiness. When all
//! regular slots are taken, a new connection evicts a stalled one: first a connection that waits
//! for a request, the longest wait first, then a connection that sends or receives slowly. A connection whose
//! request is being handled keeps its place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Number of regular slots.
pub(super) const REGULAR_SLOTS: usize = 64;
/// Number of places beyond those. Their connections may ask about health and readiness, and move to a usual
/// place when one is free.
pub(super) const RESERVED_SLOTS: usize = 16;
/// How long a connection may wait for its request when all places are taken.
const HEAD_WHEN_FULL: Duration = Duration::from_millis(500);
/// How long a request body or an answer may take when all places are taken.
const TRANSFER_WHEN_FULL: Duration = Duration::from_secs(2);

/// The stage that a connection is in. The order is the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It performs a handshake, receives a request head, or is idle.
    Waiting,
    /// It waits for the request's body.
    Body,
    /// It sends the answer.
    Writing,
    /// It handles the request.
    Busy,
}

/// The current phase of a connection, and when it began.
#[derive(Debug)]
pub(super) struct Activity(Mutex<(Phase, Instant)>);

impl Activity {
    fn new() -> Self {
        Self(Mutex::new((Phase::Waiting, Instant::now())))
    }

    pub fn now(&self) -> (Phase, Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a phase. Does nothing if the connection is already in it.
    pub fn enter(&self, phase: Phase) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 != phase {
            *now = (phase, Instant::now());
        }
    }

    /// Enters `phase` if the connection is in `from`.
    pub fn advance(&self, from: Phase, phase: Phase) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 == from {
            *now = (phase, Instant::now());
        }
    }
}

#[derive(Debug)]
struct Connection {
    id: u64,
    is_reserved: bool,
    activity: Arc<Activity>,
    abort: Option<AbortHandle>,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: Vec<Connection>,
}

/// The open connections.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionTable(Arc<Mutex<Connections>>);

/// A connection's place in the table. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    table: ConnectionTable,
    id: u64,
    pub activity: Arc<Activity>,
}

impl ConnectionTable {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection. Also returns whether another one was closed for it.
    pub fn admit(&self) -> (ConnectionSlot, bool) {
        let mut all = self.lock();
        let (is_reserved, evicted) = match all.make_room() {
            Room::Free => (false, false),
            Room::Made => (false, true),
            Room::None => (true, all.make_reserved_room()),
        };
        let id = all.next;
        all.next += 1;
        let activity = Arc::new(Activity::new());
        all.open.push(Connection { id, is_reserved, activity: activity.clone(), abort: None });
        (ConnectionSlot { table: self.clone(), id, activity }, evicted)
    }

    /// Stores the handle that ends the connection's task. A task whose connection was evicted already is
    /// ended at once.
    pub fn set_abort(&self, id: u64, abort: AbortHandle) {
        match self.lock().open.iter_mut().find(|connection| connection.id == id) {
            Some(connection) => connection.abort = Some(abort),
            None => abort.abort(),
        }
    }
}

enum Room {
    Free,
    Made,
    None,
}

impl Connections {
    fn count(&self, is_reserved: bool) -> usize {
        self.open.iter().filter(|connection| connection.is_reserved == is_reserved).count()
    }

    /// Makes sure that a regular slot is free, if possible.
    fn make_room(&mut self) -> Room {
        if self.count(false) < REGULAR_SLOTS {
            return Room::Free;
        }
        let is_ripe = |phase: Phase, since: Instant| match phase {
            Phase::Waiting => since.elapsed() >= HEAD_WHEN_FULL,
            Phase::Body | Phase::Writing => since.elapsed() >= TRANSFER_WHEN_FULL,
            Phase::Busy => false,
        };
        if self.evict(false, is_ripe) { Room::Made } else { Room::None }
    }

    /// Makes sure that a reserved slot is free. Requests in reserved slots are answered at once, so any of
    /// them may be closed.
    fn make_reserved_room(&mut self) -> bool {
        self.count(true) >= RESERVED_SLOTS && self.evict(true, |_, _| true)
    }

    /// Closes the connection that comes first in the order of eviction.
    fn evict(&mut self, is_reserved: bool, is_ripe: impl Fn(Phase, Instant) -> bool) -> bool {
        let ripe = self.open.iter().enumerate().filter(|(_, it)| it.is_reserved == is_reserved);
        let ripe = ripe.map(|(index, connection)| (connection.activity.now(), index));
        let Some((_, index)) = ripe.filter(|((phase, since), _)| is_ripe(*phase, *since)).min() else {
            return false;
        };
        if let Some(abort) = self.open.swap_remove(index).abort {
            abort.abort();
        }
        true
    }
}

impl ConnectionSlot {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the connection has a regular slot. Moves it to one if possible.
    pub fn is_regular(&self) -> bool {
        let mut all = self.table.lock();
        let is_reserved =
            |all: &Connections| all.open.iter().find(|it| it.id == self.id).is_some_and(|it| it.is_reserved);
        if !is_reserved(&all) {
            return true;
        }
        if let Room::None = all.make_room() {
            return false;
        }
        if let Some(own) = all.open.iter_mut().find(|connection| connection.id == self.id) {
            own.is_reserved = false;
        }
        true
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().open.retain(|connection| connection.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_asks_for_nothing_gives_its_place_away() {
        let table = ConnectionTable::default();
        let all: Vec<ConnectionSlot> = (0..REGULAR_SLOTS).map(|_| table.admit().0).collect();
        all.iter().skip(1).for_each(|place| place.activity.enter(Phase::Busy));
        // It has only just connected.
        let (reserved, evicted) = table.admit();
        assert!(!evicted && !reserved.is_regular());
        std::thread::sleep(HEAD_WHEN_FULL);
        assert!(reserved.is_regular(), "the silent one has gone");
        let ids: Vec<u64> = table.lock().open.iter().map(|it| it.id).collect();
        assert!(!ids.contains(&all[0].id) && ids.len() == REGULAR_SLOTS);
        // All are at work. Health still has its places; when those are full, the oldest of their connections
        // is evicted.
        reserved.activity.enter(Phase::Busy);
        let health: Vec<ConnectionSlot> = (0..RESERVED_SLOTS).map(|_| table.admit().0).collect();
        assert!(health.iter().all(|place| !place.is_regular()));
        let (_, evicted) = table.admit();
        assert!(evicted);
        drop(all);
        assert!(health.iter().skip(1).all(ConnectionSlot::is_regular));
    }
}
