//! What the control thread is told: that something changed, and what is to be said of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_net::{Address, TlsFault};

use crate::health::ProbeFailure;
use crate::outlier::{Cause, Ejected};

/// Notices that are kept until somebody takes them. They come at most as fast as endpoints change their state, so this
/// is never full unless nobody listens.
const KEPT: usize = 1024;

/// Notices for whoever writes them down, and a bell for whoever must look at upstreams again.
#[derive(Debug, Default)]
pub(crate) struct News {
    notices: Mutex<VecDeque<Notice>>,
    bell: Notify,
}

impl News {
    /// Something changed: look again.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Something is to be said.
    pub(crate) fn tell(&self, notice: Notice) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == KEPT {
            notices.pop_front();
        }
        notices.push_back(notice);
        drop(notices);
        self.ring();
    }

    /// Waits for the bell. One that rang before is heard too.
    pub(crate) async fn heard(&self) {
        self.bell.notified().await;
    }

    /// What was told since the last time, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A change of an endpoint's state, as a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The upstream.
    pub upstream: String,
    /// The endpoint.
    pub endpoint: Address,
    /// What happened.
    pub event: Event,
}

/// What happened to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Probes found it well again.
    Healthy,
    /// Probes found that it is not well.
    Unhealthy {
        /// Why the last one failed.
        last: ProbeFailure,
        /// How many in a row failed.
        failures: u32,
    },
    /// It was ejected.
    Ejected {
        /// Why.
        cause: Cause,
        /// For how long.
        time: Duration,
        /// How many times in a row by now.
        times: u32,
    },
    /// Its ejection is over.
    Returned,
    /// Its ejection ended early: another endpoint fails now, and both cannot be out.
    GaveWay,
    /// Its TLS has failed.
    TlsFailed(TlsFault),
    /// Its TLS works again.
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
