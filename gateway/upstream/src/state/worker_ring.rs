//! The order in which a message visits the workers.

/// Iterates over the worker numbers as a ring, each at most once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerRing {
    at: usize,
    left: usize,
    workers: usize,
}

impl WorkerRing {
    /// Every worker except `than`, starting with its neighbour.
    pub fn others(than: usize, workers: usize) -> Self {
        Self { at: than, left: workers.saturating_sub(1), workers }
    }

    /// Every worker, starting with `first`.
    pub fn from(first: usize, workers: usize) -> Self {
        Self { at: first + workers - 1, left: workers, workers }
    }
}

impl Iterator for WorkerRing {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        self.at = (self.at + 1) % self.workers;
        Some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_visits_each_worker_once() {
        assert_eq!(WorkerRing::others(2, 4).collect::<Vec<_>>(), [3, 0, 1]);
        assert_eq!(WorkerRing::from(2, 4).collect::<Vec<_>>(), [2, 3, 0, 1]);
        assert_eq!(WorkerRing::others(0, 1).count(), 0);
        assert_eq!(WorkerRing::from(0, 1).collect::<Vec<_>>(), [0]);
        assert_eq!(WorkerRing::default().count(), 0);
    }
}
