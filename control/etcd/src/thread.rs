//! All of it on a thread of its own: what comes from etcd is read there, and nobody who serves waits for it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use crate::client::Client;
use crate::follow::follow;
use crate::presence::presence;
use crate::{Error, News, Settings};

/// News that may wait to be heard; then the watch waits.
const WAITING: usize = 16;
/// Requests that may wait to be made.
const ASKED: usize = 64;

type Job = Box<dyn FnOnce(Client) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// What follows etcd. Dropped, it takes its key out of etcd and ends.
#[derive(Debug)]
pub struct Etcd {
    handle: Handle,
    says: Option<watch::Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

/// Makes requests on the thread. It is cheap to clone.
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
    /// Starts to follow. `says` is what this gateway's key tells first.
    ///
    /// # Errors
    /// When TLS cannot be spoken, or the system gives no thread.
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
                // The key's end is the thread's.
                tokio::select! {
                    () = async { follow(&client, 0, &news).await; std::future::pending().await } => {}
                    () = presence(&client, told) => {}
                }
            });
        })?;
        let handle = Handle { settings, jobs };
        Ok((Self { handle, says: Some(says), thread: Some(thread) }, heard))
    }

    /// What makes requests.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What this gateway's key is to tell from now on.
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
            // At most as long as one request may take.
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Where etcd is.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes requests.
    ///
    /// # Errors
    /// What they say, or that the thread has ended.
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

    /// The same, on a thread that may wait.
    ///
    /// # Errors
    /// As [`run`](Self::run).
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
