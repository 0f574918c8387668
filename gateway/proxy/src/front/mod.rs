//! The front layer: accepts connections, reads requests from them, and passes each on.
//!
//! [`run`] is the loop of a worker. [`accept`] admits connections, [`connection`] waits between their
//! requests, [`receive`] reads heads of HTTP/1, and [`http2`] serves the streams of HTTP/2, in the order of
//! the [`scheduler`]. [`request`] drives each request: [`decide`] finds its route, policies are evaluated, and
//! the exchange layer carries out the action. [`dry_run`] does the same without a socket, and
//! [`trace`] builds the trace of a finished request. [`stream`] and [`datagrams`] are the fronts of layer 4, for connections
//! that carry no requests, and for UDP. A further front, for another protocol, is a sibling of these files.

pub(crate) mod accept;
pub(crate) mod by_host;
mod connection;
pub(crate) mod datagrams;
pub(crate) mod decide;
pub(crate) mod dry_run;
pub(crate) mod exchange_slot;
pub(crate) mod http2;
pub(crate) mod https;
pub(crate) mod linger;
pub(crate) mod preamble;
pub(crate) mod preflight;
pub(crate) mod receive;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod scheduler;
pub(crate) mod stream;
pub(crate) mod trace;
