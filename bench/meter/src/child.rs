//! Child processes that never outlive the run, however it ends.

mod group;
mod launch;
mod program;
mod starter;
mod stop;

pub use group::{Ended, Group};
pub use launch::Launch;
pub use program::{find_program, version_line};
pub(crate) use stop::{Kept, Registration};
pub use stop::{ending, stop_all_on_signal, wait_if_ending};
