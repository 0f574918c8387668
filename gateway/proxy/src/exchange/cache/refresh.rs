//! Fetches a response again in the background, while its stale form is served (RFC 5861, 3).

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::Stored;

use super::admission::{Fetch, add_conditions, remove_conditions};
use super::caching::Caching;
use super::tap::Tap;
use crate::exchange::dispatch::dispatch;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::record::RequestRecord;
use crate::state::request_guard::RequestStateGuard;
use crate::state::request_state::RequestState;
use crate::state::stand_in::StandIn;
use crate::state::worker::Worker;

/// Starts to fetch a stale response again, unless another request does so already. The fetch has no line in the access log
/// and does not count as a client's request.
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
    let (cache, stale) = (caching.cache.clone(), stale.clone());
    let Caching { control, may_store, is_identified, routed, .. } = *caching;
    let side = StandIn {
        tls: client.stream.tls().cloned(),
        local: client.stream.local_address(),
        may_be_grpc: false,
        taker: (),
    };
    let absent = Client::of_stream(&client.connection_context, side, client.peer, client.requests);
    let mut request = state.request.clone();
    remove_conditions(&mut request);
    add_conditions(&mut request, &stale);
    let (path, worker, active) = (state.path.clone(), worker.clone(), active.clone());
    let (request_id, announced) = (state.record.request_id.clone(), state.record.announced.clone());
    tollgate_net::spawn(async move {
        let mut absent = absent;
        let mut guard = RequestStateGuard::new(&worker);
        let state = &mut *guard;
        state.next_request();
        state.record = RequestRecord::default();
        state.record.request_id = request_id;
        state.record.announced = announced;
        state.grpc = None;
        state.request = request;
        state.path = path;
        state.inbox.clear();
        let caching = Caching { cache: &cache, control, may_store, is_identified, routed, close: false };
        let fetch = Fetch::new(&caching, fill.key(), Some(stale), false);
        let Client { stream, connection_context, peer, requests, .. } = &mut absent;
        let tap = Tap::new(stream, fetch, fill);
        let mut tapped = Client::of_stream(connection_context, tap, *peer, *requests);
        // In a box of its own, because the future is moved before it runs.
        Box::pin(dispatch(&mut tapped, &worker, state, &active, routed, false)).await;
        // It has no open record, so the guard adds nothing to the statistics.
        guard.record = RequestRecord::default();
    });
}
