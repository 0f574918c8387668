//! Detects responses of HTTP/2 endpoints from which the h2 library drops fields without an error.
//!
//! The library drops request pseudo-fields in a response, and all pseudo-fields in trailers. Both make a
//! response malformed (RFC 9113, 8.1 and 8.3). It also drops the fields of a trailer section that exceed its
//! limit, and passes the others on as if they were complete. The socket of an endpoint's connection shows
//! every byte to a [`ResponseInspector`] before the library gets it. The reader of a response asks
//! [`ResponseInspector::is_malformed`] and [`ResponseInspector::is_too_long`].
//!
//! The inspector follows frames and HPACK representations, but decodes no strings. It looks at the first
//! bytes of names and statuses. It counts the sizes of entries in the dynamic table, to resolve references
//! into it. DATA is skipped by its length.
//!
//! Invariant: its dynamic table has the same entries as the library's. After an error for which the library
//! ends the connection, the inspector gives up and reports nothing.

use std::collections::VecDeque;

use super::decoded_length::DecodedLength;

/// Bytes of a frame header.
const FRAME_HEADER_BYTES: usize = 9;
/// The default size of the dynamic table, in bytes (RFC 7541, 4.2; RFC 9113, 6.5.2).
const TABLE_MAX_BYTES: u32 = 4096;
/// The overhead of a table entry, in bytes (RFC 7541, 4.1).
const ENTRY_OVERHEAD_BYTES: u32 = 32;
/// Most streams whose state is kept. The gateway opens up to 100 at once; an endpoint can name others.
const STREAMS_MAX: usize = 256;
/// Most bytes of a name that are kept: the length of the longest pseudo-field.
const NAME_PREFIX_BYTES: usize = 12;

/// Frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The kinds of fields that the inspector distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    Plain,
    /// A request pseudo-field, or an unknown pseudo-field.
    Foreign,
    /// `:status`, before its value was read.
    Status,
    /// `:status` of an interim response.
    Interim,
    /// `:status` of a final response.
    Final,
}

/// Length of the name of each entry of the static table (RFC 7541, Appendix A).
#[rustfmt::skip]
const STATIC_NAME_LENGTHS: [u8; 62] = [
    0, 10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4, 4, 6,
    7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct InspectedEntry {
    kind: FieldKind,
    /// The length of its name.
    name: u32,
    size: u32,
}

/// A stream with a final head, or with a field section that is malformed or too long.
#[derive(Clone, Copy, Debug)]
struct StreamFindings {
    id: u32,
    /// Whether its final head was read, so that the next section is trailers.
    has_head: bool,
    is_malformed: bool,
    /// Whether a section was too long; the value tells whether the stream ended with it.
    too_long: Option<bool>,
}

/// The state of the frame reader.
#[derive(Clone, Copy, Debug)]
enum FrameState {
    /// A frame header, of which this many bytes were read.
    Header(usize),
    /// The padding length and the priority, before the block.
    Before {
        padded: bool,
        priority: usize,
    },
    Block,
    Skip,
}

/// The state of the reader of a field block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// At the start of a representation.
    First,
    /// A number with further bytes; `value` is the sum so far.
    Number {
        what: NumberKind,
        value: u32,
        shift: u32,
    },
    NameLength,
    Name {
        left: u32,
    },
    ValueLength,
    Value {
        left: u32,
        is_first: bool,
    },
}

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberKind {
    Indexed,
    Name,
    Resize,
    NameLength,
    ValueLength,
}

