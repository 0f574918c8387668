//! Background I/O of policies: requests to authorization services, shared counters and key issuers.
//!
//! Workers have a runtime without its own timers, and simulation can replace their sockets. Client libraries
//! need an ordinary runtime. They therefore run on one thread outside the workers. The thread starts on first
//! use and ends with its owner.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The background I/O thread. Dropping this ends the thread and all tasks on it.
#[derive(Debug, Default)]
pub struct BackgroundIo {
    thread: OnceLock<Option<Thread>>,
}

/// A running thread, which ends when this is dropped.
#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Keeps the thread running until it is dropped.
    _runs: oneshot::Sender<()>,
}

impl BackgroundIo {
    /// Creates one without a thread: it runs no tasks, and every question fails.
    pub(crate) fn disabled() -> Self {
        Self { thread: OnceLock::from(None) }
    }

    /// Runs a future on the thread. A worker awaits the result through the returned handle; dropping the
    /// handle cancels the future.
    pub fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BackgroundTask<T> {
        BackgroundTask(self.handle().map(|handle| handle.spawn(future)))
    }

    /// Runs a future on the thread until it completes or the thread ends. Its result is dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(handle) = self.handle() {
            drop(handle.spawn(future));
        }
    }

    /// Returns `None` if the kernel provides no thread or no poller.
    fn handle(&self) -> Option<&Handle> {
        self.thread.get_or_init(start).as_ref().map(|thread| &thread.runtime)
    }
}

fn start() -> Option<Thread> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let (runs, ended) = oneshot::channel::<()>();
    // The channel carries no value: the receiver completes when the sender is dropped.
    let run = move || drop(runtime.block_on(ended));
    std::thread::Builder::new().name("policies".to_owned()).spawn(run).ok()?;
    Some(Thread { runtime: handle, _runs: runs })
}

/// The result of a future on the background I/O thread.
#[derive(Debug)]
pub struct BackgroundTask<T>(Option<JoinHandle<T>>);

impl<T> Future for BackgroundTask<T> {
    /// `None`: the thread could not run the future, or the future panicked.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut self.0 {
            Some(task) => Pin::new(task).poll(cx).map(Result::ok),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Drop for BackgroundTask<T> {
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
    fn tasks_run_beside_the_caller() {
        let side = BackgroundIo::default();
        let (send, receive) = mpsc::channel();
        let here = std::thread::current().id();
        side.spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _ = send.send(std::thread::current().id());
        });
        assert_ne!(receive.recv().expect("it runs"), here);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(side.run(async { 7 })), Some(7));
        assert_eq!(runtime.block_on(side.run(async { panic!("asked in vain") })), None::<()>);
    }

    #[test]
    fn the_thread_ends_with_its_last_handle() {
        struct Tells(mpsc::Sender<()>);
        impl Drop for Tells {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let side = BackgroundIo::default();
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
    fn a_dry_run_calls_no_service() {
        let side = BackgroundIo::disabled();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(side.run(async { 7 })), None);
        let (send, receive) = mpsc::channel();
        side.spawn(async move { send.send(()).expect("nobody runs this") });
        assert!(receive.recv().is_err(), "it was dropped");
        assert!(side.handle().is_none());
    }
}
