//! The endpoints of an upstream on one worker, and the choice among them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tollgate_net::Address;
use tollgate_plan::{Balance as BalanceSettings, Endpoint, Upstream as Planned};

use crate::balance::{Balancer, Credit, EndpointInput, PickRequest, hash};
use crate::pool::{PoolSet, warm};
use crate::sticky::{StickyTags, StickyValue};
use crate::{Pool, UpstreamState};

/// Number of steps of a slow start.
const STEPS: u32 = 100;
/// Shortest time between two steps.
const SHORTEST_STEP: Duration = Duration::from_millis(10);
/// A full share, in the unit of [`EndpointInput::readiness`].
const READY: u64 = 1_000;

/// The properties of a request that decide which endpoint it gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct PickHints<'a> {
    /// The hash of the value that the upstream balances by. `None` if the upstream does not balance by hash,
    /// or if the request has no such value.
    pub hash: Option<u64>,
    /// The value of its sticky cookie.
    pub sticky: Option<&'a [u8]>,
    /// Endpoints that have failed it; others are preferred.
    pub avoid: &'a [Rc<Pool>],
}

/// The endpoints of an upstream on one worker: the listed and the discovered ones.
///
/// Each request compares the shared [`epoch`](crate::UpstreamState::epoch) with the last one that the worker
/// saw. Only if they differ does the worker rebuild its balance.
#[derive(Debug)]
pub(crate) struct Members {
    set: Rc<PoolSet>,
    shared: Arc<UpstreamState>,
    /// The number of workers.
    workers: usize,
    /// The epoch that was last processed. During a slow start it is 0, which no epoch is, so each request
    /// checks whether the next step is due.
    seen_epoch: Cell<u64>,
    /// A newer plan has replaced these members, so discovery no longer changes them.
    superseded: Cell<bool>,
    rng: RefCell<Rng>,
    current: RefCell<CurrentMembers>,
}

/// The current members.
#[derive(Debug)]
struct CurrentMembers {
    epoch: u64,
    /// When the next step of slow start is due.
    step: Option<Instant>,
    discovered: Option<Arc<[Endpoint]>>,
    pools: Vec<Rc<Pool>>,
    inputs: Vec<EndpointInput>,
    balance: Balancer,
    tags: Option<StickyTags>,
}

impl Members {
    /// Creates the members that a plan and discovery name. They take over the pools and round-robin credit of
    /// the old ones.
    pub fn new(set: &Rc<PoolSet>, workers: usize, rng: Rng, planned: &Planned, old: Option<&Self>) -> Self {
        let settings = &planned.rules.balance;
        let shared = &set.context().shared;
        let empty = CurrentMembers {
            epoch: 0,
            step: None,
            discovered: None,
            pools: Vec::new(),
            inputs: Vec::new(),
            balance: Balancer::new(settings, &[], &Credit::default(), &shared.tables),
            tags: None,
        };
        let new = Self {
            set: set.clone(),
            shared: shared.clone(),
            workers,
            seen_epoch: Cell::new(0),
            superseded: Cell::new(false),
            rng: RefCell::new(rng),
            current: RefCell::new(empty),
        };
        let before = match old {
            Some(old) => {
                old.superseded.set(true);
                InheritedMembers::of(&old.current.borrow())
            }
            None => InheritedMembers::default(),
        };
        new.rebuild_members(planned, before);
        new
    }

    /// Returns the pool of an endpoint for a request; `None` if no endpoint takes requests.
    #[inline]
    pub fn pick(&self, planned: &Planned, hints: &PickHints<'_>) -> Option<Rc<Pool>> {
        self.refresh_if_changed(planned);
        let now = self.current.borrow();
        if hints.sticky.is_none()
            && hints.avoid.is_empty()
            && !self.set.context().has_refusing()
            && let Some(at) = now.balance.next_in_turn()
        {
            return Some(now.pools[at].clone());
        }
        self.choose(&now, hints)
    }

