//! CPU and memory limits by control groups, version 1 and 2: sets the limits of a trial, and reads limits
//! that were set on this process from outside.

mod hierarchy;
mod own;
mod quota;
mod remove;
mod usage;

pub use own::{OwnLimits, OwnQuota};
pub use quota::Quota;
pub use remove::remove_orphans;
pub(crate) use remove::{Placed, remove_group};
pub use usage::{GroupCpu, Throttling};
