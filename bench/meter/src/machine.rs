//! The machine that a trial runs on: its cores and their topology, how busy each core is, and what kind of
//! machine it is.

mod cores;
mod facts;
mod roles;
mod topology;

pub use cores::{CoreShare, CoreTimes};
pub use facts::{Facts, busy_cores, file_limit, load_average};
pub use roles::{Roles, WantedRoles};
pub use topology::{Topology, allowed_cores};
