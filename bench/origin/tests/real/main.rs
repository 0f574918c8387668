//! Tests the origin and the link through real sockets.

mod client;
mod control;
mod link;
mod serving;
mod stalls;
