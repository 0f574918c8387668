//! Caches verified tokens, so that most requests need no signature check.
//!
//! The `jwt` policy owns one [`TokenCache`], whose shard is selected by the worker. An entry is valid until
//! its token expires, and only for the key set that verified the token.

use std::borrow::Borrow;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use zeroize::Zeroizing;

use super::VerifiedToken;
use crate::recent_map::{RecentBounds, RecentMap};

/// The number of shards, selected by the worker's number. With at most this many workers, no two share a
/// lock.
const SHARDS: usize = 32;

/// A cache of verified tokens, compared in full. Only verified tokens are inserted, so an attacker can
/// neither fill the cache nor choose colliding keys.
pub(crate) struct TokenCache {
    parts: [Mutex<CacheShard>; SHARDS],
    /// Whether tokens are kept at all.
    is_on: bool,
}

type CacheShard = RecentMap<Bearer, Arc<VerifiedToken>>;

/// A bearer token. Its holder gains access, so it is wiped from memory when it is forgotten.
#[derive(PartialEq, Eq)]
struct Bearer(Zeroizing<Vec<u8>>);

/// Hashes like its bytes, because `Borrow<[u8]>` is used for look-ups.
impl Hash for Bearer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_slice().hash(state);
    }
}

impl Borrow<[u8]> for Bearer {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl TokenCache {
    /// Creates a cache for this many tokens per worker.
    pub fn new(tokens: usize) -> Self {
        let bounds = RecentBounds { entries: tokens, bytes: usize::MAX };
        let part = |_| Mutex::new(RecentMap::new(bounds, |_| 0));
        Self { parts: std::array::from_fn(part), is_on: tokens > 0 }
    }

    /// Returns the result for a token if it has not expired and the issuer's keys are still the same. `keys`
    /// returns the number of an issuer's current key set.
    pub fn get(
        &self,
        worker: usize,
        token: &[u8],
        now: Instant,
        keys: impl Fn(usize) -> Option<u64>,
    ) -> Option<Arc<VerifiedToken>> {
        if !self.is_on {
            return None;
        }
        let holds = |verified: &Arc<VerifiedToken>| {
            now < verified.until && keys(verified.issuer) == Some(verified.keys)
        };
        self.shard(worker).get(token, holds)
    }

    /// Inserts a verified token.
    pub fn put(&self, worker: usize, token: &[u8], verified: Arc<VerifiedToken>) {
        if self.is_on {
            self.shard(worker).put(Bearer(token.to_vec().into()), verified);
        }
    }

    fn shard(&self, worker: usize) -> std::sync::MutexGuard<'_, CacheShard> {
        self.parts[worker % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn verified(until: Instant, keys: u64) -> Arc<VerifiedToken> {
        Arc::new(VerifiedToken { until, keys, ..VerifiedToken::default() })
    }

    #[test]
    fn it_is_bounded_and_forgets_what_ends() {
        let (cache, now) = (TokenCache::new(10), Instant::now());
        let end = now + Duration::from_secs(60);
        for n in 0..1000_u32 {
            cache.put(0, &n.to_be_bytes(), verified(end, 1));
            assert!(cache.get(0, &0_u32.to_be_bytes(), now, |_| Some(1)).is_some(), "it is in use: {n}");
        }
        assert!(cache.shard(0).usage().iter().all(|(tokens, _)| *tokens <= 5));
        let token = &999_u32.to_be_bytes();
        assert!(cache.get(0, token, now, |_| Some(1)).is_some());
        assert!(cache.get(0, token, now, |_| Some(2)).is_none(), "other keys");
        assert!(cache.get(0, token, end, |_| Some(1)).is_none(), "its end");
        assert!(cache.get(1, token, now, |_| Some(1)).is_none(), "another worker's");
        assert!(cache.get(0, b"another", now, |_| Some(1)).is_none());
    }

    #[test]
    fn a_cache_of_size_zero_keeps_nothing() {
        let (cache, now) = (TokenCache::new(0), Instant::now());
        cache.put(0, b"a", verified(now + Duration::from_secs(1), 0));
        assert!(cache.get(0, b"a", now, |_| Some(0)).is_none());
    }
}
