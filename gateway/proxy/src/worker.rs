//! A worker: one thread, its runtime, and everything that its connections share.

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
use tollgate_http2::Totals;
use tollgate_listen::{Full, Loads};
use tollgate_net::{Bound, Deadline, Detached, Listener, Runtime, Timers};
use tollgate_observe::{LogSink, Registry, RequestIds, WorkerStats};
use tollgate_plan::{ListenAddress, Listener as Listening, Priority};
use tollgate_policy::Context as PolicyContext;
use tollgate_upstream::{Message, Post, Shared, Upstreams};

use crate::accept::{TURN, accept, admit};
use crate::active::ActivePlan;
use crate::connection::{Client, serve};
use crate::door::{DoorId, Doors, Waiting};
use crate::http2::{Crowd, StreamRoutines, Turns};
use crate::request::exchanges;
use crate::rollout::{Receipt, Rollout};
use crate::routine::RoutinePool;
use crate::scratch::Scratch;
use crate::shelf::Shelf;
use crate::split::Splits;

/// The receive buffer that all connections of a worker share: room for a 64 KiB body with its head in one read.
const RECEIVE_BUFFER: usize = 128 * 1024;
/// The size of the shared output buffer, and the most that it keeps.
pub(crate) const OUTPUT_BUFFER: usize = 16 * 1024;
pub(crate) const MOST_OUTPUT: usize = 256 * 1024;

/// The last second of the year 9999, counted from 1970: dates of HTTP have four digits for the year (RFC 9110, section 5.6.7).
const LAST_DATE: u64 = 253_402_300_799;

/// The grace of idle connections, unless the drain has one of its own: some round trips, and longer than a busy client
/// is silent.
const GRACE: Duration = Duration::from_millis(500);

/// What a worker is told. The receipt, if any, comes back when it has done so.
#[derive(Debug)]
pub enum Control {
    /// Requests that begin from now on run on this plan.
    Plan(Arc<Rollout>, Option<Receipt>),
    /// Accept from these sockets too, bound and non-blocking.
    /// Each with its address as it is written in the file, by which the plan knows it.
    Listen(Vec<(DoorId, ListenAddress, Bound)>, Option<Receipt>),
    /// Accept no more of these. The connections that came through them end as in a drain.
    Close(Vec<DoorId>, Waiting),
    /// A connection that another worker accepted, where it came in, and what was said of it there.
    Connection(Detached, SocketAddr, DoorId, Arc<Listening>),
    /// Connections to an upstream are short, at this worker or at another.
    Upstream(Message),
    /// Write the log here from now on.
    Log(Box<LogSink>, Option<Receipt>),
    /// Say with every answer that it is the connection's last; the drain follows. `grace` is what idle connections
    /// will have then; `None`: as long as always.
    Leave {
        /// From the drain's begin to the end of an idle connection.
        grace: Option<Duration>,
    },
    /// Accept what is in the kernel's queue and no more, and end when the last connection has, or when this time is up.
    Drain(Option<Duration>),
}

/// The way to tell a worker something.
#[derive(Clone, Debug)]
pub struct Mailbox(UnboundedSender<Control>);