    /// As `pick`, if more than the turn counts.
    fn choose(&self, now: &CurrentMembers, hints: &PickHints<'_>) -> Option<Rc<Pool>> {
        if let Some(pool) = now.sticky(hints) {
            return Some(pool);
        }
        let has_failed = |at: usize| hints.avoid.iter().any(|pool| Rc::ptr_eq(pool, &now.pools[at]));
        let plain = PickRequest {
            hash: hints.hash,
            avoid: if hints.avoid.is_empty() { None } else { Some(&has_failed) },
            load: &|at| now.pools[at].in_use(),
        };
        let picked = match self.set.context().refusing_now() {
            None => None,
            Some(time) => {
                let avoids = |at: usize| has_failed(at) || now.pools[at].is_refusing(time);
                let careful = PickRequest { avoid: Some(&avoids), ..plain };
                now.balance.pick(&careful, &self.rng).filter(|at| !avoids(*at))
            }
        };
        let picked = picked.or_else(|| now.balance.pick(&plain, &self.rng));
        picked.map(|at| now.pools[at].clone())
    }

    /// Returns whether an endpoint takes requests that has not failed this one: it is not in `failed`.
    pub fn has_other(&self, planned: &Planned, failed: &[&Pool]) -> bool {
        self.refresh_if_changed(planned);
        let now = self.current.borrow();
        now.pools.iter().enumerate().any(|(at, pool)| {
            now.balance.takes(at) && !failed.iter().any(|failed| std::ptr::eq(*failed, &raw const **pool))
        })
    }

    /// Returns whether an endpoint is no member any more, or is not available while others are. A weight of 0 keeps what
    /// an endpoint has.
    pub fn has_lost(&self, planned: &Planned, endpoint: &Address) -> bool {
        self.refresh_if_changed(planned);
        let now = self.current.borrow();
        let at = now.pools.iter().position(|pool| pool.state().address == *endpoint);
        at.is_none_or(|at| !now.inputs[at].available && !now.balance.takes(at))
    }

    /// Whether a sticky cookie names an endpoint that takes requests.
    pub fn accepts_cookie(&self, planned: &Planned, cookie: &[u8]) -> bool {
        self.refresh_if_changed(planned);
        self.current.borrow().named(cookie).is_some()
    }

    /// Returns the value of the sticky cookie for an endpoint; `None` if the upstream is not sticky.
    pub fn sticky_value(&self, pool: &Pool) -> Option<StickyValue> {
        let now = self.current.borrow();
        let at = now.pools.iter().position(|member| std::ptr::eq(&raw const **member, pool))?;
        now.tags.as_ref().map(|tags| tags.value(at))
    }

    /// Retires all pools, because the upstream left the plan. Their idle connections are closed.
    pub fn retire(&self) {
        self.superseded.set(true);
        self.current.borrow().pools.iter().for_each(|pool| pool.retire());
    }

    /// Checks whether the balance must be rebuilt.
    #[inline]
    fn refresh_if_changed(&self, planned: &Planned) {
        if self.seen_epoch.get() != self.shared.epoch() {
            self.refresh(planned);
        }
    }

    #[cold]
    fn refresh(&self, planned: &Planned) {
        let (epoch, step) = {
            let now = self.current.borrow();
            (now.epoch, now.step)
        };
        if epoch == self.shared.epoch() && step.is_some_and(|step| tollgate_net::now() < step) {
            return;
        }
        let discovered = self.discovered(planned);
        let same = match (&discovered, &self.current.borrow().discovered) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if same || self.superseded.get() {
            let now = &mut *self.current.borrow_mut();
            let credit = now.balance.credit();
            self.rebuild_balancer(now, &planned.rules.balance, &credit);
        } else {
            let before = InheritedMembers::of(&self.current.borrow());
            self.rebuild_members(planned, before);
        }
    }

    fn discovered(&self, planned: &Planned) -> Option<Arc<[Endpoint]>> {
        planned.discover.as_ref().and_then(|_| self.shared.discovered())
    }

    /// Returns the pool of a member. A new pool gets a task that keeps it warm.
    fn pool(&self, address: &Address) -> Rc<Pool> {
        self.set.reuse_pool(address).unwrap_or_else(|| {
            let pool = self.set.create_pool(address);
            tollgate_net::spawn(warm::keep_warm(Rc::downgrade(&pool)));
            pool
        })
    }

