//! The thread on which others are asked: an authorisation service, a shared counter, an issuer of keys.
//!
//! Workers have a runtime without timers of its own and a seam to sockets that can be simulated. Clients of other systems
//! come from libraries, which want an ordinary runtime; so they run beside the workers, on one thread, which is started when
//! somebody needs it first.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The thread on which others are asked.
#[derive(Debug, Default)]
pub struct Side {
    runtime: OnceLock<Option<Handle>>,
}

impl Side {
    /// Runs this on the thread. What is given back tells a worker what came of it; dropped, it is called off.
    pub fn ask<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Asked<T> {
        Asked(self.handle().map(|handle| handle.spawn(future)))
    }

    /// Runs this on the thread for as long as it lives, without anybody waiting.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(handle) = self.handle() {
            drop(handle.spawn(future));
        }
    }

    /// Nothing if the kernel gives no thread or no poller.
    fn handle(&self) -> Option<&Handle> {
        self.runtime.get_or_init(start).as_ref()
    }
}

fn start() -> Option<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("policies".to_owned()).spawn(run).ok()?;
    Some(handle)
}

/// What comes of a question.
#[derive(Debug)]
pub struct Asked<T>(Option<JoinHandle<T>>);

impl<T> Future for Asked<T> {
    /// `None`: it could not be asked, or asking panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.0 {
            Some(task) => Pin::new(task).poll(cx).map(Result::ok),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_runs_beside_whoever_asks() {
        let side = Side::default();
        let (send, receive) = mpsc::channel();
        let here = std::thread::current().id();
        side.spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _ = send.send(std::thread::current().id());
        });
        assert_ne!(receive.recv().expect("it runs"), here);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(side.ask(async { 7 })), Some(7));
        assert_eq!(runtime.block_on(side.ask(async { panic!("asked in vain") })), None::<()>);
    }
}
