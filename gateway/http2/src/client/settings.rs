//! The SETTINGS for endpoints.

use crate::shared::settings::ReceiveLimits;

/// The settings that the gateway sends to endpoints.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// Receive window of a stream: bytes of each response that the endpoint may send before they are read. At
    /// least 65,535.
    pub stream_window: u32,
    /// Receive window of the connection, for all responses together, in bytes. At least 65,535.
    pub connection_window: u32,
    /// Largest head in bytes; each field counts 32 more.
    pub max_head_bytes: u32,
}

impl ClientSettings {
    pub(crate) fn receive_limits(&self) -> ReceiveLimits {
        let Self { stream_window, connection_window, max_head_bytes } = *self;
        ReceiveLimits { stream_window, connection_window, max_head_bytes }
    }
}
