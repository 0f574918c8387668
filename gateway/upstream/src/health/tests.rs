//! Tests of the whole module against services on real sockets. Intervals either never end during a test, or
//! are too short for a test to wait for. No test depends on the speed of the machine.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_net::{Address, Runtime, Timers};
use tollgate_observe::{EndpointState as State, UpstreamSource, UpstreamStatus};
use tollgate_plan::{Caps, Discover, Endpoint, Health as Probes, Outlier, Pool, Probe, Rules, Upstream};

use super::*;
use crate::Permit;
use crate::outlier::EjectionCause;
use crate::{ProbeHealth, UpstreamState};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(20);

/// A service that answers every request with the status that the test sets, and counts the requests.
struct Service {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (status, asked, stopping) =
            (Arc::new(AtomicU16::new(200)), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let service = Self { address, status, asked, stopping };
        let (status, asked, stopping) =
            (service.status.clone(), service.asked.clone(), service.stopping.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                asked.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 4096]);
                let status = status.load(Ordering::SeqCst);
                let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            }
        });
        service
    }

    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn address(&self) -> Address {
        Address::Socket(self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn every(interval: Duration) -> Probes {
    Probes {
        probe: Probe::Http {
            path: "/".into(),
            host: None,
            headers: Vec::new(),
            statuses: vec![(200, 299)],
            body: None,
        },
        interval,
        jitter: tollgate_plan::Percent::whole(50),
        timeout: Duration::from_secs(20),
        healthy: 2,
        unhealthy: 3,
        port: None,
    }
}

fn endpoint(address: Address) -> Endpoint {
    Endpoint { address, weight: 1, priority: 0, zone: None }
}

fn upstream(services: &[&Service], health: Option<Probes>) -> Upstream {
    Upstream {
        name: "shop".into(),
        endpoints: services.iter().map(|service| endpoint(service.address())).collect(),
        discover: Some(Discover::File(std::path::Path::new("endpoints.yaml").into())),
        pool: Pool::default(),
        tls: None,
        http2: None,
        proxy_protocol: None,
        zone: None,
        rules: Rules { health, ..Rules::default() },
    }
}

/// The state of the control thread.
struct Control {
    shared: Arc<UpstreamStates>,
    state: Arc<UpstreamState>,
    health: Rc<HealthMonitor>,
    timers: Timers,
    lines: Rc<RefCell<Vec<String>>>,
}

impl Control {
    fn start() -> Self {
        let (shared, timers) = (UpstreamStates::new(), Timers::start().expect("timers"));
        let lines = Rc::<RefCell<Vec<String>>>::default();
        let log = lines.clone();
        let health = HealthMonitor::start(shared.clone(), &timers, 1, move |notice| {
            log.borrow_mut().push(notice.to_string());
        });
        Self { state: shared.upstream("shop"), shared, health, timers, lines }
    }

    fn apply(&self, upstream: Upstream) {
        let changed = vec![Arc::new(upstream)];
        self.health.apply_plan(&UpstreamChange { changed, ..UpstreamChange::default() });
    }

    async fn sleep(&self, time: Duration) {
        let deadline = self.timers.deadline();
        deadline.set(tollgate_net::now(), Some(time));
        poll_fn(|cx| deadline.poll_passed(cx)).await;
    }

    async fn eventually(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "no success: {what}");
            self.sleep(Duration::from_millis(2)).await;
        }
    }

    fn health(&self, service: &Service) -> ProbeHealth {
        self.state.endpoint(&service.address()).health()
    }

    fn shown(&self) -> UpstreamStatus {
        UpstreamSource::upstreams(&*self.shared).remove(0)
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.borrow_mut())
    }
}

fn run(test: impl AsyncFnOnce(Control)) {
    Runtime::new().expect("a runtime").run(async { test(Control::start()).await });
}

