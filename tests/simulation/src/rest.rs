//! Checks for leaks once all clients are done: nothing may be left.
//!
//! The gateway gets a [plan without routes](crate::scenario::empty), and up to the time of its longest
//! timeout to become idle. Then each worker must be as it was at its start: the same number of tasks, one
//! listening socket and no other, no permit taken, and no scheduled event.

use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use tollgate_net::simulated::{self, RunLimits};
use tollgate_proxy::WorkerCommand;

use crate::directory::Directory;
use crate::gateway::{Gateway, GatewayResources, plan};
use crate::scenario::empty;

/// How long the run waits until nothing is scheduled. The longest wait is the silence of an upgraded
/// connection, 1 h.
const LONGEST: Duration = Duration::from_secs(3600);
/// How often the run checks whether anything is scheduled.
const LOOK: Duration = Duration::from_secs(60);

/// Waits until nothing is scheduled, and returns a description of each leak.
pub async fn rest(gateway: &Gateway) -> Vec<String> {
    gateway.change(plan(&empty()));
    let begin = simulated::elapsed();
    simulated::sleep(LOOK).await;
    while simulated::scheduled() > 0 && simulated::elapsed() < begin + LONGEST + LOOK {
        simulated::sleep(LOOK).await;
    }
    let mut left = Vec::new();
    let mut is = |what: &str, is: u64, must: u64| {
        if is != must {
            left.push(format!("at rest there are {is} {what}, not {must}"));
        }
    };
    is("events still to come", simulated::scheduled() as u64, 0);
    let tasks = at_rest();
    for (number, group) in gateway.groups().iter().enumerate() {
        let worker = number + 1 < gateway.groups().len();
        let (must, sockets) =
            if worker { (tasks.worker, (tasks.listening, 0)) } else { (tasks.control, (0, 0)) };
        is(&format!("tasks at worker {number}"), simulated::tasks(*group) as u64, must);
        let (listening, connected) = simulated::open_sockets(*group);
        is(&format!("listening sockets at worker {number}"), listening as u64, sockets.0);
        is(&format!("connections at worker {number}"), connected as u64, sockets.1);
    }
    let counts = gateway.counts();
    is("requests under way", counts.in_flight, 0);
    is("client connections", counts.client_connections, 0);
    is("places for client connections taken", gateway.places() as u64, 0);
    for upstream in &counts.upstreams {
        let name = &upstream.name;
        is(&format!("connections in use to upstream {name}"), upstream.active(), 0);
        is(&format!("idle connections to upstream {name}"), upstream.idle, 0);
        is(&format!("requests in the queue of upstream {name}"), upstream.queueing.waiting, 0);
    }
    let upstreams = gateway.shared().map(|shared| shared.upstreams()).unwrap_or_default();
    for upstream in &upstreams {
        is(&format!("places taken at upstream {}", upstream.name), u64::from(upstream.connections()), 0);
    }
    is("upstreams that somebody still has", upstreams.len() as u64, 0);
    is("plans that somebody still has", gateway.in_force.alive() as u64, 1);
    left
}

/// The tasks of an idle worker, and of an idle control thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tasks {
    worker: u64,
    /// The listening sockets of a worker.
    listening: u64,
    control: u64,
}

/// Counts the tasks of a gateway that never had a request.
fn at_rest() -> Tasks {
    static TASKS: OnceLock<Tasks> = OnceLock::new();
    // In a thread of its own, because this thread already has a world.
    *TASKS.get_or_init(|| std::thread::spawn(count).join().expect("an idle gateway runs"))
}

fn count() -> Tasks {
    let resources = Rc::new(GatewayResources::open(1).expect("a log"));
    let limits = RunLimits { time: Duration::from_secs(60), turns: 10_000, text: false };
    let ended = simulated::run(0, limits, async move {
        let gateway = Gateway::start(1, plan(&empty()), Directory::new(resources.shared()), &resources);
        simulated::sleep(Duration::from_secs(10)).await;
        let count = |index| simulated::tasks(gateway.group(index)) as u64;
        let listening = simulated::open_sockets(gateway.group(0)).0 as u64;
        let tasks = Tasks { worker: count(0), listening, control: count(1) };
        gateway.tell(|| WorkerCommand::Drain(None));
        let left = gateway.ended().await;
        assert!(left.is_empty(), "{left:?}");
        tasks
    });
    ended.output.expect("it ends")
}
