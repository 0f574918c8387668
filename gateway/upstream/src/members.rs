//! The endpoints of an upstream on one worker, and the choice among them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tollgate_net::Address;
use tollgate_plan::{Balance as Settings, Endpoint, Upstream as Planned};

use crate::balance::{Balance, Credit, Standing, Wish, hash};
use crate::pool_set::PoolSet;
use crate::sticky::{StickyValue, Tags};
use crate::{Pool, Wanted};

/// Number of steps of a slow start.
const STEPS: u32 = 100;
/// Shortest time between two steps.
const SHORTEST_STEP: Duration = Duration::from_millis(10);
/// A full share, in the unit of [`Standing::readiness`].
const READY: u64 = 1_000;

/// The endpoints of an upstream on one worker: the plan's, and those found by discovery.
///
/// Each request compares the shared [`epoch`](crate::UpstreamState::epoch) with the last one that the worker
/// saw. Only if they differ does the worker rebuild its balance.
#[derive(Debug)]
pub(crate) struct Members {
    set: Rc<PoolSet>,
    /// The number of workers.
    workers: usize,
    /// The epoch that was last processed. During a slow start it is 0, which no epoch is, so each request
    /// checks whether the next step is due.
    seen: Cell<u64>,
    /// A newer plan has replaced these members, so discovery no longer changes them.
    superseded: Cell<bool>,
    rng: RefCell<Rng>,
    now: RefCell<Now>,
}

/// The current members.
#[derive(Debug)]
struct Now {
    epoch: u64,
    /// When the next step of slow start is due.
    step: Option<Instant>,
    discovered: Option<Arc<[Endpoint]>>,
    pools: Vec<Rc<Pool>>,
    standings: Vec<Standing>,
    balance: Balance,
    tags: Option<Tags>,
}

impl Members {
    /// Creates the members that a plan and discovery name. They take over the pools and round-robin credit of
    /// the old ones.
    pub fn new(set: &Rc<PoolSet>, workers: usize, rng: Rng, planned: &Planned, old: Option<&Self>) -> Self {
        let settings = &planned.rules.balance;
        let empty = Now {
            epoch: 0,
            step: None,
            discovered: None,
            pools: Vec::new(),
            standings: Vec::new(),
            balance: Balance::new(settings, &[], &Credit::default(), &set.shared.tables),
            tags: None,
        };
        let new = Self {
            set: set.clone(),
            workers,
            seen: Cell::new(0),
            superseded: Cell::new(false),
            rng: RefCell::new(rng),
            now: RefCell::new(empty),
        };
        let before = match old {
            Some(old) => {
                old.superseded.set(true);
                Before::of(&old.now.borrow())
            }
            None => Before::default(),
        };
        new.gather(planned, before);
        new
    }

    /// Returns the pool of an endpoint for a request; `None` if no endpoint takes requests.
    #[inline]
    pub fn pick(&self, planned: &Planned, wanted: &Wanted<'_>) -> Option<Rc<Pool>> {
        self.look(planned);
        let now = self.now.borrow();
        if wanted.sticky.is_none()
            && wanted.avoid.is_empty()
            && let Some(at) = now.balance.next_in_turn()
        {
            return Some(now.pools[at].clone());
        }
        self.choose(&now, wanted)
    }

    /// As `pick`, if more than the turn counts.
    fn choose(&self, now: &Now, wanted: &Wanted<'_>) -> Option<Rc<Pool>> {
        if let Some(pool) = now.sticky(wanted) {
            return Some(pool);
        }
        let avoids = |at: usize| wanted.avoid.iter().any(|pool| Rc::ptr_eq(pool, &now.pools[at]));
        let wish = Wish {
            hash: wanted.hash,
            avoid: if wanted.avoid.is_empty() { None } else { Some(&avoids) },
            load: &|at| now.pools[at].in_use(),
        };
        now.balance.pick(&wish, &self.rng).map(|at| now.pools[at].clone())
    }

    /// Whether a sticky cookie names an endpoint that takes requests.
    pub fn holds(&self, planned: &Planned, cookie: &[u8]) -> bool {
        self.look(planned);
        self.now.borrow().named(cookie).is_some()
    }

    /// Returns the value of the sticky cookie for an endpoint; `None` if the upstream is not sticky.
    pub fn sticky_value(&self, pool: &Pool) -> Option<StickyValue> {
        let now = self.now.borrow();
        let at = now.pools.iter().position(|member| std::ptr::eq(&raw const **member, pool))?;
        now.tags.as_ref().map(|tags| tags.value(at))
    }

    /// Retires all pools, because the upstream left the plan. Their idle connections are closed.
    pub fn retire(&self) {
        self.superseded.set(true);
        self.now.borrow().pools.iter().for_each(|pool| pool.retire());
    }

    /// Checks whether the balance must be rebuilt.
    #[inline]
    fn look(&self, planned: &Planned) {
        if self.seen.get() != self.set.shared.epoch() {
            self.look_again(planned);
        }
    }

    #[cold]
    fn look_again(&self, planned: &Planned) {
        let (epoch, step) = {
            let now = self.now.borrow();
            (now.epoch, now.step)
        };
        if epoch == self.set.shared.epoch() && step.is_some_and(|step| tollgate_net::now() < step) {
            return;
        }
        let discovered = self.discovered(planned);
        let same = match (&discovered, &self.now.borrow().discovered) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if same || self.superseded.get() {
            let now = &mut *self.now.borrow_mut();
            let credit = now.balance.credit();
            self.weigh(now, &planned.rules.balance, &credit);
        } else {
            let before = Before::of(&self.now.borrow());
            self.gather(planned, before);
        }
    }