/// Finds responses that their pseudo-fields make malformed.
#[derive(Debug)]
pub struct ResponseInspector {
    /// The connection is broken, and the inspector has given up.
    has_given_up: bool,
    frame: FrameState,
    header: [u8; FRAME_HEADER_BYTES],
    /// Bytes of the frame that were not read yet, and the padding among them.
    left: usize,
    padding: usize,
    is_last_frame: bool,
    stream: u32,
    /// The length of the current section on the wire, and whether the stream ends with it.
    section_bytes: usize,
    ends_stream: bool,
    /// Most bytes of a section. HPACK makes no field longer than RFC 9113, 6.5.2 counts it. So a section that
    /// is longer on the wire also exceeds the limit that the gateway announced.
    max_section_bytes: usize,
    block: BlockState,
    /// The status of the current block, and whether it has a foreign pseudo-field.
    status: Option<FieldKind>,
    is_foreign: bool,
    /// The current field: its kind, the length of its name, and whether it goes into the table.
    kind: FieldKind,
    name_length: u32,
    inserts: bool,
    /// The start of its name as encoded, and the encoded length of the whole.
    name: ([u8; NAME_PREFIX_BYTES], usize),
    name_bytes: u32,
    /// Whether the current string is compressed.
    is_huffman: bool,
    decoded: DecodedLength,
    table: VecDeque<InspectedEntry>,
    size: u32,
    table_limit: u32,
    streams: Vec<StreamFindings>,
}

impl Default for ResponseInspector {
    fn default() -> Self {
        Self {
            has_given_up: false,
            frame: FrameState::Header(0),
            header: [0; FRAME_HEADER_BYTES],
            left: 0,
            padding: 0,
            is_last_frame: false,
            stream: 0,
            section_bytes: 0,
            ends_stream: false,
            max_section_bytes: usize::MAX,
            block: BlockState::First,
            status: None,
            is_foreign: false,
            kind: FieldKind::Plain,
            name_length: 0,
            inserts: false,
            name: ([0; NAME_PREFIX_BYTES], 0),
            name_bytes: 0,
            is_huffman: false,
            decoded: DecodedLength::default(),
            table: VecDeque::new(),
            size: 0,
            table_limit: TABLE_MAX_BYTES,
            streams: Vec::new(),
        }
    }
}

impl ResponseInspector {
    /// Creates a inspector that reports field sections of more than `max_section_bytes` bytes.
    #[must_use]
    pub fn with_limit(max_section_bytes: usize) -> Self {
        Self { max_section_bytes, ..Self::default() }
    }

    /// Follows the next bytes of the connection.
    ///
    /// Replaces the first letter of an unknown pseudo-field by `x` if its name lies in one piece. The library
    /// would end the connection for that name, and with it all other responses. The response stays malformed.
    pub fn inspect(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() && !self.has_given_up {
            let used = self.step(bytes);
            bytes = &mut bytes[used..];
        }
    }

    /// Whether the response on a stream is malformed, as far as it was received.
    #[must_use]
    pub fn is_malformed(&self, stream: u32) -> bool {
        self.streams.iter().any(|entry| entry.id == stream && entry.is_malformed)
    }

    /// Whether a field section of a stream was too long; `Some(true)` if the stream ended with it.
    #[must_use]
    pub fn is_too_long(&self, stream: u32) -> Option<bool> {
        self.streams.iter().find(|entry| entry.id == stream).and_then(|entry| entry.too_long)
    }

    /// Drops the state of a stream that no longer has a reader.
    pub fn forget(&mut self, stream: u32) {
        self.streams.retain(|entry| entry.id != stream);
    }

