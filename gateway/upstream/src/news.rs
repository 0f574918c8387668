//! The channel to the control thread: notices to write, and a signal that an upstream changed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_net::{Address, TlsFault};

use crate::health::ProbeFailure;
use crate::outlier::{Cause, Ejected};

/// Capacity of the queue of notices. Notices are as rare as changes of an endpoint's state, so the queue
/// fills only if no task reads it. Then the oldest notice is dropped.
const KEPT: usize = 1024;

/// Notices for the log, and a signal for the task that watches the upstreams.
#[derive(Debug, Default)]
pub(crate) struct News {
    notices: Mutex<VecDeque<Notice>>,
    bell: Notify,
}

impl News {
    /// Signals that something changed.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Queues a notice and signals.
    pub(crate) fn tell(&self, notice: Notice) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == KEPT {
            notices.pop_front();
        }
        notices.push_back(notice);
        drop(notices);
        self.ring();
    }

    /// Waits for the signal. A signal given before the call also counts.
    pub(crate) async fn heard(&self) {
        self.bell.notified().await;
    }

    /// Returns the notices since the last call, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A change of an endpoint's state, which `Display` formats as a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name of the upstream.
    pub upstream: String,
    /// The address of the endpoint.
    pub endpoint: Address,
    /// The change.
    pub event: Event,
}

/// A change of an endpoint's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Probes succeed again.
    Healthy,
    /// Probes fail.
    Unhealthy {
        /// Why the last probe failed.
        last: ProbeFailure,
        /// How many probes failed in a row.
        failures: u32,
    },
    /// Outlier detection ejected the endpoint.
    Ejected {
        /// The rule that the endpoint violated.
        cause: Cause,
        /// How long the ejection lasts.
        time: Duration,
        /// How many times in a row it was ejected, including this time.
        times: u32,
    },
    /// Its ejection is over.
    Returned,
    /// Its ejection ended early, because another endpoint fails now and not both may be ejected.
    GaveWay,
    /// TLS to the endpoint fails.
    TlsFailed(TlsFault),
    /// TLS to the endpoint works again.
    TlsWorks,
}

impl From<Ejected> for Event {
    fn from(Ejected { cause, time, times }: Ejected) -> Self {
        Self::Ejected { cause, time, times }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream {}: {} ", self.upstream, self.endpoint)?;
        match &self.event {
            Event::Healthy => f.write_str("is healthy again"),
            Event::Unhealthy { last, failures: 1 } => write!(f, "is unhealthy: {last}"),
            Event::Unhealthy { last, failures } => {
                write!(f, "is unhealthy: {failures} probes failed in a row, the last one: {last}")
            }
            Event::Ejected { cause, time, times } => {
                write!(f, "is ejected for {} s: {cause}", time.as_secs_f32())?;
                match times {
                    1 => Ok(()),
                    _ => write!(f, " (time {times} in a row)"),
                }
            }
            Event::GaveWay => {
                f.write_str("takes requests again: another endpoint fails now, and not both may be out")
            }
            Event::TlsFailed(fault) => write!(f, "cannot be spoken to by TLS: {fault}"),
            Event::TlsWorks => f.write_str("can be spoken to by TLS again"),
            Event::Returned => f.write_str("takes requests again: its ejection is over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(event: Event) -> Notice {
        Notice { upstream: "shop".to_owned(), endpoint: Address::tcp("10.0.0.1", 80), event }
    }

    #[test]
    fn lines() {
        let cases = [
            (Event::Healthy, "upstream shop: 10.0.0.1:80 is healthy again"),
            (
                Event::Unhealthy { last: ProbeFailure::Status(503), failures: 1 },
                "upstream shop: 10.0.0.1:80 is unhealthy: status 503",
            ),
            (
                Event::Unhealthy { last: ProbeFailure::Refused, failures: 3 },
                "upstream shop: 10.0.0.1:80 is unhealthy: 3 probes failed in a row, the last one: no connection",
            ),
            (
                Event::Ejected { cause: Cause::Consecutive5xx, time: Duration::from_millis(1500), times: 2 },
                "upstream shop: 10.0.0.1:80 is ejected for 1.5 s: responses 5xx or failures in a row (time 2 in a row)",
            ),
            (
                Event::GaveWay,
                "upstream shop: 10.0.0.1:80 takes requests again: another endpoint fails now, and not both may be out",
            ),
            (Event::Returned, "upstream shop: 10.0.0.1:80 takes requests again: its ejection is over"),
        ];
        for (event, text) in cases {
            assert_eq!(notice(event).to_string(), text);
        }
    }

    #[test]
    fn what_nobody_takes_is_bounded() {
        let news = News::default();
        for _ in 0..KEPT + 10 {
            news.tell(notice(Event::Returned));
        }
        assert_eq!(news.take().len(), KEPT);
        assert!(news.take().is_empty());
    }
}
