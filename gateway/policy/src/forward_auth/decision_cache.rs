//! Remembers decisions of the service, so that most requests of a client need no question.
//!
//! All workers share a [`DecisionCache`], which is split into shards by the key: a look-up holds the lock of one shard
//! for the time of a map access. A key is an HMAC under a random key of the process, so the cache holds no credential and
//! no client can choose where its decision is stored. Requests with one key that wait at the same time ask one question.
//! The number of decisions and their bytes are bounded; the least recently used ones are forgotten first.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use foldhash::fast::RandomState;
use tokio::sync::OnceCell;

use super::decision::Decision;
use crate::recent_map::{RecentBounds, RecentMap};

/// The number of shards.
const SHARDS: usize = 16;
/// The maximum size of a decision in bytes; a larger one is not remembered.
const DECISION_MAX_BYTES: usize = 32 << 10;
/// The bytes of an entry besides its decision.
const ENTRY_BYTES: usize = size_of::<DecisionKey>() + size_of::<Remembered>() + 16;

/// The HMAC of a request's key.
pub(super) type DecisionKey = [u8; 32];

/// An answer to a question, and how long the decision may be remembered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub decision: Arc<Decision>,
    /// `None`: the decision holds for one request alone.
    pub lifetime: Option<Duration>,
}

/// The result of a question; the error is the cause for which there is no decision.
type Answer = Result<Asked, &'static str>;

/// Decisions of one service, for the policy at one place.
pub(super) struct DecisionCache {
    secret: hmac::Key,
    shards: [Mutex<Shard>; SHARDS],
    hits: Arc<AtomicU64>,
    misses: Arc<AtomicU64>,
}

/// A part of the cache, with a lock of its own.
struct Shard {
    decisions: RecentMap<DecisionKey, Remembered>,
    /// Questions that wait for an answer.
    questions: HashMap<DecisionKey, Weak<OnceCell<Answer>>, RandomState>,
}

#[derive(Clone)]
struct Remembered {
    decision: Arc<Decision>,
    until: Instant,
}

impl Remembered {
    fn bytes(&self) -> usize {
        self.decision.size() + ENTRY_BYTES
    }
}

impl DecisionCache {
    /// Creates an empty cache, which counts look-ups. `None`: the system has no random numbers.
    pub fn new(bounds: RecentBounds, hits: Arc<AtomicU64>, misses: Arc<AtomicU64>) -> Option<Self> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).ok()?;
        let share = |whole: usize| whole.div_ceil(SHARDS);
        let of_shard = RecentBounds { entries: share(bounds.entries), bytes: share(bounds.bytes) };
        Some(Self {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            shards: std::array::from_fn(|_| Mutex::new(Shard::new(of_shard))),
            hits,
            misses,
        })
    }

    /// Returns the key under which a decision about a request with these parts is stored.
    pub fn key(&self, parts: &[u8]) -> DecisionKey {
        let mut key = DecisionKey::default();
        key.copy_from_slice(hmac::sign(&self.secret, parts).as_ref());
        key
    }

    /// Returns the decision for a key, unless it has expired.
    pub fn get(&self, key: &DecisionKey, now: Instant) -> Option<Arc<Decision>> {
        let found = self.shard(key).find(key, now);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Remembers a decision until then.
    fn put(&self, key: DecisionKey, decision: Arc<Decision>, until: Instant) {
        if decision.size() <= DECISION_MAX_BYTES {
            self.shard(&key).decisions.put(key, Remembered { decision, until });
        }
    }

    /// Returns the decision that `ask` returns, and remembers it; or the decision about the same question that another
    /// request has asked meanwhile. A decision that holds for one request alone is not shared.
    ///
    /// # Errors
    /// The cause for which there is no decision.
    pub async fn ask<F: Future<Output = Result<Asked, &'static str>>>(
        self: &Arc<Self>,
        key: DecisionKey,
        timeout: Duration,
        ask: impl Fn() -> F,
    ) -> Result<Arc<Decision>, &'static str> {
        let question = match Question::join(self.clone(), key, tollgate_net::now()) {
            Ok(question) => question,
            Err(decided) => return Ok(decided),
        };
        let mut is_own = false;
        let asked = question.cell.get_or_init(|| {
            is_own = true;
            ask()
        });
        // If the request that asks is dropped, the next one asks, so this wait needs a limit of its own.
        let asked = match tokio::time::timeout(timeout, asked).await {
            Ok(answered) => answered.clone()?,
            Err(_) => return Err("the authorisation service was too slow"),
        };
        match asked.lifetime {
            Some(lifetime) if is_own => {
                // Before the question ends, so that no request asks it in between.
                self.put(key, asked.decision.clone(), tollgate_net::now() + lifetime);
            }
            None if !is_own => {
                drop(question);
                return Ok(ask().await?.decision);
            }
            _ => {}
        }
        Ok(asked.decision)
    }

    fn shard(&self, key: &DecisionKey) -> MutexGuard<'_, Shard> {
        // The key is evenly distributed.
        let shard = &self.shards[usize::from(key[0]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn new(bounds: RecentBounds) -> Self {
        Self { decisions: RecentMap::new(bounds, Remembered::bytes), questions: HashMap::default() }
    }

    fn find(&mut self, key: &DecisionKey, now: Instant) -> Option<Arc<Decision>> {
        self.decisions.get(key, |known| now < known.until).map(|known| known.decision)
    }
}

impl Debug for DecisionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecisionCache")
    }
}

