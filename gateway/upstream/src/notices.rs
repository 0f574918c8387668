//! The channel to the control thread: notices to write, and a signal that an upstream changed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_net::{Address, TlsFault};

use crate::health::ProbeFailure;
use crate::outlier::{Ejection, EjectionCause};

/// Capacity of the queue of notices. Notices are as rare as changes of an endpoint's state, so the queue
/// fills only if no task reads it. Then the oldest notice is dropped.
const NOTICES_MAX: usize = 1024;

/// Notices for the log, and a signal for the task that watches the upstreams.
#[derive(Debug, Default)]
pub(crate) struct NoticeChannel {
    notices: Mutex<VecDeque<EndpointNotice>>,
    signal: Notify,
}

impl NoticeChannel {
    /// Signals that something changed.
    pub(crate) fn signal(&self) {
        self.signal.notify_one();
    }

    /// Queues a notice and signals.
    pub(crate) fn push(&self, notice: EndpointNotice) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == NOTICES_MAX {
            notices.pop_front();
        }
        notices.push_back(notice);
        drop(notices);
        self.signal();
    }

    /// Waits for the signal. A signal given before the call also counts.
    pub(crate) async fn signalled(&self) {
        self.signal.notified().await;
    }

    /// Returns the notices since the last call, oldest first.
    pub(crate) fn take(&self) -> VecDeque<EndpointNotice> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A change of an endpoint's state, which `Display` formats as a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointNotice {
    /// The name of the upstream.
    pub upstream: String,
    /// The address of the endpoint.
    pub endpoint: Address,
    /// The change.
    pub event: EndpointEvent,
}

/// A change of an endpoint's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
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
    Ejection {
        /// The rule that the endpoint violated.
        cause: EjectionCause,
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

impl From<Ejection> for EndpointEvent {
    fn from(Ejection { cause, time, times }: Ejection) -> Self {
        Self::Ejection { cause, time, times }
    }
}

impl fmt::Display for EndpointNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream {}: {} ", self.upstream, self.endpoint)?;
        match &self.event {
            EndpointEvent::Healthy => f.write_str("is healthy again"),
            EndpointEvent::Unhealthy { last, failures: 1 } => write!(f, "is unhealthy: {last}"),
            EndpointEvent::Unhealthy { last, failures } => {
                write!(f, "is unhealthy: {failures} probes failed in a row, the last one: {last}")
            }
            EndpointEvent::Ejection { cause, time, times } => {
                write!(f, "is ejected for {} s: {cause}", time.as_secs_f32())?;
                match times {
                    1 => Ok(()),
                    _ => write!(f, " (time {times} in a row)"),
                }
            }
            EndpointEvent::GaveWay => {
                f.write_str("takes requests again: another endpoint fails now, and not both may be out")
            }
            EndpointEvent::TlsFailed(fault) => write!(f, "cannot be spoken to by TLS: {fault}"),
            EndpointEvent::TlsWorks => f.write_str("can be spoken to by TLS again"),
            EndpointEvent::Returned => f.write_str("takes requests again: its ejection is over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(event: EndpointEvent) -> EndpointNotice {
        EndpointNotice { upstream: "shop".to_owned(), endpoint: Address::tcp("10.0.0.1", 80), event }
    }

    #[test]
    fn lines() {
        let cases = [
            (EndpointEvent::Healthy, "upstream shop: 10.0.0.1:80 is healthy again"),
            (
                EndpointEvent::Unhealthy { last: ProbeFailure::Status(503), failures: 1 },
                "upstream shop: 10.0.0.1:80 is unhealthy: status 503",
            ),
            (
                EndpointEvent::Unhealthy { last: ProbeFailure::Refused, failures: 3 },
                "upstream shop: 10.0.0.1:80 is unhealthy: 3 probes failed in a row, the last one: no connection",
            ),
            (
                EndpointEvent::Ejection {
                    cause: EjectionCause::Consecutive5xx,
                    time: Duration::from_millis(1500),
                    times: 2,
                },
                "upstream shop: 10.0.0.1:80 is ejected for 1.5 s: responses 5xx or failures in a row (time 2 in a row)",
            ),
            (
                EndpointEvent::GaveWay,
                "upstream shop: 10.0.0.1:80 takes requests again: another endpoint fails now, and not both may be out",
            ),
            (
                EndpointEvent::Returned,
                "upstream shop: 10.0.0.1:80 takes requests again: its ejection is over",
            ),
        ];
        for (event, text) in cases {
            assert_eq!(notice(event).to_string(), text);
        }
    }

    #[test]
    fn unread_notices_are_bounded() {
        let news = NoticeChannel::default();
        for _ in 0..NOTICES_MAX + 10 {
            news.push(notice(EndpointEvent::Returned));
        }
        assert_eq!(news.take().len(), NOTICES_MAX);
        assert!(news.take().is_empty());
    }
}
