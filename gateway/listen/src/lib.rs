//! Binding, accepting and handing connections to workers.

mod bind;
mod channel;
mod loads;
mod pressure;

pub use bind::{BACKLOG, bind, bind_beside, listen};
pub use channel::{Channel, Message};
pub use loads::{Full, Loads};
pub use pressure::Pressure;
