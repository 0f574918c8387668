//! The live cost meter: CPU time per request, and the headroom left at the present mix of requests. The
//! control thread samples it once per second; `/cost`, the metrics and the live document show its readings.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The reported windows, in seconds. The first one is shown as "now".
const WINDOWS: [u64; 2] = [10, 60];

/// With fewer requests, a window reports its cost as unknown. The process's own housekeeping (timers, the
/// control thread, this meter) would outweigh the requests.
const ENOUGH_REQUESTS: u64 = 100;

/// With less CPU time, likewise: some kernels advance a process's CPU clock in ticks of up to 10 ms.
const ENOUGH_CPU: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    cpu: Duration,
    requests: u64,
}

/// Turns samples of CPU time and request counts into a cost and a capacity.
///
/// The meter is pure: the caller reads the clocks. `docs/cost.md` derives the formula and names its limits.
#[derive(Debug, Default)]
pub struct CostMeter {
    samples: VecDeque<Sample>,
    cores: f64,
}

impl CostMeter {
    /// Creates a meter without samples; its readings are unknown.
    #[must_use]
    pub fn new() -> CostMeter {
        CostMeter::default()
    }

    /// Adds a sample. Callers add one per second.
    ///
    /// `cpu`: CPU time of the process since its start ([`process_cpu_time`](crate::process_cpu_time)).
    /// `requests`: requests that ended since the start. `cores`: the number of cores that the gateway can
    /// use, which is the smaller of [`Cores::usable`](crate::Cores::usable) and the number of workers.
    pub fn sample(&mut self, now: Instant, cpu: Duration, requests: u64, cores: f64) {
        self.cores = cores;
        if let Some(last) = self.samples.back() {
            if now <= last.at {
                return;
            }
            // Neither decreases while a process lives. If one did, the differences would be wrong.
            if cpu < last.cpu || requests < last.requests {
                self.samples.clear();
            }
        }
        self.samples.push_back(Sample { at: now, cpu, requests });
        // The second oldest sample covers the longest window: the oldest one is no longer needed.
        let longest = Duration::from_secs(WINDOWS[WINDOWS.len() - 1]);
        while self.samples.get(1).is_some_and(|second| now - second.at >= longest) {
            self.samples.pop_front();
        }
    }

    /// Returns cost and capacity, computed from the samples so far.
    #[must_use]
    pub fn reading(&self) -> CostReading {
        CostReading { cores: self.cores, windows: WINDOWS.map(|seconds| self.window(seconds)) }
    }

    fn window(&self, seconds: u64) -> CostWindow {
        let length = Duration::from_secs(seconds);
        let empty = CostWindow { length, ..CostWindow::default() };
        let Some(last) = self.samples.back() else { return empty };
        // The latest sample that lies a whole window back, or the oldest one of a younger meter.
        let first = self.samples.iter().rev().find(|sample| last.at - sample.at >= length);
        let Some(first) = first.or(self.samples.front()) else { return empty };
        CostWindow {
            length,
            observed: last.at - first.at,
            cpu: last.cpu - first.cpu,
            requests: last.requests - first.requests,
        }
    }
}

/// Observations over one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostWindow {
    /// The window's nominal length.
    pub length: Duration,
    /// The part of it that was observed; shorter than `length` soon after the start.
    pub observed: Duration,
    /// CPU time of the process in that time.
    pub cpu: Duration,
    /// Requests that ended in that time.
    pub requests: u64,
}

impl CostWindow {
    /// Returns the ended requests per second; `None` before the second sample.
    #[must_use]
    pub fn requests_per_second(&self) -> Option<f64> {
        self.per_second(self.requests as f64)
    }

    /// Returns how many cores the gateway kept busy; `None` before the second sample.
    #[must_use]
    pub fn cores_used(&self) -> Option<f64> {
        self.per_second(self.cpu.as_secs_f64())
    }

    /// Returns the CPU time per request in microseconds; `None` if too few requests ended.
    #[must_use]
    pub fn cpu_microseconds_per_request(&self) -> Option<f64> {
        self.unknown().is_none().then(|| self.cpu.as_secs_f64() * 1e6 / self.requests as f64)
    }

