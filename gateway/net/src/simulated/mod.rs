//! The simulated side: a network, a clock, an executor and randomness that all come from a seed.
//!
//! [`run`] makes a world of this thread and runs a future in it. As long as it runs, everything that the data path
//! asks of this crate ([`Stream`](crate::Stream), [`Listener`](crate::Listener), [`Timers`](crate::Timers),
//! [`now`](crate::now), [`spawn`](crate::spawn)) is answered by that world, and the same seed gives the same run, event
//! by event: [`Ended::hash`] says whether it did.
//!
//! - **Time** stands still while anything is to do, but for a few microseconds a poll, and then jumps to the next event.
//! - **Tasks** belong to groups: each worker, each origin. Within a group they take turns in order, as on a thread of
//!   their own; among groups the seed decides who is next, and a group can be paused or killed.
//! - **Streams** behave as Linux' do, where it matters: bounded buffers, pieces cut anywhere, half-close, a reset where
//!   unread bytes are thrown away, an error that is told once, a send to who is gone answered by a reset.
//!
//! What is not simulated: threads that run at the same instant (atomics are not torn), the kernel's poller, files.

mod controls;
mod end;
mod executor;
mod meter;
mod network;
mod socket;
mod trace;
mod world;

pub use controls::{
    Conditions, Group, bound, connect_from, elapsed, exceeded, fork, hold, kill, listen, new_group, note,
    open_sockets, open_to, pause, paused, resolve, say_unasked, scheduled, set_wall_clock, sleep, spawn_in,
    tasks, with_random,
};
pub use executor::{Ended, Limits, Stopped, run};
pub use meter::Bound as ConnectionBound;
pub(crate) use socket::{Acceptor, Alarm, Socket};
pub(crate) use world::is_active;

pub(crate) use executor::{spawn, yield_now};
pub(crate) use network::{connect, look_up};
pub(crate) use world::{now, secret, wall};
