//! The sections of an upstream.

mod capacity;

pub(crate) use capacity::above;
pub use capacity::*;
