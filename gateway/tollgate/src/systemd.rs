//! Notifications to systemd. Without systemd nothing is sent.
//!
//! A message to a supervisor that does not read blocks its sender, so a separate thread sends them, in order.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use sd_notify::NotifyState;

/// The most messages that wait for the supervisor; further ones are lost.
const QUEUE_MAX: usize = 64;
/// How long the process waits for a message that must be sent before it continues.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);

/// A message, and a sender that is dropped when the message is sent.
type SystemdMessage = (Vec<NotifyState<'static>>, SyncSender<()>);

/// Reports that the gateway serves. It also ends a reload.
pub fn ready() {
    drop(queue(vec![NotifyState::Ready]));
}

/// Reports that a reload begins.
pub fn reloading() {
    // The clock exists on every Linux, so 0 is never used.
    let microseconds = ClockId::CLOCK_MONOTONIC.now().map_or(0, |time| time.num_microseconds());
    drop(queue(vec![NotifyState::Reloading, NotifyState::MonotonicUsec(microseconds.into())]));
}

/// Reports that another process becomes the service's main process. Waits until the message is sent: until
/// then, systemd accepts no messages of the other process.
pub fn main_process(id: u32) {
    // An error means that it was sent, or that the time is over.
    let _ = queue(vec![NotifyState::MainPid(id)]).recv_timeout(SEND_TIMEOUT);
}

/// Reports that the gateway stops. Waits until the message is sent, since the process may end next.
pub fn stopping() {
    let _ = queue(vec![NotifyState::Stopping]).recv_timeout(SEND_TIMEOUT);
}

/// Queues a message. The receiver disconnects when it is sent.
fn queue(states: Vec<NotifyState<'static>>) -> Receiver<()> {
    static SENDER: OnceLock<Option<SyncSender<SystemdMessage>>> = OnceLock::new();
    let (done, sent) = sync_channel(1);
    if std::env::var_os("NOTIFY_SOCKET").is_some()
        && let Some(sender) = SENDER.get_or_init(start)
    {
        let _ = sender.try_send((states, done));
    }
    sent
}

fn start() -> Option<SyncSender<SystemdMessage>> {
    let (sender, messages) = sync_channel::<SystemdMessage>(QUEUE_MAX);
    let send = move || {
        for (states, done) in messages {
            // A supervisor that does not read is no reason not to serve.
            let _ = sd_notify::notify(&states);
            drop(done);
        }
    };
    std::thread::Builder::new().name("systemd".to_owned()).spawn(send).is_ok().then_some(sender)
}
