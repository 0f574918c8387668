//! The connections of the admin listener, and which one is closed when there is no room.
//!
//! There are [`CONNECTIONS`] usual places and [`RESERVED`] places for health and readiness. A connection that asks for
//! nothing gives its place to one that may: first those that wait for a request, the longest wait first, then those that
//! send or take bytes slowly. A request at work keeps its place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Usual connections at once.
pub(super) const CONNECTIONS: usize = 64;
/// Connections beyond those. They are answered about health and readiness, and get a usual place when one is free.
pub(super) const RESERVED: usize = 16;
/// How long a connection may wait for its request when all places are taken.
const HEAD_WHEN_FULL: Duration = Duration::from_millis(500);
/// How long a request's body or an answer may take when all places are taken.
const TRANSFER_WHEN_FULL: Duration = Duration::from_secs(2);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It shakes hands, sends a head, or is idle.
    Waiting,
    /// Its request's body is awaited.
    Body,
    /// Its answer is on the way.
    Writing,
    /// Its request is worked on.
    Busy,
}

/// What one connection does, and since when.
#[derive(Debug)]
pub(super) struct Activity(Mutex<(Phase, Instant)>);

impl Activity {
    fn new() -> Self {
        Self(Mutex::new((Phase::Waiting, Instant::now())))
    }

    pub fn now(&self) -> (Phase, Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection does this from now on, unless it does already.
    pub fn enter(&self, phase: Phase) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 != phase {
            *now = (phase, Instant::now());
        }
    }

    /// As [`enter`](Self::enter), only where the connection does `from`.
    pub fn go_on(&self, from: Phase, phase: Phase) {
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

/// The connections that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Arc<Mutex<Connections>>);

/// A place in the table, for as long as a connection is open.
#[derive(Debug)]
pub(super) struct Place {
    table: Table,
    id: u64,
    pub activity: Arc<Activity>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in. Says whether another one was closed for it.
    pub fn admit(&self) -> (Place, bool) {
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
        (Place { table: self.clone(), id, activity }, evicted)
    }

    /// What ends the connection's task. A connection that has lost its place already is ended at once.
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

    /// Makes sure that there is a usual place, if that can be.
    fn make_room(&mut self) -> Room {
        if self.count(false) < CONNECTIONS {
            return Room::Free;
        }
        let is_ripe = |phase: Phase, since: Instant| match phase {
            Phase::Waiting => since.elapsed() >= HEAD_WHEN_FULL,
            Phase::Body | Phase::Writing => since.elapsed() >= TRANSFER_WHEN_FULL,
            Phase::Busy => false,
        };
        if self.evict(false, is_ripe) { Room::Made } else { Room::None }
    }

    /// Makes sure that there is a reserved place. What has one is answered at once, so that all of them can be closed.
    fn make_reserved_room(&mut self) -> bool {
        self.count(true) >= RESERVED && self.evict(true, |_, _| true)
    }

    /// Closes the connection that is first in line.
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

impl Place {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the connection has one of the usual places; one is given to it if that can be.
    pub fn is_usual(&self) -> bool {
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

impl Drop for Place {
    fn drop(&mut self) {
        self.table.lock().open.retain(|connection| connection.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_asks_for_nothing_gives_its_place_away() {
        let table = Table::default();
        let all: Vec<Place> = (0..CONNECTIONS).map(|_| table.admit().0).collect();
        all.iter().skip(1).for_each(|place| place.activity.enter(Phase::Busy));
        // It has just come.
        let (reserved, evicted) = table.admit();
        assert!(!evicted && !reserved.is_usual());
        std::thread::sleep(HEAD_WHEN_FULL);
        assert!(reserved.is_usual(), "the silent one has gone");
        let ids: Vec<u64> = table.lock().open.iter().map(|it| it.id).collect();
        assert!(!ids.contains(&all[0].id) && ids.len() == CONNECTIONS);
        // All are at work: health has its places still, and the oldest of those goes first.
        reserved.activity.enter(Phase::Busy);
        let health: Vec<Place> = (0..RESERVED).map(|_| table.admit().0).collect();
        assert!(health.iter().all(|place| !place.is_usual()));
        let (_, evicted) = table.admit();
        assert!(evicted);
        drop(all);
        assert!(health.iter().skip(1).all(Place::is_usual));
    }
}
