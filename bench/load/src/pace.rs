//! Decides when requests are sent. Times are nanoseconds of one clock. This module reads no real clock, so
//! tests run it on a simulated one.

use crate::plan::{Plan, Replay};
use crate::shape::Curve;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use tollgate_lab_record::LoadModel;

/// The intended send times of one thread in an open loop.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    gaps: Gaps<'a>,
    next: u64,
    /// Position in the sequence of the request that was taken last.
    taken: u64,
}

#[derive(Debug)]
enum Gaps<'a> {
    /// Requests `index`, `index + step`, ... of a sequence that is evenly spaced over all threads.
    Even { start: u64, gap: f64, index: u64, step: u64 },
    /// Independent Poisson streams add up to one with the sum of their rates.
    Poisson { mean: f64, at: f64, start: u64, random: Pcg64Mcg },
    /// Requests `index`, `index + step`, ... of a sequence whose rate changes.
    Shaped { start: u64, curve: Curve, index: u64, step: u64 },
    /// A Poisson process whose rate changes: `at` is the expected number of requests over all threads.
    ShapedPoisson { start: u64, curve: Curve, at: f64, step: f64, random: Pcg64Mcg },
    /// Exchanges `index`, `index + step`, ... of a recording that repeats.
    Recorded { start: u64, replay: &'a Replay, index: u64, step: u64 },
}

impl<'a> Pace<'a> {
    /// Returns the schedule of a thread of the plan, from `start` on, when the load begins; `None` for a
    /// closed loop.
    pub(crate) fn of(plan: &'a Plan, thread: u32, start: u64) -> Option<Self> {
        let (index, step) = (u64::from(thread), u64::from(plan.threads));
        if let Some(replay) = &plan.replay {
            return Some(Self::begin(Gaps::Recorded { start, replay, index, step }));
        }
        if plan.stages.is_empty() {
            return Self::new(plan.model, plan.seed, thread, plan.threads, start);
        }
        let curve = Curve::new(&plan.stages, plan.ramp + plan.warm_up);
        Some(Self::begin(match plan.model {
            LoadModel::Poisson { .. } => Gaps::ShapedPoisson {
                start,
                curve,
                at: 0.0,
                step: f64::from(plan.threads),
                random: random(plan.seed, thread),
            },
            LoadModel::Closed | LoadModel::Constant { .. } => Gaps::Shaped { start, curve, index, step },
        }))
    }

    fn begin(gaps: Gaps<'a>) -> Self {
        let mut pace = Self { gaps, next: 0, taken: 0 };
        pace.advance();
        pace
    }

    /// Returns the schedule of thread `thread` of `threads`, from `start` on; `None` for a closed loop.
    pub(crate) fn new(model: LoadModel, seed: u64, thread: u32, threads: u32, start: u64) -> Option<Self> {
        let gaps = match model {
            LoadModel::Closed => return None,
            LoadModel::Constant { rps } => {
                Gaps::Even { start, gap: 1e9 / rps, index: u64::from(thread), step: u64::from(threads) }
            }
            LoadModel::Poisson { rps } => {
                let mean = 1e9 / rps * f64::from(threads);
                Gaps::Poisson { mean, at: 0.0, start, random: random(seed, thread) }
            }
        };
        Some(Self::begin(gaps))
    }

    /// Returns when the next request is due.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes the next request if it is due. Returns its intended time, however late it is.
    pub(crate) fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next;
        (due <= now).then(|| {
            self.advance();
            due
        })
    }

    /// Returns the index, in the recording, of the exchange that was taken last; `None` without a recording.
    pub(crate) fn recorded(&self) -> Option<usize> {
        let Gaps::Recorded { replay, .. } = &self.gaps else { return None };
        Some((self.taken % replay.times_us.len() as u64) as usize)
    }

    fn advance(&mut self) {
        self.next = match &mut self.gaps {
            // Computed from the index instead of a sum of gaps, so that rounding does not drift.
            Gaps::Even { start, gap, index, step } => {
                let at = *start + (*index as f64 * *gap).round() as u64;
                *index += *step;
                at
            }
            Gaps::Poisson { mean, at, start, random } => {
                *at -= uniform(random).ln() * *mean;
                *start + at.round() as u64
            }
            Gaps::Shaped { start, curve, index, step } => {
                let at = start.saturating_add(curve.nanos(*index as f64));
                *index += *step;
                at
            }
            Gaps::ShapedPoisson { start, curve, at, step, random } => {
                *at -= uniform(random).ln() * *step;
                start.saturating_add(curve.nanos(*at))
            }
            Gaps::Recorded { start, replay, index, step } => {
                let count = replay.times_us.len() as u64;
                let (pass, within) = (*index / count, (*index % count) as usize);
                // The first exchange has no predecessor; `index` is then still below `step`.
                self.taken = index.saturating_sub(*step);
                *index += *step;
                *start + (pass * replay.period_us + replay.times_us[within]) * 1_000
            }
        };
    }
}

