//! SETTINGS that each side sends to the other (RFC 9113, 6.5). [`ReceiveLimits`] is what a connection
//! announces in either role. [`PeerSettings`] holds what the peer has sent, with the RFC's defaults until then.

use crate::shared::error_code::ErrorCode;
use crate::shared::frame::{self, FrameType, PAYLOAD_MAX_BYTES};

/// Default size of a window in bytes.
pub(crate) const DEFAULT_WINDOW_BYTES: u32 = 65_535;
/// Largest size of a window in bytes (RFC 9113, 6.9.1).
pub(crate) const WINDOW_MAX_BYTES: i64 = (1 << 31) - 1;

/// The limits on what this side of the connection accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveLimits {
    /// Receive windows of a stream and of the connection, in bytes.
    pub stream_window: u32,
    pub connection_window: u32,
    /// Largest head in bytes; each field counts 32 more.
    pub max_head_bytes: u32,
}

impl ReceiveLimits {
    /// Appends a SETTINGS frame with these limits and `more` settings, and the WINDOW_UPDATE that enlarges
    /// the connection's window.
    pub fn write(&self, more: &[(u16, u32)], out: &mut Vec<u8>) {
        // INITIAL_WINDOW_SIZE and MAX_HEADER_LIST_SIZE.
        let list = [(4, self.stream_window), (6, self.max_head_bytes)];
        frame::write_header(out, FrameType::SETTINGS, 0, 0, 6 * (list.len() + more.len()));
        for (name, value) in list.iter().chain(more) {
            out.extend_from_slice(&u16::to_be_bytes(*name));
            out.extend_from_slice(&u32::to_be_bytes(*value));
        }
        let more = self.connection_window.saturating_sub(DEFAULT_WINDOW_BYTES);
        if more > 0 {
            frame::write_numbers(out, FrameType::WINDOW_UPDATE, 0, &[more]);
        }
    }
}

/// The settings that the peer has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSettings {
    pub initial_window: i64,
    pub max_frame_payload: usize,
    /// Concurrent streams that the peer allows.
    pub max_concurrent_streams: u32,
    /// Whether the peer supports extended CONNECT (RFC 8441, 3).
    pub allows_connect_protocol: bool,
    /// Whether the peer enabled server push. A server must not (RFC 9113, 6.5.2).
    pub enables_push: bool,
    /// If the frame changed the size of the peer's HPACK table: the smallest size in the frame, and the
    /// final one, in bytes.
    pub hpack_table: Option<(usize, usize)>,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            initial_window: DEFAULT_WINDOW_BYTES.into(),
            max_frame_payload: PAYLOAD_MAX_BYTES,
            max_concurrent_streams: u32::MAX,
            allows_connect_protocol: false,
            enables_push: false,
            hpack_table: None,
        }
    }
}

impl PeerSettings {
    /// Applies the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// A value out of range, or a payload whose length is no multiple of 6.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), ErrorCode> {
        let (entries, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        for [a, b, value @ ..] in entries {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                1 => {
                    let now = value as usize;
                    self.hpack_table =
                        Some((self.hpack_table.map_or(now, |(fewest, _)| fewest.min(now)), now));
                }
                2 if value > 1 => return Err(ErrorCode::PROTOCOL_ERROR),
                2 => self.enables_push = value == 1,
                3 => self.max_concurrent_streams = value,
                4 if i64::from(value) > WINDOW_MAX_BYTES => return Err(ErrorCode::FLOW_CONTROL_ERROR),
                4 => self.initial_window = value.into(),
                5 if !(PAYLOAD_MAX_BYTES as u32..1 << 24).contains(&value) => {
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                // Larger frames would bring nothing: a body is read and forwarded in pieces of about this
                // size.
                5 => self.max_frame_payload = (value as usize).min(PAYLOAD_MAX_BYTES),
                8 if value > 1 => return Err(ErrorCode::PROTOCOL_ERROR),
                8 => self.allows_connect_protocol = value == 1,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_and_the_most_of_each_setting() {
        const LARGEST: u32 = (1 << 31) - 1;
        for (name, value, expected) in [
            (1, 0, Ok(())),
            (1, u32::MAX, Ok(())),
            (2, 0, Ok(())),
            (2, 1, Ok(())),
            (2, 2, Err(ErrorCode::PROTOCOL_ERROR)),
            (2, u32::MAX, Err(ErrorCode::PROTOCOL_ERROR)),
            (3, 0, Ok(())),
            (3, u32::MAX, Ok(())),
            (4, 0, Ok(())),
            (4, LARGEST, Ok(())),
            (4, LARGEST + 1, Err(ErrorCode::FLOW_CONTROL_ERROR)),
            (4, u32::MAX, Err(ErrorCode::FLOW_CONTROL_ERROR)),
            (5, 0, Err(ErrorCode::PROTOCOL_ERROR)),
            (5, 16_383, Err(ErrorCode::PROTOCOL_ERROR)),
            (5, 16_384, Ok(())),
            (5, (1 << 24) - 1, Ok(())),
            (5, 1 << 24, Err(ErrorCode::PROTOCOL_ERROR)),
            (5, u32::MAX, Err(ErrorCode::PROTOCOL_ERROR)),
            (6, 0, Ok(())),
            (6, u32::MAX, Ok(())),
            (8, 1, Ok(())),
            (8, 2, Err(ErrorCode::PROTOCOL_ERROR)),
            (0xffff, u32::MAX, Ok(())),
        ] {
            let payload = [&u16::to_be_bytes(name)[..], &u32::to_be_bytes(value)].concat();
            let mut peer_settings = PeerSettings::default();
            assert_eq!(peer_settings.apply(&payload), expected, "{name}: {value}");
            assert!(
                (0..=WINDOW_MAX_BYTES).contains(&peer_settings.initial_window)
                    && peer_settings.max_frame_payload == PAYLOAD_MAX_BYTES
            );
        }
    }
}
