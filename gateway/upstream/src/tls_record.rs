//! The TLS failures of an upstream's endpoints, for the admin listener, the metrics and the notices.
//!
//! All workers and the health probes write here; the admin listener reads. Invariant: a failure stays until TLS works again, and
//! only a change is news.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_net::{TlsFault, TlsFaultClass, TlsFaultKind};

/// After this time without an alert, an endpoint is taken to accept the gateway again.
const QUIET: Duration = Duration::from_secs(600);

/// Failures of an upstream, by [`TlsFaultKind`].
#[derive(Debug)]
pub(crate) struct TlsCounts([AtomicU64; TlsFaultKind::COUNT]);

impl Default for TlsCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; TlsFaultKind::COUNT])
    }
}

impl TlsCounts {
    pub(crate) fn count(&self, kind: TlsFaultKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The kinds that were counted, with their counts.
    pub(crate) fn words(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let words = TlsFaultKind::ALL.iter().map(|kind| kind.as_str());
        words.zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

/// The last failure at one endpoint. It stays until a handshake succeeds.
#[derive(Debug, Default)]
pub(crate) struct TlsRecord {
    /// Whether there is a failure. A handshake that succeeds reads nothing else.
    is_set: AtomicBool,
    last: Mutex<Option<(Instant, TlsFault)>>,
}

impl TlsRecord {
    /// Notes a failure. Returns whether it is news: the last one was of another kind, or there was none.
    pub(crate) fn failed(&self, fault: &TlsFault) -> bool {
        let before = self.lock().replace((tollgate_net::now(), fault.clone()));
        self.is_set.store(true, Ordering::Relaxed);
        before.is_none_or(|(_, before)| before.kind != fault.kind)
    }

    /// Notes that a handshake has succeeded. Returns whether that ends a failure.
    ///
    /// In TLS 1.3 an endpoint refuses the gateway only after the gateway's handshake, so a handshake does not prove that such a
    /// failure is over. A time without an alert does.
    pub(crate) fn worked(&self) -> bool {
        if !self.is_set.load(Ordering::Relaxed) {
            return false;
        }
        let is_late = |(at, fault): &(Instant, TlsFault)| {
            fault.kind.class() == TlsFaultClass::Alert
                && tollgate_net::now().saturating_duration_since(*at) < QUIET
        };
        !self.lock().as_ref().is_some_and(is_late) && self.is_over()
    }

    /// Notes an answer over TLS. Returns whether that ends a failure.
    pub(crate) fn is_over(&self) -> bool {
        self.is_set.load(Ordering::Relaxed) && {
            self.is_set.store(false, Ordering::Relaxed);
            self.lock().take().is_some()
        }
    }

    pub(crate) fn last(&self) -> Option<(Instant, TlsFault)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, TlsFault)>> {
        // Nothing that holds it can leave it half done.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
