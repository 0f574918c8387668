//! Futures in boxes that are used again.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;

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

    /// Runs a future to its end in a box of the pool.
    pub async fn run(&self, future: F) -> F::Output {
        let kept = self.0.borrow_mut().pop();
        let mut boxed = match kept {
            Some(mut boxed) => {
                boxed.set(future);
                boxed
            }
            None => Box::pin(future),
        };
        let output = boxed.as_mut().await;
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEEP {
            kept.push(boxed);
        }
        output
    }
}
