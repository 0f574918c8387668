//! The thread on which others are asked: an authorisation service, a shared counter, an issuer of keys.
//!
//! Workers have a runtime without timers of its own and a seam to sockets that can be simulated. Clients of other systems
//! come from libraries, which want an ordinary runtime; so they run beside the workers, on one thread, which is started when
//! somebody needs it first and ends with what it belongs to.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The thread on which others are asked. It ends when this is dropped, with whatever still runs there.
#[derive(Debug, Default)]
pub struct Side {
    thread: OnceLock<Option<Thread>>,
}

/// A thread that runs for as long as somebody has this.
#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Dropped, the thread ends.
    _runs: oneshot::Sender<()>,
}

impl Side {
    /// Without a thread: what is to be asked is not, and what is to run does not.
    pub(crate) fn silent() -> Self {
        Self { thread: OnceLock::from(None) }
    }

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
        self.thread.get_or_init(start).as_ref().map(|thread| &thread.runtime)
    }
}

fn start() -> Option<Thread> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let (runs, ended) = oneshot::channel::<()>();
    // Nothing is ever sent: it ends when the other end is dropped.
    let run = move || drop(runtime.block_on(ended));
    std::thread::Builder::new().name("policies".to_owned()).spawn(run).ok()?;
    Some(Thread { runtime: handle, _runs: runs })
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

    #[test]
    fn the_thread_ends_when_nobody_has_it() {
        struct Tells(mpsc::Sender<()>);
        impl Drop for Tells {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let side = Side::default();
        let (send, receive) = mpsc::channel();
        let tells = Tells(send);
        side.spawn(async move {
            std::future::pending::<()>().await;
            drop(tells);
        });
        drop(side);
        assert_eq!(receive.recv_timeout(Duration::from_secs(60)), Ok(()), "what ran there was dropped");
    }

    #[test]
    fn a_silent_one_asks_nobody() {
        let side = Side::silent();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(side.ask(async { 7 })), None);
        let (send, receive) = mpsc::channel();
        side.spawn(async move { send.send(()).expect("nobody runs this") });
        assert!(receive.recv().is_err(), "it was dropped");
        assert!(side.handle().is_none());
    }
}
