//! Lots that are drawn.

/// Whether a request is one of so many of a hundred.
pub(crate) fn drawn(percent: u8) -> bool {
    percent >= 100 || fastrand::u8(..100) < percent
}
