//! Request bodies of the admin listener. The bodies of all connections share one memory budget, and a
//! connection that waits for its body is marked as such, so that the table can evict it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::BoxError;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::table::{Activity, Phase};

/// Bytes of all bodies at once: the bound of the largest single body.
const BUDGET: usize = 64 << 20;
/// Bytes of each body that are exempt, so that a small change fits while a large one is being received.
const UNCOUNTED: usize = 64 << 10;

/// Bytes left for bodies.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(BUDGET))
    }
}

/// The part of the budget that one request's body holds. Dropping it, after the answer and the body, returns
/// the bytes.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    seen: AtomicUsize,
    taken: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Share {
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: budget.clone(),
            seen: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Returns whether the budget was exhausted.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Reserves room for received bytes. Returns whether there was room.
    fn take(&self, count: usize) -> bool {
        let seen = self.seen.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        let wanted = seen.saturating_sub(UNCOUNTED).saturating_sub(self.taken.load(Ordering::Relaxed));
        let update = |left: usize| left.checked_sub(wanted);
        let taken = self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok();
        match taken {
            true => drop(self.taken.fetch_add(wanted, Ordering::Relaxed)),
            false => self.is_exceeded.store(true, Ordering::Relaxed),
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A request's body, which counts its bytes against the budget.
pub(super) struct Counted {
    pub body: Incoming,
    pub share: Arc<Share>,
    pub activity: Arc<Activity>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            self.activity.go_on(Phase::Busy, Phase::Body);
        }
        let frame = ready!(polled);
        let length = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => 0,
        };
        if frame.is_none() || self.body.is_end_stream() {
            self.activity.go_on(Phase::Body, Phase::Busy);
        }
        if !self.share.take(length) {
            return Poll::Ready(Some(Err("no room for the body".into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_bounded_in_sum_and_small_ones_have_room() {
        let budget = Arc::new(Budget::default());
        let large = Share::new(&budget);
        assert!(large.take(BUDGET + UNCOUNTED) && !large.is_exceeded());
        let (other, small) = (Share::new(&budget), Share::new(&budget));
        assert!(small.take(UNCOUNTED));
        assert!(!other.take(UNCOUNTED + 1) && other.is_exceeded());
        drop(large);
        assert!(Share::new(&budget).take(BUDGET), "it is given back");
        drop((other, small));
        assert_eq!(budget.0.load(Ordering::Relaxed), BUDGET);
    }
}
