//! The clocks and the source of secrets, which a simulation replaces.

use std::io;
use std::time::{Instant, SystemTime};

/// Returns the time of the monotonic clock. The data path uses no other source, so a simulation controls its
/// time.
#[inline]
#[must_use]
pub fn now() -> Instant {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::now();
    }
    Instant::now()
}

/// Returns the time of the wall clock.
#[must_use]
pub fn wall_clock() -> SystemTime {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::wall();
    }
    SystemTime::now()
}

/// Returns a random key from the kernel.
///
/// # Errors
/// If the kernel provides no random bytes.
pub fn random_key() -> io::Result<[u8; 16]> {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return Ok(crate::simulated::random_key());
    }
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(key)
}
