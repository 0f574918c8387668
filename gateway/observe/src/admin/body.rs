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
const BUDGET_BYTES: usize = 64 << 20;
/// Bytes of each body that are exempt, so that a small change fits while a large one is being received.
const EXEMPT_BYTES: usize = 64 << 10;

/// Bytes left for bodies.
#[derive(Debug)]
pub(super) struct BodyBudget(AtomicUsize);

impl Default for BodyBudget {
    fn default() -> Self {
        Self(AtomicUsize::new(BUDGET_BYTES))
    }
}

/// The part of the budget that one request's body holds. Dropping it, after the answer and the body, returns
/// the bytes.
#[derive(Debug)]
pub(super) struct BudgetShare {
    budget: Arc<BodyBudget>,
    seen: AtomicUsize,
    taken: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl BudgetShare {
    pub fn new(budget: &Arc<BodyBudget>) -> Arc<Self> {
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
        let wanted = seen.saturating_sub(EXEMPT_BYTES).saturating_sub(self.taken.load(Ordering::Relaxed));
        let update = |left: usize| left.checked_sub(wanted);
        let taken = self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok();
        match taken {
            true => drop(self.taken.fetch_add(wanted, Ordering::Relaxed)),
            false => self.is_exceeded.store(true, Ordering::Relaxed),
        }
        taken
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A request's body, which counts its bytes against the budget.
pub(super) struct CountedBody {
    pub body: Incoming,
    pub share: Arc<BudgetShare>,
    pub activity: Arc<Activity>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            self.activity.advance(Phase::Busy, Phase::Body);
        }
        let frame = ready!(polled);
        let length = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => 0,
        };
        if frame.is_none() || self.body.is_end_stream() {
            self.activity.advance(Phase::Body, Phase::Busy);
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
        let budget = Arc::new(BodyBudget::default());
        let large = BudgetShare::new(&budget);
        assert!(large.take(BUDGET_BYTES + EXEMPT_BYTES) && !large.is_exceeded());
        let (other, small) = (BudgetShare::new(&budget), BudgetShare::new(&budget));
        assert!(small.take(EXEMPT_BYTES));
        assert!(!other.take(EXEMPT_BYTES + 1) && other.is_exceeded());
        drop(large);
        assert!(BudgetShare::new(&budget).take(BUDGET_BYTES), "it is given back");
        drop((other, small));
        assert_eq!(budget.0.load(Ordering::Relaxed), BUDGET_BYTES);
    }
}