impl Mailbox {
    /// A mailbox, and the end that the worker reads from.
    #[must_use]
    pub fn new() -> (Self, UnboundedReceiver<Control>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// The way by which other workers' pools tell it something.
    fn post(&self) -> Post {
        let mailbox = self.clone();
        Box::new(move |message| match mailbox.send(Control::Upstream(message)) {
            Err(Control::Upstream(message)) => Err(message),
            _ => Ok(()),
        })
    }

    /// Tells it; gives the message back if the worker is gone.
    ///
    /// # Errors
    /// When the worker is gone.
    pub fn send(&self, control: Control) -> Result<(), Control> {
        self.0.send(control).map_err(|SendError(control)| control)
    }
}

/// What a worker begins with.
#[derive(Debug)]
pub struct WorkerSetup {
    /// Its number, from 0.
    pub id: usize,
    /// The plan that it runs first.
    pub plan: Arc<Rollout>,
    /// Where it is told things.
    pub control: UnboundedReceiver<Control>,
    /// The mailboxes of all workers, its own included, by number.
    pub mailboxes: Vec<Mailbox>,
    /// How many connections each worker has.
    pub loads: Arc<Loads>,
    /// Hands out the counters' slots.
    pub registry: Arc<Registry>,
    /// Its counters.
    pub stats: Arc<WorkerStats>,
    /// What all workers know of upstreams.
    pub shared: Arc<Shared>,
    /// Its end of the access log.
    pub log: LogSink,
}

/// Everything that the connections of one worker share. None of it is shared with another worker but the loads and
/// the counters, which others only read.
pub(crate) struct Worker {
    pub id: usize,
    pub timers: Timers,
    /// Everybody reads into it; what is not used at once is copied out before anyone waits.
    pub receive: RefCell<Box<[u8]>>,
    /// Everybody writes from it; what the kernel does not take at once is copied out before anyone waits.
    pub output: RefCell<Vec<u8>>,
    pub active: RefCell<Rc<ActivePlan>>,
    upstreams: Rc<RefCell<Upstreams>>,
    pub stats: Arc<WorkerStats>,
    pub log: RefCell<LogSink>,
    /// Whether a log shows fields of responses.
    pub logs_responses: Cell<bool>,
    /// When the log's lines go to its writer.
    pub log_due: Deadline,
    /// In boxes: lent to exchanges, only a pointer moves.
    pub scratches: Shelf<Box<Scratch>>,
    /// For requests that meet policies.
    pub contexts: Shelf<Box<PolicyContext>>,
    pub stream_routines: Rc<StreamRoutines>,
    /// When what a burst left on the shelves is looked at.
    tidy_due: Deadline,
    pub request_ids: RefCell<RequestIds>,
    /// HTTP/2 streams of all connections.
    pub http2_crowd: Crowd,
    /// HTTP/2 connections that have more to say than others.
    pub http2_turns: Rc<Turns>,
    /// What connections of clients that speak HTTP/2 keep together.
    pub http2_totals: Totals,
    date: RefCell<(u64, String)>,
    /// Every answer says that it is the last.
    pub leaving: Cell<bool>,
    /// Nothing more is accepted.
    pub draining: Cell<bool>,
    /// The drain is about to end: WebSockets are told.
    pub parting: Cell<bool>,
    /// How many plans it has had after the first.
    pub plans: Cell<u32>,
    /// How long an idle connection stays when the drain has begun.
    pub grace: Cell<Option<Duration>>,
    pub doors: Doors,
    /// Tasks that wait for the drain to begin, for a door to close, or for the last connection to end.
    waiting: RefCell<Vec<Waker>>,
    connections: Cell<usize>,
    /// Listeners that still accept.
    listening: Cell<usize>,
    loads: Arc<Loads>,
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
            receive: RefCell::new(vec![0; RECEIVE_BUFFER].into_boxed_slice()),
            output: RefCell::new(Vec::with_capacity(OUTPUT_BUFFER)),
            active: RefCell::new(Rc::new(active)),
            upstreams,
            stats,
            logs_responses: Cell::new(log.is_of_responses()),
            log: RefCell::new(log),
            log_due: timers.deadline(),
            tidy_due: timers.deadline(),
            timers,
            scratches: Shelf::default(),
            contexts: Shelf::default(),
            stream_routines: Rc::new(StreamRoutines::new()),
            request_ids: RefCell::new(RequestIds::new(tollgate_net::secret()?)),
            http2_crowd: Crowd::default(),
            http2_turns: Rc::default(),
            http2_totals: Totals::default(),
            // Of no second that there is.
            date: RefCell::new((u64::MAX, String::new())),
            leaving: Cell::new(false),
            draining: Cell::new(false),
            parting: Cell::new(false),
            plans: Cell::new(0),
            grace: Cell::new(Some(GRACE)),
            doors: Doors::default(),
            waiting: RefCell::default(),
            connections: Cell::new(0),
            listening: Cell::new(0),
            loads,
            mailboxes,
            random: Cell::new(0x9e37_79b9 ^ id as u32),
        }))
    }

    /// The plan for a request that begins now.
    pub fn active(&self) -> Rc<ActivePlan> {
        self.active.borrow().clone()
    }

    /// Whether this is still the plan for a request that begins now.
    pub fn runs(&self, active: &Rc<ActivePlan>) -> bool {
        Rc::ptr_eq(&self.active.borrow(), active)
    }

    fn change_plan(&self, plan: Arc<Rollout>) {
        let splits = self.active.borrow().splits();
        let active = ActivePlan::new(plan, self.upstreams.clone(), splits);
        *self.active.borrow_mut() = Rc::new(active);
        self.plans.set(self.plans.get().wrapping_add(1));
    }

    /// Has the shelves tidied up some time: they have grown.
    #[cold]
    pub fn tidy_later(&self) {
        self.tidy_due.set(tollgate_net::now(), Some(TIDY));
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

    /// A listener of this worker's accepts from now on.
    pub fn listening_began(&self) {
        self.listening.set(self.listening.get() + 1);
    }

    /// It has taken all that was waiting, and accepts no more.
    pub fn listening_ended(&self) {
        self.listening.set(self.listening.get() - 1);
        if self.has_drained() {
            self.wake_waiting();
        }
    }

    /// Whether nothing is left to do: no connection, and none in the kernel's queue.
    fn has_drained(&self) -> bool {
        self.draining.get() && self.connections.get() == 0 && self.listening.get() == 0
    }

    /// The worker that should have the next connection, with a place for it.
    ///
    /// # Errors
    /// When the process has as many as it may have, or has means for.
    pub fn reserve(&self) -> Result<usize, Full> {
        let limit = self.active.borrow().plan.settings.limits.connections;
        // Another worker that drains may be gone before it looks.
        let worker = if self.draining.get() { self.id } else { self.less_loaded() };
        self.loads.reserve(worker, limit).map(|()| worker)
    }

    /// Whether requests of this priority are turned away, because the process is short of something.
    #[inline]
    pub fn sheds(&self, priority: Priority) -> bool {
        self.loads.pressure.sheds(priority as u8)
    }

    /// Gives back the place of a connection that has ended, or never began.
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

    /// Appends the value of `Date`: now, to the second.
    pub fn write_date(&self, out: &mut Vec<u8>) {
        let now = tollgate_net::wall_clock();
        // A clock may be set to anything; what HTTP's dates cannot say makes `httpdate` panic.
        let second =
            now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(LAST_DATE);
        let mut date = self.date.borrow_mut();
        if date.0 != second {
            date.0 = second;
            date.1.clear();
            // Into the same memory; writing to a String cannot fail.
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let _ = write!(date.1, "{}", HttpDate::from(now));
        }
        out.extend_from_slice(date.1.as_bytes());
    }

    /// A number that differs each time. Anybody may foresee it.
    pub fn random(&self) -> u32 {
        // xorshift32 (Marsaglia, "Xorshift RNGs", 2003): any cheap spread will do.
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }

    /// Has the task woken when the worker is told to drain or to close a door.
    pub fn until_told(&self, cx: &Context<'_>) {
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
        self.leaving.set(true);
        self.draining.set(true);
        self.look_again();
    }

    /// Whoever waits looks whether something is different now.
    fn look_again(&self) {
        self.wake_waiting();
        // Idle connections wait for a byte or for their deadline; both ways they look whether they are to close.
        self.timers.wake_all();
    }
}

