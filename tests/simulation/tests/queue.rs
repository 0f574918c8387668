//! Requests that wait for a connection, at two or three workers: every order of a few possible steps.
//!
//! Each order is played once in a world of workers whose messages arrive at separate steps. In every order,
//! no limit is exceeded, no request waits while a connection or a permit is available, and every request gets
//! a connection in the end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_net::simulated::{self, ConnectionBound, NetworkConditions, RunLimits, sleep};
use tollgate_net::{Address, BulkQueue, Timers};
use tollgate_observe::Registry;
use tollgate_plan::{Plan, UpstreamChange};
use tollgate_simulation::gateway::plan;
use tollgate_upstream::{
    Acquired, ConnectError, Connection, Message, PickHints, Pool, SendToWorker, UpstreamStates, Upstreams,
};

/// A play: the requests, and what happens to their connections.
#[derive(Clone, Debug)]
struct Play {
    workers: usize,
    endpoints: usize,
    limits: &'static str,
    requests: Vec<Wish>,
    /// The loss of a worker at an arbitrary step, if any.
    loses: Option<Loss>,
}

/// A loss of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The worker itself, as at the end of a drain.
    Worker(usize),
    /// The upstream, by a new plan.
    Upstream(usize),
}

impl Loss {
    fn worker(self) -> usize {
        match self {
            Self::Worker(worker) | Self::Upstream(worker) => worker,
        }
    }
}

/// A request: its worker, its endpoint, and how it ends.
#[derive(Clone, Copy, Debug)]
struct Wish {
    worker: usize,
    endpoint: usize,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The connection is kept for the next request.
    Keep,
    /// The connection is closed.
    Close,
    /// The client closes, while it waits or when it has its connection.
    Leave,
}

use Ending::{Close, Keep, Leave};

fn wish(worker: usize, endpoint: usize, ending: Ending) -> Wish {
    Wish { worker, endpoint, ending }
}

/// A sequence of choices between the possible next steps. After the given choices, it takes the first step or
/// a random one.
#[derive(Debug, Default)]
struct Choices {
    given: Vec<usize>,
    /// The choices made, each with the number of possible steps.
    made: Vec<(usize, usize)>,
    /// The generator for random choices after the given ones.
    random: Option<fastrand::Rng>,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        let given = self.given.get(self.made.len()).copied();
        let choice = given.unwrap_or_else(|| self.random.as_mut().map_or(0, |random| random.usize(..of)));
        self.made.push((choice, of));
        choice
    }

    /// Returns the next sequence after this one, or `None` if it was the last.
    fn next(mut self) -> Option<Self> {
        while let Some((choice, of)) = self.made.pop() {
            if choice + 1 < of {
                let given = self.made.iter().map(|(choice, _)| *choice).chain([choice + 1]).collect();
                return Some(Self { given, ..Self::default() });
            }
        }
        None
    }
}

type Mail = Arc<Mutex<Vec<VecDeque<Message>>>>;
type Waiting = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>>>>;

/// The state of a request.
enum State {
    Before,
    Waiting(Waiting),
    Has(Connection),
    Done,
}

struct World {
    play: Play,
    tables: Vec<Option<Upstreams>>,
    pools: Vec<Vec<Rc<Pool>>>,
    shared: Arc<UpstreamStates>,
    registry: Arc<Registry>,
    mail: Mail,
    /// Whether each worker has stopped; a stopped worker receives no messages.
    ended: Arc<Mutex<Vec<bool>>>,
    /// Workers on which no further request starts.
    lost: Vec<bool>,
    plan: Plan,
    states: Vec<State>,
}

fn address(endpoint: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1], 8000 + endpoint as u16))
}