    fn discovered(&self, planned: &Planned) -> Option<Arc<[Endpoint]>> {
        planned.discover.as_ref().and_then(|_| self.set.shared.discovered())
    }

    /// Builds the list of members.
    fn gather(&self, planned: &Planned, mut before: Before) {
        let set = &self.set;
        let mut goes_on = false;
        let discovered = self.discovered(planned);
        // The plan's weight and priority of an endpoint take precedence over discovery.
        let mut known: BTreeMap<&Address, (Rc<Pool>, i64)> = BTreeMap::new();
        let (mut pools, mut standings, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        let looked_up = discovered.iter().flat_map(|endpoints| endpoints.iter());
        let listed = planned.endpoints.iter().map(|endpoint| (endpoint, true));
        for (endpoint, in_plan) in listed.chain(looked_up.map(|endpoint| (endpoint, false))) {
            if !in_plan && known.contains_key(&endpoint.address) {
                continue;
            }
            let (pool, turn) = known.entry(&endpoint.address).or_insert_with(|| {
                let before = before.pools.remove(&endpoint.address);
                goes_on |= before.is_some();
                before.unwrap_or_else(|| (set.pool(&endpoint.address), 0))
            });
            standings.push(Standing {
                key: hash(pool.name().as_bytes()),
                weight: endpoint.weight,
                priority: endpoint.priority,
                near: planned.zone.is_some() && endpoint.zone == planned.zone,
                available: true,
                readiness: READY,
            });
            turns.push(*turn);
            pools.push(pool.clone());
        }
        before.pools.values().for_each(|(pool, _)| pool.retire());
        // An endpoint without a share gets no requests, so its idle connections are closed now instead of at
        // their timeout.
        for (pool, standing) in pools.iter().zip(&standings) {
            match (standing.weight, pool.is_retired()) {
                (0, false) => pool.retire(),
                (1.., true) => pool.unretire(),
                _ => {}
            }
        }
        if !pools.is_empty() {
            set.shared.settle();
        }
        let settings = &planned.rules.balance;
        let now = &mut *self.now.borrow_mut();
        now.tags = settings
            .sticky
            .as_ref()
            .map(|sticky| Tags::new(sticky, &planned.name, pools.iter().map(|pool| pool.name())));
        (now.pools, now.standings, now.discovered) = (pools, standings, discovered);
        self.weigh(now, settings, &Credit { endpoints: turns, groups: before.groups });
        if !goes_on {
            now.balance.begin_apart(set.worker, self.workers);
        }
    }

    /// Rebuilds the balance. The members stay; their health and readiness may have changed.
    fn weigh(&self, now: &mut Now, settings: &Settings, credit: &Credit) {
        let shared = &self.set.shared;
        // Read first, so that a change during the loop is seen at the next request.
        now.epoch = shared.epoch();
        let clock = settings.slow_start.map(|duration| (tollgate_net::now(), duration));
        let mut warming = false;
        for (standing, pool) in now.standings.iter_mut().zip(&now.pools) {
            let state = pool.state();
            standing.available = state.is_available();
            standing.readiness = clock.map_or(READY, |(at, duration)| {
                let since = state.ready_since();
                if since == 0 { READY } else { readiness(shared.stamp(at).saturating_sub(since), duration) }
            });
            warming |= standing.readiness < READY;
        }
        let step = clock.filter(|_| warming);
        now.step = step.map(|(at, duration)| at + (duration / STEPS).max(SHORTEST_STEP));
        self.seen.set(if warming { 0 } else { now.epoch });
        now.balance = Balance::new(settings, &now.standings, credit, &shared.tables);
    }
}

/// Returns the share of a member that has been ready for this long: a tenth at first, then linearly more, and
/// all after `slow_start`.
fn readiness(milliseconds: u64, slow_start: Duration) -> u64 {
    let whole = u64::try_from(slow_start.as_millis()).unwrap_or(u64::MAX).max(1);
    let begun = READY / 10;
    let grown = u128::from(milliseconds.min(whole)) * u128::from(READY - begun) / u128::from(whole);
    begun + u64::try_from(grown).unwrap_or(READY)
}

impl Now {
    /// Returns the pool that the request's cookie names, unless that endpoint has failed the request.
    fn sticky(&self, wanted: &Wanted<'_>) -> Option<Rc<Pool>> {
        let pool = &self.pools[self.named(wanted.sticky?)?];
        let failed = wanted.avoid.iter().any(|avoided| Rc::ptr_eq(avoided, pool));
        (!failed).then(|| pool.clone())
    }

    fn named(&self, cookie: &[u8]) -> Option<usize> {
        self.tags.as_ref()?.find(cookie).filter(|at| self.balance.takes(*at))
    }
}

/// The pools and credit that new members take over from old ones.
#[derive(Default)]
struct Before {
    /// Pools by address, each with its round-robin credit.
    pools: BTreeMap<Address, (Rc<Pool>, i64)>,
    groups: Vec<((u8, bool), i64)>,
}

impl Before {
    fn of(now: &Now) -> Self {
        let Credit { endpoints, groups } = now.balance.credit();
        let pools = now.pools.iter().zip(endpoints);
        let pools = pools.map(|(pool, turn)| (pool.state().address.clone(), (pool.clone(), turn)));
        Self { pools: pools.collect(), groups }
    }
}
