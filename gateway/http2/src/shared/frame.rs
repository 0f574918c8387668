//! Frame headers and flags (RFC 9113, 4 and 6): reading and writing them. `receive` and `send` give the
//! frames their meaning.

/// Bytes of a frame header.
pub(crate) const HEADER_BYTES: usize = 9;
/// Largest payload of a frame in bytes, unless SETTINGS_MAX_FRAME_SIZE says otherwise (RFC 9113, 6.5.2).
pub(crate) const PAYLOAD_MAX_BYTES: usize = 16_384;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameType(pub u8);

impl FrameType {
    pub const DATA: Self = Self(0);
    pub const HEADERS: Self = Self(1);
    pub const PRIORITY: Self = Self(2);
    pub const RST_STREAM: Self = Self(3);
    pub const SETTINGS: Self = Self(4);
    pub const PUSH_PROMISE: Self = Self(5);
    pub const PING: Self = Self(6);
    pub const GOAWAY: Self = Self(7);
    pub const WINDOW_UPDATE: Self = Self(8);
    pub const CONTINUATION: Self = Self(9);
}

/// Flags. Their meaning depends on the type of the frame.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// A frame's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub length: usize,
    pub kind: FrameType,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHeader {
    #[inline]
    pub fn read(bytes: [u8; HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: FrameType(kind),
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame header.
#[inline]
pub(crate) fn write_header(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: u32, length: usize) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind.0, flags, d, e, f, g]);
}

/// Appends a frame whose payload consists of 32-bit numbers.
pub(crate) fn write_numbers(out: &mut Vec<u8>, kind: FrameType, stream: u32, numbers: &[u32]) {
    write_header(out, kind, 0, stream, 4 * numbers.len());
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

/// Appends a PING.
pub(crate) fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8]) {
    write_header(out, FrameType::PING, flags, 0, payload.len());
    out.extend_from_slice(payload);
}

/// Reads the first four bytes as a big-endian number.
pub(crate) fn read_number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns a payload without its padding, or `None` if the padding is longer than the payload (RFC 9113,
/// 6.1).
pub(crate) fn without_padding(header: FrameHeader, payload: &[u8]) -> Option<&[u8]> {
    if !header.has(PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.len().checked_sub((*padding).into()).map(|length| &rest[..length])
}