#[test]
fn the_first_probe_comes_at_once_and_decides() {
    run(async |control| {
        let (good, bad) = (Service::start(), Service::start());
        bad.answer(503);
        let before = control.state.epoch();
        control.apply(upstream(&[&good, &bad], Some(every(LONG))));
        control.eventually("both to be probed", || good.asked() == 1 && bad.asked() == 1).await;
        control.eventually("one to be healthy", || control.health(&good) == ProbeHealth::Healthy).await;
        control.eventually("one to be unhealthy", || control.health(&bad) == ProbeHealth::Unhealthy).await;
        assert!(control.state.epoch() > before, "workers are told");
        control.eventually("a line", || !control.lines.borrow().is_empty()).await;
        assert_eq!(control.lines(), [format!("upstream shop: {} is unhealthy: status 503", bad.address)]);
        let shown = control.shown();
        assert_eq!([0, 1].map(|index| shown.endpoints[index].state()), [State::Available, State::Unhealthy]);
        let probe = shown.endpoints[1].last_probe.as_ref().expect("a probe");
        assert_eq!(probe.failure, Some(("unexpected_status", "status 503".into())));
    });
}

#[test]
fn thresholds_count_consecutive_results() {
    run(async |control| {
        let (service, other) = (Service::start(), Service::start());
        control.apply(upstream(&[&service, &other], Some(every(SHORT))));
        control.eventually("healthy", || control.health(&service) == ProbeHealth::Healthy).await;
        let endpoint = control.state.endpoint(&service.address());
        control.state.eject(&endpoint, EjectionCause::Consecutive5xx);
        assert!(!endpoint.is_available());
        let good = service.asked();
        control.eventually("more good probes", || service.asked() > good + 3).await;
        assert!(!endpoint.is_available(), "a good probe ends no ejection");
        service.answer(500);
        control.eventually("unhealthy", || control.health(&service) == ProbeHealth::Unhealthy).await;
        service.answer(200);
        control.eventually("healthy again", || endpoint.is_available()).await;
        assert_ne!(endpoint.ready_since(), 0);
        control.eventually("three lines", || control.lines.borrow().len() == 3).await;
        let lines = control.lines();
        assert!(lines[0].contains("is ejected for 30 s"), "{lines:?}");
        assert!(lines[1].ends_with("3 probes failed in a row, the last one: status 500"), "{lines:?}");
        assert!(lines[2].ends_with("is healthy again"), "{lines:?}");
    });
}

#[test]
fn over_a_reload() {
    run(async |control| {
        let (stays, goes, comes) = (Service::start(), Service::start(), Service::start());
        goes.answer(500);
        control.apply(upstream(&[&stays, &goes], Some(every(LONG))));
        control.eventually("unhealthy", || control.health(&goes) == ProbeHealth::Unhealthy).await;
        control.eventually("healthy", || control.health(&stays) == ProbeHealth::Healthy).await;
        control.apply(upstream(&[&stays, &comes], Some(every(LONG))));
        control.eventually("the new one to be probed", || comes.asked() == 1).await;
        assert_eq!((stays.asked(), goes.asked()), (1, 1), "nobody else is");
        assert_eq!(control.health(&stays), ProbeHealth::Healthy);
        // Other rules apply at once, and the old state stays until they produce another result.
        let strict = Probe::Http {
            path: "/".into(),
            host: None,
            headers: Vec::new(),
            statuses: vec![(204, 204)],
            body: None,
        };
        let strict = Probes { probe: strict, ..every(LONG) };
        control.apply(upstream(&[&stays, &comes], Some(strict.clone())));
        control.eventually("both to be probed", || stays.asked() == 2 && comes.asked() == 2).await;
        control
            .eventually("a bad probe", || control.shown().probes.contains(&("unexpected_status", 3)))
            .await;
        assert_eq!(control.health(&stays), ProbeHealth::Healthy, "one bad probe");
        // A plan without changes has no effect. Without probes, health is unknown.
        control.apply(upstream(&[&stays, &comes], Some(strict)));
        control.apply(upstream(&[&stays, &comes], None));
        assert_eq!(control.health(&stays), ProbeHealth::Unknown);
        assert_eq!((stays.asked(), comes.asked(), goes.asked()), (2, 2, 1));
        let gone = vec![Arc::new(upstream(&[], None))];
        control.health.apply_plan(&UpstreamChange { removed: gone, ..UpstreamChange::default() });
        assert_eq!(control.shared.upstreams().len(), 1, "this test has it, and nobody else");
    });
}

