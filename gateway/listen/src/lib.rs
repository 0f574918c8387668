//! Binding, accepting and handing connections to workers.

mod bind;
mod loads;

pub use bind::{BACKLOG, bind};
pub use loads::Loads;
