//! What policies keep over all workers and from plan to plan.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tollgate_observe::PolicyEvents;

use crate::Side;

/// Below this many entries none is swept.
const SMALL: usize = 8;

/// What policies keep over all workers and from plan to plan: counters, caches, and the thread that asks others. It finds
/// state, and keeps none alive: that do the policies of the plans that are in use.
#[derive(Debug, Default)]
pub struct Shared {
    known: Mutex<Known>,
    side: Side,
    events: Arc<PolicyEvents>,
}

#[derive(Debug, Default)]
struct Known {
    /// Under a key there can be several that differ: two places may share an URL, and not how it is spoken to.
    states: BTreeMap<String, Vec<Weak<dyn Any + Send + Sync>>>,
    /// Entries from which on the next one made sweeps first.
    sweep_at: usize,
}

impl Shared {
    /// Nothing yet; what policies count goes there.
    #[must_use]
    pub fn new(events: Arc<PolicyEvents>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Nothing yet, and nobody is ever asked: for a request that is only thought of.
    #[must_use]
    pub fn silent() -> Self {
        Self { side: Side::silent(), ..Self::default() }
    }

    /// What policies count, for the metrics.
    #[must_use]
    pub fn events(&self) -> &PolicyEvents {
        &self.events
    }

    /// The state under a key: one that a plan before or another place has, if it is of this type and `fits`, else what `make`
    /// makes.
    pub fn state<T: Any + Send + Sync>(
        &self,
        key: &str,
        fits: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // The youngest first.
        let kept = known.states.get(key).into_iter().flatten().rev().filter_map(Weak::upgrade);
        let mut kept = kept.filter_map(|state| state.downcast::<T>().ok());
        if let Some(state) = kept.find(|state| fits(state)) {
            return state;
        }
        let is_kept = |state: &Weak<_>| state.strong_count() > 0;
        if known.states.len() >= known.sweep_at.max(SMALL) {
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

    /// The thread that asks others.
    #[must_use]
    pub fn side(&self) -> &Side {
        &self.side
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_found_while_somebody_has_it() {
        let shared = Shared::default();
        let one = shared.state("a", |_| true, || 1_u32);
        assert_eq!(*shared.state("a", |_| true, || 2_u32), 1);
        assert_eq!(*shared.state("a", |_| false, || 3_u32), 3, "it does not fit");
        assert_eq!(*shared.state("b", |_| true, || "text"), "text");
        drop(one);
        assert_eq!(*shared.state("a", |_| true, || 4_u32), 4, "nobody has it any longer");
    }

    #[test]
    fn two_under_one_key_do_not_drive_each_other_out() {
        let shared = Shared::default();
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
        let shared = Shared::default();
        for n in 0..10_000 {
            shared.state(&format!("passing {n}"), |_| true, || n);
        }
        assert!(shared.known.lock().expect("not poisoned").states.len() <= SMALL + 1);
    }
}
