//! What time it is, and what nobody can guess.

use std::io;
use std::time::{Instant, SystemTime};

/// Now, by the monotonic clock. The data path asks nobody else, so that a simulation can say what time it is.
#[inline]
#[must_use]
pub fn now() -> Instant {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::now();
    }
    Instant::now()
}

/// Now, by the wall clock.
#[must_use]
pub fn wall_clock() -> SystemTime {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::wall();
    }
    SystemTime::now()
}

/// A key that nobody can guess.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn secret() -> io::Result<[u8; 16]> {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return Ok(crate::simulated::secret());
    }
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(key)
}