    /// Returns the requests per second that `cores` carry at this cost: `cores * 1e6 / cost`.
    #[must_use]
    pub fn ceiling(&self, cores: f64) -> Option<f64> {
        Some(cores * 1e6 / self.cpu_microseconds_per_request()?)
    }

    /// Returns how many more requests per second these cores carry at this mix: the ceiling minus the present
    /// rate, at least 0.
    #[must_use]
    pub fn headroom(&self, cores: f64) -> Option<f64> {
        Some((self.ceiling(cores)? - self.requests_per_second()?).max(0.0))
    }

    /// Returns why the cost is unknown; `None`: it is known.
    #[must_use]
    pub fn unknown(&self) -> Option<&'static str> {
        if self.observed.is_zero() {
            Some("the meter has just started")
        } else if self.requests == 0 {
            Some("no request has ended in this window")
        } else if self.requests < ENOUGH_REQUESTS || self.cpu < ENOUGH_CPU {
            Some("too few requests have ended in this window to tell their cost from the gateway's own")
        } else {
            None
        }
    }

    fn per_second(&self, amount: f64) -> Option<f64> {
        (!self.observed.is_zero()).then(|| amount / self.observed.as_secs_f64())
    }

    fn json(&self, cores: f64) -> Value {
        json!({
            "seconds": self.length.as_secs(),
            "observed_seconds": round(Some(self.observed.as_secs_f64())),
            "requests": self.requests,
            "requests_per_second": round(self.requests_per_second()),
            "cores_used": round(self.cores_used()),
            "cpu_microseconds_per_request": round(self.cpu_microseconds_per_request()),
            "ceiling_requests_per_second": round(self.ceiling(cores)),
            "headroom_requests_per_second": round(self.headroom(cores)),
            "unknown": self.unknown(),
        })
    }
}

/// Rounds to three decimals; the clocks are not more precise.
fn round(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1e3).round() / 1e3)
}

/// The meter's readings at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostReading {
    /// Cores that the gateway can use.
    pub cores: f64,
    windows: [CostWindow; WINDOWS.len()],
}

impl CostReading {
    /// Returns the shortest window, which stands for the present.
    #[must_use]
    pub fn now(&self) -> &CostWindow {
        &self.windows[0]
    }

    /// Returns all windows, the shortest first: 10 s and 60 s.
    #[must_use]
    pub fn windows(&self) -> &[CostWindow] {
        &self.windows
    }

    /// Renders the reading as one JSON object. Unknown figures are `null`, and `unknown` gives the cause.
    #[must_use]
    pub fn json(&self) -> String {
        let windows: Vec<Value> = self.windows.iter().map(|window| window.json(self.cores)).collect();
        let mut text = json!({ "cores": round(Some(self.cores)), "windows": windows }).to_string();
        text.push('\n');
        text
    }

