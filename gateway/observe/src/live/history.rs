//! The history of the last minutes, one point per second.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::Columns;
use super::latency::percentile;
use crate::status::seconds;
use crate::{CostReading, HistogramSnapshot};

/// Number of points: five minutes, 20 KiB.
const POINTS_MAX: usize = 300;

/// The workers' counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterTotals {
    pub(crate) requests: u64,
    pub(crate) in_flight: u64,
    pub(crate) codes: [u64; 6],
    pub(crate) latency: HistogramSnapshot,
}

/// One second of the history.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    time: f64,
    requests: f64,
    client_errors: f64,
    server_errors: f64,
    percentiles: [Option<f64>; 3],
    cost: Option<f64>,
    cores_used: f64,
    in_flight: u64,
}

/// The history of the last minutes. [`Registry::record_second`](crate::Registry::record_second) adds one
/// point per second.
#[derive(Debug, Default)]
pub(crate) struct History {
    last: Option<(SystemTime, CounterTotals)>,
    points: VecDeque<Point>,
}

impl History {
    /// Adds a point. Its cost is the meter's ten-second window, because one second may have too few requests.
    pub(crate) fn add(&mut self, now: SystemTime, cost: &CostReading, totals: CounterTotals) {
        let last = self.last.replace((now, totals.clone()));
        let Some((then, before)) = last else { return };
        // The clock was set back: skip this second and count from the next one.
        let Ok(passed) = now.duration_since(then) else { return };
        let passed = passed.as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let between = |now: u64, then: u64| now.saturating_sub(then);
        let requests = between(totals.requests, before.requests);
        let rate = |class: usize| between(totals.codes[class], before.codes[class]) as f64 / passed;
        let both = totals.latency.counts.iter().zip(&before.latency.counts);
        let buckets: Vec<u64> = both.map(|(now, then)| between(*now, *then)).collect();
        let count = buckets.iter().sum();
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            time: seconds(now),
            requests: requests as f64 / passed,
            client_errors: rate(4),
            server_errors: rate(5),
            percentiles: [0.5, 0.9, 0.99].map(|part| percentile(&buckets, count, part)),
            cost: cost.now().cpu_microseconds_per_request(),
            cores_used: cost.now().cores_used().unwrap_or_default(),
            in_flight: totals.in_flight,
        });
    }

    /// Returns the points after this time, in seconds since 1970; 0: all.
    pub(crate) fn columns(&self, after: f64) -> Columns {
        let mut columns = Columns::default();
        for point in self.points.iter().filter(|point| point.time > after) {
            columns.time.push(point.time);
            columns.requests.push(thousandths(point.requests));
            columns.client_errors.push(thousandths(point.client_errors));
            columns.server_errors.push(thousandths(point.server_errors));
            let [p50, p90, p99] = point.percentiles;
            columns.p50.push(p50);
            columns.p90.push(p90);
            columns.p99.push(p99);
            columns.cpu_microseconds_per_request.push(point.cost.map(thousandths));
            columns.cores_used.push(thousandths(point.cores_used));
            columns.in_flight.push(point.in_flight);
        }
        columns
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::CostMeter;

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + second)
    }

    fn totals(requests: u64, errors: u64) -> CounterTotals {
        let mut latency = HistogramSnapshot::default();
        latency.counts[0] = requests;
        CounterTotals { requests, in_flight: 3, codes: [0, 0, requests - errors, 0, 0, errors], latency }
    }

    #[test]
    fn a_point_covers_the_time_since_the_previous_one() {
        let (mut history, mut meter, start) = (History::default(), CostMeter::new(), Instant::now());
        history.add(at(0), &meter.reading(), totals(0, 0));
        assert!(history.columns(0.0).time.is_empty());
        history.add(at(1), &meter.reading(), totals(1000, 10));
        meter.sample(start, Duration::ZERO, 0, 2.0);
        meter.sample(start + Duration::from_secs(2), Duration::from_millis(50), 1_000, 2.0);
        history.add(at(3), &meter.reading(), totals(1050, 10));
        let columns = history.columns(0.0);
        assert_eq!(columns.time, [1_001.0, 1_003.0]);
        assert_eq!(columns.requests, [1000.0, 25.0]);
        assert_eq!(columns.server_errors, [10.0, 0.0]);
        assert_eq!(columns.p50, [Some(50e-6), Some(50e-6)]);
        assert_eq!(columns.cpu_microseconds_per_request, [None, Some(50.0)]);
        assert_eq!(columns.cores_used, [0.0, 0.025]);
        assert_eq!(columns.in_flight, [3, 3]);
        assert_eq!(history.columns(1_001.0).time, [1_003.0]);
    }

    #[test]
    fn a_second_without_requests_has_no_percentiles() {
        let (mut history, cost) = (History::default(), CostReading::default());
        history.add(at(0), &cost, totals(5, 0));
        history.add(at(1), &cost, totals(5, 0));
        assert_eq!(history.columns(0.0).p99, [None]);
    }

    #[test]
    fn it_is_bounded_and_bears_a_clock_that_goes_back() {
        let (mut history, cost) = (History::default(), CostReading::default());
        for second in 0..1_000 {
            history.add(at(second), &cost, totals(second, 0));
        }
        assert_eq!(history.columns(0.0).time.len(), POINTS_MAX);
        history.add(at(0), &cost, totals(2_000, 0));
        history.add(at(1), &cost, totals(2_001, 0));
        assert_eq!(history.columns(0.0).requests.last(), Some(&1.0));
    }
}
