//! The deadline of a gRPC client, and the outcomes that it explains.
//!
//! [`forward`](crate::exchange::forward) makes one for each call with a `grpc-timeout`; attempts and hedges ask it
//! before they count a failure. Invariant: an outcome at or after the deadline counts against no endpoint,
//! breaker, limit or budget.

use std::time::{Duration, Instant};

/// The least and the most time by which a server may report an expired deadline early: it counts from when
/// the call reached it, and may round the timeout or reserve some of it.
const MARGIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// The margin is this part of the client's timeout.
const MARGIN_SHARE: u32 = 10;

/// The moment at which the client of a call gives up (`grpc-timeout`). The client chose it, so an outcome
/// that it explains tells nothing about the endpoint, whichever side notices the deadline first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientDeadline {
    due: Instant,
    margin: Duration,
}

impl ClientDeadline {
    /// Returns the deadline of a client that gave `timeout` from `began` on; `None` if there is no deadline.
    pub fn new(began: Instant, timeout: Option<Duration>) -> Option<Self> {
        let timeout = timeout?;
        let margin = (timeout / MARGIN_SHARE).clamp(MARGIN.0, MARGIN.1);
        began.checked_add(timeout).map(|due| Self { due, margin })
    }

    /// Returns whether the deadline has passed.
    pub fn is_over(self, now: Instant) -> bool {
        now >= self.due
    }

    /// Returns whether the deadline explains a failure with this HTTP status. A 504 may be early by the whole
    /// margin. Any other status may be early by the least margin: the timeout that the endpoint receives is
    /// rounded down to a unit of `grpc-timeout`.
    pub fn explains(self, status: u16, now: Instant) -> bool {
        let margin = if status == 504 { self.margin } else { MARGIN.0 };
        status >= 500 && now.checked_add(margin).is_none_or(|now| now >= self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_deadline_may_be_detected_slightly_early() {
        let began = tollgate_net::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let short = ClientDeadline::new(began, Some(Duration::from_millis(50))).expect("a deadline");
        assert!(!short.explains(504, at(44)) && short.explains(504, at(45)) && short.explains(504, at(90)));
        assert!(!short.explains(503, at(44)) && short.explains(503, at(45)));
        assert!(!short.explains(200, at(60)) && !short.explains(499, at(60)));
        let long = ClientDeadline::new(began, Some(Duration::from_secs(10))).expect("a deadline");
        assert!(!long.explains(504, at(9899)) && long.explains(504, at(9900)));
        assert!(!long.is_over(at(9999)) && long.is_over(at(10_000)));
        assert!(ClientDeadline::new(began, None).is_none());
        assert!(ClientDeadline::new(began, Some(Duration::MAX)).is_none());
    }
}
