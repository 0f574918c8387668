//! Sizes and counts that a peer may not exceed, their overrides by routes, and bounds of the process itself.

use std::time::Duration;

use crate::model::Percent;
use crate::scalar::quantity;
use crate::section::{Field, Reader, Section, Shape};

use super::texts::SIZE_MAX;

/// Maximum head size. A larger one is an attack or a mistake, and a receive buffer must hold a whole head.
const HEAD_MAX: u64 = 1 << 20;
const RATE_MAX: u64 = 1 << 30;
/// Minimum memory bound. A smaller value is a mistake: a number that was meant in MiB.
const MEMORY_MIN: u64 = 16 << 20;
const MEMORY: Shape =
    Shape::AnyOf(&[Shape::Word(&["auto"]), Shape::Size { min: MEMORY_MIN, max: SIZE_MAX, off: false }]);

const BODY_RATE_ALSO: &[&str] =
    &["min_body_rate", "minrate", "min_request_body_data_rate", "request_rate", "upload_rate"];
const RESPONSE_RATE_ALSO: &[&str] =
    &["min_response_rate", "min_response_data_rate", "send_rate", "download_rate"];

/// Sizes and counts that a peer may not exceed.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Limits {
    /// Maximum bytes of the request line (414 beyond it).
    #[key(size = 256..=HEAD_MAX, default = "8KiB")]
    pub request_line: usize,
    /// Maximum bytes of a whole message head (431 for a request, 502 for a response).
    #[key(size = 1024..=HEAD_MAX, default = "32KiB")]
    pub headers: usize,
    /// Maximum number of header fields in a message head (431 for a request, 502 for a response).
    #[key(count = 8..=10_000, default = 100)]
    pub header_count: usize,
    /// Maximum bytes of a request body (413 beyond it).
    #[key(size = 0..=SIZE_MAX, off, default = off, also = ["client_max_body_size", "body_size", "max_body"])]
    pub body: Option<u64>,
    /// Minimum bytes per second of a request body while the gateway waits for the client (408 below it).
    #[key(size = 1..=RATE_MAX, off, default = 240, also = BODY_RATE_ALSO)]
    pub body_rate: Option<u32>,
    /// Minimum bytes per second of a response that the client must read while the gateway waits to write
    /// (reset below it).
    #[key(size = 1..=RATE_MAX, off, default = 240, also = RESPONSE_RATE_ALSO)]
    pub response_rate: Option<u32>,
    /// How long a client may stay below `body_rate` or `response_rate` at the start.
    #[key(time = "100ms"..="1h", default = "10s", also = ["body_grace", "grace_period", "grace"])]
    pub rate_grace: Duration,
    /// Maximum number of client connections of the process; beyond it a new one gets 503.
    #[key(count = 1.., off, default = off, also = ["max_connections", "maxconn"])]
    pub connections: Option<u64>,
    /// Maximum number of requests per client connection.
    #[key(count = 1.., off, default = off)]
    pub requests_per_connection: Option<u64>,
    /// Maximum number of concurrent streams per HTTP/2 connection; further ones are refused.
    #[key(
        count = 1..=10_000, default = 100,
        also = ["max_concurrent_streams", "http2_max_concurrent_streams", "streams"]
    )]
    pub http2_streams: u32,
    /// Receive window of an HTTP/2 stream in bytes; the connection's window is twice as large.
    #[key(
        size = "16KiB"..="16MiB", default = "64KiB",
        also = ["initial_window_size", "initial_stream_window_size", "http2_initial_window_size"]
    )]
    pub http2_window: u32,
    /// How often one request may return to this gateway through its own forwarding (508 beyond it).
    #[key(count = 0..=100, default = 2, also = ["max_loops", "hops", "max_hops"])]
    pub loops: usize,
}

/// Limits that a route overrides.
#[derive(Clone, Debug, Section)]
#[section(name = "route_limits", noun = "`limits` of a route")]
pub(crate) struct RouteLimitKeys {
    /// Maximum bytes of a request body (413 beyond it).
    #[key(size = 0..=SIZE_MAX, also = ["client_max_body_size", "body_size", "max_body"])]
    pub body: Option<u64>,
    /// Overrides of the minimum rates.
    #[key(flatten)]
    pub rates: RouteRates,
}

/// Minimum rates that a route overrides. `Some(None)` is `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
pub struct RouteRates {
    /// Minimum bytes per second of a request body while the gateway waits for the client (408 below it).
    #[key(name = "body_rate", size = 1..=RATE_MAX, off, also = BODY_RATE_ALSO)]
    pub body: Option<Option<u32>>,
    /// Minimum bytes per second of a response that the client must read while the gateway waits to write
    /// (reset below it).
    #[key(name = "response_rate", size = 1..=RATE_MAX, off, also = RESPONSE_RATE_ALSO)]
    pub response: Option<Option<u32>>,
}

/// Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work before old
/// work fails.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Overload {
    /// Bytes of resident memory. `auto`: 90 % of the control group's limit, if there is one.
    #[key(
        shape = MEMORY, read = memory, default = auto, also = ["max_memory", "max_heap_size_bytes", "rss"]
    )]
    pub memory: Option<u64>,
    /// Percentage of the process's file descriptors at which the gateway stops accepting client connections.
    #[key(
        percent = 1..=100, default = "95%", also = ["file_descriptors", "fds", "descriptors", "open_files"]
    )]
    pub files: Percent,
    /// Percentage of a bound at which low-priority requests are shed.
    #[key(percent = 1..=100, default = "90%", also = ["shed", "shed_at", "threshold"])]
    pub shed_from: Percent,
}

/// Reads the bound of memory; `None`: `auto`.
fn memory(reader: &mut Reader, field: Field<'_>) -> Option<u64> {
    let read = reader.field(field, |text| match text {
        "auto" => Ok(None),
        text => quantity::size(text, MEMORY_MIN, SIZE_MAX).map(Some),
    });
    read.flatten()
}
