//! Records the TLS failures of an upstream's endpoints, for the admin listener, the metrics and the notices.
//!
//! All workers and the health probes write here; the admin listener reads. A failure stays until TLS works
//! again. Only a change causes a notice, and one endpoint causes few notices, however often it changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_net::{TlsFault, TlsFaultClass, TlsFaultKind};

/// An endpoint that has sent no alert for this long is assumed to accept the gateway again.
const ALERT_QUIET_TIME: Duration = Duration::from_secs(600);
/// After this time a failure of the same kind causes a notice again. Several servers may share an address,
/// and one of them may be broken.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// Counts of an upstream's failures, by [`TlsFaultKind`].
#[derive(Debug)]
pub(crate) struct TlsFailureCounts {
    counts: [AtomicU64; TlsFaultKind::COUNT],
    /// Whether the upstream's plan has TLS.
    is_expected: AtomicBool,
}

impl Default for TlsFailureCounts {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; TlsFaultKind::COUNT],
            is_expected: AtomicBool::new(false),
        }
    }
}

impl TlsFailureCounts {
    pub(crate) fn count(&self, kind: TlsFaultKind) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets whether the upstream's plan has TLS.
    pub(crate) fn set_expected(&self, is_expected: bool) {
        self.is_expected.store(is_expected, Ordering::Relaxed);
    }

    /// Returns the kinds that occurred, with their counts; of an upstream with TLS all kinds, so that their metrics
    /// exist before the first failure.
    pub(crate) fn by_name(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let words = TlsFaultKind::ALL.iter().map(|kind| kind.as_str());
        let is_expected = self.is_expected.load(Ordering::Relaxed);
        words.zip(counts).filter(|(_, count)| is_expected || *count > 0).collect()
    }
}

/// The last failure at one endpoint. It stays until a handshake succeeds.
#[derive(Debug, Default)]
pub(crate) struct EndpointTlsFailure {
    /// Whether there is a failure. A successful handshake reads only this flag.
    is_set: AtomicBool,
    inner: Mutex<RecordedFailure>,
}

#[derive(Debug, Default)]
struct RecordedFailure {
    last: Option<(Instant, TlsFault)>,
    /// Whether a notice reported the last failure.
    is_reported: bool,
    /// The last notice of each kind of failure.
    notices: Vec<(TlsFaultKind, Instant)>,
}

impl EndpointTlsFailure {
    /// Records a failure. Returns whether it needs a notice: there was no failure, or one of another kind,
    /// and the last notice of its kind is not [recent](NOTICE_INTERVAL).
    pub(crate) fn failed(&self, fault: &TlsFault, now: Instant) -> bool {
        let inner = &mut *self.lock();
        let before = inner.last.replace((now, fault.clone()));
        self.is_set.store(true, Ordering::Relaxed);
        if before.is_some_and(|(_, before)| before.kind == fault.kind) {
            return false;
        }
        inner.notices.retain(|(_, at)| now.saturating_duration_since(*at) < NOTICE_INTERVAL);
        inner.is_reported = inner.notices.iter().all(|(kind, _)| *kind != fault.kind);
        if inner.is_reported {
            inner.notices.push((fault.kind, now));
        }
        inner.is_reported
    }

    /// Records a successful handshake. Returns whether it needs a notice: it ends a failure that a notice
    /// reported.
    ///
    /// In TLS 1.3 an endpoint rejects the gateway only after the gateway's handshake, so a handshake does not
    /// prove that such a failure is over. A time without an alert does.
    pub(crate) fn succeeded(&self, now: impl FnOnce() -> Instant) -> bool {
        if !self.is_set.load(Ordering::Relaxed) {
            return false;
        }
        let now = now();
        let is_recent = |(at, fault): &(Instant, TlsFault)| {
            fault.kind.class() == TlsFaultClass::Alert
                && now.saturating_duration_since(*at) < ALERT_QUIET_TIME
        };
        !self.lock().last.as_ref().is_some_and(is_recent) && self.answered()
    }

    /// Records an answer over TLS. Returns whether it needs a notice, as [`succeeded`](Self::succeeded) does.
    pub(crate) fn answered(&self) -> bool {
        self.is_set.load(Ordering::Relaxed) && {
            self.is_set.store(false, Ordering::Relaxed);
            let inner = &mut *self.lock();
            inner.last.take().is_some() && inner.is_reported
        }
    }

    pub(crate) fn last(&self) -> Option<(Instant, TlsFault)> {
        self.lock().last.clone()
    }

    fn lock(&self) -> MutexGuard<'_, RecordedFailure> {
        // A panic under the lock cannot leave the record half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn fault(kind: TlsFaultKind) -> TlsFault {
        TlsFault::new(kind, kind.as_str())
    }

    #[test]
    fn a_failure_is_news_once_and_so_is_its_end() {
        let (record, now) = (EndpointTlsFailure::default(), tollgate_net::now());
        assert!(!record.succeeded(|| now));
        assert!(record.failed(&fault(TlsFaultKind::CertificateExpired), now));
        assert!(!record.failed(&fault(TlsFaultKind::CertificateExpired), now + SECOND));
        assert!(record.failed(&fault(TlsFaultKind::NotTls), now + SECOND));
        assert_eq!(record.last().map(|(_, fault)| fault.kind), Some(TlsFaultKind::NotTls));
        assert!(record.succeeded(|| now + SECOND) && record.last().is_none());
        assert!(!record.succeeded(|| now + SECOND));
    }

    #[test]
    fn a_flapping_address_makes_few_notices() {
        let (record, now) = (EndpointTlsFailure::default(), tollgate_net::now());
        let expired = fault(TlsFaultKind::CertificateExpired);
        let mut notices = 0;
        for second in 0..100 {
            notices += u32::from(record.failed(&expired, now + second * SECOND));
            assert!(record.last().is_some());
            notices += u32::from(record.succeeded(|| now + second * SECOND));
            assert!(record.last().is_none());
        }
        assert_eq!(notices, 4, "a failure and its end at once, and again after a minute");
    }

    #[test]
    fn a_handshake_ends_no_recent_alert() {
        let (record, now) = (EndpointTlsFailure::default(), tollgate_net::now());
        assert!(record.failed(&fault(TlsFaultKind::ClientCertificateRequired), now));
        assert!(!record.succeeded(|| now + ALERT_QUIET_TIME - SECOND) && record.last().is_some());
        assert!(record.succeeded(|| now + ALERT_QUIET_TIME));
        record.failed(&fault(TlsFaultKind::ClientCertificateRequired), now + ALERT_QUIET_TIME);
        assert!(record.answered(), "an answer does");
    }

    #[test]
    fn kinds_are_counted_by_their_words() {
        let counts = TlsFailureCounts::default();
        counts.count(TlsFaultKind::Version);
        counts.count(TlsFaultKind::Version);
        counts.count(TlsFaultKind::Protocol);
        assert_eq!(counts.by_name(), [("version", 2), ("protocol", 1)]);
    }
}
