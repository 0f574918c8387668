//! State of policies that all workers share and that survives a change of plan.
//!
//! Policies look it up by key when a plan is rolled out ([`Planned::activate`](crate::Planned::activate)).
//! [`PolicyStates`] holds only weak references, so a state ends with the last policy that uses it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tollgate_cache::{DiskCounters, DiskSettings, Store, StoreSettings};
use tollgate_config::CacheStore;
use tollgate_observe::PolicyEvents;

use crate::BackgroundIo;
use crate::cache::sweeper::Sweeper;

/// The number of keys below which no sweep happens.
const SWEEP_MIN: usize = 8;

/// State of policies that all workers share and that survives a change of plan: counters, caches and the
/// background I/O thread. It finds state by key but does not own it: the policies of the plans in use keep it
/// alive.
#[derive(Debug, Default)]
pub struct PolicyStates {
    known: Mutex<StateTable>,
    background: BackgroundIo,
    events: Arc<PolicyEvents>,
    /// Made for the first policy that caches.
    cache: OnceLock<Arc<Store>>,
    /// Removes from it what unsafe methods make wrong.
    cache_sweeper: Arc<Sweeper>,
    /// The bytes that it may hold.
    cache_bytes: AtomicU64,
    /// Whether gateways share purges. It is decided at the start, as the sources are.
    shares_purges: OnceLock<bool>,
    /// Its disk tier.
    cache_disk: Mutex<Option<DiskSettings>>,
}

#[derive(Debug, Default)]
struct StateTable {
    /// A key can have several states that differ, because two places may share a URL and use different
    /// connection settings.
    states: BTreeMap<String, Vec<Weak<dyn Any + Send + Sync>>>,
    /// The number of keys from which the next insertion sweeps first.
    sweep_at: usize,
}

impl PolicyStates {
    /// Creates an empty store; policies count their events in `events`.
    #[must_use]
    pub fn new(events: Arc<PolicyEvents>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Creates an empty store without background I/O, for the simulated requests of `explain`.
    #[must_use]
    pub fn without_background_io() -> Self {
        Self { background: BackgroundIo::disabled(), ..Self::default() }
    }

    /// Returns the event counters of policies, for the metrics.
    #[must_use]
    pub fn events(&self) -> &PolicyEvents {
        &self.events
    }

    /// Returns the state under a key. An existing state of this type that `fits` is reused, whether a
    /// previous plan or another place owns it; otherwise `make` creates one.
    pub fn state<T: Any + Send + Sync>(
        &self,
        key: &str,
        fits: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest state comes first.
        let kept = known.states.get(key).into_iter().flatten().rev().filter_map(Weak::upgrade);
        let mut kept = kept.filter_map(|state| state.downcast::<T>().ok());
        if let Some(state) = kept.find(|state| fits(state)) {
            return state;
        }
        let is_kept = |state: &Weak<_>| state.strong_count() > 0;
        if known.states.len() >= known.sweep_at.max(SWEEP_MIN) {
            known.states.retain(|_, states| states.iter().any(is_kept));
            known.sweep_at = 2 * known.states.len();
        }
        let state = Arc::new(make());
        let erased: Arc<dyn Any + Send + Sync> = state.clone();
        let states = known.states.entry(key.to_owned()).or_default();
        states.retain(is_kept);
        states.push(Arc::downgrade(&erased));
        state
    }

    /// Returns the store of responses that all policies `cache` share, and makes it first if need be. It lives as long
    /// as the process, so a change of plan does not empty it.
    pub fn cache(&self) -> &Arc<Store> {
        self.cache.get_or_init(|| {
            let capacity_bytes = self.cache_bytes.load(Ordering::Relaxed);
            let store = Store::new(StoreSettings {
                capacity_bytes,
                object_bytes_max: capacity_bytes,
                ..StoreSettings::default()
            });
            self.set_disk(&store);
            store
        })
    }

    /// Returns what removes responses from the store in the background.
    pub(crate) fn cache_sweeper(&self) -> &Arc<Sweeper> {
        &self.cache_sweeper
    }

    /// Sets how many bytes the store of responses may hold, and its disk tier. `shares_purges`: whether purges come from a
    /// source that other gateways share; later calls do not change it.
    pub fn configure_cache(&self, settings: &CacheStore, shares_purges: bool) {
        let shares_purges = *self.shares_purges.get_or_init(|| shares_purges);
        let disk = settings.disk.as_ref().map(|disk| DiskSettings {
            path: disk.path.value.clone(),
            size_bytes: disk.size,
            shares_purges,
        });
        *self.cache_disk.lock().unwrap_or_else(PoisonError::into_inner) = disk;
        let before = self.cache_bytes.swap(settings.memory, Ordering::Relaxed);
        if let Some(store) = self.cache.get() {
            if before != settings.memory {
                store.set_capacity(settings.memory);
            }
            self.set_disk(store);
        }
    }

    fn set_disk(&self, store: &Store) {
        let settings = self.cache_disk.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counters = DiskCounters::default();
        if settings.is_some() {
            let count = |event| self.events.counter("cache", "disk", event);
            counters = DiskCounters {
                hits: count("hits"),
                read_bytes: count("read_bytes"),
                writes: count("writes"),
                written_bytes: count("written_bytes"),
                drops: count("drops"),
                evictions: count("evictions"),
                errors: count("errors"),
                last_error_at: Arc::default(),
            };
        }
        store.set_disk(settings, &counters);
    }

    /// Ends the disk tier of the store, and waits at most this long until another process can have its folder.
    pub fn release_cache_disk(&self, most: Duration) {
        if let Some(store) = self.cache.get() {
            store.release_disk(most);
        }
    }

    /// Returns the store if a policy caches.
    #[must_use]
    pub fn known_cache(&self) -> Option<&Arc<Store>> {
        self.cache.get()
    }

    /// Returns the background I/O thread.
    #[must_use]
    pub fn background(&self) -> &BackgroundIo {
        &self.background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_found_while_it_is_held() {
        let shared = PolicyStates::default();
        let one = shared.state("a", |_| true, || 1_u32);
        assert_eq!(*shared.state("a", |_| true, || 2_u32), 1);
        assert_eq!(*shared.state("a", |_| false, || 3_u32), 3, "it does not fit");
        assert_eq!(*shared.state("b", |_| true, || "text"), "text");
        drop(one);
        assert_eq!(*shared.state("a", |_| true, || 4_u32), 4, "nobody has it any longer");
    }

    #[test]
    fn two_under_one_key_do_not_drive_each_other_out() {
        let shared = PolicyStates::default();
        let state = |own: u32| shared.state("a", |state: &u32| *state == own, || own);
        let (one, two) = (state(1), state(2));
        for _ in 0..3 {
            assert!(Arc::ptr_eq(&state(1), &one) && Arc::ptr_eq(&state(2), &two));
        }
        (3..1000).for_each(|passing| drop(state(passing)));
        assert!(shared.known.lock().expect("not poisoned").states["a"].len() <= 3);
    }

    #[test]
    fn it_does_not_grow() {
        let shared = PolicyStates::default();
        for n in 0..10_000 {
            shared.state(&format!("passing {n}"), |_| true, || n);
        }
        assert!(shared.known.lock().expect("not poisoned").states.len() <= SWEEP_MIN + 1);
    }
}
