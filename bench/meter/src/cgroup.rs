//! CPU and memory limits by control groups, version 1 and 2: those that a trial sets, and those that somebody set on us.

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
