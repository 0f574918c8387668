//! CPU time and context switches of the generator's threads during the measurement, from their own clocks.
//!
//! Another process could only read `/proc`, which forgets finished threads and counts in ticks of 10 ms, so a short run
//! would seem to cost nothing.

use crate::failure::Failure;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;
use tollgate_lab_record::{ThreadShare, Tree};

/// A thread's clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    at: Instant,
    /// `CLOCK_THREAD_CPUTIME_ID` in nanoseconds; exact even if the thread has not waited since.
    cpu: u64,
    /// For the split into user and system time, and for the context switches.
    usage: Usage,
}

/// The CPU time and context switches of a thread between two readings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadUsed {
    wall_us: f64,
    user_us: f64,
    system_us: f64,
    voluntary: u64,
    involuntary: u64,
}

impl Reading {
    /// Reads the clocks of the calling thread, in about 2 us.
    pub(crate) fn take() -> Result<Self, Failure> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD)
            .map_err(|error| Failure::System("read a thread's CPU time", error.into()))?;
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        Ok(Self { at: Instant::now(), cpu: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64, usage })
    }

    /// Returns what the calling thread has used since this reading.
    pub(crate) fn until_now(self) -> Result<ThreadUsed, Failure> {
        let now = Self::take()?;
        let span =
            |of: fn(&Usage) -> TimeVal| (of(&now.usage) - of(&self.usage)).num_microseconds().max(0) as f64;
        let (user, system) = (span(Usage::user_time), span(Usage::system_time));
        let cpu_us = now.cpu.saturating_sub(self.cpu) as f64 / 1e3;
        // The kernel splits user from system time by sampling at timer interrupts, so a span without an
        // interrupt has no split.
        let user_us = if user + system > 0.0 { cpu_us * user / (user + system) } else { cpu_us };
        let switches = |of: fn(&Usage) -> i64| u64::try_from(of(&now.usage) - of(&self.usage)).unwrap_or(0);
        Ok(ThreadUsed {
            wall_us: now.at.duration_since(self.at).as_secs_f64() * 1e6,
            user_us,
            system_us: cpu_us - user_us,
            voluntary: switches(Usage::voluntary_context_switches),
            involuntary: switches(Usage::involuntary_context_switches),
        })
    }
}

/// Adds up all threads and lists their shares by name.
pub(crate) fn together(threads: &[(String, ThreadUsed)]) -> Tree {
    let sum = |of: fn(&ThreadUsed) -> f64| threads.iter().map(|(_, used)| of(used)).sum();
    let count = |of: fn(&ThreadUsed) -> u64| threads.iter().map(|(_, used)| of(used)).sum();
    let mut shares: Vec<ThreadShare> = threads
        .iter()
        .map(|(name, used)| ThreadShare {
            name: name.clone(),
            share: (used.user_us + used.system_us) / used.wall_us.max(1.0),
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares.truncate(Tree::LISTED);
    Tree {
        user_us: sum(|used| used.user_us),
        system_us: sum(|used| used.system_us),
        threads: shares,
        thread_count: u32::try_from(threads.len()).unwrap_or(u32::MAX),
        voluntary_switches: count(|used| used.voluntary),
        involuntary_switches: count(|used| used.involuntary),
        ..Tree::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let begun = Reading::take().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let slept = begun.until_now().unwrap();
        let wall = Instant::now();
        let begun = Reading::take().unwrap();
        let mut sum = 0_u64;
        // Shorter than a tick of the kernel, as a short trial may be.
        while wall.elapsed() < Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let worked = begun.until_now().unwrap();
        let most = wall.elapsed().as_secs_f64() * 1e6;
        let cpu = |used: ThreadUsed| used.user_us + used.system_us;
        assert!(cpu(slept) < 30_000.0 && slept.wall_us >= 30_000.0 && slept.voluntary > 0, "{slept:?}");
        assert!(cpu(worked) > 0.0 && cpu(worked) <= most, "{worked:?}");
    }

    #[test]
    fn threads_add_up_and_the_busiest_is_first() {
        let used = |user_us, system_us| ThreadUsed {
            wall_us: 1_000.0,
            user_us,
            system_us,
            voluntary: 3,
            involuntary: 1,
        };
        let threads = [("load-0".to_owned(), used(100.0, 50.0)), ("load-1".to_owned(), used(400.0, 100.0))];
        let tree = together(&threads);
        assert_eq!((tree.user_us, tree.system_us, tree.thread_count), (500.0, 150.0, 2));
        assert_eq!((tree.voluntary_switches, tree.involuntary_switches), (6, 2));
        let shares: Vec<(&str, f64)> =
            tree.threads.iter().map(|thread| (thread.name.as_str(), thread.share)).collect();
        assert_eq!(shares, [("load-1", 0.5), ("load-0", 0.15)]);
    }
}
