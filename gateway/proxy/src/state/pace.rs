//! The least rate at which a client sends a request's body, or takes a response.
//!
//! A client occupies an endpoint's connection for as long as its body or its response is in progress. A bound
//! between two bytes does not limit that: one byte every few seconds keeps each wait short. So the time that
//! the gateway waits for the client is counted, and each transferred byte earns some of it back.
//!
//! The exchange, the reading of a buffered body and the delivery of the rest of a response use it. Invariant:
//! only time in which the gateway was ready to read, or had something to write, is counted. A slow endpoint
//! costs the client nothing.

use std::time::{Duration, Instant};

use tollgate_http::{Name, RequestHead};
use tollgate_plan::{Rates, Timeouts};

/// How long a client may still keep the gateway waiting. Each byte that moves adds a second divided by the
/// rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes a second; `None`: there is no least rate.
    rate: Option<u32>,
    left: Duration,
    /// The upper bound of `left`.
    left_max: Duration,
    /// The start of the current wait for the client; `None` if there is none.
    since: Option<Instant>,
    /// The bytes that were counted.
    counted: u64,
}

/// The paces of an exchange; `None` while the exchange has not waited for the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paces {
    /// The pace of the request's body.
    pub sending: Option<Pace>,
    /// The pace of the response.
    pub taking: Option<Pace>,
}

impl Pace {
    /// Creates the pace of a request's body, of which `moved` bytes are here already.
    pub fn of_body(rates: &Rates, timeouts: &Timeouts, request: &RequestHead, moved: u64) -> Self {
        let rate = rates.body.filter(|_| !is_stream(request));
        Self::new(rate, rates.grace, timeouts.body, moved)
    }

    /// Creates the pace of a response, of which the client has taken `moved` bytes already.
    pub fn of_response(rates: &Rates, silence: Option<Duration>, is_stream: bool, moved: u64) -> Self {
        Self::new(rates.response.filter(|_| !is_stream), rates.grace, silence, moved)
    }

    /// `silence` is how long the client may move no byte at all. A client that was quick before has at most
    /// that long.
    fn new(rate: Option<u32>, grace: Duration, silence: Option<Duration>, moved: u64) -> Self {
        let left_max = silence.unwrap_or(grace).max(grace);
        Self { rate, left: grace, left_max, since: None, counted: moved }
    }

    /// Records that `moved` bytes have moved in total, and ends the wait for the client if there was one.
    pub fn settle(&mut self, now: Instant, moved: u64) {
        let Some(rate) = self.rate else { return };
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(now.saturating_duration_since(since));
        }
        let bytes = moved.saturating_sub(self.counted);
        self.counted = self.counted.max(moved);
        // Capped first, so that no count can overflow a duration.
        let enough = self.left_max.as_secs().saturating_add(1).saturating_mul(u64::from(rate));
        let earned = Duration::from_secs_f64(bytes.min(enough) as f64 / f64::from(rate));
        self.left = (self.left + earned).min(self.left_max);
    }

    /// Starts a wait for the client. Returns its bound: `left`, or `own` if that is shorter.
    pub fn wait(&mut self, now: Instant, own: Option<Duration>) -> Option<Duration> {
        if self.rate.is_none() {
            return own;
        }
        self.since = Some(now);
        Some(own.map_or(self.left, |own| own.min(self.left)))
    }

    /// Ends the current wait without counting it: the client was not able to proceed.
    pub fn excuse(&mut self) {
        self.since = None;
    }

    /// Returns whether the client has kept the gateway waiting for too long.
    pub fn is_over(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= self.left)
    }
}

/// Returns whether the body is a stream of messages that may pause for as long as the application likes:
/// gRPC, and Connect's streaming calls. Their own deadline bounds these, or `timeouts.body`.
pub(crate) fn is_stream(request: &RequestHead) -> bool {
    let begins = |value: &[u8], with: &[u8]| {
        value.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with))
    };
    request
        .head
        .get(Name::ContentType)
        .is_some_and(|value| begins(value, b"application/grpc") || begins(value, b"application/connect+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(rate: u32) -> Pace {
        Pace::new(Some(rate), 10 * SECOND, Some(60 * SECOND), 0)
    }

    #[test]
    fn a_client_that_dribbles_is_over_soon_after_the_grace() {
        let (start, mut pace) = (tollgate_net::now(), pace(240));
        let (mut now, mut moved) = (start, 0);
        while !pace.is_over(now) {
            pace.settle(now, moved);
            pace.wait(now, None);
            now += 5 * SECOND;
            moved += 1;
        }
        assert_eq!(now - start, 15 * SECOND);
    }

    #[test]
    fn a_client_at_the_rate_goes_on_for_ever() {
        let (mut now, mut pace) = (tollgate_net::now(), pace(240));
        for second in 1..10_000 {
            pace.wait(now, None);
            now += SECOND;
            assert!(!pace.is_over(now), "after {second} s");
            pace.settle(now, second * 240);
        }
    }

    #[test]
    fn fast_transfer_earns_one_pause() {
        let (now, mut pace) = (tollgate_net::now(), pace(240));
        pace.settle(now, u64::MAX);
        assert_eq!(pace.wait(now, Some(90 * SECOND)), Some(60 * SECOND));
        assert!(!pace.is_over(now + 59 * SECOND));
        assert!(pace.is_over(now + 60 * SECOND));
    }

    #[test]
    fn time_without_a_wait_is_free() {
        let (now, mut pace) = (tollgate_net::now(), pace(240));
        pace.wait(now, None);
        pace.settle(now + 4 * SECOND, 0);
        assert!(!pace.is_over(now + 1000 * SECOND));
        assert_eq!(pace.wait(now + 1000 * SECOND, None), Some(6 * SECOND));
    }

    #[test]
    fn without_a_rate_only_the_own_bound_holds() {
        let (now, mut pace) = (tollgate_net::now(), Pace::new(None, SECOND, None, 0));
        pace.settle(now, 7);
        assert_eq!(pace.wait(now, Some(SECOND)), Some(SECOND));
        assert_eq!(pace.wait(now, None), None);
        assert!(!pace.is_over(now + 1000 * SECOND));
    }
}
