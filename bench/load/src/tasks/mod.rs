//! The generator for everything but HTTP/1.1: HTTP/2, gRPC, WebSocket and server-sent events, one thread of a
//! run on one runtime.
//!
//! `crate::worker` spends one write and one read on a request and allocates nothing; this one trades some of
//! that for well-kept protocol libraries. `Run`, `Pace` and `Tally` serve both: they say which requests count,
//! when each is due, and how its latency is computed. A [`Loader`] has one task for each request
//! that may be in flight. Its main task dispatches requests at their intended times to the task that has been
//! idle longest, and counts what the tasks report. `connect` opens connections; `http2`, `duplex` and `events`
//! each perform one exchange.

mod alarm;
mod connect;
mod duplex;
mod events;
mod http2;

use crate::clock::{now, span};
use crate::expect::Fault;
use crate::failure::Failure;
use crate::kept::Kept;
use crate::pace::{Times, random, uniform};
use crate::parts::Parts;
use crate::plan::{Plan, Protocol};
use crate::request::{Prepared, mix};
use crate::response::Response;
use crate::tally::Tally;
use crate::template::Names;
use crate::tls::Client;
use crate::used::{Reading, ThreadUsed};
use crate::worker::{Moments, Run, share};
use alarm::Alarm;
use duplex::{GrpcStream, WebSocket};
use events::Feed;
use http2::Link;
use rand_pcg::Pcg64Mcg;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tollgate_lab_record::Verification;

/// How long (ns) a task rests after its connection could not be opened, in a closed loop.
const REST_NS: u64 = 50_000_000;

/// Connections that are opened at the same time before the run.
const OPENING_MAX: usize = 64;

/// One thread of a run.
pub(crate) struct Loader {
    runtime: Runtime,
    tasks: LocalSet,
    users: Users,
}

/// The state that all tasks of a thread share.
pub(crate) struct Shared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) requests: Arc<Vec<Prepared>>,
    pub(crate) tls: Option<Client>,
    /// Connections that were started.
    pub(crate) opened: Cell<u64>,
    /// Why the latest connection failed to open.
    pub(crate) refusal: Cell<Option<Errno>>,
    pub(crate) next_source: Cell<usize>,
    ended: RefCell<VecDeque<Ended>>,
    freed: Notify,
}

/// A request for a task.
struct Job {
    request: usize,
    /// The request with its values; `None` if it has none.
    parts: Option<Parts>,
}

/// The report of a task about its request.
struct Ended {
    at: usize,
    /// When the first byte was sent; 0 if none was.
    sent: u64,
    done: u64,
    outcome: Result<Answer, Fault>,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) response: Response,
    /// A failure that the protocol reports in addition to the status, such as the status of a gRPC call.
    pub(crate) also: Result<(), Fault>,
    /// The response's bytes, if values are taken from it.
    pub(crate) kept: Option<Kept>,
}

impl Answer {
    /// Creates a good answer.
    pub(crate) fn good(length: usize, digest: u64) -> Self {
        Self {
            response: Response { status: 200, length: length as u64, digest, keep_alive: true },
            also: Ok(()),
            kept: None,
        }
    }
}

/// One task's side of an exchange.
enum Exchange {
    Http2 { link: Rc<Link>, grpc: bool },
    GrpcStream(GrpcStream),
    WebSocket(WebSocket),
    Sse(Feed),
}

impl Exchange {
    /// Opens the connection if it is not open.
    async fn open(&mut self, shared: &Shared) -> Result<(), Fault> {
        match self {
            Self::Http2 { link, .. } => link.sender(shared).await.map(drop),
            Self::GrpcStream(stream) => stream.link.sender(shared).await.map(drop),
            Self::WebSocket(socket) => socket.open(shared).await,
            Self::Sse(_) => Ok(()),
        }
    }

