//! Probes and ejections in virtual time: hours of them, exact to the millisecond.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_net::simulated::{self, RunLimits, TaskGroup, elapsed, sleep};
use tollgate_net::{BulkQueue, Stream, Timers};
use tollgate_observe::{EndpointHealth, EndpointStatus, Registry, UpstreamSource, UpstreamStatus};
use tollgate_plan::Plan;
use tollgate_simulation::gateway::plan;
use tollgate_simulation::wire;
use tollgate_upstream::health::HealthMonitor;
use tollgate_upstream::{Outcome, PickHints, Pool, Upstream, UpstreamStates, Upstreams};

const SECOND: Duration = Duration::from_secs(1);
/// A deadline is late by at most two ticks of 8 ms, plus the way there and back.
const LATE: Duration = Duration::from_millis(20);

/// The state of the control thread, and its notices with their times.
struct Control {
    shared: Arc<UpstreamStates>,
    health: Rc<HealthMonitor>,
    timers: Timers,
    said: Rc<RefCell<Vec<(Duration, String)>>>,
}

impl Control {
    fn start(plan: &Plan, seed: u64) -> Self {
        let (shared, timers) = (UpstreamStates::new(), Timers::start().expect("timers"));
        let said = Rc::<RefCell<Vec<_>>>::default();
        let log = said.clone();
        let health = HealthMonitor::start(shared.clone(), &timers, seed, move |notice| {
            log.borrow_mut().push((elapsed(), notice.to_string()));
        });
        health.add_upstreams(&plan.upstreams);
        Self { shared, health, timers, said }
    }

    fn shown(&self) -> UpstreamStatus {
        UpstreamSource::upstreams(&*self.shared).remove(0)
    }

    fn endpoint(&self, index: usize) -> EndpointStatus {
        self.shown().endpoints.remove(index)
    }

    /// Takes the last notice, with its time.
    fn last(&self) -> Option<(Duration, String)> {
        self.said.borrow_mut().pop()
    }
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, u8::try_from(index).expect("few")], 80))
}

/// Returns a plan with an upstream of this many endpoints, with further keys.
fn shop(endpoints: usize, rules: &str) -> Plan {
    let list: Vec<String> = (0..endpoints).map(|index| format!("\"{}\"", address(index))).collect();
    plan(&format!(
        "listen: 10.0.0.1:80\nroutes: []\nupstreams:\n  shop:\n    endpoints: [{}]\n    {rules}\n",
        list.join(", ")
    ))
}

/// Starts a service that answers 200 and records the time of each request.
fn service(index: usize, asked: &Rc<RefCell<Vec<Duration>>>) -> TaskGroup {
    let (group, asked) = (simulated::new_group(), asked.clone());
    simulated::spawn_in(group, async move {
        let listener = wire::listen(address(index), 64).expect("a listener");
        loop {
            let (accepted, _) = poll_fn(|cx| listener.poll_accept(cx)).await.expect("accepted");
            let stream = accepted.attach().expect("attached");
            asked.borrow_mut().push(elapsed());
            tollgate_net::spawn(answer(stream));
        }
    });
    group
}

