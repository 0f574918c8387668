//! gRPC: calls, and what the gateway says of them.

mod calls;
mod errors;
mod interop;
mod web;