/// A question that one or more requests wait for.
struct Question {
    cache: Arc<DecisionCache>,
    key: DecisionKey,
    cell: Arc<OnceCell<Answer>>,
}

impl Question {
    /// Joins the requests that already wait for an answer to the same question.
    ///
    /// # Errors
    /// The decision, if it has been remembered since the request looked for it.
    fn join(cache: Arc<DecisionCache>, key: DecisionKey, now: Instant) -> Result<Self, Arc<Decision>> {
        let mut shard = cache.shard(&key);
        if let Some(decided) = shard.find(&key, now) {
            return Err(decided);
        }
        let waiting = shard.questions.get(&key).and_then(Weak::upgrade);
        let cell = waiting.filter(|cell| !cell.initialized()).unwrap_or_else(|| {
            let cell = Arc::new(OnceCell::new());
            shard.questions.insert(key, Arc::downgrade(&cell));
            cell
        });
        drop(shard);
        Ok(Self { cache, key, cell })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut shard = self.cache.shard(&self.key);
        // Let go under the lock, so that the last one of several removes the question.
        let cell = std::mem::take(&mut self.cell);
        let (own, is_answered) = (Arc::as_ptr(&cell), cell.initialized());
        drop(cell);
        if let Some(known) = shard.questions.get(&self.key)
            && std::ptr::eq(known.as_ptr(), own)
            && (is_answered || known.strong_count() == 0)
        {
            shard.questions.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::PolicyResponse;

    const MINUTE: Duration = Duration::from_secs(60);

    fn cache(entries: usize, bytes: usize) -> Arc<DecisionCache> {
        Arc::new(
            DecisionCache::new(RecentBounds { entries, bytes }, Arc::default(), Arc::default())
                .expect("random numbers"),
        )
    }

    fn decision(status: u16, bytes: usize) -> Arc<Decision> {
        let answer = PolicyResponse { status, lines: Vec::new(), body: vec![b'x'; bytes] };
        Arc::new(Decision::Answer(answer))
    }

    fn status(decision: &Decision) -> u16 {
        match decision {
            Decision::Answer(answer) => answer.status,
            other => panic!("{other:?}"),
        }
    }

    fn usage(cache: &DecisionCache) -> (usize, usize) {
        let shards = cache.shards.iter().map(|shard| shard.lock().expect("not poisoned").decisions.usage());
        shards.flatten().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    #[test]
    fn a_decision_is_remembered_for_its_key_and_time() {
        let (cache, now) = (cache(1000, 1 << 20), Instant::now());
        let (ann, bob) = (cache.key(b"ann"), cache.key(b"bob"));
        assert!(cache.get(&ann, now).is_none());
        cache.put(ann, decision(403, 0), now + MINUTE);
        assert_eq!(cache.get(&ann, now).map(|known| status(&known)), Some(403));
        assert!(cache.get(&bob, now).is_none() && cache.get(&ann, now + MINUTE).is_none());
        cache.put(ann, decision(401, 0), now + MINUTE);
        assert_eq!(cache.get(&ann, now).map(|known| status(&known)), Some(401));
        assert_eq!(cache.hits.load(Ordering::Relaxed), 2);
        assert_eq!(cache.misses.load(Ordering::Relaxed), 3);
        cache.put(bob, decision(403, DECISION_MAX_BYTES), now + MINUTE);
        assert!(cache.get(&bob, now).is_none(), "it is too large");
    }

    #[test]
    fn entries_and_bytes_are_bounded_and_what_is_used_stays() {
        let now = Instant::now();
        for (entries, bytes, size) in [(320, 1 << 30, 10), (1_000_000, 4 << 20, 10_000)] {
            let cache = cache(entries, bytes);
            let used = cache.key(b"used");
            cache.put(used, decision(200, size), now + MINUTE);
            for n in 0..10_000_u32 {
                cache.put(cache.key(&n.to_be_bytes()), decision(403, size), now + MINUTE);
                assert!(cache.get(&used, now).is_some(), "it is in use: {n}");
            }
            let (count, held) = usage(&cache);
            assert!(count <= entries.next_multiple_of(2 * SHARDS) && held <= bytes, "{count} {held}");
            assert!(count >= 100, "{count}");
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    #[test]
    fn equal_questions_are_asked_once() {
        let cache = cache(1000, 1 << 20);
        let asked = Cell::new(0);
        let ask = |lifetime: Option<Duration>| {
            let asked = &asked;
            move || async move {
                asked.set(asked.get() + 1);
                tokio::task::yield_now().await;
                Ok(Asked { decision: decision(403, 0), lifetime })
            }
        };
        let both = |one: &'static [u8], other: &'static [u8], lifetime| {
            asked.set(0);
            let (one, other) = (cache.key(one), cache.key(other));
            run(async {
                let (one, other) = tokio::join!(
                    cache.ask(one, MINUTE, ask(lifetime)),
                    cache.ask(other, MINUTE, ask(lifetime))
                );
                assert!(one.is_ok() && other.is_ok());
            });
            asked.get()
        };
        assert_eq!(both(b"a", b"a", Some(MINUTE)), 1);
        assert_eq!(both(b"a", b"a", Some(MINUTE)), 0, "it is remembered");
        assert_eq!(both(b"b", b"c", Some(MINUTE)), 2);
        assert_eq!(both(b"d", b"d", None), 2, "such an answer is for one request");
        assert!(cache.shards.iter().all(|shard| shard.lock().expect("not poisoned").questions.is_empty()));
    }

    #[test]
    fn a_question_outlives_the_request_that_asked_it() {
        let cache = cache(1000, 1 << 20);
        let key = cache.key(b"a");
        let answer = || async { Ok(Asked { decision: decision(200, 0), lifetime: Some(MINUTE) }) };
        run(async {
            let mut first = Box::pin(cache.ask(key, MINUTE, std::future::pending));
            let mut second = Box::pin(cache.ask(key, MINUTE, answer));
            assert!(futures_pending(&mut first).await && futures_pending(&mut second).await);
            drop(first);
            assert!(second.await.is_ok(), "the second one asks now");
        });
        run(async {
            let limit = Duration::from_millis(1);
            let late = cache.ask(cache.key(b"b"), limit, std::future::pending).await;
            assert_eq!(late.err(), Some("the authorisation service was too slow"));
        });
        assert!(cache.shards.iter().all(|shard| shard.lock().expect("not poisoned").questions.is_empty()));
    }

    /// Polls a future once; returns whether it is not complete.
    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }
}