async fn answer(mut stream: Stream) {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    // The whole request: a close with unread bytes would reset the connection, and the answer would be lost.
    while !head.ends_with(b"\r\n\r\n") {
        match poll_fn(|cx| stream.poll_read(cx, &mut piece)).await {
            Ok(count @ 1..) => head.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
    let mut answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    while !answer.is_empty() {
        match poll_fn(|cx| stream.poll_write(cx, answer)).await {
            Ok(count) => answer = &answer[count..],
            Err(_) => return,
        }
    }
}

/// Runs a world to its end, without faults of its own.
fn world(seed: u64, main: impl Future<Output = ()> + 'static) {
    let limits = RunLimits { time: 100 * 3600 * SECOND, turns: 50_000_000, text: false };
    let ended = simulated::run(seed, limits, main);
    assert_eq!(ended.panics, [""; 0], "seed {seed}");
    assert!(ended.output.is_ok(), "seed {seed}: {:?}", ended.output);
}

#[test]
fn an_origin_that_dies_or_falls_silent_is_out_within_its_threshold() {
    for seed in 0..50 {
        world(seed, async move {
            let asked = Rc::default();
            let control = Control::start(&shop(1, "health: /healthz"), seed);
            // The service does not exist yet: the first probe decides alone.
            sleep(LATE).await;
            assert_eq!(control.endpoint(0).health, EndpointHealth::Unhealthy);
            let group = service(0, &asked);
            sleep(10 * SECOND + 5 * LATE).await;
            assert_eq!(control.endpoint(0).health, EndpointHealth::Healthy, "two intervals");
            // The service dies between two probes. It is out after the third failed one, at most three
            // intervals later.
            sleep(Duration::from_millis(simulated::with_random(|rng| rng.u64(0..5000)))).await;
            let died = elapsed();
            simulated::kill(group);
            sleep(15 * SECOND + 5 * LATE).await;
            assert_eq!(control.endpoint(0).health, EndpointHealth::Unhealthy);
            let (at, line) = control.last().expect("a line");
            assert!(line.ends_with("3 probes failed in a row, the last one: no connection"), "{line}");
            assert!(at - died >= 9 * SECOND, "not by the first two");
            service(0, &asked);
            sleep(10 * SECOND + 5 * LATE).await;
            assert_eq!(control.endpoint(0).health, EndpointHealth::Healthy);
            // No bytes pass any more. Each probe takes its full timeout, which does not lengthen the
            // interval.
            let silent = elapsed();
            simulated::delay_address(address(0).ip(), 3600 * SECOND);
            sleep(17 * SECOND + 5 * LATE).await;
            assert_eq!(control.endpoint(0).health, EndpointHealth::Unhealthy);
            let (at, line) = control.last().expect("a line");
            assert!(line.ends_with("the last one: no answer in time"), "{line}");
            assert!(at - silent >= 11 * SECOND);
        });
    }
}

#[test]
fn probes_keep_their_interval_and_spread() {
    world(7, async {
        const ENDPOINTS: usize = 50;
        let asked: Rc<RefCell<Vec<Duration>>> = Rc::default();
        (0..ENDPOINTS).for_each(|index| {
            service(index, &asked);
        });
        let _control = Control::start(&shop(ENDPOINTS, "health: {http: /, interval: 10s, jitter: 20%}"), 1);
        sleep(SECOND).await;
        assert_eq!(asked.borrow().len(), ENDPOINTS, "all at once at the beginning");
        sleep(3600 * SECOND).await;
        let each = asked.borrow().len() as f64 / ENDPOINTS as f64;
        // One probe every 8 to 10 s, 9 s on average.
        assert!((380.0..420.0).contains(&each), "{each} probes in an hour");
        let after = asked.borrow().iter().filter(|at| **at > 3000 * SECOND).copied().collect::<Vec<_>>();
        let most = (3000..3590).map(|second| {
            let second = second * SECOND;
            after.iter().filter(|at| (second..second + SECOND).contains(*at)).count()
        });
        // 5.6 of 50 on average. The probability that 20 fall into one second is 1 in a million.
        let most = most.max().expect("seconds");
        assert!(most < 20, "{most} probes within a second");
    });
}

/// A worker's handle to the upstream.
struct Worker(Rc<Upstream>);

impl Worker {
    fn new(control: &Control, plan: &Plan) -> Self {
        let registry = Registry::new(true);
        let (timers, shared) = (control.timers.clone(), control.shared.clone());
        let mut upstreams =
            Upstreams::new((0, 1), (timers, BulkQueue::default()), registry.worker(), registry, shared);
        Self(upstreams.get(&plan.upstreams[0], 0))
    }

    /// Returns the endpoint whose turn it is.
    fn pick(&self) -> Rc<Pool> {
        self.0.pick(&PickHints::default()).expect("an endpoint")
    }

    /// Reports `count` requests at the endpoints in turn. Requests at the endpoint `bad` fail. Returns how
    /// many failed.
    fn requests(&self, count: usize, bad: &str) -> usize {
        let requests = (0..count).map(|_| {
            let pool = self.pick();
            let failed = pool.name() == bad;
            self.0.report(&pool, if failed { Outcome::TimedOut } else { Outcome::Answered(200) });
            usize::from(failed)
        });
        requests.sum()
    }
}

#[test]
fn ejections_grow_and_are_forgiven() {
    world(1, async {
        let plan = shop(3, "outlier: on");
        let control = Control::start(&plan, 1);
        let worker = Worker::new(&control, &plan);
        let bad = address(1).to_string();
        // Time for the control thread to see the upstream.
        sleep(SECOND).await;
        let mut begun = Vec::new();
        for time in [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300] {
            begun.push(elapsed());
            assert_eq!(worker.requests(100, &bad), 5, "five, and not one more");
            assert_eq!(worker.requests(100, &bad), 0);
            sleep(time * SECOND - LATE).await;
            assert_eq!(worker.requests(100, &bad), 0, "still out, {time} s");
            sleep(2 * LATE).await;
            assert!(control.endpoint(1).ejected_for.is_none());
            let (at, line) = control.last().expect("a line");
            assert!(line.ends_with("takes requests again: its ejection is over"), "{line}");
            assert!(at - begun[begun.len() - 1] >= time * SECOND, "never early");
        }
        // The endpoint recovers: each interval forgives one ejection.
        for left in (0..10).rev() {
            sleep(10 * SECOND).await;
            assert!(control.endpoint(1).ejections_in_a_row.abs_diff(left) <= 1);
        }
        sleep(20 * SECOND).await;
        assert_eq!(worker.requests(100, &bad), 5);
        assert_eq!(control.endpoint(1).ejected_for, Some(30 * SECOND));
        assert_eq!(control.endpoint(1).ejections, 12);
    });
}

#[test]
fn all_fail_and_one_of_ten_is_out() {
    world(1, async {
        let plan = shop(10, "outlier: on");
        let control = Control::start(&plan, 1);
        let worker = Worker::new(&control, &plan);
        sleep(SECOND).await;
        for _ in 0..1000 {
            let pool = worker.pick();
            worker.0.report(&pool, Outcome::NoConnection);
            let out =
                control.shown().endpoints.iter().filter(|endpoint| endpoint.ejected_for.is_some()).count();
            assert!(out <= 1);
        }
        assert!(control.shown().ejections_refused > 50);
    });
}

#[test]
fn an_endpoint_that_fails_more_often_is_ejected_after_the_interval() {
    world(1, async {
        let plan = shop(6, "outlier: {consecutive_5xx: off, consecutive_gateway_errors: off}");
        let control = Control::start(&plan, 1);
        let worker = Worker::new(&control, &plan);
        let bad = address(4).to_string();
        sleep(SECOND).await;
        assert_eq!(worker.requests(1200, &bad), 200);
        sleep(9 * SECOND + LATE).await;
        let (at, line) = control.last().expect("a line");
        assert!(
            line.contains(&bad) && line.ends_with("it succeeds much less often than its neighbours"),
            "{line}"
        );
        assert!(at >= 10 * SECOND && at < 10 * SECOND + LATE, "{at:?}");
        assert_eq!(worker.requests(1200, &bad), 0);
    });
}

/// After a reload, an endpoint that leaves does not affect the others, and a new endpoint is probed at once.
#[test]
fn over_a_reload_nothing_waits_for_its_interval() {
    world(3, async {
        let asked = Rc::default();
        (0..3).for_each(|index| {
            service(index, &asked);
        });
        let before = shop(2, "health: {http: /, interval: 1h}");
        let control = Control::start(&before, 1);
        sleep(SECOND).await;
        let mut after = shop(3, "health: {http: /, interval: 1h}");
        let change = after.reuse_upstreams(&before);
        control.health.apply_plan(&change);
        sleep(LATE).await;
        assert_eq!(asked.borrow().len(), 3, "two at first, and the new one");
        assert_eq!(control.endpoint(2).health, EndpointHealth::Healthy);
    });
}
