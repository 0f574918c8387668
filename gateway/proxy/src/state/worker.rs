//! The state that all connections and requests of one worker share.
//!
//! [`run`](crate::front::run) creates it and carries out commands on it; every layer reads it. It never leaves its
//! thread, so it is in `Rc` and `Cell`.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use httpdate::HttpDate;
use tollgate_files::FileCache;
use tollgate_listen::{ConnectionCounts, NoSlot};
use tollgate_net::{BulkQueue, Deadline, Timers};
use tollgate_observe::{LogSink, RequestIds, WorkerStats};
use tollgate_plan::{Priority, Stream};
use tollgate_policy::Context as PolicyContext;
use tollgate_upstream::Upstreams;

use crate::state::active::ActivePlan;
use crate::state::command::{Mailbox, WorkerSetup};
use crate::state::followers::Followers;
use crate::state::listener::Listeners;
use crate::state::object_pool::ObjectPool;
use crate::state::request_state::RequestState;
use crate::state::rollout::Rollout;
use crate::state::split::Splits;
use crate::state::stream_states::{StreamState, StreamStates};

/// The receive buffer that all connections of a worker share: enough for a 64 KiB body and its head in one
/// read.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;
/// Reads from one peer before the worker's other tasks run, however little each of them returns. For reads that
/// return much, [`BulkTurn`](tollgate_net::BulkTurn) ends the turn earlier. tokio's own limit is 128 reads.
pub(crate) const READS_PER_TURN: u32 = 8;
/// The size of the shared output buffer, and the most that it keeps.
pub(crate) const OUTPUT_BUFFER_BYTES: usize = 16 * 1024;
pub(crate) const OUTPUT_BUFFER_MAX_BYTES: usize = 256 * 1024;

/// The last second of the year 9999, counted from 1970: HTTP dates have four digits for the year (RFC 9110,
/// section 5.6.7).
const LAST_DATE: u64 = 253_402_300_799;

/// How long idle connections stay open after a drain starts, unless the drain sets that. It is some round
/// trips, and longer than a busy client pauses.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// The interval at which the object pools shrink by half after a burst.
pub(crate) const SHRINK_INTERVAL: Duration = Duration::from_secs(1);
/// How long before the end of a drain WebSockets get a close frame, and how long they have otherwise: enough
/// for a distant client to answer.
pub(crate) const TUNNEL_CLOSE_TIME: Duration = Duration::from_secs(2);

/// The state that all connections of one worker share. Other workers see none of it except the loads and the
/// statistics, which they only read.
pub(crate) struct Worker {
    pub id: usize,
    pub timers: Timers,
    /// The queue of flows that move many bytes.
    pub bulk_queue: BulkQueue,
    /// The buffer for all reads. A task copies out what it does not use at once before it waits.
    pub receive: RefCell<Box<[u8]>>,
    /// The buffer for all writes. A task copies out what the kernel does not take at once before it waits.
    pub output: RefCell<Vec<u8>>,
    pub active: RefCell<Rc<ActivePlan>>,
    pub upstreams: Rc<RefCell<Upstreams>>,
    pub stats: Arc<WorkerStats>,
    pub log: RefCell<LogSink>,
    /// Whether a log contains fields of responses.
    pub logs_responses: Cell<bool>,
    /// The clients that follow requests.
    pub followers: RefCell<Followers>,
    /// When the log's lines go to its writer.
    pub log_due: Deadline,
    /// Boxed: lending one to an exchange moves only a pointer.
    pub request_states: ObjectPool<Box<RequestState>>,
    /// The streams of layer 4 that were used.
    streams: StreamStates,
    /// Buffers for bytes that a peer of a stream does not take.
    pub stream_buffers: ObjectPool<Vec<u8>>,
    /// Short files that routes serve.
    pub files: RefCell<FileCache>,
    /// For requests that meet policies.
    pub contexts: ObjectPool<Box<PolicyContext>>,
    /// When the object pools are shrunk after a burst.
    pub shrink_due: Deadline,
    pub request_ids: RefCell<RequestIds>,
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
        let (timers, bulk_queue) = (Timers::start()?, BulkQueue::start());
        shared.connect_workers(|| mailboxes.iter().map(Mailbox::post).collect());
        let upstreams = Upstreams::new(
            (id, mailboxes.len()),
            (timers.clone(), bulk_queue.clone()),
            stats.clone(),
            registry,
            shared,
        );
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
            followers: RefCell::default(),
            log_due: timers.deadline(),
            shrink_due: timers.deadline(),
            timers,
            bulk_queue,
            request_states: ObjectPool::default(),
            streams: StreamStates::default(),
            stream_buffers: ObjectPool::default(),
            files: RefCell::default(),
            contexts: ObjectPool::default(),
            request_ids: RefCell::new(RequestIds::new(tollgate_net::random_key()?)),
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

