//! What a study asks, read from `bench/studies/NAME.yaml`, and the cells that answer it.
//!
//! A [`Study`] has sections; a section has [`Settings`] and points, each of which changes some of them. [`plan`] turns
//! that into [`PlannedCell`]s, made small enough for this machine by [`Limits`], with a list of what was made smaller.

mod analysis;
mod place;
mod plan;
mod range;
mod settings;
mod study;

pub use analysis::{Analysis, IdleBars, PublishedCapacity};
pub use plan::{CEILING_SECONDS, Limits, Plan, PlannedCell, plan};
pub use settings::{OriginKind, Relay, Settings};
pub use study::{Arm, Bar, Names, Point, Problem, Section, Study, load, names};