    /// Performs one exchange. Sets `sent` when the first byte is sent.
    async fn perform(
        &mut self,
        shared: &Shared,
        prepared: &Prepared,
        parts: &Parts,
        sent: &Cell<u64>,
    ) -> Result<Answer, Fault> {
        match self {
            Self::Http2 { link, grpc } => {
                let keep = !prepared.takings.is_empty();
                http2::call(link, shared, parts, *grpc, keep, sent).await
            }
            Self::GrpcStream(stream) => stream.exchange(shared, parts, sent).await,
            Self::WebSocket(socket) => socket.exchange(shared, parts, sent).await,
            Self::Sse(feed) => feed.next(shared, parts, sent).await,
        }
    }

    /// Forgets a connection of its own after a failure.
    fn reset(&mut self) {
        match self {
            Self::Http2 { .. } => {}
            Self::GrpcStream(stream) => stream.reset(),
            Self::WebSocket(socket) => socket.reset(),
            Self::Sse(feed) => feed.reset(),
        }
    }
}

impl Loader {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        requests: &Arc<Vec<Prepared>>,
        tls: Option<Client>,
        thread: u32,
    ) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| Failure::System("start a runtime", error))?;
        let shared = Rc::new(Shared {
            plan: Arc::clone(plan),
            requests: Arc::clone(requests),
            tls,
            opened: Cell::new(0),
            refusal: Cell::new(None),
            next_source: Cell::new(thread as usize),
            ended: RefCell::default(),
            freed: Notify::new(),
        });
        Ok(Self { runtime, tasks: LocalSet::new(), users: Users::new(shared, thread)? })
    }

    /// Opens all connections before the run. Returns how many tasks have one.
    pub(crate) fn open_all(&mut self) -> usize {
        let Self { runtime, tasks, users } = self;
        tasks.block_on(runtime, users.open_all())
    }

    /// Runs the load from beginning to end.
    pub(crate) fn run(&mut self, moments: Moments, tally: Tally) -> Result<(Tally, ThreadUsed), Failure> {
        let Self { runtime, tasks, users } = self;
        let plan = Arc::clone(&users.shared.plan);
        let run = Run::new(&plan, users.thread, moments, tally);
        tasks.block_on(runtime, users.drive(run))
    }

    /// Returns how many connections were started.
    pub(crate) fn opened(&self) -> u64 {
        self.users.shared.opened.get()
    }

    /// Returns why the latest connection failed to open.
    pub(crate) fn refusal(&self) -> Option<Errno> {
        self.users.shared.refusal.get()
    }
}

/// The tasks as the main task sees them.
struct Users {
    shared: Rc<Shared>,
    thread: u32,
    users: Vec<User>,
    /// Users without a request, the longest idle first.
    idle: VecDeque<usize>,
    /// Users that pause, the first to continue on top.
    resting: BinaryHeap<Reverse<(u64, usize)>>,
    random: Pcg64Mcg,
    waiting: usize,
    order: Vec<u32>,
    next_request: usize,
    next_row: usize,
}

/// One request that may be in flight, and its task.
struct User {
    /// The exchange, until the task is started with it.
    exchange: Option<Exchange>,
    jobs: Option<UnboundedSender<Job>>,
    values: Vec<String>,
    step: usize,
    request: usize,
    times: Times,
    freed: u64,
    waiting: bool,
}

impl Users {
    fn new(shared: Rc<Shared>, thread: u32) -> Result<Self, Failure> {
        let plan = Arc::clone(&shared.plan);
        let connections = share(u64::from(plan.connections), thread, plan.threads) as usize;
        let links: Vec<Rc<Link>> = (0..connections).map(|_| Rc::default()).collect();
        let values = Names::of(&plan)?.len();
        // Neighbours in the order of use are on different connections.
        let users: Vec<User> = (0..connections * plan.streams as usize)
            .map(|at| {
                let link = Rc::clone(&links[at % connections]);
                let exchange = match plan.protocol {
                    Protocol::Http1 | Protocol::Http2 => Exchange::Http2 { link, grpc: false },
                    Protocol::Grpc => Exchange::Http2 { link, grpc: true },
                    Protocol::GrpcStream => Exchange::GrpcStream(GrpcStream::new(link)),
                    Protocol::WebSocket => Exchange::WebSocket(WebSocket::default()),
                    Protocol::Sse => Exchange::Sse(Feed::default()),
                };
                User {
                    exchange: Some(exchange),
                    jobs: None,
                    values: vec![String::new(); values],
                    step: 0,
                    request: 0,
                    times: Times::default(),
                    freed: 0,
                    waiting: false,
                }
            })
            .collect();
        let order = mix(&plan);
        Ok(Self {
            thread,
            idle: (0..users.len()).collect(),
            users,
            resting: BinaryHeap::new(),
            random: random(plan.seed, thread),
            waiting: 0,
            next_request: thread as usize % order.len(),
            order,
            next_row: thread as usize % plan.data.as_ref().map_or(1, |data| data.rows.len()),
            shared,
        })
    }

