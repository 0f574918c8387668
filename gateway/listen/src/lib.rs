//! Binding, accepting and handing connections to workers.

mod bind;
mod channel;
mod loads;

pub use bind::{BACKLOG, bind, bind_beside};
pub use channel::{Channel, Message};
pub use loads::Loads;
