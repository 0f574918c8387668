//! Removes what is stored for a URL under other values of the fields and cookies in its key.
//!
//! The success of an unsafe method concerns all of it (RFC 9111, 4.4), and the store finds a response by its whole key only.
//! So a [`Sweeper`] collects the URLs, and a thread visits the whole store for all of them at once. Between two visits it
//! pauses for several times as long as a visit took, so that it takes a bounded share of a core, however many requests
//! there are. The thread ends when nothing is left to do.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_cache::Store;

use super::key::url_of;

/// The pause after a visit is this many times as long as the visit.
const PAUSE_FACTOR: u32 = 9;
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// With more URLs, everything is removed.
const URLS_MAX: usize = 65_536;

/// The URLs that the next visit concerns, and its thread.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    state: Mutex<SweepState>,
}

#[derive(Debug, Default)]
struct SweepState {
    urls: HashSet<Box<[u8]>>,
    /// There were too many.
    has_all: bool,
    is_running: bool,
}

impl Sweeper {
    /// Has everything removed soon that is stored for the URL of a key.
    pub fn remove(self: &Arc<Self>, store: &Arc<Store>, key: &[u8]) {
        {
            let mut state = self.state();
            match state.urls.len() < URLS_MAX {
                true => drop(state.urls.insert(url_of(key).into())),
                false => state.has_all = true,
            }
            if std::mem::replace(&mut state.is_running, true) {
                return;
            }
        }
        let (sweeper, store) = (self.clone(), store.clone());
        let run = move || sweeper.run(&store);
        if std::thread::Builder::new().name("cache-sweep".to_owned()).spawn(run).is_err() {
            // The next request tries again.
            self.state().is_running = false;
        }
    }

    fn run(&self, store: &Store) {
        loop {
            let (urls, has_all) = {
                let mut state = self.state();
                if state.urls.is_empty() {
                    state.is_running = false;
                    return;
                }
                (std::mem::take(&mut state.urls), std::mem::take(&mut state.has_all))
            };
            let begun = Instant::now();
            store.remove_keys(|key| has_all || urls.contains(url_of(key)));
            std::thread::sleep((begun.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
        }
    }

    fn state(&self) -> MutexGuard<'_, SweepState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
