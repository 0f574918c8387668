//! What systemd is told; without systemd nobody listens.

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use sd_notify::NotifyState;

/// It serves; also the end of a reload.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A reload begins.
pub fn reloading() {
    // Every Linux has this clock.
    let microseconds = ClockId::CLOCK_MONOTONIC.now().map_or(0, |time| time.num_microseconds());
    tell(&[NotifyState::Reloading, NotifyState::MonotonicUsec(microseconds.into())]);
}

/// Another process is the service's main one from now on.
pub fn main_process(id: u32) {
    tell(&[NotifyState::MainPid(id)]);
}

/// It is on its way out.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    // A supervisor that does not listen is no reason not to serve.
    let _ = sd_notify::notify(states);
}