    /// Builds the list of members.
    fn rebuild_members(&self, planned: &Planned, mut before: InheritedMembers) {
        let mut goes_on = false;
        let discovered = self.discovered(planned);
        // The plan's weight and priority of an endpoint take precedence over discovery.
        let mut known: BTreeMap<&Address, (Rc<Pool>, i64)> = BTreeMap::new();
        let (mut pools, mut inputs, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        let looked_up = discovered.iter().flat_map(|endpoints| endpoints.iter());
        let listed = planned.endpoints.iter().map(|endpoint| (endpoint, true));
        for (endpoint, in_plan) in listed.chain(looked_up.map(|endpoint| (endpoint, false))) {
            if !in_plan && known.contains_key(&endpoint.address) {
                continue;
            }
            let (pool, turn) = known.entry(&endpoint.address).or_insert_with(|| {
                let before = before.pools.remove(&endpoint.address);
                goes_on |= before.is_some();
                before.unwrap_or_else(|| (self.pool(&endpoint.address), 0))
            });
            inputs.push(EndpointInput {
                key: hash(pool.name().as_bytes()),
                weight: endpoint.weight,
                priority: endpoint.priority,
                own_zone: planned.zone.is_some() && endpoint.zone == planned.zone,
                available: true,
                readiness: READY,
            });
            turns.push(*turn);
            pools.push(pool.clone());
        }
        before.pools.values().for_each(|(pool, _)| pool.retire());
        // An endpoint without a share gets no requests, so its idle connections are closed now instead of at
        // their timeout.
        for (pool, input) in pools.iter().zip(&inputs) {
            match (input.weight, pool.is_retired()) {
                (0, false) => pool.retire(),
                (1.., true) => pool.unretire(),
                _ => {}
            }
        }
        if !pools.is_empty() {
            self.shared.mark_settled();
        }
        let settings = &planned.rules.balance;
        let now = &mut *self.current.borrow_mut();
        now.tags = settings
            .sticky
            .as_ref()
            .map(|sticky| StickyTags::new(sticky, &planned.name, pools.iter().map(|pool| pool.name())));
        (now.pools, now.inputs, now.discovered) = (pools, inputs, discovered);
        self.rebuild_balancer(now, settings, &Credit { endpoints: turns, groups: before.groups });
        if !goes_on {
            now.balance.offset_start(self.set.context().worker, self.workers);
        }
    }

    /// Rebuilds the balance. The members stay; their health and readiness may have changed.
    fn rebuild_balancer(&self, now: &mut CurrentMembers, settings: &BalanceSettings, credit: &Credit) {
        let shared = &*self.shared;
        // Read first, so that a change during the loop is seen at the next request.
        now.epoch = shared.epoch();
        let clock = settings.slow_start.map(|duration| (tollgate_net::now(), duration));
        let mut warming = false;
        for (input, pool) in now.inputs.iter_mut().zip(&now.pools) {
            let state = pool.state();
            input.available = state.is_available();
            input.readiness = clock.map_or(READY, |(at, duration)| {
                let since = state.ready_since();
                if since == 0 { READY } else { readiness(shared.stamp(at).saturating_sub(since), duration) }
            });
            warming |= input.readiness < READY;
        }
        let step = clock.filter(|_| warming);
        now.step = step.map(|(at, duration)| at + (duration / STEPS).max(SHORTEST_STEP));
        self.seen_epoch.set(if warming { 0 } else { now.epoch });
        now.balance = Balancer::new(settings, &now.inputs, credit, &shared.tables);
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

impl CurrentMembers {
    /// Returns the pool that the request's cookie names, unless that endpoint has failed the request.
    fn sticky(&self, hints: &PickHints<'_>) -> Option<Rc<Pool>> {
        let pool = &self.pools[self.named(hints.sticky?)?];
        let failed = hints.avoid.iter().any(|avoided| Rc::ptr_eq(avoided, pool));
        (!failed).then(|| pool.clone())
    }

    fn named(&self, cookie: &[u8]) -> Option<usize> {
        self.tags.as_ref()?.find(cookie).filter(|at| self.balance.takes(*at))
    }
}

/// The pools and credit that new members take over from old ones.
#[derive(Default)]
struct InheritedMembers {
    /// Pools by address, each with its round-robin credit.
    pools: BTreeMap<Address, (Rc<Pool>, i64)>,
    groups: Vec<((u8, bool), i64)>,
}

impl InheritedMembers {
    fn of(now: &CurrentMembers) -> Self {
        let Credit { endpoints, groups } = now.balance.credit();
        let pools = now.pools.iter().zip(endpoints);
        let pools = pools.map(|(pool, turn)| (pool.state().address.clone(), (pool.clone(), turn)));
        Self { pools: pools.collect(), groups }
    }
}
