//! Several workers in one thread, whose messages are delivered when a test says so: each run is the same.

mod random;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_net::{Address, BulkQueue, ProxyHeader, Runtime, Timers};
use tollgate_observe::{Registry, Snapshot};
use tollgate_plan::{
    Caps, Endpoint, Pool as PoolSettings, Queue as QueueSettings, Rules, Upstream as Planned,
};

use super::PoolSet;
use crate::{Acquired, ConnectError, Connection, Message, Pool, SendToWorker, UpstreamState, UpstreamStates};

type Mail = Arc<Mutex<VecDeque<(usize, Message)>>>;

/// Workers with a pool for each of some endpoints, which listen and never answer.
struct World {
    origins: Vec<TcpListener>,
    accepted: RefCell<Vec<TcpStream>>,
    sets: Vec<Rc<PoolSet>>,
    pools: Vec<Vec<Rc<Pool>>>,
    state: Arc<UpstreamState>,
    registry: Arc<Registry>,
    mail: Mail,
    planned: Planned,
}

/// A request that needs a connection.
type Request = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>>>>;

fn limits(connections: Option<u32>, endpoint_connections: Option<u32>) -> Caps {
    Caps { connections, endpoint_connections, ..Caps::default() }
}

impl World {
    fn new(workers: usize, endpoints: usize, caps: Caps) -> Self {
        let pool = PoolSettings { idle_timeout: Some(Duration::from_secs(60)), ..PoolSettings::default() };
        let queue = QueueSettings { size: 64, timeout: Duration::from_secs(60) };
        Self::with(workers, endpoints, Rules { caps, queue, ..Rules::default() }, pool)
    }

    fn with(workers: usize, endpoints: usize, rules: Rules, pool: PoolSettings) -> Self {
        let origins: Vec<_> =
            (0..endpoints).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let addresses: Vec<_> =
            origins.iter().map(|origin| Address::Socket(origin.local_addr().expect("bound"))).collect();
        let endpoint =
            |address: &Address| Endpoint { address: address.clone(), weight: 1, priority: 0, zone: None };
        let endpoints = addresses.iter().map(endpoint).collect();
        let planned = Planned {
            name: "u".into(),
            endpoints,
            discover: None,
            zone: None,
            pool,
            tls: None,
            http2: None,
            proxy_protocol: None,
            rules,
        };
        let (shared, registry, mail) = (UpstreamStates::new(), Registry::new(true), Mail::default());
        shared.connect_workers(|| (0..workers).map(|worker| post(&mail, worker)).collect());
        let timers = Timers::start().expect("timers");
        let state = shared.upstream("u");
        let slot = registry.upstream_slot("u");
        let set = |worker| {
            let idle = (slot, Rc::new(Cell::new(0)));
            PoolSet::new(
                worker,
                &planned,
                idle,
                (timers.clone(), BulkQueue::default()),
                registry.worker(),
                state.clone(),
            )
        };
        let sets: Vec<_> = (0..workers).map(set).collect();
        let pools = |set: &Rc<PoolSet>| addresses.iter().map(|address| set.create_pool(address)).collect();
        let pools = sets.iter().map(pools).collect();
        let accepted = RefCell::default();
        Self { origins, accepted, sets, pools, state, registry, mail, planned }
    }

    fn pool(&self, worker: usize, endpoint: usize) -> &Rc<Pool> {
        &self.pools[worker][endpoint]
    }

    /// Creates a request of a worker for a connection to an endpoint. It was not polled yet.
    fn request(&self, worker: usize, endpoint: usize) -> Request {
        let pool = self.pool(worker, endpoint).clone();
        Box::pin(async move {
            match pool.take(tollgate_net::now()) {
                Some(kept) => Ok(kept),
                None => match pool.wait_for_connection().await? {
                    Acquired::Connection(free) => Ok(free),
                    Acquired::Permit(opening) => opening.connect(ProxyHeader::Local).await,
                },
            }
        })
    }

    /// Opens a connection without having to wait for a permit.
    async fn open(&self, worker: usize, endpoint: usize) -> Connection {
        let mut request = self.request(worker, endpoint);
        self.until(&mut request).await.expect("connected")
    }

