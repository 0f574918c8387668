//! Runs the client on a thread of its own, so that reading from etcd never delays a worker or the control
//! thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use crate::client::Client;
use crate::follow::follow;
use crate::presence::presence;
use crate::{Error, News, Settings};

/// Capacity of the queue of events. When it is full, the watch waits.
const WAITING: usize = 16;
/// Capacity of the queue of requests.
const ASKED: usize = 64;

type Job = Box<dyn FnOnce(Client) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The thread that follows etcd. Dropping it deletes this gateway's key in etcd and ends the thread.
#[derive(Debug)]
pub struct Etcd {
    handle: Handle,
    says: Option<watch::Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

/// Sends requests to the thread. It is cheap to clone.
#[derive(Clone)]
pub struct Handle {
    settings: Settings,
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Etcd {
    /// Starts to follow etcd. `says` is the first text of this gateway's key.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up, or no thread can be started.
    pub fn start(settings: Settings, says: String) -> io::Result<(Self, mpsc::Receiver<News>)> {
        let client = Client::new(settings.clone()).map_err(io::Error::other)?;
        let (news, heard) = mpsc::channel(WAITING);
        let (jobs, mut asked) = mpsc::channel::<Job>(ASKED);
        let (says, told) = watch::channel(says);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("etcd".to_owned()).spawn(move || {
            runtime.block_on(async {
                let asking = client.clone();
                tokio::spawn(async move {
                    while let Some(job) = asked.recv().await {
                        tokio::spawn(job(asking.clone()));
                    }
                });
                // The thread ends when `presence` ends.
                tokio::select! {
                    () = async { follow(&client, 0, &news).await; std::future::pending().await } => {}
                    () = presence(&client, told) => {}
                }
            });
        })?;
        let handle = Handle { settings, jobs };
        Ok((Self { handle, says: Some(says), thread: Some(thread) }, heard))
    }

    /// Returns the handle for requests.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Sets the text of this gateway's key from now on.
    pub fn say(&self, text: String) {
        if let Some(says) = &self.says {
            says.send_if_modified(|said| {
                let new = *said != text;
                *said = text;
                new
            });
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.says = None;
        if let Some(thread) = self.thread.take() {
            // Waits at most as long as one request may take.
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs requests on the thread.
    ///
    /// # Errors
    /// Returns the error of the requests, or [`Error::Unreachable`] if the thread is gone.
    pub async fn run<T, F>(&self, act: impl FnOnce(Client) -> F + Send + 'static) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let ended = || Error::Unreachable("the gateway stops".to_owned());
        let (job, answered) = job(act);
        self.jobs.send(job).await.map_err(|_| ended())?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Like [`run`](Self::run), for a thread that may block.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn wait<T, F>(&self, act: impl FnOnce(Client) -> F + Send + 'static) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let ended = || Error::Unreachable("the gateway stops".to_owned());
        let (job, answered) = job(act);
        self.jobs.blocking_send(job).map_err(|_| ended())?;
        answered.blocking_recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn job<T, F>(act: impl FnOnce(Client) -> F + Send + 'static) -> (Job, oneshot::Receiver<Result<T, Error>>)
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job: Job = Box::new(move |client| {
        Box::pin(async move {
            let _ = answer.send(act(client).await);
        })
    });
    (job, answered)
}
