//! Fetches a response again in the background, while its stale form is served (RFC 5861, 3).

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

/// Starts to fetch a stale response again, unless another request does so already.
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
