//! The control thread's work on endpoints: it runs health probes, ends ejections and reports changes.
//!
//! | File | Contents |
//! |---|---|
//! | `watched.rs` | one upstream: its probed endpoints, the ends of ejections |
//! | `target.rs` | one endpoint that is probed repeatedly, and the effect of a result |
//! | `verdict.rs` | how many results in a row make it healthy or unhealthy |
//! | `probe.rs`, `http.rs`, `http2.rs`, `grpc.rs`, `io.rs` | one probe, bounded in time and bytes |
//! | `view.rs` | the state that the admin listener shows |
//! | `failure.rs`, `record.rs` | why a probe failed, and the record of the last one |
//!
//! There is one [`Health`] for the process, on a runtime of `tollgate_net` (its tasks need not be `Send`).
//! Another kind of probe needs another variant of [`Probe`](tollgate_plan::Probe) and another file next to
//! `http.rs`.

mod failure;
mod grpc;
mod http;
mod http2;
mod io;
mod probe;
mod record;
mod target;
mod verdict;
mod view;
mod watched;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tollgate_net::{Deadline, Timers};
use tollgate_plan::{Upstream, UpstreamChange};

use crate::news::News;
use crate::{Notice, Shared};
pub use failure::ProbeFailure;
pub(crate) use record::{Counts, Record};
use target::Prober;
use watched::Watched;

/// The control thread's work on endpoints. It ends when this is dropped.
pub struct Health {
    shared: Arc<Shared>,
    prober: Rc<Prober>,
    upstreams: RefCell<BTreeMap<String, Watched>>,
    say: Box<dyn Fn(&Notice)>,
}

impl Health {
    /// Starts without upstreams. `seed` determines the jitter of intervals. `say` writes a notice whenever an
    /// endpoint changes its state.
    #[must_use]
    pub fn start(
        shared: Arc<Shared>,
        timers: &Timers,
        seed: u64,
        say: impl Fn(&Notice) + 'static,
    ) -> Rc<Self> {
        let news = shared.news.clone();
        let prober = Rc::new(Prober::new(timers.clone(), seed));
        let health = Rc::new(Self { shared, prober, upstreams: RefCell::default(), say: Box::new(say) });
        tollgate_net::spawn(drive(Rc::downgrade(&health), news, timers.deadline()));
        health
    }

    /// Starts with these upstreams.
    pub fn begin(&self, upstreams: &[Arc<Upstream>]) {
        self.change(&UpstreamChange { added: upstreams.to_vec(), ..UpstreamChange::default() });
    }

    /// Adopts the changes that a new plan makes to upstreams.
    pub fn change(&self, change: &UpstreamChange) {
        let now = tollgate_net::now();
        let mut upstreams = self.upstreams.borrow_mut();
        for planned in change.changed.iter().chain(&change.added) {
            let watched = upstreams
                .entry(planned.name.clone())
                .or_insert_with(|| Watched::new(self.shared.upstream(&planned.name), now));
            watched.plan(planned, &self.prober, now);
        }
        for gone in &change.gone {
            if let Some(gone) = upstreams.remove(&gone.name) {
                gone.end(now);
            }
        }
        drop(upstreams);
        // The driver may have to wake earlier than it planned.
        self.shared.news.ring();
    }

    /// Does what is due, and returns when something is next due.
    fn turn(&self, now: Instant) -> Option<Instant> {
        let mut upstreams = self.upstreams.borrow_mut();
        let next = upstreams.values_mut().filter_map(|upstream| upstream.turn(&self.prober, now)).min();
        drop(upstreams);
        self.shared.news.take().iter().for_each(|notice| (self.say)(notice));
        next
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Health")
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        let now = tollgate_net::now();
        self.upstreams.take().into_iter().for_each(|(_, upstream)| upstream.end(now));
        // Wakes the driver, which then ends.
        self.shared.news.ring();
    }
}

/// Sleeps until something is due or the news channel signals.
async fn drive(health: Weak<Health>, news: Arc<News>, due: Deadline) {
    loop {
        let Some(this) = health.upgrade() else { return };
        let now = tollgate_net::now();
        due.set(now, this.turn(now).map(|next| next.saturating_duration_since(now)));
        drop(this);
        let mut heard = pin!(news.heard());
        poll_fn(|cx| match heard.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => due.poll_passed(cx),
        })
        .await;
    }
}

#[cfg(test)]
mod tests;