    /// Reads the next bytes. Returns how many.
    fn step(&mut self, bytes: &mut [u8]) -> usize {
        match self.frame {
            FrameState::Header(have) => {
                let count = (FRAME_HEADER_BYTES - have).min(bytes.len());
                self.header[have..have + count].copy_from_slice(&bytes[..count]);
                match have + count {
                    FRAME_HEADER_BYTES => self.begin_frame(),
                    have => self.frame = FrameState::Header(have),
                }
                count
            }
            FrameState::Before { padded, priority } => {
                if padded {
                    self.padding = usize::from(bytes[0]);
                }
                self.left -= 1;
                self.frame = match (padded, priority) {
                    (true, 0) | (false, 1) => FrameState::Block,
                    (true, priority) => FrameState::Before { padded: false, priority },
                    (false, priority) => FrameState::Before { padded: false, priority: priority - 1 },
                };
                // The padding is longer than the frame, or the priority does not fit.
                self.has_given_up = matches!(self.frame, FrameState::Block) && self.padding > self.left
                    || matches!(self.frame, FrameState::Before { .. }) && self.left == 0;
                self.end_frame();
                1
            }
            FrameState::Block => {
                let count = (self.left - self.padding).min(bytes.len());
                self.read_block(&mut bytes[..count]);
                self.left -= count;
                self.end_frame();
                count
            }
            FrameState::Skip => {
                let count = self.left.min(bytes.len());
                self.left -= count;
                self.end_frame();
                count
            }
        }
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        self.padding = 0;
        self.stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        self.is_last_frame = false;
        self.frame = FrameState::Skip;
        if matches!(kind, HEADERS | CONTINUATION) {
            self.is_last_frame = flags & END_HEADERS != 0;
            let padded = kind == HEADERS && flags & PADDED != 0;
            let priority = if kind == HEADERS && flags & PRIORITY != 0 { 5 } else { 0 };
            self.frame = if padded || priority > 0 {
                FrameState::Before { padded, priority }
            } else {
                FrameState::Block
            };
            if kind == HEADERS {
                (self.status, self.is_foreign, self.block) = (None, false, BlockState::First);
                (self.section_bytes, self.ends_stream) = (0, flags & END_STREAM != 0);
            }
            self.section_bytes = self.section_bytes.saturating_add(self.left);
            if self.section_bytes > self.max_section_bytes {
                let ends_stream = self.ends_stream;
                self.stream_findings(self.stream).too_long = Some(ends_stream);
            }
        }
        self.end_frame();
    }

    /// Goes on to the next frame, or to the padding after a block.
    fn end_frame(&mut self) {
        if let FrameState::Block = self.frame
            && self.left == self.padding
        {
            if std::mem::take(&mut self.is_last_frame) {
                self.end_block();
            }
            self.frame = FrameState::Skip;
        }
        if self.left == 0 && !matches!(self.frame, FrameState::Header(_)) {
            self.frame = FrameState::Header(0);
        }
    }

    /// Evaluates a complete field section.
    fn end_block(&mut self) {
        if self.block != BlockState::First {
            self.has_given_up = true;
            return;
        }
        let (id, status, is_foreign) = (self.stream, self.status.take(), self.is_foreign);
        let has_head = self.streams.iter().any(|entry| entry.id == id && entry.has_head);
        let is_malformed = is_foreign || has_head && status.is_some();
        let is_final = status == Some(FieldKind::Final);
        if is_malformed || is_final {
            let stream = self.stream_findings(id);
            stream.has_head |= is_final;
            stream.is_malformed |= is_malformed;
        }
    }

