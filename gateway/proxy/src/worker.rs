//! A worker: one thread, its runtime, and the state that all its connections share.
//!
//! [`run_worker`] runs one until it has drained. It spawns the tasks that serve connections, and carries out
//! the [`WorkerCommand`] messages in its mailbox. [`Worker`] is the shared state; it never leaves its thread.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt::Write;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use httpdate::HttpDate;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, error::SendError, unbounded_channel};
use tollgate_http2::MemoryTotals;
use tollgate_listen::{ConnectionCounts, NoSlot};
use tollgate_net::{BoundListener, Deadline, DetachedStream, Listener, Runtime, Timers};
use tollgate_observe::{LogSink, Registry, RequestIds, WorkerStats};
use tollgate_plan::{ListenAddress, PlannedListener, Priority};
use tollgate_policy::Context as PolicyContext;
use tollgate_upstream::{Message, SendToWorker, UpstreamStates, Upstreams};

use crate::accept::{ACCEPTS_PER_TURN, accept, admit};
use crate::active::ActivePlan;
use crate::connection::{Client, serve};
use crate::future_pool::FuturePool;
use crate::http2::{Scheduler, StreamFutures, StreamLimit};
use crate::listener::{ListenerId, Listeners, Queued};
use crate::object_pool::ObjectPool;
use crate::request::exchanges;
use crate::request_state::RequestState;
use crate::rollout::{Receipt, Rollout};
use crate::split::Splits;

/// The receive buffer that all connections of a worker share: enough for a 64 KiB body and its head in one
/// read.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;
/// The size of the shared output buffer, and the most that it keeps.
pub(crate) const OUTPUT_BUFFER_BYTES: usize = 16 * 1024;
pub(crate) const OUTPUT_BUFFER_MAX_BYTES: usize = 256 * 1024;

/// The last second of the year 9999, counted from 1970: HTTP dates have four digits for the year (RFC 9110,
/// section 5.6.7).
const LAST_DATE: u64 = 253_402_300_799;

