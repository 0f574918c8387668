//! HTTP/2 connections to endpoints: a worker has few to each, and each carries many requests at once.
//!
//! Frames, HPACK and flow control are the `h2` crate's. What is here: when a connection is opened (`opening`), which one takes a
//! request (`lanes`), and how it ends (`connection`). A [`Place`] on one is what a request gets.
//!
//! Unlike HTTP/1's, these connections are shared by requests and never change their worker. A cap counts them all the
//! same: a request that finds all of them full joins the same queue, and is granted a place that comes free, or the right
//! to open another connection.

mod connection;
mod io;
mod lanes;
mod opening;

pub use connection::Place;
pub(crate) use io::{FaultCell, Io, note};
pub(crate) use lanes::Lanes;
pub use opening::Joined;
pub(crate) use opening::start;

/// Requests that one connection carries at once, if its endpoint allows as many. RFC 9113, 6.5.2 recommends that a peer
/// allows no fewer than 100; more of them on one connection wait for each other's bytes.
pub(crate) const STREAMS: usize = 100;
/// Streams that are reset on one connection, in all. Servers hold resets against who sends them: Envoy ends a connection on
/// which more than half of 500 streams were reset, nghttp2 one with 1,000 at once.
const RESETS: u32 = 200;
/// Bytes of a response that an endpoint may send before the client has taken them.
const WINDOW: u32 = 64 * 1024;
/// Those of all responses of a connection: so many that streams whose clients take nothing leave room for the others.
const CONNECTION_WINDOW: u32 = WINDOW * STREAMS as u32;
/// The library's own limit of a field section: this multiple of the endpoint's limit, and so many bytes more. The library drops
/// fields past its limit; the rest still exceeds the endpoint's limit then, so that the reader of the section notices. Only a
/// single field that is longer could hide; the [sieve](tollgate_http::h2::Sieve) finds it.
const SPARE_FIELDS: (u32, u32) = (4, 8 * 1024);
/// Bytes that the library may keep of one request; the [gate](tollgate_http::h2::Gate) bounds those of all.
const SEND_BUFFER: usize = 128 * 1024;
