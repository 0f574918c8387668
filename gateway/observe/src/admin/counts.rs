//! Counters of the admin listener, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why the admin listener refused a connection or a request. Each is a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRefusal {
    /// A token is required, and the request carried none.
    TokenMissing,
    /// The request's token is not in the configuration.
    TokenUnknown,
    /// The credentials do not have the form that the API accepts.
    CredentialsMalformed,
    /// Too many wrong credentials came from the peer's address.
    Throttled,
    /// The client certificate was refused, or none was presented.
    Certificate,
    /// The token's role does not suffice, or the request came from a page of another origin.
    Forbidden,
    /// The listener does not serve this `Host`.
    Host,
    /// No connection or memory was free for the request.
    Busy,
}

impl AdminRefusal {
    /// Every reason, in the order of the metric.
    pub const ALL: [Self; 8] = [
        Self::TokenMissing,
        Self::TokenUnknown,
        Self::CredentialsMalformed,
        Self::Throttled,
        Self::Certificate,
        Self::Forbidden,
        Self::Host,
        Self::Busy,
    ];

    /// Returns the spelling in metrics, the log and the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenMissing => "token_missing",
            Self::TokenUnknown => "token_unknown",
            Self::CredentialsMalformed => "credentials_malformed",
            Self::Throttled => "throttled",
            Self::Certificate => "certificate",
            Self::Forbidden => "forbidden",
            Self::Host => "host",
            Self::Busy => "busy",
        }
    }
}

/// Counters of the admin listener.
#[derive(Debug, Default)]
pub struct AdminCounts {
    refused: [AtomicU64; AdminRefusal::ALL.len()],
    evicted: AtomicU64,
}

/// The values of [`AdminCounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminCountsSnapshot {
    /// Refusals, in the order of [`AdminRefusal::ALL`].
    pub refused: [u64; AdminRefusal::ALL.len()],
    /// Connections that were closed to make room for others.
    pub evicted: u64,
}

impl AdminCounts {
    /// Counts a refusal.
    pub fn refused(&self, why: AdminRefusal) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed to make room for another one.
    pub(super) fn evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> AdminCountsSnapshot {
        let mut refused = [0; AdminRefusal::ALL.len()];
        for (sum, count) in refused.iter_mut().zip(&self.refused) {
            *sum = count.load(Ordering::Relaxed);
        }
        AdminCountsSnapshot { refused, evicted: self.evicted.load(Ordering::Relaxed) }
    }
}
