//! Remembers nonces, so that a signed request cannot be replayed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};

/// The nonces seen in the validity period of a signature. Each is remembered for one to
/// two such periods.
#[derive(Debug)]
pub(super) struct Nonces {
    window: Duration,
    most: usize,
    seen: Mutex<SeenNonces>,
}

#[derive(Debug)]
struct SeenNonces {
    begun: Instant,
    now: HashSet<[u8; 16]>,
    before: HashSet<[u8; 16]>,
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceResult {
    New,
    Seen,
    /// The limit of remembered nonces is reached.
    Full,
}

impl Nonces {
    /// Creates an empty store that remembers up to `most` nonces in each of two windows.
    pub fn new(window: Duration, most: usize, now: Instant) -> Self {
        let seen = SeenNonces { begun: now, now: HashSet::new(), before: HashSet::new() };
        Self { window, most, seen: Mutex::new(seen) }
    }

    /// Whether it was created with these parameters.
    pub fn is_for(&self, window: Duration, most: usize) -> bool {
        (self.window, self.most) == (window, most)
    }

    /// Records the nonce of a request with a valid signature.
    pub fn take(&self, key: &str, nonce: &str, now: Instant) -> NonceResult {
        let mut hash = Context::new(&SHA256);
        hash.update(&(key.len() as u64).to_be_bytes());
        hash.update(key.as_bytes());
        hash.update(nonce.as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finish().as_ref()[..16]);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(seen.begun);
        if age >= self.window {
            let last = std::mem::take(&mut seen.now);
            seen.before = if age >= 2 * self.window { HashSet::new() } else { last };
            seen.begun = now;
        }
        if seen.now.contains(&id) || seen.before.contains(&id) {
            return NonceResult::Seen;
        }
        if seen.now.len() >= self.most {
            return NonceResult::Full;
        }
        seen.now.insert(id);
        NonceResult::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_good_once() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let nonces = Nonces::new(10 * second, 3, begin);
        let take = |key, nonce, after: u32| nonces.take(key, nonce, begin + after * second);
        assert_eq!((take("k", "a", 0), take("k", "a", 0)), (NonceResult::New, NonceResult::Seen));
        assert_eq!((take("l", "a", 1), take("kl", "", 1)), (NonceResult::New, NonceResult::New));
        assert_eq!(take("k", "b", 2), NonceResult::Full);
        assert_eq!((take("k", "a", 10), take("k", "b", 11)), (NonceResult::Seen, NonceResult::New));
        assert_eq!(take("k", "a", 25), NonceResult::New, "its signature is too old by now");
        assert_eq!((take("k", "b", 20 + 25), take("k", "b", 46)), (NonceResult::New, NonceResult::Seen));
    }
}