    /// Returns the state of a stream.
    pub fn stream_state(&self, stream: &Arc<Stream>) -> Rc<StreamState> {
        self.streams.get(stream, &self.active.borrow(), &self.stats, &self.loads)
    }

    /// Returns whether `active` is still the plan for a request that starts now.
    pub fn runs(&self, active: &Rc<ActivePlan>) -> bool {
        Rc::ptr_eq(&self.active.borrow(), active)
    }

    /// Uses `plan` for requests that start from now on.
    pub fn change_plan(&self, plan: Arc<Rollout>) {
        let splits = self.active.borrow().splits();
        let active = ActivePlan::new(plan, self.upstreams.clone(), splits);
        *self.active.borrow_mut() = Rc::new(active);
        self.streams.clear();
        self.plans.set(self.plans.get().wrapping_add(1));
    }

    /// Schedules the shrinking of the object pools, which have grown.
    #[cold]
    pub fn shrink_later(&self) {
        self.shrink_due.set(tollgate_net::now(), Some(SHRINK_INTERVAL));
    }

    /// Writes the log here from now on.
    pub fn change_log(&self, mut sink: LogSink) {
        sink.set_followed(!self.followers.borrow().is_empty());
        self.logs_responses.set(sink.reads_response_heads());
        self.log.replace(sink).flush();
    }

    /// Has these clients follow requests from now on. While there is one, data is kept that no log needs.
    pub fn change_followers(&self, followers: Followers) {
        let mut log = self.log.borrow_mut();
        log.set_followed(!followers.is_empty());
        self.logs_responses.set(log.reads_response_heads());
        self.followers.replace(followers);
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
    pub fn has_drained(&self) -> bool {
        self.draining.get() && self.connections.get() == 0 && self.listening.get() == 0
    }

    /// Chooses the worker for the next connection and reserves a place there.
    ///
    /// # Errors
    /// If the process has reached its limit of connections, or lacks resources.
    pub fn reserve(&self) -> Result<usize, NoSlot> {
        let limit = self.active.borrow().plan.settings.limits.connections;
        // Another worker may drain earlier, and end before it receives the connection.
        let worker = if self.announces_close.get() { self.id } else { self.less_loaded() };
        self.loads.reserve(worker, limit).map(|()| worker)
    }

    /// Reserves a place for a session at this worker, whose socket has its datagrams.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_here(&self) -> Result<(), NoSlot> {
        let limit = self.active.borrow().plan.settings.limits.connections;
        self.loads.reserve(self.id, limit)
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

    /// Starts the drain.
    pub fn drain(&self) {
        self.announces_close.set(true);
        self.draining.set(true);
        self.wake_all();
    }

    /// Makes all waiting tasks check their conditions.
    pub fn wake_all(&self) {
        self.wake_waiting();
        // An idle connection waits for a byte or for its deadline. Either way it checks whether it must
        // close.
        self.timers.wake_all();
    }
}
