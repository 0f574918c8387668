//! The control thread's work on endpoints: it runs health probes, ends ejections and reports changes.
//!
//! | File | Contents |
//! |---|---|
//! | `watched_upstream.rs` | one upstream: its probed endpoints, the ends of ejections |
//! | `target.rs` | one endpoint that is probed repeatedly, and the effect of a result |
//! | `threshold.rs` | how many results in a row make it healthy or unhealthy |
//! | `probe.rs`, `http.rs`, `http2.rs`, `grpc.rs`, `io.rs` | one probe, bounded in time and bytes |
//! | `view.rs` | the state that the admin listener shows |
//! | `failure.rs`, `record.rs` | why a probe failed, and the record of the last one |
//!
//! There is one [`HealthMonitor`] for the process, on a runtime of `tollgate_net` (its tasks need not be
//! `Send`). Another kind of probe needs another variant of [`Probe`](tollgate_plan::Probe) and another file
//! next to `http.rs`.

mod failure;
mod grpc;
mod http;
mod http2;
mod io;
mod probe;
mod record;
mod target;
mod threshold;
mod view;
mod watched_upstream;

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

use crate::notices::NoticeChannel;
use crate::{EndpointNotice, UpstreamStates};
pub use failure::ProbeFailure;
pub(crate) use record::{ProbeCounts, ProbeRecord};
use target::Prober;
use watched_upstream::WatchedUpstream;

/// The control thread's work on endpoints. It ends when this is dropped.
pub struct HealthMonitor {
    shared: Arc<UpstreamStates>,
    prober: Rc<Prober>,
    upstreams: RefCell<BTreeMap<String, WatchedUpstream>>,
    on_notice: Box<dyn Fn(&EndpointNotice)>,
}

impl HealthMonitor {
    /// Starts without upstreams. `seed` determines the jitter of intervals. `on_notice` writes a notice
    /// whenever an endpoint changes its state.
    #[must_use]
    pub fn start(
        shared: Arc<UpstreamStates>,
        timers: &Timers,
        seed: u64,
        on_notice: impl Fn(&EndpointNotice) + 'static,
    ) -> Rc<Self> {
        let notices = shared.notices.clone();
        let prober = Rc::new(Prober::new(timers.clone(), seed));
        let health =
            Rc::new(Self { shared, prober, upstreams: RefCell::default(), on_notice: Box::new(on_notice) });
        tollgate_net::spawn(drive(Rc::downgrade(&health), notices, timers.deadline()));
        health
    }

    /// Starts with these upstreams.
    pub fn add_upstreams(&self, upstreams: &[Arc<Upstream>]) {
        self.apply_plan(&UpstreamChange { added: upstreams.to_vec(), ..UpstreamChange::default() });
    }

    /// Adopts the changes that a new plan makes to upstreams.
    pub fn apply_plan(&self, change: &UpstreamChange) {
        let now = tollgate_net::now();
        let mut upstreams = self.upstreams.borrow_mut();
        for planned in change.changed.iter().chain(&change.added) {
            let watched = upstreams
                .entry(planned.name.clone())
                .or_insert_with(|| WatchedUpstream::new(self.shared.upstream(&planned.name), now));
            watched.apply_plan(planned, &self.prober, now);
        }
        for gone in &change.removed {
            if let Some(gone) = upstreams.remove(&gone.name) {
                gone.stop(now);
            }
        }
        drop(upstreams);
        // The driver may have to wake earlier than it planned.
        self.shared.notices.signal();
    }

    /// Does what is due, and returns when something is next due.
    fn run_due(&self, now: Instant) -> Option<Instant> {
        let mut upstreams = self.upstreams.borrow_mut();
        let next = upstreams.values_mut().filter_map(|upstream| upstream.run_due(&self.prober, now)).min();
        drop(upstreams);
        self.shared.notices.take().iter().for_each(|notice| (self.on_notice)(notice));
        next
    }
}

impl std::fmt::Debug for HealthMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HealthMonitor")
    }
}

impl Drop for HealthMonitor {
    fn drop(&mut self) {
        let now = tollgate_net::now();
        self.upstreams.take().into_iter().for_each(|(_, upstream)| upstream.stop(now));
        // Wakes the driver, which then ends.
        self.shared.notices.signal();
    }
}

/// Sleeps until something is due or the news channel signals.
async fn drive(health: Weak<HealthMonitor>, notices: Arc<NoticeChannel>, due: Deadline) {
    loop {
        let Some(this) = health.upgrade() else { return };
        let now = tollgate_net::now();
        due.set(now, this.run_due(now).map(|next| next.saturating_duration_since(now)));
        drop(this);
        let mut signalled = pin!(notices.signalled());
        poll_fn(|cx| match signalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => due.poll_passed(cx),
        })
        .await;
    }
}

#[cfg(test)]
mod tests;
