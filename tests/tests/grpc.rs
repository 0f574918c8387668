//! gRPC: calls, and what the gateway says of them.

mod calls;
mod deadlines;
mod errors;
mod interop;
mod web;