    /// Opens the connections and starts the tasks.
    async fn open_all(&mut self) -> usize {
        let limit = Duration::from_secs_f64(self.shared.plan.time_limit);
        let mut opening = JoinSet::new();
        let mut open = 0;
        let mut next = 0;
        loop {
            while opening.len() < OPENING_MAX && next < self.users.len() {
                let (at, shared) = (next, Rc::clone(&self.shared));
                next += 1;
                let Some(mut exchange) = self.users[at].exchange.take() else { continue };
                opening.spawn_local(async move {
                    let opened = tokio::time::timeout(limit, exchange.open(&shared)).await;
                    if opened.is_err() {
                        shared.refusal.set(Some(Errno::TIMEDOUT));
                    }
                    (at, exchange, matches!(opened, Ok(Ok(()))))
                });
            }
            let Some(opened) = opening.join_next().await else { return open };
            if let Ok((at, exchange, good)) = opened {
                open += usize::from(good);
                self.users[at].exchange = Some(exchange);
            }
        }
    }

    /// Starts a task for each user.
    fn start(&mut self) {
        for (at, user) in self.users.iter_mut().enumerate() {
            if let Some(exchange) = user.exchange.take() {
                let (jobs, receiver) = unbounded_channel();
                user.jobs = Some(jobs);
                spawn_local(serve(Rc::clone(&self.shared), at, exchange, receiver));
            }
        }
    }

    async fn drive(&mut self, mut run: Run<'_>) -> Result<(Tally, ThreadUsed), Failure> {
        self.start();
        let mut alarm = Alarm::new()?;
        let tick = run.tick();
        let start = run.moments.start;
        let mut next_tick = run.moments.epoch + tick;
        let mut time = now();
        let mut used = Reading::take()?;
        let mut measuring = false;
        loop {
            if !measuring && time >= start {
                used = Reading::take()?;
                measuring = true;
            }
            if time >= next_tick {
                run.tick_at(time);
                next_tick = time + tick;
            }
            self.collect(&mut run);
            let woken = self.wake(time);
            let due = self.dispatch(&mut run);
            time = now();
            if self.waiting == 0 && run.stopped(time) {
                break;
            }
            if run.is_cut(time) {
                break;
            }
            if time > run.moments.end.saturating_add(run.limit + tick) {
                for user in self.users.iter().filter(|user| user.waiting) {
                    run.failed(Fault::Timeout, user.times, time);
                }
                run.abandon(time);
                break;
            }
            let start = if measuring { u64::MAX } else { start };
            let wake = next_tick.min(woken).min(due).min(start);
            tokio::select! {
                alarmed = alarm.at(wake) => alarmed?,
                () = self.shared.freed.notified() => {}
            }
            time = now();
        }
        Ok((run.tally.finish(), used.until_now()?))
    }

    /// Returns the users whose pause is over to the idle ones. Returns when the next one follows.
    fn wake(&mut self, time: u64) -> u64 {
        while let Some(Reverse((until, at))) = self.resting.peek().copied() {
            if until > time {
                return until;
            }
            self.resting.pop();
            self.idle.push_back(at);
        }
        u64::MAX
    }

    /// Begins the requests that are due. Returns when the next is due, if a user is free for it.
    fn dispatch(&mut self, run: &mut Run<'_>) -> u64 {
        while let Some(at) = self.idle.front().copied() {
            let time = now();
            let Some(intended) = run.take(time) else { return run.due(time) };
            self.idle.pop_front();
            self.begin(run, at, intended);
        }
        u64::MAX
    }

