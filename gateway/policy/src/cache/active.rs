//! The policy with its store, and its decision about a request, which the request's context carries to the proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_cache::{Admission, Forward, Moment, Store, Stored};
use tollgate_http::Head;

use super::conditions::Conditions;
use super::key::{KEY_SEPARATOR, KeyRules};
use super::outcome::CacheOutcome;
use super::sweeper::Sweeper;
use super::uses::Uses;

/// The rules of storing: which responses, for how long, and under which key.
#[derive(Clone, Debug)]
pub struct CacheRules {
    pub(crate) key: KeyRules,
    /// Whether requests with GET are answered from the cache.
    pub(crate) get: bool,
    /// The same for HEAD.
    pub(crate) head: bool,
    /// For how long stale responses are served, if they do not say it.
    pub stale_times: StaleTimes,
    pub(crate) bypass: Conditions,
    pub(crate) no_store: Conditions,
    /// Maximum bytes of a stored body.
    pub max_object: u64,
    /// The bytes of a slice, if responses are fetched and stored in slices.
    pub slice: Option<u64>,
    /// Number of requests from which on a response is stored.
    pub(crate) min_uses: u8,
    /// Whether and for how long a response is stored, unless its status has a lifetime of its own.
    pub(crate) admission: Admission,
    /// Whether and for how long responses with these statuses (first and last) are stored.
    pub(crate) by_status: Vec<((u16, u16), Admission)>,
    /// Whether identities do not count.
    pub across_identities: bool,
    /// Whether the request's `Cache-Control` counts.
    pub client_directives: bool,
    /// Whether responses get a `Cache-Status`.
    pub status: bool,
}

/// For how long stale responses are served, if they do not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleTimes {
    /// How long a stale response is served while it is fetched again.
    pub stale_while_revalidate: Option<Duration>,
    /// How long a stale response replaces an error.
    pub stale_if_error: Option<Duration>,
}

impl CacheRules {
    /// Returns a key with another path, in normal form, and another query.
    #[must_use]
    pub fn key_with_target(&self, key: &[u8], path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
        self.key.with_target(key, path, query)
    }

    /// Returns the key that a request with this key has on another route, whose rules these are. The path is in normal form.
    #[must_use]
    pub fn key_on_route(
        &self,
        key: &[u8],
        target: (&[u8], Option<&[u8]>),
        head: &Head,
        route: &str,
    ) -> Vec<u8> {
        self.key.on_route(key, target, head, route)
    }

    /// Returns what is stored of responses with this status.
    #[must_use]
    pub fn admission(&self, status: u16) -> &Admission {
        let of = self.by_status.iter().find(|((first, last), _)| (*first..=*last).contains(&status));
        of.map_or(&self.admission, |(_, admission)| admission)
    }
}

/// The permitted use of the cache for a request. The key is in the request's [`Context`](crate::Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheIntent {
    /// Answer it from the store if that is possible.
    Lookup {
        /// Whether its response may be stored.
        may_store: bool,
        /// Whether it carries an identity, so that only responses that allow it are shared.
        is_identified: bool,
    },
    /// Forward it; if it succeeds, remove what is stored for its target.
    Invalidate,
    /// Forward it and do nothing else, for this cause.
    Bypass(&'static str),
}

/// The policy's decision about a request.
#[derive(Clone, Debug)]
pub struct CacheUse {
    /// The policy.
    pub cache: Arc<ActiveCache>,
    /// The permitted use.
    pub intent: CacheIntent,
    /// Why the request is forwarded without a fetch for the store, for `Cache-Status`; `None` until that is known.
    pub forwarded: Option<Forward>,
    /// Keys besides the request's own under which responses to a GET of its URL are stored, and the cache of their route.
    /// The success of an unsafe method removes them too.
    pub further: Option<(Arc<ActiveCache>, Vec<Vec<u8>>)>,
    /// The fresh response that answers the request, and when it was found, if that is known before the cache acts.
    pub found: Option<(Arc<Stored>, Moment)>,
    /// Whether a stored compressed form of the body was sent.
    pub has_sent_form: bool,
    /// The outcome, once it is known.
    pub outcome: Option<CacheOutcome>,
}

/// The policy with its store.
#[derive(Debug)]
pub struct ActiveCache {
    /// The rules.
    pub rules: CacheRules,
    /// The store, which all policies share.
    pub store: Arc<Store>,
    /// Removes responses with other values of the fields and cookies in a key, if it has some.
    pub(super) sweeper: Option<Arc<Sweeper>>,
    /// The uses of keys, if they count.
    pub(super) uses: Option<Uses>,
    pub(super) counts: [Arc<AtomicU64>; CacheOutcome::ALL.len()],
    pub(super) hit_bytes: Arc<AtomicU64>,
    pub(super) compressed_hits: Arc<AtomicU64>,
}

impl ActiveCache {
    /// Counts a request, and the bytes of its response's body that came from the store.
    pub fn count(&self, outcome: CacheOutcome, bytes: u64) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if outcome.is_from_store() {
            self.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts a request that was answered with a stored compressed form.
    pub fn count_compressed_hit(&self) {
        self.compressed_hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the responses with other values of the fields and cookies in a key removed soon, if it has some.
    pub fn remove_other_values(&self, key: &[u8]) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.remove(&self.store, key);
        }
    }

    /// Counts a use of a key. Returns whether it was used often enough for its response to be stored.
    #[must_use]
    pub fn is_used_enough(&self, key: &[u8]) -> bool {
        self.uses.as_ref().is_none_or(|uses| uses.count(key) >= self.rules.min_uses)
    }
}

impl CacheUse {
    /// Creates the decision, before anything is known about the response.
    #[must_use]
    pub fn new(cache: Arc<ActiveCache>, intent: CacheIntent) -> Self {
        let (forwarded, further, found, outcome) = Default::default();
        Self { cache, intent, forwarded, further, found, has_sent_form: false, outcome }
    }

    /// Returns the decision in words, for `explain`.
    #[must_use]
    pub fn in_words(&self, key: &[u8]) -> String {
        let url = key.split(|byte| *byte == KEY_SEPARATOR).next().unwrap_or_default();
        let url = String::from_utf8_lossy(url);
        match self.intent {
            CacheIntent::Bypass(why) => format!("bypassed: {why}"),
            CacheIntent::Invalidate => format!("removes what is stored for {url} if the request succeeds"),
            CacheIntent::Lookup { may_store, is_identified } => {
                let shared = if is_identified { ", only with a response that is public" } else { "" };
                let stores = if may_store {
                    "stores what allows it"
                } else {
                    "stores nothing: a condition of `no_store` holds"
                };
                let sliced = match self.cache.rules.slice {
                    Some(bytes) => format!(", in slices of {bytes} bytes"),
                    None => String::new(),
                };
                format!("key {url}{shared}, {stores}{sliced}")
            }
        }
    }
}