    /// Renders the reading as a few lines of text, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for window in &self.windows {
            text.push_str(&format!("Last {} s: ", window.length.as_secs()));
            let (Some(rate), Some(used)) = (window.requests_per_second(), window.cores_used()) else {
                text.push_str("nothing measured yet.\n");
                continue;
            };
            text.push_str(&format!("{rate:.1} requests/s on {used:.3} of {} cores.\n", self.cores));
            match (
                window.cpu_microseconds_per_request(),
                window.headroom(self.cores),
                window.ceiling(self.cores),
            ) {
                (Some(cost), Some(headroom), Some(ceiling)) => text.push_str(&format!(
                    "  {cost:.2} us of CPU a request. At this mix, {:.0} more requests/s on these cores \
                     (ceiling {:.0}).\n",
                    headroom.floor(),
                    ceiling.floor()
                )),
                _ => text.push_str(&format!(
                    "  Cost and headroom are not known: {}.\n",
                    window.unknown().unwrap_or("nothing measured yet")
                )),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a meter that saw `seconds` of `rate` requests/s at `cost` us each.
    fn steady(seconds: u64, rate: u64, cost: u64, cores: f64) -> CostMeter {
        let (mut meter, start) = (CostMeter::new(), Instant::now());
        for second in 0..=seconds {
            let requests = second * rate;
            meter.sample(
                start + Duration::from_secs(second),
                Duration::from_micros(requests * cost),
                requests,
                cores,
            );
        }
        meter
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("known");
        assert!((value - expected).abs() < expected * 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn the_published_ceiling_comes_out() {
        // From a field report on nginx: about 36,000 requests/s on 3.39 cores correspond to 338 k on 32 cores
        // (as printed there, truncated); exactly 339,823.
        let (mut meter, start) = (CostMeter::new(), Instant::now());
        for second in 0..=10 {
            let cpu = Duration::from_millis(second * 3_390);
            meter.sample(start + Duration::from_secs(second), cpu, second * 36_000, 32.0);
        }
        let reading = meter.reading();
        near(reading.now().cores_used(), 3.39);
        near(reading.now().ceiling(32.0), 36_000.0 * 32.0 / 3.39);
        near(reading.now().headroom(32.0), 36_000.0 * 32.0 / 3.39 - 36_000.0);
    }

    #[test]
    fn both_windows_see_a_steady_load() {
        let reading = steady(200, 20_000, 12, 2.0).reading();
        for window in reading.windows() {
            assert_eq!(window.observed, window.length);
            near(window.requests_per_second(), 20_000.0);
            near(window.cpu_microseconds_per_request(), 12.0);
            near(window.headroom(2.0), 2e6 / 12.0 - 20_000.0);
        }
    }

    #[test]
    fn the_short_window_follows_a_change_sooner() {
        let mut meter = steady(60, 1_000, 100, 1.0);
        let last = *meter.samples.back().unwrap();
        for second in 1..=10 {
            let more = second * 1_000;
            let cpu = last.cpu + Duration::from_micros(more * 20);
            meter.sample(last.at + Duration::from_secs(second), cpu, last.requests + more, 1.0);
        }
        let reading = meter.reading();
        near(reading.windows()[0].cpu_microseconds_per_request(), 20.0);
        near(reading.windows()[1].cpu_microseconds_per_request(), (50.0 * 100.0 + 10.0 * 20.0) / 60.0);
    }

    #[test]
    fn an_unknown_cost_is_reported_as_unknown() {
        let idle = steady(30, 0, 0, 2.0).reading();
        let few = steady(5, 1, 500, 2.0).reading();
        let fresh = CostMeter::new().reading();
        for (reading, why) in [(&idle, "no request"), (&few, "too few"), (&fresh, "just started")] {
            assert!(reading.now().unknown().unwrap().contains(why));
            assert_eq!(reading.now().headroom(2.0), None);
            let value: Value = serde_json::from_str(&reading.json()).unwrap();
            assert!(value["windows"][0]["headroom_requests_per_second"].is_null());
            assert!(value["windows"][0]["unknown"].is_string());
        }
        assert!(few.text().contains("not known"));
        assert!(fresh.text().contains("nothing measured yet"));
    }

    #[test]
    fn an_overloaded_gateway_has_no_headroom() {
        // More CPU time than the given cores: a quota that is exceeded for a moment, or a wrong count of
        // cores.
        near(steady(10, 1_000, 3_000, 4.0).reading().now().headroom(4.0), 1_000.0 / 3.0);
        assert_eq!(steady(10, 1_000, 3_000, 2.0).reading().now().headroom(2.0), Some(0.0));
    }

    #[test]
    fn a_clock_that_goes_back_restarts_the_meter() {
        let mut meter = steady(20, 1_000, 50, 1.0);
        let later = meter.samples.back().unwrap().at + Duration::from_secs(1);
        meter.sample(later, Duration::ZERO, 0, 1.0);
        assert!(meter.reading().now().observed.is_zero());
        meter.sample(later, Duration::from_secs(9), 9, 1.0);
        assert!(meter.reading().now().observed.is_zero(), "a second sample at one instant is left out");
    }

    #[test]
    fn it_keeps_no_more_than_a_window() {
        assert!(steady(1_000, 10, 10, 1.0).samples.len() <= 62);
    }

    #[test]
    fn text_and_json() {
        let reading = steady(60, 32_000, 10, 2.0).reading();
        assert!(reading.text().contains("10.00 us of CPU a request. At this mix, 168000 more requests/s"));
        let value: Value = serde_json::from_str(&reading.json()).unwrap();
        assert_eq!(value["cores"], 2.0);
        assert_eq!(value["windows"][1]["seconds"], 60);
        assert_eq!(value["windows"][1]["headroom_requests_per_second"], 168_000.0);
        assert!(value["windows"][1]["unknown"].is_null());
    }
}
