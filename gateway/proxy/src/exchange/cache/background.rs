//! Fetches for the store alone, each on a task of its own: a [refresh](super::refresh) of a stale response, or a
//! [slice](super::slices).
//!
//! The task runs the usual [`dispatch`] with a client that takes everything and never leaves. It has no line in the
//! access log and does not count as a client's request.

use std::rc::Rc;

use tollgate_cache::Fill;
use tollgate_http::RequestHead;

use super::admission::Fetch;
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

/// Starts a task that sends `request` on behalf of a client's request. `prepare` creates the fetch and its fill on the
/// task.
pub(super) fn fetch<S: ClientSide>(
    client: &Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    request: RequestHead,
    prepare: impl for<'c> FnOnce(&Caching<'c>) -> (Fetch<'c>, Fill) + 'static,
) {
    let cache = caching.cache.clone();
    let Caching { control, may_store, is_identified, routed, .. } = *caching;
    let side = StandIn {
        tls: client.stream.tls().cloned(),
        local: client.stream.local_address(),
        may_be_grpc: false,
        taker: (),
    };
    let absent = Client::of_stream(&client.connection_context, side, client.peer, client.requests);
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
        let (fetch, fill) = prepare(&caching);
        let Client { stream, connection_context, peer, requests, .. } = &mut absent;
        let tap = Tap::new(stream, fetch, fill);
        let mut tapped = Client::of_stream(connection_context, tap, *peer, *requests);
        // Boxed, because the task moves its future before it runs.
        Box::pin(dispatch(&mut tapped, &worker, state, &active, routed, false)).await;
        // Clear the record, so that the guard adds nothing to the statistics.
        guard.record = RequestRecord::default();
    });
}
