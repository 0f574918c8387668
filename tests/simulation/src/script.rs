//! Single cases, written out. A script preserves a fault that a seed has found, because a seed means
//! something else when scenarios change.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::Listener;
use tollgate_net::simulated::{self, NetworkConditions, RunLimits};
use tollgate_proxy::WorkerCommand;

use crate::directory::Directory;
use crate::gateway::{Gateway, GatewayResources, Line, plan};
use crate::scenario::GATEWAY;
use crate::wire::{self, Pace, Reader, Wire};

/// The address of a script's one origin.
pub const ORIGIN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 1)), 8000);

/// Plays parties against a gateway of one worker, drains it, and asserts that nothing is left. Returns the
/// log's lines.
///
/// # Panics
/// Panics if anything is left, or if a party panics.
pub fn play<F>(
    seed: u64,
    conditions: NetworkConditions,
    text: &str,
    parties: impl FnOnce(Origin) -> F + 'static,
) -> Vec<Line>
where
    F: Future<Output = ()> + 'static,
{
    let resources = Rc::new(GatewayResources::open(1).expect("a log"));
    let (kept, text) = (resources.clone(), text.to_owned());
    let limits = RunLimits { time: Duration::from_secs(3600), turns: 1_000_000, text: false };
    let ended = simulated::run(seed, limits, async move {
        conditions.set();
        let directory = Directory::new(resources.shared());
        let gateway = Rc::new(Gateway::start(1, plan(&text), directory, &resources));
        drop(resources);
        let listener = wire::listen(ORIGIN, 128).expect("a listener");
        parties(Origin { listener, gateway: gateway.clone() }).await;
        gateway.tell(|| WorkerCommand::Drain(Some(Duration::from_secs(60))));
        gateway.ended().await
    });
    assert_eq!(ended.panics, [""; 0]);
    assert_eq!(ended.output.expect("it ends"), [""; 0]);
    let (lines, counts, left) = Rc::into_inner(kept).expect("the world is gone").close().expect("the log");
    assert_eq!((counts.in_flight, counts.client_connections, left), (0, 0, Vec::new()));
    lines
}

/// The origin of a script. The script accepts its connections one by one.
#[derive(Debug)]
pub struct Origin {
    listener: Listener,
    /// The gateway.
    pub gateway: Rc<Gateway>,
}

impl Origin {
    /// Gives the gateway another plan, and waits until it has taken the plan over and dropped the previous
    /// one.
    pub async fn reload(&self, text: &str) {
        self.gateway.change(plan(text));
        simulated::sleep(Duration::from_secs(1)).await;
    }

    /// Waits for the next connection.
    ///
    /// # Panics
    /// Panics if the listener fails.
    pub async fn accept(&self) -> (Wire, Reader) {
        let (accepted, _) = poll_fn(|cx| self.listener.poll_accept(cx)).await.expect("accepted");
        let wire = Wire::new(accepted.attach().expect("registered"));
        (wire.clone(), Reader::new(wire, Pace::default()))
    }
}

/// Opens a client's connection.
///
/// # Panics
/// Panics if the gateway refuses it.
pub async fn client() -> (Wire, Reader) {
    let local = SocketAddr::new(IpAddr::from([10, 2, 0, 1]), 10_000);
    let wire = Wire::new(simulated::connect_from(local, GATEWAY).await.expect("it listens"));
    (wire.clone(), Reader::new(wire, Pace::default()))
}