/// Returns the random numbers of a thread.
pub(crate) fn random(seed: u64, thread: u32) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_mul(1 << 16).wrapping_add(u64::from(thread)))
}

/// Returns a number in (0, 1] from 53 random bits: the logarithm of 0 does not exist.
pub(crate) fn uniform(random: &mut Pcg64Mcg) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// The times of a request until its response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// When the schedule wanted it sent; in a closed loop, when it was begun.
    pub(crate) intended: u64,
    /// When its connection became free.
    pub(crate) free: u64,
    /// When its first byte was written.
    pub(crate) sent: u64,
}

impl Times {
    /// Returns the response time: the wait of a user who arrives at the intended time.
    pub(crate) fn response(self, done: u64) -> u64 {
        done.saturating_sub(self.intended)
    }

    /// Returns the service time: from the first byte sent to the complete response.
    pub(crate) fn service(self, done: u64) -> u64 {
        done.saturating_sub(self.sent)
    }

    /// Returns how late the generator was by its own fault, from when the request was due and a connection
    /// was free. Waiting for a free connection is caused by the server and affects the response time only.
    pub(crate) fn lag(self) -> u64 {
        self.sent.saturating_sub(self.intended.max(self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn taken(model: LoadModel, seed: u64, threads: u32, seconds: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..threads)
            .flat_map(|thread| {
                let mut pace = Pace::new(model, seed, thread, threads, 5 * SECOND).unwrap();
                std::iter::from_fn(move || pace.take((5 + seconds) * SECOND - 1))
            })
            .collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn a_constant_rate_is_even_over_all_threads_and_does_not_drift() {
        for threads in [1, 3] {
            let times = taken(LoadModel::Constant { rps: 30_000.0 }, 0, threads, 100);
            assert_eq!(times.len(), 3_000_000);
            assert_eq!(times[0], 5 * SECOND);
            assert!(times.windows(2).all(|pair| (33_333..=33_334).contains(&(pair[1] - pair[0]))));
        }
    }

    #[test]
    fn nothing_leaves_early_and_late_requests_keep_their_intended_time() {
        let mut pace = Pace::new(LoadModel::Constant { rps: 1000.0 }, 0, 0, 1, 10).unwrap();
        assert_eq!(pace.take(9), None);
        assert_eq!(pace.take(10), Some(10));
        assert_eq!(pace.next(), 1_000_010);
        assert_eq!(pace.take(1_000_009), None);
        let late = 3_500_000;
        assert_eq!(
            std::iter::from_fn(|| pace.take(late)).collect::<Vec<_>>(),
            [1_000_010, 2_000_010, 3_000_010]
        );
    }

    #[test]
    fn poisson_has_the_mean_the_spread_and_the_seed() {
        let model = LoadModel::Poisson { rps: 1000.0 };
        let times = taken(model, 7, 2, 200);
        // 200,000 expected; the standard deviation of the count is 447.
        assert!((198_000..202_000).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard deviation of exponential gaps equals their mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        assert_eq!(taken(model, 7, 2, 1), taken(model, 7, 2, 1));
        assert_ne!(taken(model, 7, 2, 1), taken(model, 8, 2, 1));
    }

    fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
        let mut plan = Plan::new(std::net::SocketAddr::from(([127, 0, 0, 1], 80)));
        change(&mut plan);
        plan
    }

    fn times_of(plan: &Plan, end: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..plan.threads)
            .flat_map(|thread| {
                let mut pace = Pace::of(plan, thread, 0).unwrap();
                std::iter::from_fn(move || pace.take(end))
            })
            .collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn a_shape_is_the_same_over_any_number_of_threads() {
        let ramp = |threads| {
            let plan = plan(|plan| {
                plan.stages = vec![crate::shape::Stage::new(2.0, 0.0, 1_000.0)];
                plan.warm_up = 1.0;
                plan.threads = threads;
            });
            times_of(&plan, 3 * SECOND - 1)
        };
        // The warm-up has the first rate, which is 0.
        let times = ramp(1);
        assert_eq!((times.len(), times[0]), (1_000, SECOND));
        assert_eq!(times, ramp(3));
        let halves = times.partition_point(|time| *time < 2 * SECOND);
        assert_eq!(halves, 250);
    }

    #[test]
    fn random_arrivals_follow_the_shape() {
        let plan = plan(|plan| {
            plan.stages = vec![crate::shape::Stage::new(10.0, 0.0, 20_000.0)];
            plan.model = LoadModel::Poisson { rps: 1.0 };
            plan.threads = 2;
        });
        let times = times_of(&plan, 10 * SECOND);
        let half = times.partition_point(|time| *time < 5 * SECOND);
        // 100,000 and 25,000 expected; the standard deviations are 316 and 158.
        assert!((98_500..101_500).contains(&times.len()), "{}", times.len());
        assert!((24_200..25_800).contains(&half), "{half}");
    }

    #[test]
    fn a_recording_repeats_with_its_own_order() {
        let plan = plan(|plan| {
            plan.replay = Some(Replay { times_us: vec![0, 10, 15], order: vec![0, 0, 0], period_us: 20 });
            plan.threads = 2;
        });
        assert_eq!(times_of(&plan, 40_000), [0, 10_000, 15_000, 20_000, 30_000, 35_000, 40_000]);
        let mut pace = Pace::of(&plan, 1, 0).unwrap();
        let order: Vec<usize> = (0..4)
            .map(|_| {
                pace.take(u64::MAX).unwrap();
                pace.recorded().unwrap()
            })
            .collect();
        assert_eq!(order, [1, 0, 2, 1]);
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        assert!(Pace::new(LoadModel::Closed, 0, 0, 1, 0).is_none());
    }

    #[test]
    fn waiting_for_a_connection_is_not_the_generators_lag() {
        let times = Times { intended: 100, free: 900, sent: 905 };
        assert_eq!((times.response(1000), times.service(1000), times.lag()), (900, 95, 5));
        let times = Times { intended: 100, free: 50, sent: 130 };
        assert_eq!((times.response(200), times.service(200), times.lag()), (100, 70, 30));
    }

    /// Simulates, on its own clock, a server that takes no time except that it stops for the last 500 ms of
    /// every 5 s, and a client with `connections` to it. Returns response and service times, each in
    /// ascending order.
    fn stalled(connections: usize) -> (Vec<u64>, Vec<u64>) {
        let opens = |time: u64| {
            let into = time % (5 * SECOND);
            if into >= 4_500_000_000 { time - into + 5 * SECOND } else { time }
        };
        let mut pace = Pace::new(LoadModel::Constant { rps: 1000.0 }, 0, 0, 1, 0).unwrap();
        let mut free: std::collections::VecDeque<u64> = vec![0; connections].into();
        let (mut response, mut service) = (Vec::new(), Vec::new());
        while response.len() < 20_000 {
            let connection = free.pop_front().unwrap();
            let sent = pace.next().max(connection);
            let times = Times { intended: pace.take(sent).unwrap(), free: connection, sent };
            assert_eq!(times.lag(), 0);
            let done = opens(sent);
            free.push_back(done);
            response.push(times.response(done));
            service.push(times.service(done));
        }
        response.sort_unstable();
        service.sort_unstable();
        (response, service)
    }

    #[test]
    fn a_stall_is_charged_in_full_however_few_the_connections() {
        // Requests that arrive evenly during the stall wait 500 to 0 ms: a tenth of all requests, 1 ms apart.
        for connections in [1, 4, 1_000] {
            let (response, service) = stalled(connections);
            let waited: Vec<u64> = response.iter().rev().take(2_000).map(|wait| wait / 1_000_000).collect();
            let truth: Vec<u64> = (1..=500).rev().flat_map(|ms| [ms; 4]).collect();
            assert_eq!(waited, truth, "{connections} connections");
            let p99 = |times: &[u64]| times[times.len() * 99 / 100 - 1];
            assert_eq!(p99(&response), 450_000_000);
            // Without the correction the stall nearly vanishes, unless each request has a connection of its
            // own to wait on.
            assert_eq!(p99(&service) == 0, connections < 50, "{connections} connections");
        }
    }
}
