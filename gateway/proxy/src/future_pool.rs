//! Futures in boxes that are used again.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Boxes kept for the next exchange.
const KEEP: usize = 64;

/// Futures in boxes that are used again. A future keeps the size of its largest state for as long as it lives; an
/// idle connection would hold on to an exchange's several kilobytes. So the exchange is a future of its own, in a
/// box that is borrowed for its time, and starting one allocates nothing.
#[derive(Debug)]
pub(crate) struct FuturePool<F>(RefCell<Vec<Pin<Box<F>>>>);

impl<F: Future> FuturePool<F> {
    pub fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// Runs a future to its end in a box of the pool. Not an `async fn`: that would hold the future itself, and
    /// whoever awaits it would be as large.
    pub fn run(&self, future: F) -> Running<'_, F> {
        let kept = self.0.borrow_mut().pop();
        let boxed = match kept {
            Some(mut boxed) => {
                boxed.set(future);
                boxed
            }
            None => Box::pin(future),
        };
        Running { pool: self, boxed: Some(boxed) }
    }
}

/// A future that runs in a box of the pool.
#[derive(Debug)]
pub(crate) struct Running<'a, F> {
    pool: &'a FuturePool<F>,
    boxed: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Running<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let boxed = this.boxed.as_mut().expect("not polled after its end");
        let output = std::task::ready!(boxed.as_mut().poll(cx));
        let mut kept = this.pool.0.borrow_mut();
        if kept.len() < KEEP {
            kept.extend(this.boxed.take());
        }
        Poll::Ready(output)
    }
}