    /// Returns the state of a stream. A new one replaces the oldest if there are too many.
    fn stream_findings(&mut self, id: u32) -> &mut StreamFindings {
        let at = self.streams.iter().position(|entry| entry.id == id).unwrap_or_else(|| {
            if self.streams.len() >= STREAMS_MAX {
                self.streams.remove(0);
            }
            self.streams.push(StreamFindings { id, has_head: false, is_malformed: false, too_long: None });
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    /// Reads the next bytes of a block.
    fn read_block(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() && !self.has_given_up {
            let byte = bytes[at];
            match self.block {
                BlockState::First => {
                    at += 1;
                    // RFC 7541, 6.
                    let (what, prefix) = match byte {
                        0x80.. => (NumberKind::Indexed, 0x7f),
                        0x40.. => (NumberKind::Name, 0x3f),
                        0x20.. => (NumberKind::Resize, 0x1f),
                        _ => (NumberKind::Name, 0x0f),
                    };
                    self.inserts = byte & 0xc0 == 0x40;
                    self.begin_number(what, byte, prefix);
                }
                BlockState::Number { what, value, shift } => {
                    at += 1;
                    let value = value + (u32::from(byte & 0x7f) << shift);
                    match byte {
                        ..0x80 => self.end_number(what, value),
                        _ if shift > 14 => self.has_given_up = true,
                        _ => self.block = BlockState::Number { what, value, shift: shift + 7 },
                    }
                }
                BlockState::NameLength | BlockState::ValueLength => {
                    at += 1;
                    self.is_huffman = byte & 0x80 != 0;
                    self.decoded = DecodedLength::default();
                    let is_name = self.block == BlockState::NameLength;
                    let what = if is_name { NumberKind::NameLength } else { NumberKind::ValueLength };
                    self.begin_number(what, byte, 0x7f);
                }
                BlockState::Name { left } => {
                    let start = at;
                    at += (left as usize).min(bytes.len() - at);
                    let piece = &bytes[start..at];
                    let (kept, length) = &mut self.name;
                    for byte in piece.iter().take(NAME_PREFIX_BYTES - (*length).min(NAME_PREFIX_BYTES)) {
                        kept[*length] = *byte;
                        *length += 1;
                    }
                    self.count(start, at, bytes);
                    match left - (at - start) as u32 {
                        0 => {
                            let in_one_piece = (at - start) as u32 == self.name_bytes;
                            self.end_name(in_one_piece.then(|| &mut bytes[start..at]));
                        }
                        left => self.block = BlockState::Name { left },
                    }
                }
                BlockState::Value { left, is_first } => {
                    if is_first && self.kind == FieldKind::Status {
                        // The code of `1` is 00001.
                        let digit = if self.is_huffman { byte >> 3 == 1 } else { byte == b'1' };
                        self.kind = if digit { FieldKind::Interim } else { FieldKind::Final };
                    }
                    let start = at;
                    at += (left as usize).min(bytes.len() - at);
                    self.count(start, at, bytes);
                    match left - (at - start) as u32 {
                        0 => self.end_field(),
                        left => self.block = BlockState::Value { left, is_first: false },
                    }
                }
            }
        }
    }

    /// Counts the decoded bytes of a part of a string that goes into the table.
    fn count(&mut self, start: usize, end: usize, bytes: &[u8]) {
        if self.inserts {
            self.decoded.add(&bytes[start..end], self.is_huffman);
        }
    }

    fn begin_number(&mut self, what: NumberKind, byte: u8, prefix: u8) {
        match byte & prefix {
            value if value == prefix => {
                self.block = BlockState::Number { what, value: u32::from(prefix), shift: 0 };
            }
            value => self.end_number(what, u32::from(value)),
        }
    }

    fn end_number(&mut self, what: NumberKind, value: u32) {
        match what {
            NumberKind::Indexed => {
                self.block = BlockState::First;
                match self.entry(value) {
                    Some((kind, _)) => self.record_kind(kind),
                    None => self.has_given_up = true,
                }
            }
            NumberKind::Name if value == 0 => self.block = BlockState::NameLength,
            NumberKind::Name => {
                self.block = BlockState::ValueLength;
                match self.entry(value) {
                    Some((kind, name)) => {
                        let is_status = matches!(kind, FieldKind::Interim | FieldKind::Final);
                        self.kind = if is_status { FieldKind::Status } else { kind };
                        self.name_length = name;
                    }
                    None => self.has_given_up = true,
                }
            }
            NumberKind::Resize => {
                self.block = BlockState::First;
                self.table_limit = value.min(TABLE_MAX_BYTES);
                self.evict(0);
            }
            NumberKind::NameLength => {
                (self.name.1, self.name_bytes) = (0, value);
                self.block = BlockState::Name { left: value };
                self.has_given_up = value == 0;
            }
            NumberKind::ValueLength if value == 0 => {
                // An empty `:status` is not an interim one.
                self.end_field();
            }
            NumberKind::ValueLength => self.block = BlockState::Value { left: value, is_first: true },
        }
    }

    /// Returns the kind of the table entry with this index, and the length of its name.
    fn entry(&self, index: u32) -> Option<(FieldKind, u32)> {
        let index = index as usize;
        if let Some(name) = STATIC_NAME_LENGTHS.get(index) {
            let kind = match index {
                0 => return None,
                1..=7 => FieldKind::Foreign,
                8..=14 => FieldKind::Final,
                _ => FieldKind::Plain,
            };
            return Some((kind, u32::from(*name)));
        }
        self.table.get(index - STATIC_NAME_LENGTHS.len()).map(|entry| (entry.kind, entry.name))
    }

    /// Classifies a complete name. `whole` is all of it, if it lies in one piece.
    fn end_name(&mut self, whole: Option<&mut [u8]>) {
        // Plain, and Huffman-coded.
        const STATUS: [&[u8]; 2] = [b":status", &[0xb8, 0x84, 0x8d, 0x36, 0xa3]];
        const FOREIGN: [[&[u8]; 2]; 5] = [
            [b":authority", &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f]],
            [b":method", &[0xb9, 0x49, 0x53, 0x39, 0xe4]],
            [b":path", &[0xb9, 0x58, 0xd3, 0x3f]],
            [b":scheme", &[0xb8, 0x82, 0x4e, 0x5a, 0x4b]],
            [b":protocol", &[0xb9, 0x5d, 0x87, 0x49, 0xc8, 0x7a, 0x3f]],
        ];
        let form = usize::from(self.is_huffman);
        let (kept, have) = (&self.name.0, self.name.1);
        let length = self.name_bytes as usize;
        let is = |name: &[u8]| length == name.len() && kept[..have] == *name;
        // The code of `:` has seven bits.
        let is_pseudo = if self.is_huffman { kept[0] >> 1 == 0x5c } else { kept[0] == b':' };
        self.kind = if !is_pseudo {
            FieldKind::Plain
        } else if is(STATUS[form]) {
            FieldKind::Status
        } else {
            FieldKind::Foreign
        };
        let is_unknown = self.kind == FieldKind::Foreign && !FOREIGN.iter().any(|name| is(name[form]));
        if let Some(name) = whole.filter(|_| is_unknown) {
            // The code of `x` has seven bits too.
            name[0] = if self.is_huffman { 0x79 << 1 | name[0] & 1 } else { b'x' };
        }
        self.name_length = self.decoded.length();
        self.block = BlockState::ValueLength;
    }

    /// Records a complete literal field.
    fn end_field(&mut self) {
        self.block = BlockState::First;
        let kind = if self.kind == FieldKind::Status { FieldKind::Final } else { self.kind };
        self.record_kind(kind);
        if self.inserts {
            let size =
                self.name_length.saturating_add(self.decoded.length()).saturating_add(ENTRY_OVERHEAD_BYTES);
            self.evict(size);
            if size <= self.table_limit {
                self.size += size;
                self.table.push_front(InspectedEntry { kind, name: self.name_length, size });
            }
        }
    }

    /// Removes old entries until `more` bytes fit into the table (RFC 7541, 4.3 and 4.4).
    fn evict(&mut self, more: u32) {
        while self.size.saturating_add(more) > self.table_limit
            && let Some(oldest) = self.table.pop_back()
        {
            self.size -= oldest.size;
        }
    }

    fn record_kind(&mut self, kind: FieldKind) {
        match kind {
            FieldKind::Plain => {}
            FieldKind::Foreign => self.is_foreign = true,
            FieldKind::Status | FieldKind::Interim | FieldKind::Final => self.status = Some(kind),
        }
    }
}

#[cfg(test)]
mod tests;
