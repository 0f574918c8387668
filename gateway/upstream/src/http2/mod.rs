//! HTTP/2 connections to endpoints: a worker has few to each endpoint, and each carries many concurrent
//! requests.
//!
//! The `h2` crate handles frames, HPACK and flow control. This module decides when a connection is opened
//! (`opening`), which connection takes a request (`pool`), and how a connection ends (`connection`). A
//! request gets a [`StreamPermit`]: the right to one stream.
//!
//! Unlike HTTP/1 connections, these are shared by requests and never move to another worker. The same limits
//! apply. A request that finds all connections full joins the same queue, and gets a free stream or a permit
//! to open another connection.

mod connection;
mod io;
mod opening;
mod pool;

pub use connection::StreamPermit;
pub(crate) use io::{EndpointIo, FaultCell, store_fault};
pub use opening::OpeningWaiter;
pub(crate) use opening::start;
pub(crate) use pool::Http2Pool;

/// Upper bound of the concurrent requests on a connection; the endpoint may allow fewer. RFC 9113, 6.5.2
/// recommends that a peer allows at least 100. With more, the requests on one connection wait for each
/// other's bytes.
pub(crate) const STREAMS_MAX: usize = 100;
/// Number of reset streams after which a connection accepts no further request. Servers treat resets as an
/// attack: Envoy ends a connection on which more than half of 500 streams were reset, nghttp2 one with 1,000
/// at once.
const RESETS_MAX: u32 = 200;
/// Bytes of a response that an endpoint may send before the client has taken them.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The same for all responses of a connection together. It is so large that streams whose clients read
/// nothing leave enough for the others.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX as u32;
/// The limit of a field section that the library enforces: this multiple of the endpoint's limit, plus this
/// many bytes. The library drops the fields beyond its limit. The rest then still exceeds the endpoint's
/// limit, so the reader of the section notices. Only a longer single field could go unnoticed; the
/// [inspector](tollgate_http::h2::ResponseInspector) finds it.
const SPARE_FIELDS: (u32, u32) = (4, 8 * 1024);
/// Bytes that the library may buffer of one request. The [budget](tollgate_http::h2::SendBudget) bounds those of all
/// requests.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
