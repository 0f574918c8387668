//! Reads studies from `bench/studies/NAME.yaml` and plans the cells that answer them.
//!
//! A [`Study`] has sections; a section has [`Settings`] and points, each of which changes some of them.
//! [`plan`] turns them into [`PlannedCell`]s, reduced to the [`Limits`] of this machine, with a list of what
//! was reduced.

mod analysis;
mod check;
mod cores;
mod external;
mod hosts;
mod kubernetes;
mod load;
mod nearest;
mod plan;
mod position;
mod range;
mod settings;
mod study;

pub use analysis::{Analysis, IdleBars, PublishedCapacity};
pub use check::Names;
pub use cores::{CoreList, Cores};
pub use external::{CpuSource, CpuSubject, External, PodGroup, Url};
pub use hosts::{AGENT_PORT, Hosts, agent_address};
pub use kubernetes::{Deployed, Kubernetes, Placement};
pub use load::{Problem, load, names};
pub use plan::{CEILING_SECONDS, Limits, Plan, PlannedCell, plan};
pub use settings::{OriginKind, Relay, Settings, Verify};
pub use study::{Arm, Bar, Point, Section, Study};
