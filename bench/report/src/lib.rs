//! Reports of result files, for people and for CI.
//!
//! Only [`figures`] turns [`tollgate_lab_record::Results`] into rows, and only [`table`] turns rows into
//! texts. [`terminal()`], [`markdown()`], [`html()`] and [`svg()`] print them. [`compare()`] and [`gate()`]
//! compare two result files; [`capacity()`] converts costs to cores.

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

/// The meaning of the intervals, for readers.
const INTERVALS: &str = "95 % intervals by bootstrap over the rounds (fewer than 6 rounds cannot promise that much: 5 give 94 %, \
    4 give 88 %, 3 give 75 %)";
