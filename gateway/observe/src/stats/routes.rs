//! The slots of routes: a route with a slot, a small number, has series of its own.
//!
//! A worker counts a request under the slot of its route, without comparing names. The number of slots is bounded,
//! so that memory and the size of a scrape are too, however many routes the configuration has. A route takes a
//! free slot with its first request. Once no slot is free, routes without one share [`Slot::OTHER`], and
//! [`Routes::rebalance`], which the control thread calls every second, gives slots to the busiest of them: first
//! the slots of routes that left the configuration, then those of much quieter routes.
//!
//! No counter goes back. Requests that were counted under `other` stay there, and a slot that changes its owner
//! keeps the old owner's counts as a base, which the new owner's counts leave out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::slots::{FIRST_NAMED, Slot};
use super::snapshot::RouteSnapshot;
use super::worker::WorkerStats;

/// A request adds this to the score of its route.
const REQUEST_SCORE: u64 = 16;

/// A score loses this part of itself per second: a minute without requests leaves 39 % of it.
const DECAY: u64 = 64;

/// Seconds of observation before a route of the configuration may lose its slot.
const OBSERVED_SECONDS_MIN: u32 = 60;

/// Slots that change their owner in one second.
const CHANGES_MAX: usize = 64;

/// The slots of the routes of one plan, in the order of the plan.
#[derive(Debug)]
pub struct RouteSlots {
    cells: Arc<[Cell]>,
    names: Arc<Names>,
    routes: Arc<Routes>,
}

/// The slot of one route, for all workers.
#[derive(Debug)]
struct Cell {
    slot: AtomicU16,
    /// Requests without a slot since the last check.
    requests: AtomicU32,
    /// The score while the route has no slot; 0: it had no request yet. Only the control thread writes it.
    score: AtomicU32,
}

/// The names of a plan's routes, in one allocation.
#[derive(Debug, Default)]
struct Names {
    text: String,
    ends: Vec<u32>,
}

/// The routes that have slots.
#[derive(Debug)]
pub(super) struct Routes {
    slots_max: usize,
    /// Whether a slot was never used yet.
    has_free: AtomicBool,
    /// Whether a request found no slot since the last check.
    is_short: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Arc<str>, u16>,
    /// The owner of each named slot.
    owners: Vec<Owner>,
    /// The plans that are in use, the newest last.
    plans: Vec<(Weak<[Cell]>, Arc<Names>)>,
    /// Seconds since owners have been observed.
    observed: u32,
}

#[derive(Debug)]
struct Owner {
    name: Arc<str>,
    /// Whether the newest plan has the route.
    is_configured: bool,
    score: u64,
    /// Requests of the slot at the last check.
    requests: u64,
    /// The counts of the slot's earlier owners.
    base: Option<Arc<RouteSnapshot>>,
}

impl RouteSlots {
    /// Returns the slot of a route of the plan. It may have none yet; see [`WorkerStats::record`].
    #[inline]
    #[must_use]
    pub fn get(&self, route: u32) -> Slot {
        Slot(self.cells[route as usize].slot.load(Ordering::Relaxed))
    }

    /// Returns the slot for a request of a route, which takes a free one if it has none. Takes a lock only while a
    /// slot is free.
    #[cold]
    #[must_use]
    pub fn claim(&self, route: u32) -> Slot {
        let cell = &self.cells[route as usize];
        let slot = Slot(cell.slot.load(Ordering::Relaxed));
        if slot != Slot::UNCLAIMED {
            return slot;
        }
        if self.routes.has_free.load(Ordering::Relaxed) {
            let slot = self.routes.assign(self.names.get(route as usize));
            if slot != Slot::OTHER {
                cell.slot.store(slot.0, Ordering::Relaxed);
                return slot;
            }
        }
        cell.requests.fetch_add(1, Ordering::Relaxed);
        if !self.routes.is_short.load(Ordering::Relaxed) {
            self.routes.is_short.store(true, Ordering::Relaxed);
        }
        Slot::OTHER
    }
}

