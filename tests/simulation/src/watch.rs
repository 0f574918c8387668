//! Checks that must hold at all times, repeated while a scenario is played.

use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated;
use tollgate_observe::{UpstreamSnapshot, UpstreamSource};
use tollgate_plan::Caps;

use crate::gateway::Gateway;
use crate::recorder::Recorder;
use crate::scenario::{UPSTREAMS, ports};

/// The interval of the checks.
const LOOK: Duration = Duration::from_millis(100);
/// How many checks in a row a request may wait without a reason. Messages between workers and connects take
/// far less time.
const PATIENCE: usize = 20;

/// Checks the queues until it is dropped: no request may wait for a connection while one is available.
pub async fn queues(gateway: Rc<Gateway>, recorder: Recorder) {
    let mut idle = [0; UPSTREAMS.len()];
    loop {
        simulated::sleep(LOOK).await;
        if gateway.groups().iter().any(|group| simulated::paused(*group)) {
            idle = Default::default();
            continue;
        }
        let caps: Vec<_> = UPSTREAMS.iter().map(|name| gateway.in_force.caps(name)).collect();
        if caps.iter().flatten().all(|caps| caps.connections.is_none() && caps.endpoint_connections.is_none())
        {
            continue;
        }
        let counts = gateway.counts();
        for (index, name) in UPSTREAMS.iter().enumerate() {
            let known = counts.upstreams.iter().find(|upstream| &*upstream.name == *name);
            let in_vain = match (&caps[index], known) {
                (Some(caps), Some(known)) => waits_in_vain(caps, known, simulated::open_to(&ports(index))),
                _ => false,
            };
            idle[index] = if in_vain { idle[index] + 1 } else { 0 };
            if idle[index] == PATIENCE {
                let open = simulated::open_to(&ports(index));
                recorder.violation(format!(
                    "upstream {name}: {} requests wait, {} connections are idle, {open} are open, caps {:?}",
                    known.map_or(0, |known| known.queueing.waiting),
                    known.map_or(0, |known| known.idle),
                    caps[index],
                ));
            }
        }
    }
}

/// Checks the adaptive limits: none is higher than its maximum. Without bodies, requests in progress do not
/// exceed it either. With bodies they may, because an admitted request counts again once its body is sent,
/// even if others were admitted in between.
pub async fn adaptive(gateway: Rc<Gateway>, recorder: Recorder, narrow: bool, bodies: bool) {
    let mut reported = false;
    loop {
        simulated::sleep(LOOK).await;
        let Some(shared) = gateway.shared() else { return };
        for status in UpstreamSource::upstreams(&*shared) {
            let Some(adaptive) = status.adaptive else { continue };
            let most = if narrow { 0 } else { gateway.in_force.adaptive_max(&status.name) };
            let in_flight = if bodies { 0 } else { adaptive.in_flight };
            if in_flight.max(adaptive.limit) > most && !reported {
                reported = true;
                recorder.violation(format!("upstream {}: {adaptive:?}, of at most {most}", status.name));
            }
        }
    }
}

/// Returns whether a request waits although a permit for a connection to any endpoint is available, or an
/// idle connection that can be closed or used for any endpoint.
fn waits_in_vain(caps: &Caps, known: &UpstreamSnapshot, open: usize) -> bool {
    let [all, each] = [caps.connections, caps.endpoint_connections];
    let least = [all, each].into_iter().flatten().min().map_or(usize::MAX, |cap| cap as usize);
    known.queueing.waiting > 0 && (open < least || (each.is_none() && known.idle > 0))
}
