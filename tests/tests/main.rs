//! End-to-end tests through the real binary. One module a theme; its first lines say what it holds.

mod bodies;
mod harness;
mod keepalive;
mod upgrade;
