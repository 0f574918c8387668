//! The commands that the control thread and other workers send to a worker, and the resources that it starts
//! with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, error::SendError, unbounded_channel};
use tollgate_listen::ConnectionCounts;
use tollgate_net::{BoundListener, DetachedStream};
use tollgate_observe::{LogSink, Registry, WorkerStats};
use tollgate_plan::{ListenAddress, PlannedListener};
use tollgate_upstream::{Message, SendToWorker, UpstreamStates};

use crate::state::followers::TraceFollower;
use crate::state::listener::{ListenerId, Queued};
use crate::state::rollout::{Receipt, Rollout};

/// A command to a worker. Its receipt, if any, is dropped when the command is carried out.
#[derive(Debug)]
pub enum WorkerCommand {
    /// Use this plan for requests that start from now on.
    Plan(Arc<Rollout>, Option<Receipt>),
    /// Accept from these sockets too, which are bound and non-blocking. Each comes with its address as
    /// written in the configuration, by which the plan identifies it.
    Listen(Vec<(ListenerId, ListenAddress, BoundListener)>, Option<Receipt>),
    /// Stop accepting at these listeners. Their connections end as in a drain.
    Close(Vec<ListenerId>, Queued),
    /// Serve a connection that another worker has accepted: its socket, its peer, its listener, and the
    /// listener's configuration there.
    Connection(DetachedStream, SocketAddr, ListenerId, Arc<PlannedListener>),
    /// Handle a message about a shortage of connections to an upstream, here or at another worker.
    Upstream(Message),
    /// Write the log here from now on.
    Log(Box<LogSink>, Option<Receipt>),
    /// Gather the traces of requests for these clients from now on, and for no others.
    Follow(Arc<[Arc<TraceFollower>]>, Option<Receipt>),
    /// Announce with every response that it is the connection's last, and send no accepted connection to another worker;
    /// a drain follows. `grace` is how long idle connections stay open then; `None` keeps their idle timeout.
    ///
    /// A worker that drains ends as soon as it has no connection. One that was sent there afterwards would be lost, so
    /// the drain begins when every worker has this command.
    Leave {
        /// The time from the start of the drain to the end of an idle connection.
        grace: Option<Duration>,
        /// Reports that every worker keeps its connections.
        receipt: Option<Receipt>,
    },
    /// Accept only what the kernel has queued. End when the last connection has closed, or after this time.
    Drain(Option<Duration>),
}

/// The sender of commands to a worker.
#[derive(Clone, Debug)]
pub struct Mailbox(UnboundedSender<WorkerCommand>);

impl Mailbox {
    /// Creates a mailbox, and the receiver for the worker.
    #[must_use]
    pub fn new() -> (Self, UnboundedReceiver<WorkerCommand>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Returns the function through which pools of other workers send it messages.
    pub(crate) fn post(&self) -> SendToWorker {
        let mailbox = self.clone();
        Box::new(move |message| match mailbox.send(WorkerCommand::Upstream(message)) {
            Err(WorkerCommand::Upstream(message)) => Err(message),
            _ => Ok(()),
        })
    }

    /// Sends a command.
    ///
    /// # Errors
    /// Returns the command if the worker is gone.
    pub fn send(&self, control: WorkerCommand) -> Result<(), WorkerCommand> {
        self.0.send(control).map_err(|SendError(control)| control)
    }
}

/// The resources that a worker starts with.
#[derive(Debug)]
pub struct WorkerSetup {
    /// The worker's number, from 0.
    pub id: usize,
    /// The first plan.
    pub plan: Arc<Rollout>,
    /// The receiver of its commands.
    pub control: UnboundedReceiver<WorkerCommand>,
    /// The mailboxes of all workers by number, its own included.
    pub mailboxes: Vec<Mailbox>,
    /// The number of connections of each worker.
    pub loads: Arc<ConnectionCounts>,
    /// Allocates the slots of the statistics.
    pub registry: Arc<Registry>,
    /// The worker's statistics.
    pub stats: Arc<WorkerStats>,
    /// The state of upstreams that all workers share.
    pub shared: Arc<UpstreamStates>,
    /// The worker's end of the access log.
    pub log: LogSink,
}
