//! Refreshes a stale response in the background while it is served (RFC 5861, 3).

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::Stored;

use super::admission::{Fetch, add_conditions, remove_conditions};
use super::background;
use super::caching::Caching;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Starts a fetch that refreshes a stale response, unless one is running.
pub(super) fn start<S: ClientSide>(
    client: &Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    stale: &Arc<Stored>,
) {
    let store = &caching.cache.store;
    let Some(fill) = store.begin_refresh(stale, &state.request.head) else { return };
    let stale = stale.clone();
    let mut request = state.request.clone();
    remove_conditions(&mut request);
    add_conditions(&mut request, &stale);
    background::fetch(client, worker, state, active, caching, request, move |caching| {
        (Fetch::new(caching, fill.key(), Some(stale), None), fill)
    });
}
