//! Counts what the store does.
//!
//! All workers count hits and misses, so each thread adds to a cell of its own. The other counters change seldom.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cells for the threads. With more threads, some share one.
const CELLS: usize = 64;

/// A cell in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The counters of a store.
#[derive(Debug)]
pub(super) struct Counters {
    cells: Box<[Cell]>,
    evictions: AtomicU64,
    refused: AtomicU64,
    followed: AtomicU64,
    forms: AtomicU64,
}

/// The counters since the store was created, and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of all objects, with [`cost`](crate::Stored::cost) each.
    pub bytes: u64,
    /// Objects, and marks for keys whose responses are not stored.
    pub objects: u64,
    /// Look-ups that found a response, fresh or not.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Requests that waited for another one's response.
    pub followed: u64,
    /// Objects that were evicted to make room.
    pub evictions: u64,
    /// Responses that were not stored because they, or all fetches together, are too long.
    pub refused: u64,
    /// Bytes of bodies that are being fetched and may be stored. They are not in `bytes`.
    pub filling_bytes: u64,
    /// Compressed forms that were kept for later hits.
    pub forms: u64,
    /// Bytes of the compressed forms. They are in `bytes`.
    pub form_bytes: u64,
}

/// A number of bytes that many threads change.
#[derive(Debug, Default)]
pub(super) struct Bytes(AtomicU64);

impl Bytes {
    /// Adds, and returns the sum.
    pub fn add(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::Relaxed).saturating_add(count)
    }

    /// Subtracts bytes that were added.
    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Counters {
    fn default() -> Self {
        let (evictions, refused, followed, forms) = Default::default();
        Self { cells: (0..CELLS).map(|_| Cell::default()).collect(), evictions, refused, followed, forms }
    }
}

impl Counters {
    fn cell(&self) -> &Cell {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static CELL: usize = THREADS.fetch_add(1, Ordering::Relaxed) % CELLS);
        // A thread that ends, and has dropped its own cell, counts in the first one.
        &self.cells[CELL.try_with(|cell| *cell).unwrap_or(0)]
    }

    pub fn count_hit(&self) {
        self.cell().hits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_miss(&self) {
        self.cell().misses.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_followed(&self) {
        self.followed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_evictions(&self, count: u64) {
        if count > 0 {
            self.evictions.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_form(&self) {
        self.forms.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the counters, and adds them to the `sizes` of what is stored.
    pub fn read(&self, sizes: Counts) -> Counts {
        let sum = |of: fn(&Cell) -> &AtomicU64| {
            self.cells.iter().map(|cell| of(cell).load(Ordering::Relaxed)).sum()
        };
        Counts {
            hits: sum(|cell| &cell.hits),
            misses: sum(|cell| &cell.misses),
            followed: self.followed.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            forms: self.forms.load(Ordering::Relaxed),
            ..sizes
        }
    }
}
