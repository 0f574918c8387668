//! SETTINGS that each side sends to the other (RFC 9113, 6.5). The proxy passes [`Settings`] when it creates
//! a connection. [`Told`] holds what the client has sent, with the RFC's defaults until then.

use crate::frame::{self, Kind, PAYLOAD};
use crate::reason::Reason;

/// Default size of a window in bytes.
pub(crate) const WINDOW: u32 = 65_535;
/// Largest size of a window in bytes (RFC 9113, 6.9.1).
pub(crate) const LARGEST_WINDOW: i64 = (1 << 31) - 1;

/// The settings that the gateway sends to clients.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Concurrent streams.
    pub streams: u32,
    /// Receive window of a stream: bytes of each request's body that the client may send before they are
    /// read.
    pub window: u32,
    /// Receive window of the connection, for all bodies together, in bytes. At least 65,535.
    pub connection_window: u32,
    /// Largest head in bytes; each field counts 32 more.
    pub fields: u32,
}

impl Settings {
    /// Appends the SETTINGS frame, and the WINDOW_UPDATE that enlarges the connection's window.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE and ENABLE_CONNECT_PROTOCOL,
        // which allows WebSocket (RFC 8441, 3). Their ids are 3, 4, 6 and 8, the last with the value 1.
        let list = [(3, self.streams), (4, self.window), (6, self.fields), (8, 1)];
        frame::header(out, Kind::SETTINGS, 0, 0, 6 * list.len());
        for (name, value) in list {
            out.extend_from_slice(&u16::to_be_bytes(name));
            out.extend_from_slice(&u32::to_be_bytes(value));
        }
        let more = self.connection_window.saturating_sub(WINDOW);
        if more > 0 {
            frame::numbers(out, Kind::WINDOW_UPDATE, 0, &[more]);
        }
    }
}

/// The settings that the client has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub window: i64,
    pub payload: usize,
    /// If the frame changed the size of the client's HPACK table: the smallest size in the frame, and the
    /// final one, in bytes.
    pub table: Option<(usize, usize)>,
}

impl Default for Told {
    fn default() -> Self {
        Self { window: WINDOW.into(), payload: PAYLOAD, table: None }
    }
}

impl Told {
    /// Applies the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// A value out of range, or a payload whose length is no multiple of 6.
    pub fn read(&mut self, payload: &[u8]) -> Result<(), Reason> {
        let (entries, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        for [a, b, value @ ..] in entries {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                1 => {
                    let now = value as usize;
                    self.table = Some((self.table.map_or(now, |(fewest, _)| fewest.min(now)), now));
                }
                2 if value > 1 => return Err(Reason::PROTOCOL_ERROR),
                4 if i64::from(value) > LARGEST_WINDOW => return Err(Reason::FLOW_CONTROL_ERROR),
                4 => self.window = value.into(),
                5 if !(PAYLOAD as u32..1 << 24).contains(&value) => return Err(Reason::PROTOCOL_ERROR),
                // Larger frames would bring nothing: a response is read and forwarded in pieces of about this
                // size.
                5 => self.payload = (value as usize).min(PAYLOAD),
                // RFC 8441, 3: ENABLE_CONNECT_PROTOCOL from a client has no meaning for a server; only its
                // value is checked.
                8 if value > 1 => return Err(Reason::PROTOCOL_ERROR),
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
            (2, 2, Err(Reason::PROTOCOL_ERROR)),
            (2, u32::MAX, Err(Reason::PROTOCOL_ERROR)),
            (3, 0, Ok(())),
            (3, u32::MAX, Ok(())),
            (4, 0, Ok(())),
            (4, LARGEST, Ok(())),
            (4, LARGEST + 1, Err(Reason::FLOW_CONTROL_ERROR)),
            (4, u32::MAX, Err(Reason::FLOW_CONTROL_ERROR)),
            (5, 0, Err(Reason::PROTOCOL_ERROR)),
            (5, 16_383, Err(Reason::PROTOCOL_ERROR)),
            (5, 16_384, Ok(())),
            (5, (1 << 24) - 1, Ok(())),
            (5, 1 << 24, Err(Reason::PROTOCOL_ERROR)),
            (5, u32::MAX, Err(Reason::PROTOCOL_ERROR)),
            (6, 0, Ok(())),
            (6, u32::MAX, Ok(())),
            (8, 1, Ok(())),
            (8, 2, Err(Reason::PROTOCOL_ERROR)),
            (0xffff, u32::MAX, Ok(())),
        ] {
            let payload = [&u16::to_be_bytes(name)[..], &u32::to_be_bytes(value)].concat();
            let mut told = Told::default();
            assert_eq!(told.read(&payload), expected, "{name}: {value}");
            assert!((0..=LARGEST_WINDOW).contains(&told.window) && told.payload == PAYLOAD);
        }
    }
}
