//! Keys that an issuer publishes at an URL: fetched when somebody needs them, again from time to time, and when a token names
//! one that is not known; the last good ones are kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::key::{Key, keys_of_jwks};
use crate::client::Fetch;
use crate::{Shared, Trust};

/// The largest set of keys that is read, in bytes.
const LARGEST: usize = 1 << 20;

/// Keys that verify, and which ones they are: another number, other keys.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    pub number: u64,
    pub keys: Vec<Key>,
}

/// Where keys are fetched, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeys {
    /// The URL.
    pub url: String,
    /// How it is spoken to.
    pub tls: Trust,
    /// How long the keys hold before they are fetched again. Meanwhile and after, they serve.
    pub refresh: Duration,
    /// The least time between two fetches.
    pub cooldown: Duration,
    /// How long a fetch may take.
    pub timeout: Duration,
}

/// The keys at an URL.
#[derive(Debug)]
pub(crate) struct Remote {
    pub config: RemoteKeys,
    fetch: Fetch,
    state: Mutex<State>,
    /// Whether they are being fetched.
    busy: AtomicBool,
    /// How many fetches have ended.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The last good ones.
    keys: Arc<KeySet>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

impl Remote {
    pub fn new(config: RemoteKeys) -> Self {
        let fetch = Fetch::new(&config.url, &config.tls);
        Self {
            config,
            fetch,
            state: Mutex::default(),
            busy: AtomicBool::new(false),
            ended: watch::Sender::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last good keys, if there are any, and whether it makes sense to wait for others.
    pub fn keys(&self, now: Instant) -> (Arc<KeySet>, bool) {
        let state = self.state();
        (state.keys.clone(), self.busy.load(Ordering::SeqCst) || self.may_try(&state, now))
    }

    fn may_try(&self, state: &State, now: Instant) -> bool {
        state.tried.is_none_or(|tried| now.saturating_duration_since(tried) >= self.config.cooldown)
    }

    /// Fetches them in the background if they are old, and nobody does.
    pub fn renew(self: &Arc<Self>, shared: &Shared, now: Instant) {
        let old = {
            let state = self.state();
            let age = state.fetched.map(|fetched| now.saturating_duration_since(fetched));
            age.is_some_and(|age| age >= self.config.refresh) && self.may_try(&state, now)
        };
        if old && !self.busy.load(Ordering::SeqCst) {
            shared.side().spawn(self.clone().refresh());
        }
    }

    /// Waits until they were fetched: has that done, unless it is under way, or just was. Who stops waiting does not call it
    /// off, or clients that ask and go could have them fetched without end.
    pub async fn refresh(self: Arc<Self>) {
        let mut ended = self.ended.subscribe();
        if !self.busy.swap(true, Ordering::SeqCst) {
            if !self.may_try(&self.state(), Instant::now()) {
                self.busy.store(false, Ordering::SeqCst);
                // Whoever came in between and waits now.
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
        // The fetch has this bound itself; it is only made sure of here.
        let _ = tokio::time::timeout(self.config.timeout + Duration::from_secs(1), ended.changed()).await;
    }

    /// Fetches them. What is not a set of keys is no news: the last good ones stay.
    async fn fetch(&self) {
        let body = self.fetch.get(LARGEST, self.config.timeout).await;
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
