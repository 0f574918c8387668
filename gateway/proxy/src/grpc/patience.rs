//! Until when the client of a call waits, and which outcomes come of that.

use std::time::{Duration, Instant};

/// What a server may be early by, at least and at most, where its status says that the deadline expired: it counts from when
/// the call reached it, and may round what it is told or hold some of it back.
const MARGIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// The share of the time that the client gave.
const MARGIN_SHARE: u32 = 10;

/// The moment at which the client of a call gives up (`grpc-timeout`). What a call comes to then the client chose with the
/// time that it gave: such an outcome says nothing about the endpoint, whoever notices first that the time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    due: Instant,
    margin: Duration,
}

impl Patience {
    /// Of a client that gave `timeout` from `began` on; `None`: it waits as long as it takes.
    pub fn new(began: Instant, timeout: Option<Duration>) -> Option<Self> {
        let timeout = timeout?;
        let margin = (timeout / MARGIN_SHARE).clamp(MARGIN.0, MARGIN.1);
        began.checked_add(timeout).map(|due| Self { due, margin })
    }

    /// Whether it is over.
    pub fn is_over(self, now: Instant) -> bool {
        now >= self.due
    }

    /// Whether a failure with this status, in HTTP's words, comes of it. A status that says that time is over may come
    /// a little before. Any other one may come before by the least margin: the time that the endpoint receives is rounded
    /// down to a unit of `grpc-timeout`.
    pub fn explains(self, status: u16, now: Instant) -> bool {
        let margin = if status == 504 { self.margin } else { MARGIN.0 };
        status >= 500 && now.checked_add(margin).is_none_or(|now| now >= self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_deadline_may_be_told_a_little_early() {
        let began = tollgate_net::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let short = Patience::new(began, Some(Duration::from_millis(50))).expect("a deadline");
        assert!(!short.explains(504, at(44)) && short.explains(504, at(45)) && short.explains(504, at(90)));
        assert!(!short.explains(503, at(44)) && short.explains(503, at(45)));
        assert!(!short.explains(200, at(60)) && !short.explains(499, at(60)));
        let long = Patience::new(began, Some(Duration::from_secs(10))).expect("a deadline");
        assert!(!long.explains(504, at(9899)) && long.explains(504, at(9900)));
        assert!(!long.is_over(at(9999)) && long.is_over(at(10_000)));
        assert!(Patience::new(began, None).is_none());
        assert!(Patience::new(began, Some(Duration::MAX)).is_none());
    }
}
