//! What went wrong with the TLS of an upstream's endpoints, for the admin listener, the metrics and the notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tollgate_net::{TlsFault, TlsFaultKind};

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

    /// Notes that TLS works. Returns whether it did not before.
    pub(crate) fn worked(&self) -> bool {
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
