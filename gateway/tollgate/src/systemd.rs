//! Messages to systemd. Without systemd nothing is sent.
//!
//! A message to a supervisor that takes none blocks its sender. A thread of its own sends them, in their order.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use sd_notify::NotifyState;

/// Messages that wait for the supervisor; further ones are lost.
const WAITING: usize = 64;
/// How long a message that must be sent before the process goes on is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// A message, and a sender that is dropped when it is sent.
type Message = (Vec<NotifyState<'static>>, SyncSender<()>);

/// It serves; also the end of a reload.
pub fn ready() {
    drop(tell(vec![NotifyState::Ready]));
}

/// A reload begins.
pub fn reloading() {
    // Every Linux has this clock.
    let microseconds = ClockId::CLOCK_MONOTONIC.now().map_or(0, |time| time.num_microseconds());
    drop(tell(vec![NotifyState::Reloading, NotifyState::MonotonicUsec(microseconds.into())]));
}

/// Another process is the service's main one from now on. Waits until that is sent: systemd takes no message of the other
/// process before.
pub fn main_process(id: u32) {
    // An error means that it is sent.
    let _ = tell(vec![NotifyState::MainPid(id)]).recv_timeout(PATIENCE);
}

/// It is on its way out. Waits until that is sent: the process may end next.
pub fn stopping() {
    let _ = tell(vec![NotifyState::Stopping]).recv_timeout(PATIENCE);
}

/// Has a message sent. The receiver ends when it is.
fn tell(states: Vec<NotifyState<'static>>) -> Receiver<()> {
    static SENDER: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
    let (done, sent) = sync_channel(1);
    if std::env::var_os("NOTIFY_SOCKET").is_some()
        && let Some(sender) = SENDER.get_or_init(start)
    {
        let _ = sender.try_send((states, done));
    }
    sent
}

fn start() -> Option<SyncSender<Message>> {
    let (sender, messages) = sync_channel::<Message>(WAITING);
    let send = move || {
        for (states, done) in messages {
            // A supervisor that does not listen is no reason not to serve.
            let _ = sd_notify::notify(&states);
            drop(done);
        }
    };
    std::thread::Builder::new().name("systemd".to_owned()).spawn(send).is_ok().then_some(sender)
}