impl Names {
    fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|index| self.get(index))
    }
}

impl Cell {
    fn new(slot: Slot) -> Cell {
        Cell { slot: AtomicU16::new(slot.0), requests: AtomicU32::new(0), score: AtomicU32::new(0) }
    }

    fn is_unclaimed(&self) -> bool {
        self.slot.load(Ordering::Relaxed) == Slot::UNCLAIMED.0
    }
}

impl Routes {
    pub(super) fn new(slots_max: usize) -> Arc<Routes> {
        Arc::new(Routes {
            slots_max,
            has_free: AtomicBool::new(slots_max > 0),
            is_short: AtomicBool::new(false),
            table: Mutex::default(),
        })
    }

    /// Returns the slots of the routes of a new plan.
    pub(super) fn plan<'a>(self: &Arc<Self>, all: impl Iterator<Item = &'a str>) -> RouteSlots {
        let mut names = Names::default();
        for name in all {
            names.text.push_str(name);
            names.ends.push(u32::try_from(names.text.len()).unwrap_or(u32::MAX));
        }
        let names = Arc::new(names);
        let mut table = self.lock();
        for owner in &mut table.owners {
            owner.is_configured = false;
        }
        let mut cells = Vec::with_capacity(names.ends.len());
        for name in names.iter() {
            let slot = table.slot(name);
            if let Some(owner) = slot.owner() {
                table.owners[owner].is_configured = true;
            }
            cells.push(Cell::new(slot));
        }
        let cells: Arc<[Cell]> = cells.into();
        table.plans.retain(|(cells, _)| cells.strong_count() > 0);
        table.plans.push((Arc::downgrade(&cells), names.clone()));
        drop(table);
        RouteSlots { cells, names, routes: self.clone() }
    }

    /// Returns the slot of a name, which takes a free one if it has none.
    pub(super) fn assign(&self, name: &str) -> Slot {
        let mut table = self.lock();
        let slot = table.slot(name);
        if slot != Slot::UNCLAIMED {
            return slot;
        }
        if table.owners.len() == self.slots_max {
            return Slot::OTHER;
        }
        let slot = FIRST_NAMED + table.owners.len() as u16;
        let name: Arc<str> = name.into();
        table.by_name.insert(name.clone(), slot);
        table.owners.push(Owner { name, is_configured: true, score: 0, requests: 0, base: None });
        self.has_free.store(table.owners.len() < self.slots_max, Ordering::Relaxed);
        Slot(slot)
    }

    /// Returns the label of each named slot, in order, with the counts of its earlier owners.
    pub(super) fn owners(&self) -> Vec<(Arc<str>, Option<Arc<RouteSnapshot>>)> {
        self.lock().owners.iter().map(|owner| (owner.name.clone(), owner.base.clone())).collect()
    }

    /// Returns how many routes of the newest plan were used and have no slot.
    pub(super) fn in_other(&self) -> u64 {
        let table = self.lock();
        let Some(cells) = table.newest() else { return 0 };
        let used = |cell: &&Cell| {
            let requests = cell.requests.load(Ordering::Relaxed);
            cell.is_unclaimed() && (requests > 0 || cell.score.load(Ordering::Relaxed) > 0)
        };
        cells.iter().filter(used).count() as u64
    }

    /// Gives slots to busy routes without one. The control thread calls it every second.
    pub(super) fn rebalance(&self, workers: &[Arc<WorkerStats>]) {
        let mut table = self.lock();
        let Some(cells) = table.newest() else { return };
        if cells.len() > self.slots_max {
            table.observe(workers);
        } else {
            table.observed = 0;
        }
        if !self.is_short.swap(false, Ordering::Relaxed) && table.observed == 0 {
            return;
        }
        let mut waiting = Vec::new();
        for (route, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_unclaimed()) {
            let requests = u64::from(cell.requests.swap(0, Ordering::Relaxed));
            let score = u64::from(cell.score.load(Ordering::Relaxed));
            if score + requests > 0 {
                let score = decayed(score, requests).max(1);
                cell.score.store(u32::try_from(score).unwrap_or(u32::MAX), Ordering::Relaxed);
                waiting.push((score, route));
            }
        }
        waiting.sort_by_key(|(score, route)| (Reverse(*score), *route));
        waiting.truncate(CHANGES_MAX);
        let is_known = table.observed >= OBSERVED_SECONDS_MIN;
        let mut quiet: Vec<usize> = (0..table.owners.len()).collect();
        quiet.sort_by_key(|&owner| {
            let Owner { is_configured, score, .. } = table.owners[owner];
            (is_configured, score)
        });
        let mut quiet = quiet.into_iter().peekable();
        for (score, route) in waiting {
            let names = table.plans.last().map(|(_, names)| names.clone()).unwrap_or_default();
            let name = names.get(route);
            // Two routes of a plan may have one name.
            let slot = table.slot(name);
            if slot != Slot::UNCLAIMED {
                table.store(name, slot, 0);
                continue;
            }
            let Some(&owner) = quiet.peek() else { break };
            let Owner { is_configured, score: least, .. } = table.owners[owner];
            // The factor keeps slots from going back and forth between routes that are about equally busy.
            if is_configured && !(is_known && score > 2 * least + 2 * REQUEST_SCORE) {
                break;
            }
            quiet.next();
            table.hand_over(owner, name, score, workers);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a score one second later, in which these requests ended.
fn decayed(score: u64, requests: u64) -> u64 {
    score - score.div_ceil(DECAY).min(score) + requests.saturating_mul(REQUEST_SCORE)
}

impl Table {
    /// Returns the slot of a name; `UNCLAIMED` if it has none.
    fn slot(&self, name: &str) -> Slot {
        match name {
            "" | "-" => Slot::NONE,
            "other" => Slot::OTHER,
            name => self.by_name.get(name).map_or(Slot::UNCLAIMED, |slot| Slot(*slot)),
        }
    }

    fn newest(&self) -> Option<Arc<[Cell]>> {
        self.plans.last()?.0.upgrade()
    }

    /// Updates the scores of the owners.
    fn observe(&mut self, workers: &[Arc<WorkerStats>]) {
        let is_first = self.observed == 0;
        self.observed = self.observed.saturating_add(1);
        for (index, owner) in self.owners.iter_mut().enumerate() {
            let slot = Slot(FIRST_NAMED + index as u16);
            let requests = workers.iter().map(|worker| worker.route_requests(slot)).sum();
            // Earlier counts are not recent.
            let new = if is_first { 0 } else { requests - owner.requests.min(requests) };
            owner.score = decayed(owner.score, new);
            owner.requests = requests;
        }
    }

    /// Gives the slot of an owner to another route.
    fn hand_over(&mut self, owner: usize, name: &str, score: u64, workers: &[Arc<WorkerStats>]) {
        let slot = Slot(FIRST_NAMED + owner as u16);
        let former = (self.owners[owner].name.clone(), self.owners[owner].score);
        self.by_name.remove(&former.0);
        self.store(&former.0, Slot::UNCLAIMED, former.1);
        // The base follows the last request that was counted for the former owner, except requests that end on
        // another worker at this instant.
        let mut base = RouteSnapshot::new(Arc::default());
        for worker in workers {
            worker.add_route_to(slot, &mut base);
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), slot.0);
        self.store(&name, slot, 0);
        let requests = base.requests();
        let base = Some(Arc::new(base));
        self.owners[owner] = Owner { name, is_configured: true, score, requests, base };
    }

    /// Sets the slot of the routes with this name in every plan that is in use.
    fn store(&self, name: &str, slot: Slot, score: u64) {
        for (cells, names) in &self.plans {
            let Some(cells) = cells.upgrade() else { continue };
            for (cell, _) in cells.iter().zip(names.iter()).filter(|(_, other)| *other == name) {
                cell.score.store(u32::try_from(score).unwrap_or(u32::MAX), Ordering::Relaxed);
                cell.requests.store(0, Ordering::Relaxed);
                cell.slot.store(slot.0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
