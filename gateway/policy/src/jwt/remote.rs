//! Fetches the keys that an issuer publishes at a URL: on first use, after the refresh interval, and when no
//! known key verifies a token. The last valid keys are kept if a fetch fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::key::{VerifyingKey, keys_of_jwks};
use crate::client::DocumentFetcher;
use crate::{PolicyStates, Trust};

/// The maximum size of a key set in bytes.
const KEY_SET_MAX_BYTES: usize = 1 << 20;

/// A set of keys. Its number changes whenever the keys change.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    pub number: u64,
    pub keys: Vec<VerifyingKey>,
}

/// The source of an issuer's keys, and the intervals of fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeyRules {
    /// The URL of the JWK set.
    pub url: String,
    /// The TLS settings for the URL.
    pub tls: Trust,
    /// The age at which the keys are fetched again. Older keys stay in use until a fetch succeeds.
    pub refresh: Duration,
    /// The minimum time between two fetches.
    pub cooldown: Duration,
    /// The time limit of a fetch.
    pub timeout: Duration,
}

/// The keys of one URL.
#[derive(Debug)]
pub(crate) struct RemoteKeySet {
    pub config: RemoteKeyRules,
    fetch: DocumentFetcher,
    state: Mutex<FetchState>,
    /// Whether a fetch is in progress.
    busy: AtomicBool,
    /// The number of finished fetches.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct FetchState {
    /// The keys of the last successful fetch.
    keys: Arc<KeySet>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

impl RemoteKeySet {
    pub fn new(config: RemoteKeyRules) -> Self {
        let fetch = DocumentFetcher::new(&config.url, &config.tls);
        Self {
            config,
            fetch,
            state: Mutex::default(),
            busy: AtomicBool::new(false),
            ended: watch::Sender::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last valid keys, which may be none, and whether waiting for newer ones makes sense.
    pub fn keys(&self, now: Instant) -> (Arc<KeySet>, bool) {
        let state = self.state();
        (state.keys.clone(), self.busy.load(Ordering::SeqCst) || self.may_try(&state, now))
    }

    fn may_try(&self, state: &FetchState, now: Instant) -> bool {
        state.tried.is_none_or(|tried| now.saturating_duration_since(tried) >= self.config.cooldown)
    }

    /// Starts a fetch in the background if the keys are old and no fetch is in progress.
    pub fn renew(self: &Arc<Self>, shared: &PolicyStates, now: Instant) {
        let old = {
            let state = self.state();
            let age = state.fetched.map(|fetched| now.saturating_duration_since(fetched));
            age.is_some_and(|age| age >= self.config.refresh) && self.may_try(&state, now)
        };
        if old && !self.busy.load(Ordering::SeqCst) {
            shared.background().spawn(self.clone().refresh());
        }
    }

    /// Waits for a fetch. Starts one unless one is in progress or the cooldown has not passed. Dropping this
    /// future does not cancel the fetch; otherwise clients that disconnect early could cause endless fetches.
    pub async fn refresh(self: Arc<Self>) {
        let mut ended = self.ended.subscribe();
        if !self.busy.swap(true, Ordering::SeqCst) {
            if !self.may_try(&self.state(), Instant::now()) {
                self.busy.store(false, Ordering::SeqCst);
                // Wakes callers that saw the busy flag and wait for a fetch.
                self.ended.send_modify(|count| *count += 1);
                return;
            }
            let remote = self.clone();
            tokio::spawn(async move {
                remote.fetch().await;
                remote.busy.store(false, Ordering::SeqCst);
                remote.ended.send_modify(|count| *count += 1);
            });
        }
        // The fetch has its own time limit; this one only guards against a missing notification.
        let _ = tokio::time::timeout(self.config.timeout + Duration::from_secs(1), ended.changed()).await;
    }

    /// Fetches the keys. If the response is not a key set, the last valid keys stay.
    async fn fetch(&self) {
        let body = self.fetch.get(KEY_SET_MAX_BYTES, self.config.timeout).await;
        let keys = body.and_then(|body| keys_of_jwks(&body, true).map_err(str::to_owned));
        let mut state = self.state();
        let now = Instant::now();
        state.tried = Some(now);
        let Ok(keys) = keys else { return };
        state.fetched = Some(now);
        if state.keys.keys != keys {
            state.keys = Arc::new(KeySet { number: state.keys.number + 1, keys });
        }
    }
}
