//! Reusable boxed futures, which run one exchange after another.
//!
//! A [`FuturePool`] lends a future to a connection for a run of exchanges. The connection puts its input into
//! the [`FutureSlot`], polls the future, and takes the output from there. The future then goes back into the
//! pool. `worker` has one pool for HTTP/1 connections and one for HTTP/2 streams.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::state::object_pool::ObjectPool;

/// The slot through which a pooled future gets its next input and returns its output.
pub(crate) struct FutureSlot<I, O> {
    input: Cell<Option<I>>,
    output: Cell<Option<O>>,
}

impl<I, O> FutureSlot<I, O> {
    /// Waits for the next input. Registers no waker: the caller that sets the input polls the future itself.
    pub fn next(&self) -> impl Future<Output = I> {
        poll_fn(|_| self.input.take().map_or(Poll::Pending, Poll::Ready))
    }

    /// Returns the output for the current input.
    pub fn done(&self, output: O) {
        self.output.set(Some(output));
    }
}

/// Pooled futures that wait for input, each in its box. A future keeps the size of its largest state for as
/// long as it exists, so an idle connection would hold several kilobytes of an exchange. Therefore the
/// exchanges are a future of their own, lent to a connection for as long as its requests follow each other.
/// The future never ends, because putting a new one into the box would copy all of it: 250 instructions of a
/// plain request's 10,000 (callgrind).
pub(crate) struct FuturePool<I, O, F: ?Sized>(ObjectPool<PooledFuture<I, O, F>>);

struct PooledFuture<I, O, F: ?Sized> {
    slot: Rc<FutureSlot<I, O>>,
    future: Pin<Box<F>>,
}

impl<I, O, F: Future<Output = Infallible> + ?Sized> FuturePool<I, O, F> {
    pub fn new() -> Self {
        Self(ObjectPool::default())
    }

    /// Gives `input` to a pooled future; `start` creates one if none is free.
    pub fn run<P: Deref<Target = Self>>(
        this: P,
        input: I,
        start: impl Fn(Rc<FutureSlot<I, O>>) -> Pin<Box<F>>,
    ) -> BorrowedFuture<P, I, O, F> {
        let pooled = this.0.take().unwrap_or_else(|| {
            let slot = Rc::new(FutureSlot { input: Cell::new(None), output: Cell::new(None) });
            PooledFuture { future: start(slot.clone()), slot }
        });
        pooled.slot.input.set(Some(input));
        BorrowedFuture { pool: this, pooled: Some(pooled) }
    }

    /// Drops some of the free ones; see [`ObjectPool::shrink`].
    pub fn shrink(&self) -> bool {
        self.0.shrink()
    }
}

/// A borrowed future at work. If this is dropped before the output is there, for instance by a panic, the
/// future is dropped with it.
pub(crate) struct BorrowedFuture<P, I, O, F: ?Sized> {
    pool: P,
    pooled: Option<PooledFuture<I, O, F>>,
}

impl<P, I, O, F> Future for BorrowedFuture<P, I, O, F>
where
    P: Deref<Target = FuturePool<I, O, F>> + Unpin,
    F: Future<Output = Infallible> + ?Sized,
{
    type Output = O;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        let this = &mut *self;
        let pooled = this.pooled.as_mut().expect("not polled after its end");
        match pooled.future.as_mut().poll(cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => {}
        }
        let Some(output) = pooled.slot.output.take() else { return Poll::Pending };
        if let Some(pooled) = this.pooled.take() {
            // The return value may be ignored: each exchange uses one request state and one future, and
            // shrinking request states shrinks both.
            let _ = this.pool.0.put(pooled);
        }
        Poll::Ready(output)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Adds one, in two polls.
    async fn increment(slot: Rc<FutureSlot<u32, u32>>) -> Infallible {
        loop {
            let number = slot.next().await;
            let mut polled = false;
            poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending })
                .await;
            slot.done(number + 1);
        }
    }

    #[test]
    fn idle_futures_are_reused_and_busy_ones_are_not() {
        let pool = FuturePool::new();
        let start = |slot| Box::pin(increment(slot));
        let mut cx = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (FuturePool::run(&pool, 1, start), FuturePool::run(&pool, 10, start));
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
        assert_eq!(Pin::new(&mut first).poll(&mut cx), Poll::Ready(2));
        assert_eq!(pool.0.len(), 1);
        drop(second);
        assert_eq!(pool.0.len(), 1);
        let mut third = FuturePool::run(&pool, 5, start);
        assert_eq!(pool.0.len(), 0);
        assert!(Pin::new(&mut third).poll(&mut cx).is_pending());
        assert_eq!(Pin::new(&mut third).poll(&mut cx), Poll::Ready(6));
    }
}
