//! Agents: the laboratory's program on other hosts, which takes the operations of a run that touch a host.
//!
//! [`Agent`] is the laboratory's end of a connection, and [`serve`] the other end. Both present the same
//! certificate, [`Identity`], and accept no other. A connection is a session: it carries one `Ask` and one
//! answer at a time, and everything that a session started ends with it. The agent executes an operation with
//! the code that executes it on the laboratory's own host, so a trial measures the same on both. No message
//! carries a time of day, and no clock is compared with another host's.

mod client;
mod identity;
mod link;
mod load;
mod message;
mod server;

pub use client::Agent;
pub use identity::Identity;
pub use link::Link;
pub use load::load_at;
pub(crate) use message::{Ask, Certificate, OriginUp, StartSystem, SystemUp};
pub use server::serve;
