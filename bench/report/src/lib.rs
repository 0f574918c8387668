//! Reports of result files, for people and for CI.
//!
//! Only [`figures`] turns [`tollgate_lab_record::Results`] into rows, and only [`table`] turns rows into
//! texts. [`terminal()`], [`markdown()`], [`html()`] and [`svg()`] print them. [`compare()`] and [`gate()`]
//! compare two result files; [`capacity()`] converts costs to cores. [`condense()`] reduces a result file to what
//! its report shows, and [`comment()`] adds what a person learned from it.

pub mod capacity;
mod commentary;
pub mod compare;
mod condense;
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
pub use commentary::comment;
pub use compare::{Choice, compare};
pub use condense::condense;
pub use figures::Report;
pub use gate::{Gate, gate};
pub use html::html;
pub use markdown::markdown;
pub use svg::{svg, svg_of};
pub use terminal::terminal;

/// The fewest rounds from which a difference is named: the first number whose interval is one of 95 %.
pub const FEWEST_ROUNDS: u32 = 6;

/// The meaning of the intervals, for readers.
const INTERVALS: &str = "95 % confidence intervals by bootstrap over the rounds (fewer than 6 rounds reach a lower level: 5 give 94 %, \
    4 give 88 %, 3 give 75 %), and no difference is named from them";