    /// Polls a request until it has its connection, and delivers messages in between.
    async fn until(&self, request: &mut Request) -> Result<Connection, ConnectError> {
        for _ in 0..2_000 {
            if let Poll::Ready(result) = poll(request) {
                return result;
            }
            self.deliver();
            rest().await;
        }
        panic!("no connection");
    }

    /// Delivers all messages and polls the request. Returns whether it still waits.
    async fn waits(&self, request: &mut Request) -> bool {
        for _ in 0..20 {
            self.deliver();
            rest().await;
            if poll(request).is_ready() {
                return false;
            }
        }
        true
    }

    fn deliver(&self) {
        while let Some((worker, message)) = self.next_message() {
            self.sets[worker].receive(message.0);
        }
    }

    fn next_message(&self) -> Option<(usize, Message)> {
        self.mail.lock().expect("mail").pop_front()
    }

    fn messages(&self) -> u64 {
        self.snapshot().messages
    }

    fn snapshot(&self) -> Snapshot {
        self.registry.snapshot()
    }

    fn handed_over(&self) -> u64 {
        self.snapshot().upstreams[0].queueing.handed_over
    }

    /// Returns how many connections the endpoint accepted since the last call. They stay open.
    fn accepted(&self, endpoint: usize) -> usize {
        let origin = &self.origins[endpoint];
        origin.set_nonblocking(true).expect("non-blocking");
        let mut accepted = self.accepted.borrow_mut();
        let before = accepted.len();
        accepted.extend(std::iter::from_fn(|| origin.accept().ok()).map(|(stream, _)| stream));
        accepted.len() - before
    }

    /// Checks that no message, ticket or published wait remains.
    fn is_calm(&self) {
        self.deliver();
        assert_eq!(self.state.limits.queued.get(), 0);
        assert_eq!(self.state.limits.waiting.longest(None), None);
        assert!(self.sets.iter().all(|set| set.queue.is_empty()));
    }
}

fn post(mail: &Mail, worker: usize) -> SendToWorker {
    let mail = mail.clone();
    Box::new(move |message| {
        mail.lock().expect("mail").push_back((worker, message));
        Ok(())
    })
}