    fn begin(&mut self, run: &Run<'_>, at: usize, intended: u64) {
        let shared = Rc::clone(&self.shared);
        let plan = &shared.plan;
        let user = &mut self.users[at];
        let request = match (run.recorded(), &plan.replay) {
            (Some(exchange), Some(replay)) => replay.order[exchange] as usize,
            _ if plan.flow => user.step,
            _ => {
                let next = self.next_request;
                self.next_request = if next + 1 == self.order.len() { 0 } else { next + 1 };
                self.order[next] as usize
            }
        };
        if let Some(data) = &plan.data
            && (!plan.flow || request == 0)
        {
            for (value, field) in user.values.iter_mut().zip(&data.rows[self.next_row]) {
                value.clone_from(field);
            }
            self.next_row = (self.next_row + plan.threads as usize) % data.rows.len();
        }
        let prepared = &shared.requests[request];
        let rendered = prepared.rendering.as_ref();
        let parts = rendered.map(|rendering| rendering.parts(&user.values, &prepared.parts.host));
        user.request = request;
        user.times = Times { intended, free: user.freed, sent: 0 };
        user.waiting = true;
        self.waiting += 1;
        if let Some(jobs) = &user.jobs {
            // The receiver lives as long as its task, which ends only with the runtime.
            let _ = jobs.send(Job { request, parts });
        }
    }

    /// Counts what the tasks have reported.
    fn collect(&mut self, run: &mut Run<'_>) {
        loop {
            let Some(ended) = self.shared.ended.borrow_mut().pop_front() else { return };
            let Ended { at, sent, done, outcome } = ended;
            let requests = Arc::clone(&self.shared.requests);
            let flow = self.shared.plan.flow;
            let user = &mut self.users[at];
            user.times.sent = sent;
            user.freed = done;
            user.waiting = false;
            self.waiting -= 1;
            let mut rest = None;
            match outcome {
                Ok(Answer { response, also, kept }) => {
                    let prepared = &requests[user.request];
                    let judged = also.and_then(|()| prepared.measure.judge(&response)).and_then(|()| {
                        let kept = kept.unwrap_or_default();
                        let mut takings = prepared.takings.iter();
                        let all = takings.all(|taking| taking.take(&kept, &mut user.values));
                        all.then_some(()).ok_or(Fault::Body)
                    });
                    user.step = if judged.is_ok() && flow { (user.step + 1) % requests.len() } else { 0 };
                    run.completed(&response, judged, user.times, done);
                    if let Some(think) = self.shared.plan.think {
                        let pause = think.least + (think.most - think.least) * uniform(&mut self.random);
                        rest = Some(done + span(pause));
                    }
                }
                Err(fault) => {
                    user.step = 0;
                    run.failed(fault, user.times, done);
                    if fault == Fault::Connect && !run.open_loop {
                        rest = Some(done + REST_NS);
                    }
                }
            }
            match rest {
                Some(until) => self.resting.push(Reverse((until, at))),
                None => self.idle.push_back(at),
            }
        }
    }
}

/// Performs one job after another.
async fn serve(shared: Rc<Shared>, at: usize, mut exchange: Exchange, mut jobs: UnboundedReceiver<Job>) {
    let limit = Duration::from_secs_f64(shared.plan.time_limit);
    while let Some(Job { request, parts }) = jobs.recv().await {
        let prepared = &shared.requests[request];
        let parts = parts.as_ref().unwrap_or(&prepared.parts);
        let sent = Cell::new(0);
        let performed = exchange.perform(&shared, prepared, parts, &sent);
        let outcome = tokio::time::timeout(limit, performed).await.unwrap_or(Err(Fault::Timeout));
        if outcome.is_err() {
            exchange.reset();
        }
        let ended = Ended { at, sent: sent.get(), done: now(), outcome };
        shared.ended.borrow_mut().push_back(ended);
        shared.freed.notify_one();
    }
}

/// Returns whether bodies are digested.
pub(crate) fn digested(plan: &Plan) -> bool {
    plan.verification == Verification::Full
}
