//! A worker's state for each stream of the plan: its counts, its bounds, and how its connections are divided among
//! upstreams.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_listen::{ConnectionCounts, StreamFull, StreamSlot, StreamUse};
use tollgate_observe::{StreamCounts, WorkerStats};
use tollgate_plan::{Policy, Stream, StreamShare};

use crate::state::active::ActivePlan;
use crate::state::split::Split;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub stream: Arc<Stream>,
    pub counts: Arc<StreamCounts>,
    /// How its connections are divided, if it has several upstreams.
    pub split: Option<Rc<Split>>,
    uses: Option<Arc<StreamUse>>,
}

/// The states of the streams that were used under the current plan. A state is created with the first connection, so a
/// new plan costs a worker nothing.
#[derive(Debug, Default)]
pub(crate) struct StreamStates(RefCell<HashMap<usize, Rc<StreamState>>>);

impl StreamStates {
    /// Returns the state of a stream.
    pub fn get(
        &self,
        stream: &Arc<Stream>,
        active: &ActivePlan,
        stats: &WorkerStats,
        loads: &ConnectionCounts,
    ) -> Rc<StreamState> {
        // The state keeps the stream, so no other one can have its address.
        let key = Arc::as_ptr(stream).addr();
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let state = Rc::new(StreamState::new(stream, active, stats, loads));
        self.0.borrow_mut().insert(key, state.clone());
        state
    }

    /// Called when a new plan comes into force. Connections keep the states that they have.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl StreamState {
    fn new(stream: &Arc<Stream>, active: &ActivePlan, stats: &WorkerStats, loads: &ConnectionCounts) -> Self {
        let is_tied = |name: &str| {
            active.by_name(name).is_some_and(|upstream| matches!(upstream.balance().policy, Policy::Hash(_)))
        };
        let split = (stream.shares.len() > 1).then(|| {
            let ties = stream.shares.iter().any(|share| share.upstream.as_deref().is_some_and(is_tied));
            // No upstream has an empty name.
            let name = |share: &StreamShare| share.upstream.clone().unwrap_or_default();
            let among = stream.shares.iter().map(|share| (name(share), share.weight)).collect();
            // No route has a name with a line feed.
            active.splits().get(&format!("stream\n{}", stream.name), among, ties)
        });
        let is_bounded = stream.connections.is_some() || stream.per_address.is_some();
        Self {
            stream: stream.clone(),
            counts: stats.stream(&stream.name),
            split,
            uses: is_bounded.then(|| loads.streams.of(&stream.name)),
        }
    }

    /// Takes a place within the bounds of the stream; `None`: it has no bounds.
    ///
    /// # Errors
    /// The bound that is reached.
    pub fn take_slot(&self, client: IpAddr) -> Result<Option<StreamSlot>, StreamFull> {
        let Some(uses) = &self.uses else { return Ok(None) };
        uses.take(client, self.stream.connections, self.stream.per_address).map(Some)
    }
}
