//! The simulated backend: a network, a clock, an executor and randomness that all derive from a seed.
//!
//! [`run`] creates a world for this thread and runs a future in it. Until it returns, that world answers
//! everything that the data path asks of this crate ([`Stream`](crate::Stream),
//! [`Listener`](crate::Listener), [`Timers`](crate::Timers), [`now`](crate::now), [`spawn`](crate::spawn)).
//! The same seed gives the same run, event by event; [`RunResult::hash`] shows whether it did.
//!
//! - **Time** advances by a few microseconds a poll while any task is ready, and otherwise jumps to the next
//!   event.
//! - **Tasks** belong to groups: each worker, each origin. Within a group they take turns in order, as on a
//!   thread of their own. Among groups the seed decides which is next, and a group can be paused or killed.
//! - **Streams** behave as Linux TCP does, as far as it matters: bounded buffers, pieces cut anywhere,
//!   half-close, a reset if unread bytes are discarded, an error that is reported once, and a reset in reply
//!   to data for a closed socket.
//!
//! Not simulated: threads that run at the same instant (atomics are not torn), the kernel's poller, and
//! files.

mod conditions;
mod connection;
mod controls;
mod end;
mod executor;
mod meter;
mod network;
mod port;
mod socket;
mod tasks;
mod trace;
mod world;

pub use conditions::{NetworkConditions, TaskGroup};
pub use controls::{
    connect_from, delay_address, elapsed, exceeded_limits, fork, kill, limit_connections, listen, new_group,
    note, open_sockets, open_to, pause, paused, resolve, scheduled, send_unsolicited, set_wall_clock, sleep,
    spawn_in, tasks, with_random,
};
pub use executor::{RunLimits, RunResult, StopReason, run};
pub use meter::ConnectionBound;
pub(crate) use socket::{SimulatedListener, SimulatedSocket, SimulatedTimer};
pub(crate) use world::is_active;

pub(crate) use executor::{spawn, yield_now};
pub(crate) use network::{connect, look_up};
pub(crate) use world::{now, random_key, wall};
