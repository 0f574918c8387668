//! Forwards a request past the cache: its response is not stored.

use std::rc::Rc;

use tollgate_cache::Forward;
use tollgate_policy::CacheOutcome;

use super::caching::Caching;
use super::outcome::{note, note_forward};
use crate::exchange::dispatch::dispatch;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Forwards a request whose response is not stored. It counts as a miss.
pub(super) async fn pass<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    forward: Forward,
) -> ConnectionFate {
    note_forward(state, forward);
    let next = dispatch(client, worker, state, active, caching.routed, caching.close).await;
    note(state, caching.cache, CacheOutcome::Miss);
    next
}
