//! Runs the client on a thread of its own, so that reading from etcd never delays a worker or the control
//! thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use crate::client::EtcdClient;
use crate::presence::maintain_presence;
use crate::watch::watch_entries;
use crate::{ClientSettings, Error, EtcdEvent};

/// Capacity of the queue of events. When it is full, the watch waits.
const EVENTS_MAX: usize = 16;
/// Capacity of the queue of requests.
const JOBS_MAX: usize = 64;

type Job = Box<dyn FnOnce(EtcdClient) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The thread that follows etcd. Dropping it deletes this gateway's key in etcd and ends the thread.
#[derive(Debug)]
pub struct EtcdThread {
    handle: EtcdHandle,
    presence_text: Option<watch::Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

/// Sends requests to the thread. It is cheap to clone.
#[derive(Clone)]
pub struct EtcdHandle {
    settings: ClientSettings,
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for EtcdHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl EtcdThread {
    /// Starts to follow etcd. `presence_text` is the first text of this gateway's key.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up, or no thread can be started.
    pub fn start(
        settings: ClientSettings,
        presence_text: String,
    ) -> io::Result<(Self, mpsc::Receiver<EtcdEvent>)> {
        let client = EtcdClient::new(settings.clone()).map_err(io::Error::other)?;
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (jobs, mut job_receiver) = mpsc::channel::<Job>(JOBS_MAX);
        let (presence_text, presence_receiver) = watch::channel(presence_text);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("etcd".to_owned()).spawn(move || {
            runtime.block_on(async {
                let (job_client, prefix) = (client.clone(), client.settings().config_prefix());
                tokio::spawn(async move {
                    while let Some(job) = job_receiver.recv().await {
                        tokio::spawn(job(job_client.clone()));
                    }
                });
                // The thread ends when `maintain_presence` ends.
                tokio::select! {
                    () = async { watch_entries(&client, &prefix, &event_sender).await; std::future::pending().await } => {}
                    () = maintain_presence(&client, presence_receiver) => {}
                }
            });
        })?;
        let handle = EtcdHandle { settings, jobs };
        Ok((Self { handle, presence_text: Some(presence_text), thread: Some(thread) }, events))
    }

    /// Returns the handle for requests.
    #[must_use]
    pub fn handle(&self) -> &EtcdHandle {
        &self.handle
    }

    /// Sets the text of this gateway's key from now on.
    pub fn set_presence(&self, text: String) {
        if let Some(presence_text) = &self.presence_text {
            presence_text.send_if_modified(|current| {
                let new = *current != text;
                *current = text;
                new
            });
        }
    }
}

impl Drop for EtcdThread {
    fn drop(&mut self) {
        self.presence_text = None;
        if let Some(thread) = self.thread.take() {
            // Waits at most as long as one request may take.
            let _ = thread.join();
        }
    }
}

impl EtcdHandle {
    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Runs requests on the thread.
    ///
    /// # Errors
    /// Returns the error of the requests, or [`Error::Unreachable`] if the thread is gone.
    pub async fn run<T, F>(&self, act: impl FnOnce(EtcdClient) -> F + Send + 'static) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let ended = || Error::Unreachable("the gateway stops".to_owned());
        let (job, answer_receiver) = make_job(act);
        self.jobs.send(job).await.map_err(|_| ended())?;
        answer_receiver.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Follows the entries under another prefix than the one of the configuration, until the receiver is dropped.
    ///
    /// # Errors
    /// Returns [`Error::Unreachable`] if the thread is gone.
    pub async fn follow(&self, prefix: String) -> Result<mpsc::Receiver<EtcdEvent>, Error> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let job: Job =
            Box::new(move |client| Box::pin(async move { watch_entries(&client, &prefix, &sender).await }));
        self.jobs.send(job).await.map_err(|_| Error::Unreachable("the gateway stops".to_owned()))?;
        Ok(events)
    }

    /// Like [`run`](Self::run), for a thread that may block.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_blocking<T, F>(&self, act: impl FnOnce(EtcdClient) -> F + Send + 'static) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let ended = || Error::Unreachable("the gateway stops".to_owned());
        let (job, answer_receiver) = make_job(act);
        self.jobs.blocking_send(job).map_err(|_| ended())?;
        answer_receiver.blocking_recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn make_job<T, F>(
    act: impl FnOnce(EtcdClient) -> F + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, Error>>)
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (answer, answer_receiver) = oneshot::channel();
    let job: Job = Box::new(move |client| {
        Box::pin(async move {
            let _ = answer.send(act(client).await);
        })
    });
    (job, answer_receiver)
}