#[test]
fn discovered_endpoints_are_probed_and_removed_ones_are_not() {
    run(async |control| {
        let (a, b) = (Service::start(), Service::start());
        control.apply(upstream(&[], Some(every(SHORT))));
        control.state.set_discovered([endpoint(a.address())].into());
        control.eventually("the first to be probed", || a.asked() > 3).await;
        control.state.set_discovered([endpoint(b.address())].into());
        control.eventually("the second to be probed", || b.asked() > 3).await;
        let (gone, there) = (a.asked(), b.asked());
        control.eventually("more probes", || b.asked() > there + 10).await;
        assert!(a.asked() <= gone + 1, "one may have been under way");
        assert_eq!(control.shown().endpoints.len(), 1);
    });
}

#[test]
fn a_limit_on_connections_holds_for_probes() {
    run(async |control| {
        let service = Service::start();
        let mut plan = upstream(&[&service], Some(every(SHORT)));
        plan.rules.caps = Caps { endpoint_connections: Some(1), ..Caps::default() };
        let permit = Permit::try_acquire(&control.state, &control.state.endpoint(&service.address()))
            .expect("a place");
        control.apply(plan);
        control.eventually("skipped probes", || control.state.probes().skipped > 3).await;
        assert_eq!((service.asked(), control.health(&service)), (0, ProbeHealth::Unknown));
        drop(permit);
        control.eventually("a probe", || control.health(&service) == ProbeHealth::Healthy).await;
        control.eventually("its place to be free", || control.state.connections() == 0).await;
    });
}

#[test]
fn an_ejection_ends_on_time() {
    run(async |control| {
        let services = [Service::start(), Service::start()];
        let mut plan = upstream(&[&services[0], &services[1]], None);
        plan.rules.outlier = Outlier { ejection: Duration::from_millis(50), ..Outlier::default() };
        control.apply(plan);
        let endpoint = control.state.endpoint(&services[0].address());
        let started = Instant::now();
        control.state.eject(&endpoint, EjectionCause::ConsecutiveGatewayErrors);
        assert!(!endpoint.is_available());
        let before = control.state.epoch();
        control.eventually("its end", || endpoint.is_available()).await;
        assert!(started.elapsed() >= Duration::from_millis(50));
        assert!(control.state.epoch() > before, "workers are told");
        control.eventually("two lines", || control.lines.borrow().len() == 2).await;
        assert!(control.lines()[1].ends_with("takes requests again: its ejection is over"));
    });
}

#[test]
fn no_endpoint_stays_ejected_when_the_monitor_ends() {
    run(async |control| {
        let services = [Service::start(), Service::start()];
        control.apply(upstream(&[&services[0], &services[1]], Some(every(SHORT))));
        let endpoint = control.state.endpoint(&services[0].address());
        control.state.eject(&endpoint, EjectionCause::Consecutive5xx);
        let Control { health, .. } = control;
        drop(health);
        assert_eq!(endpoint.ejected_until(), 0);
    });
}

#[test]
fn notices_of_workers_are_logged() {
    let notices = Arc::new(Mutex::new(0));
    let count = notices.clone();
    Runtime::new().expect("a runtime").run(async move {
        let (shared, timers) = (UpstreamStates::new(), Timers::start().expect("timers"));
        let health =
            HealthMonitor::start(shared.clone(), &timers, 1, move |_| *count.lock().expect("a count") += 1);
        let services = [Service::start(), Service::start()];
        health.add_upstreams(&[Arc::new(upstream(&[&services[0], &services[1]], None))]);
        let state = shared.upstream("shop");
        let endpoint = state.endpoint(&services[0].address());
        // From another thread, as workers do.
        thread::spawn(move || state.eject(&endpoint, EjectionCause::Consecutive5xx))
            .join()
            .expect("no panic");
        while *notices.lock().expect("a count") == 0 {
            tollgate_net::yield_now().await;
        }
    });
}
