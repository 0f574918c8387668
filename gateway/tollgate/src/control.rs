//! The control thread: signals, reload, the admin listener, the cost meter.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_observe::{AdminState, CostMeter, available_cores, process_cpu_time, serve};

use crate::check::counted;
use crate::compiled;
use crate::gateway::Gateway;

/// How often the quota and affinity are looked at again: it means reading a dozen files.
const CORES: Duration = Duration::from_secs(30);
/// How often the cost meter and the workers are looked at.
const SAMPLE: Duration = Duration::from_secs(1);

/// Runs the control thread until SIGTERM or SIGINT, then drains; a second one ends the drain.
///
/// # Errors
/// When a worker died, or the kernel gives no signals.
pub fn control(gateway: Gateway, file: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stop = runtime.block_on(async { Stop::new() })?;
    let result = runtime.block_on(watch(&gateway, file, &mut stop));
    notify(&[sd_notify::NotifyState::Stopping]);
    let bound = gateway.drain_bound.get();
    let hurry = gateway.hurry();
    let registry = gateway.registry.clone();
    eprintln!("tollgate stops: {} in flight", counted(registry.in_flight(), "request"));
    // The admin listener goes on answering (not ready) until the drain has ended.
    gateway.ready.store(false, std::sync::atomic::Ordering::Relaxed);
    let drained = runtime.block_on(async {
        let mut drain = tokio::task::spawn_blocking(move || gateway.drain(bound));
        let drained = tokio::select! {
            drained = &mut drain => drained,
            () = stop.requested() => {
                eprintln!("tollgate stops at once: {} cut off", counted(registry.in_flight(), "request"));
                // The same way, without waiting: what is cut off has its line in the log too.
                hurry();
                drain.await
            }
        };
        drained.unwrap_or_else(|error| Err(io::Error::other(error)))
    });
    result.and(drained)
}

/// The signals that ask for a stop.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn watch(gateway: &Gateway, file: &Path, stop: &mut Stop) -> io::Result<()> {
    let mut reload = signal(SignalKind::hangup())?;
    let mut reopen = signal(SignalKind::user_defined1())?;
    let mut meter = CostMeter::new();
    let mut looked = Instant::now();
    let mut cores = available_cores().usable.min(gateway.workers() as f64);
    meter.sample(looked, process_cpu_time(), gateway.registry.requests(), cores);
    gateway.registry.set_cost(meter.reading());
    if let Some(admin) = &gateway.admin {
        let listener = tokio::net::TcpListener::from_std(admin.try_clone()?)?;
        let state = AdminState { registry: gateway.registry.clone(), ready: gateway.ready.clone() };
        tokio::spawn(serve(listener, state));
    }
    notify(&[sd_notify::NotifyState::Ready]);
    let mut tick = tokio::time::interval(SAMPLE);
    let mut problem = None;
    loop {
        tokio::select! {
            () = stop.requested() => return Ok(()),
            _ = reload.recv() => change(gateway, file),
            _ = reopen.recv() => gateway.log.reopen(),
            _ = tick.tick() => {
                if looked.elapsed() >= CORES {
                    looked = Instant::now();
                    cores = available_cores().usable.min(gateway.workers() as f64);
                }
                meter.sample(Instant::now(), process_cpu_time(), gateway.registry.requests(), cores);
                gateway.registry.set_cost(meter.reading());
                let now = gateway.log.problem();
                if now != problem {
                    if let Some(text) = &now {
                        eprintln!("warning: access log: {text}");
                    }
                    problem = now;
                }
                if !gateway.is_whole() {
                    return Err(io::Error::other("a worker has ended"));
                }
            }
        }
    }
}

/// A reload: the new plan if the file is good, else the old one goes on.
fn change(gateway: &Gateway, file: &Path) {
    // Every Linux has this clock.
    let microseconds = ClockId::CLOCK_MONOTONIC.now().map_or(0, |time| time.num_microseconds());
    notify(&[sd_notify::NotifyState::Reloading, sd_notify::NotifyState::MonotonicUsec(microseconds.into())]);
    let (good, problems) = compiled::read(file);
    compiled::show(&problems);
    match good {
        Some(good) => {
            let fixed = unchangeable(gateway, &good.config);
            if !fixed.is_empty() {
                eprintln!(
                    "warning: {} changed: this needs a restart, the rest is in force",
                    fixed.join(", ")
                );
            }
            eprintln!("reloaded {}: {}", file.display(), counted(good.plan.routes.len(), "route"));
            gateway.drain_bound.set(good.config.timeouts.drain);
            gateway.change(good.plan);
        }
        None => eprintln!("error: {} is not loaded; the gateway goes on with what it has", file.display()),
    }
    notify(&[sd_notify::NotifyState::Ready]);
}

/// What a reload cannot change, and the new file wants changed.
fn unchangeable(gateway: &Gateway, new: &tollgate_config::Config) -> Vec<&'static str> {
    let old = &gateway.config;
    let listen = |config: &tollgate_config::Config| -> Vec<_> {
        config.listen.iter().map(|listener| listener.bind.value).collect()
    };
    let admin = |config: &tollgate_config::Config| config.admin.as_ref().map(|admin| admin.value);
    let checks = [
        ("`listen`", listen(old) != listen(new)),
        ("`workers`", old.workers != new.workers),
        ("`admin`", admin(old) != admin(new)),
        (
            "`access_log`",
            old.access_log.to != new.access_log.to || old.access_log.format != new.access_log.format,
        ),
        ("`metrics`", old.metrics != new.metrics),
    ];
    checks.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

/// Tells systemd; without systemd nobody listens.
fn notify(states: &[sd_notify::NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
