//! Use of file descriptors.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::ResourceUse;

/// How often descriptors are counted one by one, on kernels that do not report their number.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Files {
    /// Result and time of the last count one by one.
    counted: Option<(Instant, u64)>,
}

impl Files {
    pub fn new() -> Self {
        Self { counted: None }
    }

    /// Returns the open descriptors, and the bound: a share (0 to 1) of the process's limit.
    pub fn read(&mut self, now: Instant, share: f64) -> Option<ResourceUse> {
        // Read each time, because prlimit(1) may change it from outside.
        let limit = getrlimit(Resource::Nofile).current?;
        let bound = (limit as f64 * share).round() as u64;
        Some(ResourceUse { used: self.open(now)?, bound: bound.max(1) })
    }

    fn open(&mut self, now: Instant) -> Option<u64> {
        // Since Linux 6.2 the size of the directory is the number of descriptors: reading it costs almost
        // nothing, and opens no descriptor.
        match fs::metadata("/proc/self/fd").ok()?.len() {
            0 => self.count(now),
            open => Some(open),
        }
    }

    fn count(&mut self, now: Instant) -> Option<u64> {
        if let Some((at, count)) = self.counted
            && now.saturating_duration_since(at) < COUNT_INTERVAL
        {
            return Some(count);
        }
        let count = match fs::read_dir("/proc/self/fd") {
            // One of them is the descriptor that reads the directory.
            Ok(entries) => (entries.count() as u64).saturating_sub(1),
            // No descriptor is left to read the directory with, so all are open.
            Err(_) => getrlimit(Resource::Nofile).current?,
        };
        self.counted = Some((now, count));
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether 200 more open files show in the count. Other tests of this process open and close some hundred
    /// files at the same time, so one undisturbed look out of twenty suffices. A count that never changes
    /// fails.
    fn sees_more(mut look: impl FnMut() -> u64) -> bool {
        (0..20).any(|_| {
            let before = look();
            let kept: Vec<_> = (0..200).map(|_| fs::File::open("/proc/self/statm").unwrap()).collect();
            let with = look();
            drop(kept);
            (before + 200..before + 220).contains(&with)
        })
    }

    #[test]
    fn a_file_more_is_one_more() {
        let (mut files, now) = (Files::new(), Instant::now());
        let limit = getrlimit(Resource::Nofile).current.expect("a limit");
        assert_eq!(files.read(now, 1.0).map(|whole| whole.bound), Some(limit));
        assert_eq!(files.read(now, 0.5).map(|half| half.bound), Some(limit / 2));
        let mut at = now;
        assert!(sees_more(|| {
            at += COUNT_INTERVAL;
            files.read(at, 1.0).expect("it can be read").used
        }));
    }

    #[test]
    fn they_are_counted_one_by_one_where_need_be() {
        let (mut files, mut at) = (Files::new(), Instant::now());
        let count = files.count(at).expect("it can be read");
        assert!(count > 2, "{count}");
        let kept: Vec<_> = (0..200).map(|_| fs::File::open("/proc/self/statm").unwrap()).collect();
        assert_eq!(files.count(at + COUNT_INTERVAL / 2), Some(count), "not at every look");
        drop(kept);
        assert!(sees_more(|| {
            at += COUNT_INTERVAL;
            files.count(at).expect("it can be read")
        }));
    }
}
