//! Overload: the adaptive limit of an upstream, priorities, and the bounds of memory and file descriptors.

mod adaptive;
mod guards;
