//! The SETTINGS for clients.

use crate::shared::settings::ReceiveLimits;

/// The settings that the gateway sends to clients.
#[derive(Clone, Copy, Debug)]
pub struct LocalSettings {
    /// Concurrent streams.
    pub max_concurrent_streams: u32,
    /// Receive window of a stream: bytes of each request's body that the client may send before they are
    /// read.
    pub stream_window: u32,
    /// Receive window of the connection, for all bodies together, in bytes. At least 65,535.
    pub connection_window: u32,
    /// Largest head in bytes; each field counts 32 more.
    pub max_head_bytes: u32,
}

impl LocalSettings {
    pub(crate) fn receive_limits(&self) -> ReceiveLimits {
        let Self { stream_window, connection_window, max_head_bytes, .. } = *self;
        ReceiveLimits { stream_window, connection_window, max_head_bytes }
    }
}
