//! The end of the process: a stop by signal, or a hand-over to a new process. Neither loses a request within
//! the drain's bound.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::LocalRuntime;

use tollgate_net::component;
use tollgate_observe::{AccessLog, Registry};
use tracing::info;

use crate::admin::remove_socket_file;
use crate::diagnostics;
use crate::gateway::Gateway;
use crate::plural::count_noun;
use crate::signals::Signals;
use crate::systemd;
use crate::upgrade::Successor;

/// How long idle connections may stay at a stop: some round trips, and longer than a busy client pauses. Such
/// a client sends one more request, and its response announces the close.
const IDLE_GRACE: Duration = Duration::from_millis(500);
/// How long before the end of a drain idle connections are closed.
const DRAIN_MARGIN: Duration = Duration::from_secs(1);

/// Stops the gateway: first readiness ends, then the listening sockets close, then connections as they
/// finish, for at most `limit`, or `timeouts.drain` if it is `None`. A second signal ends it at once.
///
/// # Errors
/// The first error of a worker.
pub fn stop(
    runtime: &LocalRuntime,
    gateway: Gateway,
    signals: &mut Signals,
    limit: Option<Duration>,
) -> io::Result<()> {
    systemd::stopping();
    let in_flight = count_noun(gateway.registry.in_flight(), "request");
    info!(target: component::GATEWAY, "tollgate stops: {in_flight} in flight");
    // The admin listener keeps answering (not ready) until the drain ends.
    gateway.announce_close(Some(IDLE_GRACE));
    let mut bound = limit.or(gateway.config.timeouts.drain);
    if let Some(delay) = gateway.config.timeouts.drain_delay {
        let log = gateway.log.clone();
        let passed =
            runtime.block_on(async { unless_stopped(tokio::time::sleep(delay), signals, &log).await });
        if passed.is_none() {
            report_immediate_stop(&gateway.registry);
            bound = Some(Duration::ZERO);
        }
    }
    let file = gateway.admin.file().map(Path::to_owned);
    let drained = drain(runtime, gateway, bound, signals, 1);
    remove_socket_file(file);
    drained
}

/// Drains after a new process has taken over. Idle connections stay until their clients send another request,
/// whose response announces the close. Upgraded connections continue until the drain's bound.
///
/// # Errors
/// The first error of a worker.
pub fn hand_over(
    runtime: &LocalRuntime,
    mut gateway: Gateway,
    successor: &Successor,
    signals: &mut Signals,
) -> io::Result<()> {
    let id = successor.id();
    let in_flight = count_noun(gateway.registry.in_flight(), "request");
    let own_id = std::process::id();
    info!(
        target: component::UPGRADE,
        "tollgate {id} has taken over from {own_id}: {in_flight} here end first"
    );
    gateway.admin.stop();
    // The new process waits for the folder. Until the end of the drain, memory serves here.
    gateway.current().policies().release_cache_disk(Duration::ZERO);
    let bound = gateway.config.timeouts.drain;
    gateway.announce_close(bound.map(|bound| bound.saturating_sub(DRAIN_MARGIN).max(IDLE_GRACE.min(bound))));
    gateway.listeners.stop_accepting(successor.addresses(), &gateway.workers);
    systemd::main_process(id);
    successor.confirm();
    // A signal that stops the whole service reaches this process too. The first one does not cut requests off.
    drain(runtime, gateway, bound, signals, 2)
}

/// Drains, until `stop_signals` signals have asked for a stop.
fn drain(
    runtime: &LocalRuntime,
    gateway: Gateway,
    bound: Option<Duration>,
    signals: &mut Signals,
    stop_signals: u32,
) -> io::Result<()> {
    let (drain_now, registry, log) =
        (gateway.workers.drain_now(), gateway.registry.clone(), gateway.log.clone());
    let drained = runtime.block_on(async {
        let mut drain = tokio::task::spawn_blocking(move || gateway.drain(bound));
        for left in (0..stop_signals).rev() {
            match unless_stopped(&mut drain, signals, &log).await {
                Some(drained) => return drained,
                None if left > 0 => {
                    let in_flight = count_noun(registry.in_flight(), "request");
                    let id = std::process::id();
                    info!(target: component::UPGRADE, "tollgate {id} ends already: {in_flight} in flight");
                }
                None => {}
            }
        }
        report_immediate_stop(&registry);
        // The drain ends early but in the same way: requests that are cut off still get their log lines.
        drain_now();
        drain.await
    });
    drained.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Waits for a future, unless a stop is requested first. Logs can be rotated while it waits.
async fn unless_stopped<T>(
    what: impl Future<Output = T>,
    signals: &mut Signals,
    log: &AccessLog,
) -> Option<T> {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            done = &mut what => return Some(done),
            () = signals.stop.requested() => return None,
            _ = signals.reopen.recv() => {
                log.reopen();
                diagnostics::reopen();
            }
        }
    }
}

fn report_immediate_stop(registry: &Registry) {
    let cut_off = count_noun(registry.in_flight(), "request");
    info!(target: component::GATEWAY, "tollgate stops at once: {cut_off} cut off");
}
