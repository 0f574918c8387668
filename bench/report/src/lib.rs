//! What a result file says, for people and for CI.
//!
//! [`figures`] is the one place that turns [`tollgate_lab_record::Results`] into rows and [`table`] the one that turns rows
//! into texts; [`terminal()`], [`markdown()`], [`html()`] and [`svg()`] only print them. [`compare()`] and [`gate()`] hold two result files
//! against each other, [`capacity()`] turns costs into cores.

pub mod capacity;
pub mod compare;
mod estimate;
pub mod figures;
pub mod gate;
mod html;
mod markdown;
pub mod number;
mod svg;
pub mod table;
mod terminal;

pub use capacity::capacity;
pub use compare::compare;
pub use figures::Report;
pub use gate::{Gate, gate};
pub use html::html;
pub use markdown::markdown;
pub use svg::svg;
pub use terminal::terminal;

/// What the intervals promise, for readers.
const INTERVALS: &str = "95 % intervals by bootstrap over the rounds (fewer than 6 rounds cannot promise that much: 5 give 94 %, \
    4 give 88 %, 3 give 75 %)";
