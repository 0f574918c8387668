//! gRPC: calls, and the errors that the gateway itself answers.

mod calls;
mod deadlines;
mod errors;
mod interop;
mod web;
