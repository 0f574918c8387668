//! The thresholds from which a thread or a core counts as full, and its load as its own.

/// The share from which a thread or core counts as full. A core that serves sockets idles a little between
/// wake-ups even at its limit: saturated single-worker runs of nginx and HAProxy lie at 0.95 to 1.
pub(super) const FULL: f64 = 0.93;

/// Origin and generator count as the load on their core if they use at least this part of its busy time. The
/// rest is interrupts and readings.
pub(super) const OWN: f64 = 0.7;
