//! What went wrong with the TLS of an upstream's endpoints, for the admin listener, the metrics and the notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_net::{TlsFault, TlsFaultClass, TlsFaultKind};

/// For so long an endpoint has refused nobody that is taken to refuse nobody any more.
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

    /// Each word that has a count, with it.
    pub(crate) fn words(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let words = TlsFaultKind::ALL.iter().map(|kind| kind.as_str());
        words.zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

/// What went wrong last at one endpoint. It stays until a handshake succeeds.
#[derive(Debug, Default)]
pub(crate) struct TlsRecord {
    /// Whether there is something: all that a good handshake looks at.
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

    /// Notes that a handshake has succeeded. Returns whether TLS works again with that.
    ///
    /// In TLS 1.3 an endpoint refuses the gateway only after the gateway's handshake, so that a handshake does not tell that
    /// such a fault is over. A quiet time does.
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

    /// Notes that something was answered over TLS. Returns whether it did not work before.
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