/// Runs a worker on this thread until it has drained. Calls `running` when it does as it is told; it accepts nothing
/// before it is told to listen.
///
/// # Errors
/// When the kernel gives no poller, or no random bytes.
pub fn run_worker(setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    Runtime::new()?.run(work(setup, running))
}

/// What [`run_worker`] runs: for a caller with a runtime of its own.
///
/// # Errors
/// As [`run_worker`].
pub async fn work(mut setup: WorkerSetup, running: impl FnOnce()) -> io::Result<()> {
    let control = std::mem::replace(&mut setup.control, unbounded_channel().1);
    let worker = Worker::new(setup)?;
    let pool = Rc::new(RoutinePool::new());
    let routines = pool.clone();
    let start = move |client: Box<Client>| tollgate_net::spawn(serve(client, exchanges, routines.clone()));
    tollgate_net::spawn(flush_log(worker.clone()));
    tollgate_net::spawn(tidy_up(worker.clone(), pool.clone()));
    tollgate_net::spawn(worker.http2_turns.clone().give());
    running();
    obey(&worker, control, &start).await;
    worker.log.borrow_mut().flush();
    Ok(())
}

/// How long what was needed is kept: half of it goes each time.
const TIDY: Duration = Duration::from_secs(1);
/// How long before the end of a drain WebSockets are told, and how long they have otherwise: enough for a far client to answer.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// Does as it is told until the drain has ended.
async fn obey<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    mut control: UnboundedReceiver<Control>,
    serve: &F,
) {
    let (end, parting) = (worker.timers.deadline(), worker.timers.deadline());
    let mut due: Option<Instant> = None;
    while poll_fn(|cx| {
        let mut admitted = 0;
        while let Poll::Ready(message) = control.poll_recv(cx) {
            match message {
                Some(Control::Plan(plan, receipt)) => {
                    worker.change_plan(plan);
                    drop(receipt);
                }
                Some(Control::Upstream(message)) => worker.upstreams.borrow().receive(message),
                Some(Control::Listen(sockets, receipt)) => {
                    if let Err(error) = listen(worker, sockets, serve)
                        && let Some(receipt) = receipt
                    {
                        receipt.failed(error);
                    }
                }
                Some(Control::Close(doors, waiting)) => {
                    doors.into_iter().for_each(|door| worker.doors.close(door, waiting));
                    worker.look_again();
                }
                Some(Control::Connection(stream, peer, door, listener)) => {
                    admit(worker, worker.doors.find(door), (stream, peer, listener), serve);
                    admitted += 1;
                    if admitted == TURN {
                        return Poll::Ready(true);
                    }
                }
                Some(Control::Log(sink, receipt)) => {
                    worker.logs_responses.set(sink.is_of_responses());
                    worker.log.replace(*sink).flush();
                    drop(receipt);
                }
                Some(Control::Leave { grace }) => {
                    worker.leaving.set(true);
                    worker.grace.set(grace);
                }
                Some(Control::Drain(bound)) => {
                    worker.drain();
                    // Of two bounds the nearer one holds, in whatever order they come.
                    let now = tollgate_net::now();
                    due = [due, bound.map(|bound| now + bound)].into_iter().flatten().min();
                    let left = due.map(|due| due.saturating_duration_since(now));
                    end.set(now, left);
                    parting.set(now, left.map(|left| left - FAREWELL.min(left / 2)));
                }
                // Nobody is left who could tell it anything: it ends.
                None => return Poll::Ready(false),
            }
        }
        worker.until_told(cx);
        if parting.poll_passed(cx).is_ready() && !worker.parting.replace(true) {
            worker.look_again();
        }
        if worker.has_drained() || end.poll_passed(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
    {
        // The connections that it has already have their turn.
        tollgate_net::yield_now().await;
    }
    // What other workers' pools have sent meanwhile: a question goes on to the next worker, a connection is counted out.
    control.close();
    while let Ok(message) = control.try_recv() {
        if let Control::Upstream(message) = message {
            worker.upstreams.borrow().receive(message);
        }
    }
}

/// Accepts from these sockets from now on.
fn listen<F: Fn(Box<Client>) + Clone + 'static>(
    worker: &Rc<Worker>,
    sockets: Vec<(DoorId, ListenAddress, Bound)>,
    serve: &F,
) -> io::Result<()> {
    for (door, bind, socket) in sockets {
        let listener = Listener::register(socket)?;
        worker.listening_began();
        let door = worker.doors.open(door, bind);
        // From the plan that names it: the one that closes it does not, and some may wait that came before.
        door.listener(&worker.active.borrow().plan);
        tollgate_net::spawn(accept(worker.clone(), door, listener, serve.clone()));
    }
    Ok(())
}

/// Drops, little by little, what a burst left on the shelves.
async fn tidy_up<I, O, F: Future<Output = Infallible>>(worker: Rc<Worker>, pool: Rc<RoutinePool<I, O, F>>) {
    poll_fn(|cx| {
        if worker.tidy_due.poll_passed(cx).is_ready() {
            let shelves = worker.scratches.tidy() | worker.contexts.tidy();
            let more = shelves | pool.tidy() | worker.stream_routines.tidy();
            worker.tidy_due.set(tollgate_net::now(), more.then_some(TIDY));
            let _ = worker.tidy_due.poll_passed(cx);
        }
        Poll::<()>::Pending
    })
    .await;
}

/// Hands the log's lines to its writer some time after the first of them.
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
