//! The end: the way out without losing anything.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::LocalRuntime;

use tollgate_observe::Registry;

use crate::admin::forget;
use crate::check::counted;
use crate::gateway::Gateway;
use crate::signals::Stop;
use crate::systemd;
use crate::upgrade::Successor;

/// How long idle connections may stay at a stop. Some round trips, and longer than a busy client is silent: it asks
/// once more, and is told to close.
const GRACE: Duration = Duration::from_millis(500);
/// How long before the end of a drain idle connections are closed.
const MARGIN: Duration = Duration::from_secs(1);

/// Stops: readiness goes first, then the listening sockets, then connections as they end. A second signal ends it at
/// once.
///
/// # Errors
/// What a worker could not do.
pub fn stop(runtime: &LocalRuntime, gateway: Gateway, stop: &mut Stop) -> io::Result<()> {
    systemd::stopping();
    eprintln!("tollgate stops: {} in flight", counted(gateway.registry.in_flight(), "request"));
    // The admin listener goes on answering (not ready) until the drain has ended.
    gateway.leave(Some(GRACE));
    let mut bound = gateway.config.timeouts.drain;
    if let Some(delay) = gateway.config.timeouts.drain_delay {
        let hurried = runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep(delay) => false,
                () = stop.requested() => true,
            }
        });
        if hurried {
            at_once(&gateway.registry);
            bound = Some(Duration::ZERO);
        }
    }
    let file = gateway.admin.file().map(Path::to_owned);
    let drained = drain(runtime, gateway, bound, stop);
    forget(file);
    drained
}

/// Leaves the place to a process that serves already. There is no hurry: idle connections stay until their clients ask
/// again, and are told then; what was upgraded goes on until the drain's bound.
///
/// # Errors
/// What a worker could not do.
pub fn hand_over(
    runtime: &LocalRuntime,
    mut gateway: Gateway,
    successor: &Successor,
    stop: &mut Stop,
) -> io::Result<()> {
    let id = successor.id();
    let in_flight = counted(gateway.registry.in_flight(), "request");
    eprintln!("tollgate {id} has taken over from {}: {in_flight} here end first", std::process::id());
    gateway.admin.stop();
    let bound = gateway.config.timeouts.drain;
    gateway.leave(bound.map(|bound| bound.saturating_sub(MARGIN).max(GRACE.min(bound))));
    gateway.listeners.leave(successor.addresses(), &gateway.workers);
    systemd::main_process(id);
    successor.done();
    drain(runtime, gateway, bound, stop)
}

fn drain(
    runtime: &LocalRuntime,
    gateway: Gateway,
    bound: Option<Duration>,
    stop: &mut Stop,
) -> io::Result<()> {
    let (hurry, registry) = (gateway.workers.hurry(), gateway.registry.clone());
    let drained = runtime.block_on(async {
        let mut drain = tokio::task::spawn_blocking(move || gateway.drain(bound));
        tokio::select! {
            drained = &mut drain => drained,
            () = stop.requested() => {
                at_once(&registry);
                // The same way, without waiting: what is cut off has its line in the log too.
                hurry();
                drain.await
            }
        }
    });
    drained.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn at_once(registry: &Registry) {
    eprintln!("tollgate stops at once: {} cut off", counted(registry.in_flight(), "request"));
}
