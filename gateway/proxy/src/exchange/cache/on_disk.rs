//! Looks a key up on the disk tier, if memory has nothing.
//!
//! [`serve`](super::serve) and [`slices`](super::slices) call it after a miss in memory. Each read runs on a thread for
//! a bounded time. If the disk does not answer in time, the request is a miss, and the tier is not asked for a while.
//! One request at a time looks a key up; the others then find the response in memory.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tollgate_cache::{DiskCandidate, Lookup, Moment, Store};
use tollgate_files::threads;
use tollgate_http::Head;

use crate::state::client::Client;
use crate::state::client_side::ClientSide;

/// Time limit of a read from disk.
pub(super) const DISK_WAIT: Duration = Duration::from_secs(2);

/// A read that did not return in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSlow;

/// Runs a call of the file system on a thread, for a bounded time.
pub(super) async fn on_thread<S: ClientSide, T: Send + 'static>(
    client: &mut Client<S>,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TooSlow> {
    client.deadline.set(tollgate_net::now(), Some(DISK_WAIT));
    let mut call = pin!(threads::CACHE.run(call));
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result.map_err(|_| TooSlow)),
        Poll::Pending => client.deadline.poll_passed(cx).map(|()| Err(TooSlow)),
    })
    .await
}

/// Looks a key up. Returns the result, and whether it comes from disk.
pub(super) async fn look_up<S: ClientSide>(
    client: &mut Client<S>,
    store: &Store,
    key: &[u8],
    request: &Head,
    now: Moment,
) -> (Lookup, bool) {
    let Some(_turn) = poll_fn(|cx| store.poll_disk_turn(key, cx)).await else { return (Lookup::Miss, false) };
    match store.look_again(key, request, now) {
        Lookup::Miss => {}
        found => return (found, false),
    }
    for candidate in store.disk_candidates(key) {
        let loaded = match candidate {
            DiskCandidate::Waiting(loaded) => Some(loaded),
            DiskCandidate::Record(record) => match on_thread(client, move || record.load()).await {
                Ok(loaded) => loaded,
                Err(TooSlow) => {
                    store.note_slow_disk();
                    return (Lookup::Miss, false);
                }
            },
        };
        if let Some(loaded) = loaded
            && loaded.stored().head().is_selected_by(request)
        {
            return (store.promote(loaded, request, now), true);
        }
    }
    (Lookup::Miss, false)
}