fn shop(play: &Play) -> Plan {
    let endpoints: Vec<_> =
        (0..play.endpoints).map(|endpoint| format!("\"{}\"", address(endpoint))).collect();
    plan(&format!(
        "listen: 10.0.0.1:80\nroutes: []\nupstreams:\n  shop:\n    endpoints: [{}]\n    limits: {{{}}}\n    \
         queue: {{timeout: 10m}}\n    pool: {{idle_timeout: off}}\n",
        endpoints.join(", "),
        play.limits
    ))
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T>>>) -> Poll<T> {
    // The world polls every future again after each step, so wake-ups do not matter.
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

impl World {
    fn new(play: &Play) -> Self {
        let plan = shop(play);
        let caps = &plan.upstreams[0].rules.caps;
        let bound = |cap: Option<u32>| cap.map(|cap| cap as usize);
        let bound = ConnectionBound { all: bound(caps.connections), each: bound(caps.endpoint_connections) };
        simulated::limit_connections(&(8000..9000), bound);
        let (shared, registry, timers) =
            (UpstreamStates::new(), Registry::new(true), Timers::start().expect("timers"));
        let mail: Mail = Arc::new(Mutex::new((0..play.workers).map(|_| VecDeque::new()).collect()));
        let ended = Arc::new(Mutex::new(vec![false; play.workers]));
        shared.connect_workers(|| {
            let post = |worker: usize| {
                let (mail, ended) = (mail.clone(), ended.clone());
                let post: SendToWorker =
                    Box::new(move |message| match ended.lock().expect("a flag")[worker] {
                        true => Err(message),
                        false => {
                            mail.lock().expect("mail")[worker].push_back(message);
                            Ok(())
                        }
                    });
                post
            };
            (0..play.workers).map(post).collect()
        });
        let mut tables = Vec::new();
        let mut pools = Vec::new();
        for worker in 0..play.workers {
            let stats = registry.worker();
            let (timers, registry) = (timers.clone(), registry.clone());
            let mut table = Upstreams::new(
                (worker, play.workers),
                (timers, BulkQueue::default()),
                stats,
                registry,
                shared.clone(),
            );
            let upstream = table.get(&plan.upstreams[0], 0);
            let mut own: Vec<Rc<Pool>> = Vec::new();
            while own.len() < play.endpoints {
                let pool =
                    upstream.pick(&PickHints { avoid: &own, ..PickHints::default() }).expect("an endpoint");
                own.push(pool);
            }
            own.sort_by_key(|pool| pool.name().to_owned());
            pools.push(own);
            tables.push(Some(table));
        }
        let states = play.requests.iter().map(|_| State::Before).collect();
        let lost = vec![false; play.workers];
        Self { play: play.clone(), tables, pools, shared, registry, mail, ended, lost, plan, states }
    }

    /// Requests a connection, with the gateway's own calls.
    fn request(&self, wish: Wish) -> Waiting {
        let pool = self.pools[wish.worker][wish.endpoint].clone();
        Box::pin(async move {
            if let Some(kept) = pool.take(tollgate_net::now()) {
                return Ok(kept);
            }
            match pool.wait_for_connection().await? {
                Acquired::Connection(free) => Ok(free),
                Acquired::Permit(opening) => opening.connect(tollgate_net::ProxyHeader::Local).await,
            }
        })
    }

    /// Returns the possible next steps.
    fn moves(&self) -> Vec<Move> {
        let requests = self.states.iter().enumerate().filter_map(|(number, state)| match state {
            State::Before if self.lost[self.play.requests[number].worker] => None,
            State::Before | State::Has(_) => Some(Move::Request(number)),
            State::Waiting(_) if self.play.requests[number].ending == Leave => Some(Move::Request(number)),
            State::Waiting(_) | State::Done => None,
        });
        let mail = self.mail.lock().expect("mail");
        let letters = (0..self.play.workers).filter(|worker| !mail[*worker].is_empty()).map(Move::Deliver);
        let end = self.play.loses.filter(|loss| !self.lost[loss.worker()]).map(Move::Lose);
        requests.chain(letters).chain(end).collect()
    }

    fn make(&mut self, what: Move) {
        match what {
            Move::Request(number) => {
                let wish = self.play.requests[number];
                self.states[number] = match std::mem::replace(&mut self.states[number], State::Done) {
                    State::Before => State::Waiting(self.request(wish)),
                    State::Has(connection) if wish.ending == Keep => {
                        Pool::put(connection, tollgate_net::now());
                        State::Done
                    }
                    // The request is dropped with its connection, or with its place in the queue.
                    _ => State::Done,
                };
            }
            Move::Deliver(worker) => self.deliver(worker),
            Move::Lose(loss) => self.lose(loss),
        }
        self.poll_all();
    }

    fn deliver(&self, worker: usize) {
        let message = self.mail.lock().expect("mail")[worker].pop_front();
        if let (Some(message), Some(table)) = (message, &self.tables[worker]) {
            table.receive(message);
        }
    }

    /// Takes the worker or its upstream away. A worker ends as at the end of a drain, without requests: it
    /// first reads its messages. With the upstream, requests end on their existing connections.
    fn lose(&mut self, loss: Loss) {
        let worker = loss.worker();
        self.lost[worker] = true;
        if let Loss::Upstream(_) = loss {
            self.pools[worker].clear();
            let change = UpstreamChange { removed: self.plan.upstreams.clone(), ..UpstreamChange::default() };
            return self.tables[worker].iter_mut().for_each(|table| table.apply_plan(1, &change));
        }
        self.ended.lock().expect("a flag")[worker] = true;
        for (state, wish) in self.states.iter_mut().zip(&self.play.requests) {
            if wish.worker == worker {
                *state = State::Done;
            }
        }
        while !self.mail.lock().expect("mail")[worker].is_empty() {
            self.deliver(worker);
        }
        self.pools[worker].clear();
        self.tables[worker] = None;
    }

    fn poll_all(&mut self) {
        for state in &mut self.states {
            if let State::Waiting(waiting) = state
                && let Poll::Ready(result) = poll(waiting)
            {
                *state = State::Has(result.expect("the queue is long and patient"));
            }
        }
    }

    /// Delivers all messages and polls until nothing changes.
    async fn settle(&mut self) {
        for _ in 0..50 {
            let quiet = self.mail.lock().expect("mail").iter().all(VecDeque::is_empty);
            (0..self.play.workers).for_each(|worker| self.deliver(worker));
            sleep(Duration::from_micros(2)).await;
            self.poll_all();
            if quiet && self.mail.lock().expect("mail").iter().all(VecDeque::is_empty) {
                return;
            }
        }
        panic!("messages without end");
    }

    /// Checks, once nothing moves, that no request waits for something that is available.
    fn check(&self) {
        let waiting = self.states.iter().zip(&self.play.requests);
        let waiting = waiting.filter(|(state, _)| matches!(state, State::Waiting(_)));
        let waiting: Vec<_> = waiting.map(|(_, wish)| wish.endpoint).collect();
        if waiting.is_empty() {
            return;
        }
        let caps = &self.plan.upstreams[0].rules.caps;
        let state = self.shared.upstream("shop");
        let has = |endpoint: usize| {
            let held = self.states.iter().zip(&self.play.requests);
            held.filter(|(state, wish)| matches!(state, State::Has(_)) && wish.endpoint == endpoint).count()
        };
        let opened =
            |endpoint: usize| state.endpoint(&Address::Socket(address(endpoint))).connections() as usize;
        for endpoint in waiting {
            let full_here = caps.endpoint_connections.is_some_and(|cap| opened(endpoint) >= cap as usize);
            let full = caps.connections.is_some_and(|cap| state.connections() >= cap);
            assert!(full_here || full, "a request waits for endpoint {endpoint}, which has a place");
            assert!(
                has(endpoint) == opened(endpoint),
                "a request waits for endpoint {endpoint}, which is idle"
            );
            let all: usize = (0..self.play.endpoints).map(has).sum();
            assert!(
                full_here || all == state.connections() as usize,
                "a request waits beside an idle connection"
            );
        }
    }

    /// Finishes the requests that have a connection one by one, until none waits.
    async fn finish(&mut self) {
        self.settle().await;
        self.check();
        loop {
            let held = self.states.iter().position(|state| matches!(state, State::Has(_)));
            let Some(next) = held.or_else(|| {
                let mut before = self.states.iter().zip(&self.play.requests);
                before.position(|(state, wish)| matches!(state, State::Before) && !self.lost[wish.worker])
            }) else {
                break;
            };
            self.make(Move::Request(next));
            self.settle().await;
            self.check();
        }
        let stuck = self.states.iter().filter(|state| matches!(state, State::Waiting(_))).count();
        assert_eq!(stuck, 0, "requests wait for ever");
        let counts = self.registry.snapshot();
        for upstream in &counts.upstreams {
            assert_eq!((upstream.active(), upstream.queueing.waiting), (0, 0));
            assert_eq!(u64::from(self.shared.upstream("shop").connections()), upstream.idle);
        }
        assert_eq!(simulated::exceeded_limits(), [""; 0]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// A request takes its next step.
    Request(usize),
    /// A worker reads a message.
    Deliver(usize),
    /// A worker loses something.
    Lose(Loss),
}

/// Plays one order.
fn once(play: &Play, choices: Choices) -> Choices {
    let kept = Rc::new(RefCell::new(choices));
    let (choices, played) = (kept.clone(), play.clone());
    let limits = RunLimits { time: Duration::from_secs(60), turns: 100_000, text: false };
    let ended = simulated::run(0, limits, async move {
        NetworkConditions { delay: (0, 0), poll: (0, 0), pieces: 0, ..NetworkConditions::default() }.set();
        let listening: Vec<_> =
            (0..played.endpoints).map(|endpoint| simulated::listen(address(endpoint), 128)).collect();
        let mut world = World::new(&played);
        let reported = choices.clone();
        loop {
            let moves = world.moves();
            if moves.is_empty() {
                break;
            }
            let choice = reported.borrow_mut().choose(moves.len());
            world.make(moves[choice]);
            // Time for connects to complete, and for the poller to report them.
            sleep(Duration::from_micros(2)).await;
            world.poll_all();
        }
        world.finish().await;
        drop(listening);
    });
    let made = Rc::into_inner(kept).expect("the world is gone").into_inner();
    assert!(
        ended.panics.is_empty() && ended.output.is_ok(),
        "{play:?}, in the order {:?}: {:?}",
        made.made,
        ended.panics
    );
    made
}

/// Plays every order, up to `most` of them. Returns how many it played.
fn every_order(play: &Play, most: usize) -> usize {
    let mut next = Some(Choices::default());
    let mut played = 0;
    while let Some(choices) = next
        && played < most
    {
        next = once(play, choices).next();
        played += 1;
    }
    played
}

/// Plays that are too large for every order: each seed makes one play, and one order of it.
#[test]
fn many_requests_in_any_order() {
    for seed in 0..3_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (workers, endpoints) = (random.usize(2..=4), random.usize(1..=3));
        let limits = [
            "connections: 1",
            "connections: 2",
            "connections: 3",
            "endpoint_connections: 1",
            "endpoint_connections: 2",
            "connections: 2, endpoint_connections: 1",
            "connections: 4, endpoint_connections: 2",
        ];
        let limits = limits[random.usize(..limits.len())];
        let requests = (0..random.usize(4..16)).map(|_| {
            let ending = [Keep, Keep, Close, Leave][random.usize(..4)];
            wish(random.usize(..workers), random.usize(..endpoints), ending)
        });
        let requests = requests.collect();
        let loses = match random.u32(..6) {
            0 => Some(Loss::Worker(random.usize(..workers))),
            1 => Some(Loss::Upstream(random.usize(..workers))),
            _ => None,
        };
        let play = Play { workers, endpoints, limits, requests, loses };
        let played = once(&play, Choices { random: Some(random), ..Choices::default() });
        assert!(!played.made.is_empty());
    }
}

/// The maximum number of orders for each play: enough for all orders of the shorter ones.
const MOST: usize = 30_000;

#[test]
fn one_permit_for_requests_of_two_workers() {
    let requests = vec![wish(0, 0, Keep), wish(1, 0, Keep), wish(1, 0, Close)];
    let play = Play { workers: 2, endpoints: 1, limits: "connections: 1", requests, loses: None };
    let played = every_order(&play, MOST);
    assert!((100..MOST).contains(&played), "{played}");
}

#[test]
fn a_client_leaves_whatever_it_waits_for() {
    let requests = vec![wish(0, 0, Keep), wish(1, 0, Leave), wish(1, 0, Keep)];
    let play = Play { workers: 2, endpoints: 1, limits: "endpoint_connections: 1", requests, loses: None };
    let played = every_order(&play, MOST);
    assert!((100..MOST).contains(&played), "{played}");
}

#[test]
fn the_place_of_another_endpoint() {
    let requests = vec![wish(0, 0, Keep), wish(1, 1, Keep), wish(1, 0, Keep)];
    let play = Play { workers: 2, endpoints: 2, limits: "connections: 1", requests, loses: None };
    let played = every_order(&play, MOST);
    assert!((100..MOST).contains(&played), "{played}");
}

#[test]
fn both_caps_at_once() {
    let requests = vec![wish(0, 0, Keep), wish(0, 1, Keep), wish(1, 0, Keep), wish(1, 1, Close)];
    let limits = "connections: 2, endpoint_connections: 1";
    every_order(&Play { workers: 2, endpoints: 2, limits, requests, loses: None }, MOST);
}

/// The same orders with a worker that ends, and with a worker whose plan removes the upstream.
#[test]
fn a_worker_loses_what_others_wait_for() {
    for loses in [Loss::Worker(1), Loss::Upstream(1)] {
        let limits = "connections: 1";
        let requests = vec![wish(2, 0, Keep), wish(0, 0, Keep), wish(1, 0, Keep)];
        every_order(&Play { workers: 3, endpoints: 1, limits, requests, loses: Some(loses) }, MOST);
        let requests = vec![wish(1, 1, Keep), wish(0, 0, Keep), wish(2, 0, Keep)];
        every_order(&Play { workers: 3, endpoints: 2, limits, requests, loses: Some(loses) }, MOST);
    }
}
