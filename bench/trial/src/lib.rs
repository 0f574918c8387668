//! Runs a study.

mod schedule;
mod verdict;

pub use schedule::{Turn, order};
pub use verdict::{Facts, attribute};
