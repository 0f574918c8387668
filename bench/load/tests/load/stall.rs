//! Compares the generator's report with the truth for a server that stalls on a known schedule.

use crate::server;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tollgate_lab_load::{Length, Plan, run};
use tollgate_lab_record::{LoadModel, LoadResult};

/// A server that stalls at the end of each period.
#[derive(Clone, Copy)]
struct Script {
    period: Duration,
    stall: Duration,
}

impl Script {
    /// Returns how long a request waits that arrives at `time` after the first one.
    fn wait(self, time: Duration) -> Duration {
        let into = Duration::from_nanos((time.as_nanos() % self.period.as_nanos()) as u64);
        if into >= self.period - self.stall { self.period - into } else { Duration::ZERO }
    }

    /// Returns the waits of all requests at a constant rate, in microseconds and ascending order.
    fn truth(self, rps: f64, seconds: f64) -> Vec<f64> {
        let waits =
            (0..(rps * seconds) as u64).map(|index| self.wait(Duration::from_secs_f64(index as f64 / rps)));
        let mut waits: Vec<f64> = waits.map(|wait| wait.as_secs_f64() * 1e6).collect();
        waits.sort_by(f64::total_cmp);
        waits
    }
}

/// Runs a constant rate against a server with the script. Returns the result and the true 99th percentile.
fn against(script: Script, rps: f64, seconds: f64) -> (LoadResult, f64) {
    let began: OnceLock<Instant> = OnceLock::new();
    let (address, _) = server::start(move |_, stream| {
        let began = *began.get_or_init(Instant::now);
        thread::sleep(script.wait(began.elapsed()));
        server::ok(stream, "ok")
    });
    let mut plan = Plan::new(address);
    // Few connections, so that few requests are in flight when the server stops. A client that waits for
    // those hides the delay of the others.
    plan.connections = 4;
    plan.model = LoadModel::Constant { rps };
    plan.length = Length::Seconds(seconds);
    let result = run(&plan).unwrap();
    assert_eq!(result.failures.total(), 0);
    let truth = script.truth(rps, seconds);
    (result, truth[(truth.len() as f64 * 0.99).ceil() as usize - 1])
}

fn p99(times: &Option<tollgate_lab_record::Distribution>) -> f64 {
    times.as_ref().unwrap().percentile(99.0).unwrap()
}

/// The bounds are wide, because machines that run tests are busy. A tenth of 2 seconds is stalled, so the
/// truth is 90 ms.
#[test]
fn the_corrected_percentile_shows_a_stall_that_the_uncorrected_one_hides() {
    let script = Script { period: Duration::from_millis(1000), stall: Duration::from_millis(100) };
    let (result, truth) = against(script, 1000.0, 2.0);
    assert_eq!(result.ok, 2000);
    assert!((truth - 90_000.0).abs() < 2_000.0, "{truth}");
    let corrected = p99(&result.response_time);
    assert!(corrected > 0.8 * truth && corrected < 5.0 * truth, "true {truth} us, corrected {corrected} us");
    // Two stalls over four connections: at most eight of 2,000 requests were in flight.
    assert!(p99(&result.service_time) < corrected, "{:?}", result.service_time);
}

/// The bar is 2 %. Needs a quiet machine and 20 seconds.
#[test]
#[ignore = "a measurement: 20 s on a quiet machine"]
fn the_corrected_percentile_is_within_two_percent_of_the_truth() {
    let script = Script { period: Duration::from_secs(5), stall: Duration::from_millis(500) };
    let (result, truth) = against(script, 1000.0, 20.0);
    let (corrected, uncorrected) = (p99(&result.response_time), p99(&result.service_time));
    let lag = p99(&result.send_lag);
    let rate = result.rps();
    eprintln!(
        "p99: true {truth:.0} us, corrected {corrected:.0} us ({:+.2} %), uncorrected {uncorrected:.0} us; \
         lag p99 {lag:.0} us; rate {rate:.2} of 1000",
        (corrected / truth - 1.0) * 100.0
    );
    assert!((corrected / truth - 1.0).abs() < 0.02);
    assert!(uncorrected < 0.1 * truth);
    assert!((rate / 1000.0 - 1.0).abs() < 0.005);
}