fn poll(request: &mut Request) -> Poll<Result<Connection, ConnectError>> {
    request.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets the runtime look at its poller.
async fn rest() {
    for _ in 0..64 {
        tollgate_net::yield_now().await;
    }
}

fn run(test: impl Future<Output = ()>) {
    Runtime::new().expect("a runtime").run(test);
}

fn put(connection: Connection) {
    Pool::put(connection, tollgate_net::now());
}

#[test]
fn freed_connections_go_to_the_longest_wait() {
    run(async {
        let world = World::new(1, 1, limits(Some(1), None));
        let first = world.open(0, 0).await;
        let (mut a, mut b) = (world.request(0, 0), world.request(0, 0));
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        assert_eq!(world.snapshot().upstreams[0].queueing.waiting, 2);
        put(first);
        assert!(poll(&mut b).is_pending(), "a was there before");
        let Poll::Ready(Ok(second)) = poll(&mut a) else { panic!("it is a's turn") };
        assert!(second.is_reused());
        // It is not reusable, but its permit serves as well.
        drop(second);
        let third = world.until(&mut b).await.expect("connected");
        assert!(!third.is_reused());
        put(third);
        world.is_calm();
        assert_eq!((world.accepted(0), world.state.connections()), (2, 1));
        assert!(!world.sets[0].context.must_offer_freed());
    });
}

#[test]
fn a_place_goes_to_another_worker() {
    run(async {
        let world = World::new(3, 1, limits(None, Some(2)));
        let (one, two) = (world.open(0, 0).await, world.open(1, 0).await);
        let mut waiting = world.request(2, 0);
        assert!(world.waits(&mut waiting).await);
        drop(one);
        let three = world.until(&mut waiting).await.expect("connected");
        assert!(!three.is_reused());
        drop((two, three));
        world.is_calm();
        assert_eq!(world.state.connections(), 0);
    });
}

#[test]
fn an_idle_connection_changes_its_worker() {
    run(async {
        let world = World::new(3, 1, limits(Some(2), None));
        let (one, two) = (world.open(0, 0).await, world.open(1, 0).await);
        put(one);
        let mut waiting = world.request(2, 0);
        let three = world.until(&mut waiting).await.expect("handed over");
        assert!(three.is_reused(), "it may have been closed meanwhile");
        assert!(Rc::ptr_eq(three.pool(), world.pool(2, 0)));
        assert_eq!((world.accepted(0), world.handed_over()), (2, 1));
        // A connection that becomes idle while a request waits goes the same way.
        let mut waiting = world.request(2, 0);
        assert!(world.waits(&mut waiting).await);
        put(two);
        let four = world.until(&mut waiting).await.expect("handed over");
        assert_eq!((world.accepted(0), world.handed_over()), (0, 2));
        // No request waits: connections stay where they are.
        put(three);
        put(four);
        world.is_calm();
        let messages = world.messages();
        for _ in 0..10 {
            put(world.open(2, 0).await);
        }
        assert_eq!((world.messages(), world.handed_over()), (messages, 2));
        let sum = world.snapshot();
        assert_eq!((sum.upstreams[0].idle, sum.upstreams[0].active()), (2, 0));
    });
}

#[test]
fn one_request_to_other_workers_brings_enough_connections() {
    run(async {
        let world = World::new(2, 1, limits(Some(8), None));
        let mut all = Vec::new();
        for _ in 0..8 {
            all.push(world.open(0, 0).await);
        }
        all.into_iter().for_each(put);
        let mut requests: Vec<_> = (0..5).map(|_| world.request(1, 0)).collect();
        assert!(requests.iter_mut().all(|request| poll(request).is_pending()));
        let mut got = Vec::new();
        for request in &mut requests {
            got.push(world.until(request).await.expect("handed over"));
        }
        assert_eq!(world.handed_over(), 5, "and no more than that");
        assert_eq!(world.accepted(0), 8);
    });
}

#[test]
fn an_unneeded_transfer_stays_with_the_receiver() {
    run(async {
        let world = World::new(2, 1, limits(Some(1), None));
        put(world.open(0, 0).await);
        let mut gone = world.request(1, 0);
        assert!(poll(&mut gone).is_pending());
        // The worker asks for it, and then the request is gone.
        let (worker, ask) = world.next_message().expect("a question");
        drop(gone);
        world.sets[worker].receive(ask.0);
        world.is_calm();
        assert!(world.pool(1, 0).has_idle() && !world.pool(0, 0).has_idle());
        assert_eq!(world.state.connections(), 1);
    });
}

#[test]
fn a_handed_over_connection_that_is_not_quiet_is_closed() {
    run(async {
        let world = World::new(2, 1, limits(Some(1), None));
        put(world.open(0, 0).await);
        let mut waiting = world.request(1, 0);
        assert!(poll(&mut waiting).is_pending());
        let (worker, ask) = world.next_message().expect("a question");
        world.sets[worker].receive(ask.0);
        // On the way, the endpoint sends unsolicited bytes.
        let (mut origin, _) = world.origins[0].accept().expect("a connection");
        std::io::Write::write_all(&mut origin, b"HTTP/1.1 200 OK\r\n\r\n").expect("sent");
        let fresh = world.until(&mut waiting).await.expect("connected");
        assert!(!fresh.is_reused(), "another one was opened in its place");
        drop(fresh);
        world.is_calm();
        assert_eq!(world.state.connections(), 0);
        assert_eq!(world.snapshot().upstreams[0].active(), 0);
    });
}

#[test]
fn the_queue_has_an_end_and_a_deadline() {
    run(async {
        let caps = limits(Some(1), None);
        let queue = QueueSettings { size: 2, timeout: Duration::from_millis(20) };
        let rules = Rules { caps, queue, ..Rules::default() };
        let world = World::with(2, 1, rules, PoolSettings::default());
        let only = world.open(0, 0).await;
        let (mut a, mut b, mut c) = (world.request(0, 0), world.request(1, 0), world.request(1, 0));
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        assert!(
            matches!(poll(&mut c), Poll::Ready(Err(ConnectError::QueueFull))),
            "the size is that of all workers"
        );
        drop(a);
        let mut d = world.request(1, 0);
        assert!(poll(&mut d).is_pending(), "a place in the queue is free again");
        assert_eq!(world.until(&mut b).await.expect_err("nobody gives one back"), ConnectError::QueueTimeout);
        assert_eq!(world.until(&mut d).await.expect_err("nor for this one"), ConnectError::QueueTimeout);
        drop((only, b, d));
        world.is_calm();
        let queueing = world.snapshot().upstreams[0].queueing.clone();
        assert_eq!((queueing.held_back, queueing.queued, queueing.waiting), (4, 3, 0));
    });
}

#[test]
fn a_cancelled_wait_passes_its_grant_on() {
    run(async {
        let world = World::new(2, 1, limits(Some(1), None));
        let only = world.open(0, 0).await;
        let (mut a, mut b) = (world.request(0, 0), world.request(1, 0));
        assert!(poll(&mut a).is_pending() && world.waits(&mut b).await);
        // A connection.
        put(only);
        drop(a);
        let second = world.until(&mut b).await.expect("handed over");
        assert!(second.is_reused());
        // A permit.
        let (mut a, mut b) = (world.request(0, 0), world.request(1, 0));
        assert!(poll(&mut a).is_pending() && world.waits(&mut b).await);
        drop(second);
        world.deliver();
        drop(a);
        drop(world.until(&mut b).await.expect("a place"));
        world.is_calm();
        assert_eq!(world.state.connections(), 0);
    });
}

#[test]
fn a_wait_can_be_cancelled_in_the_middle_of_the_queue() {
    run(async {
        let world = World::new(1, 1, limits(Some(1), None));
        let mut only = world.open(0, 0).await;
        let queue = &world.sets[0].queue;
        let mut waiting: Vec<_> = (0..10).map(|_| world.request(0, 0)).collect();
        waiting.iter_mut().for_each(|request| assert!(poll(request).is_pending()));
        // From the end, from the middle, and the first: half of them stay.
        for (gone, at) in [9, 4, 4, 6, 0].into_iter().enumerate() {
            drop(waiting.remove(at));
            assert_eq!(queue.len(), 9 - gone);
            assert!(queue.held() <= 2 * queue.len(), "kept {} of {}", queue.held(), queue.len());
        }
        for mut next in waiting {
            put(only);
            only = world.until(&mut next).await.expect("its turn");
            assert!(only.is_reused());
        }
        assert_eq!((queue.len(), queue.held()), (0, 0));
        world.is_calm();
    });
}

#[test]
fn idle_connections_elsewhere_make_room() {
    run(async {
        let world = World::new(2, 3, limits(Some(3), None));
        // On this worker: the oldest, whichever endpoint it leads to.
        for endpoint in [0, 1, 2] {
            put(world.open(0, endpoint).await);
        }
        let busy = world.open(0, 2).await;
        let one = world.open(0, 2).await;
        assert!(!world.pool(0, 0).has_idle() && world.pool(0, 1).has_idle());
        // On another worker.
        let two = world.open(1, 0).await;
        assert!(!world.pool(0, 1).has_idle());
        assert_eq!((world.state.connections(), world.handed_over()), (3, 0));
        drop((busy, one, two));
        world.is_calm();
    });
}

#[test]
fn an_idle_connection_is_closed_for_another_endpoint() {
    run(async {
        for worker in [0, 1] {
            let world = World::new(2, 2, limits(Some(1), None));
            let only = world.open(0, 0).await;
            let mut waiting = world.request(worker, 1);
            assert!(world.waits(&mut waiting).await);
            put(only);
            let other = world.until(&mut waiting).await.expect("connected");
            assert!(Rc::ptr_eq(other.pool(), world.pool(worker, 1)));
            assert_eq!(world.state.connections(), 1);
        }
    });
}

#[test]
fn an_endpoint_that_is_full_is_not_helped_by_closing_others() {
    run(async {
        let world = World::new(2, 2, limits(Some(3), Some(1)));
        put(world.open(0, 1).await);
        let full = world.open(0, 0).await;
        let mut waiting = world.request(1, 0);
        assert!(world.waits(&mut waiting).await);
        put(world.open(0, 1).await);
        assert!(world.waits(&mut waiting).await);
        assert!(world.pool(0, 1).has_idle(), "it was closed in vain");
        put(full);
        assert!(world.until(&mut waiting).await.expect("handed over").is_reused());
    });
}

#[test]
fn no_worker_starves_beside_a_busy_one() {
    run(async {
        let world = World::new(2, 2, limits(Some(1), None));
        for endpoint in [0, 1] {
            let mut held = Some(world.open(0, 0).await);
            let mut starving = world.request(1, endpoint);
            assert!(world.waits(&mut starving).await);
            let start = tollgate_net::now();
            // A queue that never ends.
            let mut queue: VecDeque<_> = (0..3).map(|_| world.request(0, 0)).collect();
            queue.iter_mut().for_each(|request| assert!(poll(request).is_pending()));
            let got = loop {
                world.deliver();
                rest().await;
                if let Poll::Ready(got) = poll(&mut starving) {
                    break got.expect("at last");
                }
                if let Some(connection) = held.take() {
                    put(connection);
                }
                if let Some(Poll::Ready(Ok(connection))) = queue.front_mut().map(poll) {
                    held = Some(connection);
                    queue.pop_front();
                    queue.push_back(world.request(0, 0));
                    assert!(queue.back_mut().is_some_and(|request| poll(request).is_pending()));
                }
                assert!(start.elapsed() < Duration::from_secs(20), "it starves");
            };
            drop((got, queue, held));
            world.is_calm();
        }
    });
}

#[test]
fn a_failed_connect_gives_its_place_back() {
    run(async {
        let mut world = World::new(2, 1, limits(Some(1), None));
        let only = world.open(0, 0).await;
        let (mut a, mut b) = (world.request(0, 0), world.request(1, 0));
        assert!(poll(&mut a).is_pending() && world.waits(&mut b).await);
        world.origins.clear();
        drop(only);
        assert_eq!(world.until(&mut a).await.expect_err("nobody listens"), ConnectError::Refused);
        assert_eq!(world.until(&mut b).await.expect_err("nobody listens"), ConnectError::Refused);
        world.is_calm();
        assert_eq!(world.state.connections(), 0);
    });
}

#[test]
fn caps_change_with_the_plan() {
    run(async {
        let mut world = World::new(2, 1, limits(Some(4), None));
        let mut all = Vec::new();
        for worker in [0, 0, 1, 1] {
            all.push(world.open(worker, 0).await);
        }
        put(all.remove(0));
        // Lower: idle connections are closed at once, others when they become free.
        world.planned.rules.caps = limits(Some(2), None);
        world.sets.iter().for_each(|set| set.apply_plan(&world.planned));
        assert_eq!(world.state.connections(), 3);
        put(all.remove(0));
        assert_eq!(world.state.connections(), 2);
        put(all.remove(0));
        assert!(world.pool(1, 0).has_idle(), "there are no more than allowed: it is kept");
        assert!(!world.sets[1].context.must_offer_freed());
        // Higher: the waiting request gets a connection.
        all.push(world.open(0, 0).await);
        let mut waiting = world.request(0, 0);
        assert!(world.waits(&mut waiting).await);
        world.planned.rules.caps = limits(Some(3), None);
        world.sets.iter().for_each(|set| set.apply_plan(&world.planned));
        drop(world.until(&mut waiting).await.expect("a place"));
        drop(all);
        world.is_calm();
    });
}

#[test]
fn an_endpoint_that_leaves_the_plan_leaves_no_trace() {
    run(async {
        let world = World::new(2, 1, limits(Some(1), None));
        let only = world.open(0, 0).await;
        let mut waiting = world.request(1, 0);
        assert!(world.waits(&mut waiting).await);
        world.pools.iter().flatten().for_each(|pool| pool.retire());
        put(only);
        let last = world.until(&mut waiting).await.expect("requests under way end on what they began with");
        put(last);
        world.is_calm();
        assert_eq!(world.state.connections(), 0);
        let address = world.planned.endpoints[0].address.clone();
        let World { sets, pools, .. } = world;
        drop(pools);
        // The request holds its pool.
        drop(waiting);
        assert!(sets.iter().all(|set| set.find(&address).is_none()));
    });
}

#[test]
fn without_a_limit_no_messages_are_sent() {
    run(async {
        let world = World::new(2, 1, Caps::default());
        let mut all = Vec::new();
        for _ in 0..50 {
            all.push(world.open(0, 0).await);
            all.push(world.open(1, 0).await);
        }
        assert_eq!(world.state.connections(), 100);
        all.into_iter().for_each(put);
        assert!(world.next_message().is_none() && world.messages() == 0);
        assert_eq!(world.snapshot().upstreams[0].queueing.held_back, 0);
    });
}