/// How long idle connections stay open after a drain starts, unless the drain sets that. It is some round
/// trips, and longer than a busy client pauses.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

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
    /// Announce with every response that it is the connection's last; a drain follows. `grace` is how long
    /// idle connections stay open then; `None` keeps their idle timeout.
    Leave {
        /// The time from the start of the drain to the end of an idle connection.
        grace: Option<Duration>,
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
    fn post(&self) -> SendToWorker {
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

/// The state that all connections of one worker share. Other workers see none of it except the loads and the
/// statistics, which they only read.
pub(crate) struct Worker {
    pub id: usize,
    pub timers: Timers,
    /// The buffer for all reads. A task copies out what it does not use at once before it waits.
    pub receive: RefCell<Box<[u8]>>,
    /// The buffer for all writes. A task copies out what the kernel does not take at once before it waits.
    pub output: RefCell<Vec<u8>>,
    pub active: RefCell<Rc<ActivePlan>>,
    upstreams: Rc<RefCell<Upstreams>>,
    pub stats: Arc<WorkerStats>,
    pub log: RefCell<LogSink>,
    /// Whether a log contains fields of responses.
    pub logs_responses: Cell<bool>,
    /// When the log's lines go to its writer.
    pub log_due: Deadline,
    /// Boxed: lending one to an exchange moves only a pointer.
    pub request_states: ObjectPool<Box<RequestState>>,
    /// For requests that meet policies.
    pub contexts: ObjectPool<Box<PolicyContext>>,
    pub stream_futures: Rc<StreamFutures>,
    /// When the object pools are shrunk after a burst.
    shrink_due: Deadline,
    pub request_ids: RefCell<RequestIds>,
    /// The limit on HTTP/2 streams of all connections.
    pub http2_stream_limit: StreamLimit,
    /// The scheduler of HTTP/2 connections with much input.
    pub http2_scheduler: Rc<Scheduler>,
    /// Memory totals of all HTTP/2 client connections.
    pub http2_totals: MemoryTotals,
    date: RefCell<(u64, String)>,
    /// Whether every response announces that it is the last.
    pub announces_close: Cell<bool>,
    /// Whether no more connections are accepted.
    pub draining: Cell<bool>,
    /// Whether the drain is about to end: WebSockets get a close frame.
    pub closes_tunnels: Cell<bool>,
    /// How many plans it has had after the first.
    pub plans: Cell<u32>,
    /// How long an idle connection stays open once the drain has started; `None` keeps its idle timeout.
    pub grace: Cell<Option<Duration>>,
    pub listeners: Listeners,
    /// Tasks that wait for a drain, for a listener to close, or for the last connection to end.
    waiting: RefCell<Vec<Waker>>,
    connections: Cell<usize>,
    /// Listeners that still accept.
    listening: Cell<usize>,
    loads: Arc<ConnectionCounts>,
    pub mailboxes: Vec<Mailbox>,
    random: Cell<u32>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({})", self.id)
    }
}

impl Worker {
    pub fn new(setup: WorkerSetup) -> io::Result<Rc<Self>> {
        let WorkerSetup { id, plan, mailboxes, loads, registry, stats, shared, log, .. } = setup;
        let timers = Timers::start()?;
        shared.connect_workers(|| mailboxes.iter().map(Mailbox::post).collect());
        let upstreams =
            Upstreams::new((id, mailboxes.len()), timers.clone(), stats.clone(), registry, shared);
        let upstreams = Rc::new(RefCell::new(upstreams));
        let active = ActivePlan::new(plan, upstreams.clone(), Splits::new(id, mailboxes.len()));
        Ok(Rc::new(Self {
            id,
            receive: RefCell::new(vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice()),
            output: RefCell::new(Vec::with_capacity(OUTPUT_BUFFER_BYTES)),
            active: RefCell::new(Rc::new(active)),
            upstreams,
            stats,
            logs_responses: Cell::new(log.reads_response_heads()),
            log: RefCell::new(log),
            log_due: timers.deadline(),
            shrink_due: timers.deadline(),
            timers,
            request_states: ObjectPool::default(),
            contexts: ObjectPool::default(),
            stream_futures: Rc::new(StreamFutures::new()),
            request_ids: RefCell::new(RequestIds::new(tollgate_net::random_key()?)),
            http2_stream_limit: StreamLimit::default(),
            http2_scheduler: Rc::default(),
            http2_totals: MemoryTotals::default(),
            // A second that the clock never shows.
            date: RefCell::new((u64::MAX, String::new())),
            announces_close: Cell::new(false),
            draining: Cell::new(false),
            closes_tunnels: Cell::new(false),
            plans: Cell::new(0),
            grace: Cell::new(Some(DRAIN_GRACE)),
            listeners: Listeners::default(),
            waiting: RefCell::default(),
            connections: Cell::new(0),
            listening: Cell::new(0),
            loads,
            mailboxes,
            random: Cell::new(0x9e37_79b9 ^ id as u32),
        }))
    }

    /// Returns the plan for a request that starts now.
    pub fn active(&self) -> Rc<ActivePlan> {
        self.active.borrow().clone()
    }

    /// Returns whether `active` is still the plan for a request that starts now.
    pub fn runs(&self, active: &Rc<ActivePlan>) -> bool {
        Rc::ptr_eq(&self.active.borrow(), active)
    }

    fn change_plan(&self, plan: Arc<Rollout>) {
        let splits = self.active.borrow().splits();
        let active = ActivePlan::new(plan, self.upstreams.clone(), splits);
        *self.active.borrow_mut() = Rc::new(active);
        self.plans.set(self.plans.get().wrapping_add(1));
    }

    /// Schedules the shrinking of the object pools, which have grown.
    #[cold]
    pub fn shrink_later(&self) {
        self.shrink_due.set(tollgate_net::now(), Some(SHRINK_INTERVAL));
    }

    pub fn connection_opened(&self) {
        self.stats.client_opened();
        self.connections.set(self.connections.get() + 1);
    }

    pub fn connection_closed(&self) {
        self.stats.client_closed();
        self.connections.set(self.connections.get() - 1);
        self.release(self.id);
        if self.has_drained() {
            self.wake_waiting();
        }
    }

    /// Counts a listener that starts to accept.
    pub fn listening_began(&self) {
        self.listening.set(self.listening.get() + 1);
    }

    /// Called when a listener has accepted everything that was queued and stops.
    pub fn listening_ended(&self) {
        self.listening.set(self.listening.get() - 1);
        if self.has_drained() {
            self.wake_waiting();
        }
    }

    /// Returns whether nothing is left to do: no connection, and none in the kernel's queue.
    fn has_drained(&self) -> bool {
        self.draining.get() && self.connections.get() == 0 && self.listening.get() == 0
    }

    /// Chooses the worker for the next connection and reserves a place there.
    ///
    /// # Errors
    /// If the process has reached its limit of connections, or lacks resources.
    pub fn reserve(&self) -> Result<usize, NoSlot> {
        let limit = self.active.borrow().plan.settings.limits.connections;
        // Another worker that drains may end before it receives the connection.
        let worker = if self.draining.get() { self.id } else { self.less_loaded() };
        self.loads.reserve(worker, limit).map(|()| worker)
    }

    /// Returns whether requests of this priority are shed, because the process is short of a resource.
    #[inline]
    pub fn rejects(&self, priority: Priority) -> bool {
        self.loads.pressure.rejects(priority as u8)
    }

    /// Releases the place of a connection that has closed, or was never served.
    pub fn release(&self, worker: usize) {
        self.loads.release(worker);
    }

    /// Moves the place of a connection from another worker to this one.
    pub fn take_over(&self, from: usize) {
        self.loads.release(from);
        self.loads.take(self.id);
    }

    fn less_loaded(&self) -> usize {
        self.loads.choose(self.id, self.random() as usize)
    }

    /// Appends the value of `Date`: the current second.
    pub fn write_date(&self, out: &mut Vec<u8>) {
        let now = tollgate_net::wall_clock();
        // The clock may be set to any time, and `httpdate` panics on a year of more than four digits.
        let second =
            now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(LAST_DATE);
        let mut date = self.date.borrow_mut();
        if date.0 != second {
            date.0 = second;
            date.1.clear();
            // Reuses the memory; writing to a String cannot fail.
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let _ = write!(date.1, "{}", HttpDate::from(now));
        }
        out.extend_from_slice(date.1.as_bytes());
    }

    /// Returns a number that differs each time. It is predictable.
    pub fn random(&self) -> u32 {
        // xorshift32 (Marsaglia, "Xorshift RNGs", 2003): any cheap generator is enough.
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }

    /// Wakes the task when the worker starts to drain or closes a listener.
    pub fn wake_on_command(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }

    fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn drain(&self) {
        self.announces_close.set(true);
        self.draining.set(true);
        self.wake_all();
    }

    /// Makes all waiting tasks check their conditions.
    fn wake_all(&self) {
        self.wake_waiting();
        // An idle connection waits for a byte or for its deadline. Either way it checks whether it must
        // close.
        self.timers.wake_all();
    }
}

/// Runs a worker on this thread until it has drained. Calls `running` when it is ready to receive commands.
/// It accepts nothing before it gets [`WorkerCommand::Listen`].
///
/// # Errors
/// If the kernel provides no poller or no random bytes.
pub fn run_worker(setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    Runtime::new()?.run(work(setup, running))
}

/// Does the work of [`run_worker`], for a caller with its own runtime.
///
/// # Errors
/// As [`run_worker`].
pub async fn work(mut setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    let control = std::mem::replace(&mut setup.control, unbounded_channel().1);
    let worker = Worker::new(setup)?;
    let pool = Rc::new(FuturePool::new());
    let futures = pool.clone();
    let start = move |client: Box<Client>| tollgate_net::spawn(serve(client, exchanges, futures.clone()));
    tollgate_net::spawn(flush_log(worker.clone()));
    tollgate_net::spawn(shrink_pools(worker.clone(), pool.clone()));
    tollgate_net::spawn(worker.http2_scheduler.clone().give());
    running();
    run_commands(&worker, control, &start).await;
    worker.log.borrow_mut().flush();
    Ok(())
}

/// The interval at which the object pools shrink by half after a burst.
const SHRINK_INTERVAL: Duration = Duration::from_secs(1);
/// How long before the end of a drain WebSockets get a close frame, and how long they have otherwise: enough
/// for a distant client to answer.
pub(crate) const TUNNEL_CLOSE_TIME: Duration = Duration::from_secs(2);

/// Carries out commands until the drain is over.
async fn run_commands<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    mut control: UnboundedReceiver<WorkerCommand>,
    serve: &F,
) {
    let (end, closes_tunnels) = (worker.timers.deadline(), worker.timers.deadline());
    let mut due: Option<Instant> = None;
    while poll_fn(|cx| {
        let mut admitted = 0;
        while let Poll::Ready(message) = control.poll_recv(cx) {
            match message {
                Some(WorkerCommand::Plan(plan, receipt)) => {
                    worker.change_plan(plan);
                    drop(receipt);
                }
                Some(WorkerCommand::Upstream(message)) => worker.upstreams.borrow().receive(message),
                Some(WorkerCommand::Listen(sockets, receipt)) => {
                    if let Err(error) = listen(worker, sockets, serve)
                        && let Some(receipt) = receipt
                    {
                        receipt.failed(error);
                    }
                }
                Some(WorkerCommand::Close(listeners, waiting)) => {
                    listeners.into_iter().for_each(|handle| worker.listeners.close(handle, waiting));
                    worker.wake_all();
                }
                Some(WorkerCommand::Connection(stream, peer, handle, listener)) => {
                    admit(worker, worker.listeners.find(handle), (stream, peer, listener), serve);
                    admitted += 1;
                    if admitted == ACCEPTS_PER_TURN {
                        return Poll::Ready(true);
                    }
                }
                Some(WorkerCommand::Log(sink, receipt)) => {
                    worker.logs_responses.set(sink.reads_response_heads());
                    worker.log.replace(*sink).flush();
                    drop(receipt);
                }
                Some(WorkerCommand::Leave { grace }) => {
                    worker.announces_close.set(true);
                    worker.grace.set(grace);
                }
                Some(WorkerCommand::Drain(bound)) => {
                    worker.drain();
                    // If several drains have bounds, the nearest one counts, in whatever order they arrive.
                    let now = tollgate_net::now();
                    due = [due, bound.map(|bound| now + bound)].into_iter().flatten().min();
                    let left = due.map(|due| due.saturating_duration_since(now));
                    end.set(now, left);
                    closes_tunnels.set(now, left.map(|left| left - TUNNEL_CLOSE_TIME.min(left / 2)));
                }
                // No sender is left, so the worker ends.
                None => return Poll::Ready(false),
            }
        }
        worker.wake_on_command(cx);
        if closes_tunnels.poll_passed(cx).is_ready() && !worker.closes_tunnels.replace(true) {
            worker.wake_all();
        }
        if worker.has_drained() || end.poll_passed(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
    {
        // Existing connections get their turn first.
        tollgate_net::yield_now().await;
    }
    // Handles messages that pools of other workers have sent in the meantime: a request for a connection goes
    // on to the next worker, and a closed connection is counted.
    control.close();
    while let Ok(message) = control.try_recv() {
        if let WorkerCommand::Upstream(message) = message {
            worker.upstreams.borrow().receive(message);
        }
    }
}

/// Starts to accept from these sockets.
fn listen<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    sockets: Vec<(ListenerId, ListenAddress, BoundListener)>,
    serve: &F,
) -> io::Result<()> {
    for (handle, bind, socket) in sockets {
        let listener = Listener::register(socket)?;
        worker.listening_began();
        let handle = worker.listeners.open(handle, bind);
        // Read from the plan that names the listener. The plan that closes it does not contain it, while
        // connections may still be queued.
        handle.listener(&worker.active.borrow().plan);
        tollgate_net::spawn(accept(worker.clone(), handle, listener, serve.clone()));
    }
    Ok(())
}

/// Shrinks the object pools step by step after a burst.
async fn shrink_pools<I, O, F: Future<Output = Infallible>>(
    worker: Rc<Worker>,
    pool: Rc<FuturePool<I, O, F>>,
) {
    poll_fn(|cx| {
        if worker.shrink_due.poll_passed(cx).is_ready() {
            let objects = worker.request_states.shrink() | worker.contexts.shrink();
            let more = objects | pool.shrink() | worker.stream_futures.shrink();
            worker.shrink_due.set(tollgate_net::now(), more.then_some(SHRINK_INTERVAL));
            let _ = worker.shrink_due.poll_passed(cx);
        }
        Poll::<()>::Pending
    })
    .await;
}

/// Passes the log's lines to its writer some time after the first of them.
async fn flush_log(worker: Rc<Worker>) {
    poll_fn(|cx| {
        if worker.log_due.poll_passed(cx).is_ready() {
            worker.log.borrow_mut().flush();
            let again = (!worker.log.borrow().is_empty()).then_some(Duration::from_millis(100));
            worker.log_due.set(tollgate_net::now(), again);
            let _ = worker.log_due.poll_passed(cx);
        }
        Poll::<()>::Pending
    })
    .await;
}
