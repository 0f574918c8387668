//! Detects responses of HTTP/2 endpoints from which the h2 library drops fields without an error.
//!
//! The library drops request pseudo-fields in a response, and all pseudo-fields in trailers. Both make a
//! response malformed (RFC 9113, 8.1 and 8.3). It also drops the fields of a trailer section that exceed its
//! limit, and passes the others on as if they were complete. The socket of an endpoint's connection shows
//! every byte to a [`Sieve`] before the library gets it. The reader of a response asks
//! [`Sieve::is_malformed`] and [`Sieve::is_too_long`].
//!
//! The sieve follows frames and HPACK representations, but decodes no strings. It looks at the first bytes of
//! names and statuses. It counts the sizes of entries in the dynamic table, to resolve references into it.
//! DATA is skipped by its length.
//!
//! Invariant: its dynamic table has the same entries as the library's. After an error for which the library
//! ends the connection, the sieve gives up and reports nothing.

use std::collections::VecDeque;

use super::hpack_length::Decoded;

/// Bytes of a frame header.
const HEADER: usize = 9;
/// The default size of the dynamic table, in bytes (RFC 7541, 4.2; RFC 9113, 6.5.2).
const TABLE: u32 = 4096;
/// The overhead of a table entry, in bytes (RFC 7541, 4.1).
const OVERHEAD: u32 = 32;
/// Most streams whose state is kept. The gateway opens up to 100 at once; an endpoint can name others.
const STREAMS: usize = 256;
/// Most bytes of a name that are kept: the length of the longest pseudo-field.
const NAME: usize = 12;

/// Frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The kinds of fields that the sieve distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
const NAMES: [u8; 62] = [
    0, 10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4, 4, 6,
    7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: Kind,
    /// The length of its name.
    name: u32,
    size: u32,
}

/// A stream with a final head, or with a field section that is malformed or too long.
#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    /// Whether its final head was read, so that the next section is trailers.
    has_head: bool,
    is_malformed: bool,
    /// Whether a section was too long; the value tells whether the stream ended with it.
    too_long: Option<bool>,
}

/// The state of the frame reader.
#[derive(Clone, Copy, Debug)]
enum Frame {
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
enum Block {
    /// At the start of a representation.
    First,
    /// A number with further bytes; `value` is the sum so far.
    Number {
        what: Number,
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
enum Number {
    Indexed,
    Name,
    Resize,
    NameLength,
    ValueLength,
}

/// Finds responses that their pseudo-fields make malformed.
#[derive(Debug)]
pub struct Sieve {
    /// The connection is broken, and the sieve has given up.
    is_lost: bool,
    frame: Frame,
    header: [u8; HEADER],
    /// Bytes of the frame that were not read yet, and the padding among them.
    left: usize,
    padding: usize,
    ends: bool,
    stream: u32,
    /// The length of the current section on the wire, and whether the stream ends with it.
    section: usize,
    ends_stream: bool,
    /// Most bytes of a section. HPACK makes no field longer than RFC 9113, 6.5.2 counts it. So a section that
    /// is longer on the wire also exceeds the limit that the gateway announced.
    most_section: usize,
    block: Block,
    /// The status of the current block, and whether it has a foreign pseudo-field.
    status: Option<Kind>,
    is_foreign: bool,
    /// The current field: its kind, the length of its name, and whether it goes into the table.
    kind: Kind,
    name_length: u32,
    inserts: bool,
    /// The start of its name as encoded, and the encoded length of the whole.
    name: ([u8; NAME], usize),
    name_bytes: u32,
    /// Whether the current string is compressed.
    is_huffman: bool,
    decoded: Decoded,
    table: VecDeque<Entry>,
    size: u32,
    most: u32,
    streams: Vec<Stream>,
}

impl Default for Sieve {
    fn default() -> Self {
        Self {
            is_lost: false,
            frame: Frame::Header(0),
            header: [0; HEADER],
            left: 0,
            padding: 0,
            ends: false,
            stream: 0,
            section: 0,
            ends_stream: false,
            most_section: usize::MAX,
            block: Block::First,
            status: None,
            is_foreign: false,
            kind: Kind::Plain,
            name_length: 0,
            inserts: false,
            name: ([0; NAME], 0),
            name_bytes: 0,
            is_huffman: false,
            decoded: Decoded::default(),
            table: VecDeque::new(),
            size: 0,
            most: TABLE,
            streams: Vec::new(),
        }
    }
}

impl Sieve {
    /// Creates a sieve that reports field sections of more than `most_section` bytes.
    #[must_use]
    pub fn within(most_section: usize) -> Self {
        Self { most_section, ..Self::default() }
    }

    /// Follows the next bytes of the connection.
    ///
    /// Replaces the first letter of an unknown pseudo-field by `x` if its name lies in one piece. The library
    /// would end the connection for that name, and with it all other responses. The response stays malformed.
    pub fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() && !self.is_lost {
            let used = self.some(bytes);
            bytes = &mut bytes[used..];
        }
    }

    /// Whether the response on a stream is malformed, as far as it was received.
    #[must_use]
    pub fn is_malformed(&self, stream: u32) -> bool {
        self.streams.iter().any(|known| known.id == stream && known.is_malformed)
    }

    /// Whether a field section of a stream was too long; `Some(true)` if the stream ended with it.
    #[must_use]
    pub fn is_too_long(&self, stream: u32) -> Option<bool> {
        self.streams.iter().find(|known| known.id == stream).and_then(|known| known.too_long)
    }

    /// Drops the state of a stream that no longer has a reader.
    pub fn forget(&mut self, stream: u32) {
        self.streams.retain(|known| known.id != stream);
    }

    /// Reads the next bytes. Returns how many.
    fn some(&mut self, bytes: &mut [u8]) -> usize {
        match self.frame {
            Frame::Header(have) => {
                let count = (HEADER - have).min(bytes.len());
                self.header[have..have + count].copy_from_slice(&bytes[..count]);
                match have + count {
                    HEADER => self.begin_frame(),
                    have => self.frame = Frame::Header(have),
                }
                count
            }
            Frame::Before { padded, priority } => {
                if padded {
                    self.padding = usize::from(bytes[0]);
                }
                self.left -= 1;
                self.frame = match (padded, priority) {
                    (true, 0) | (false, 1) => Frame::Block,
                    (true, priority) => Frame::Before { padded: false, priority },
                    (false, priority) => Frame::Before { padded: false, priority: priority - 1 },
                };
                // The padding is longer than the frame, or the priority does not fit.
                self.is_lost = matches!(self.frame, Frame::Block) && self.padding > self.left
                    || matches!(self.frame, Frame::Before { .. }) && self.left == 0;
                self.end_frame();
                1
            }
            Frame::Block => {
                let count = (self.left - self.padding).min(bytes.len());
                self.fields(&mut bytes[..count]);
                self.left -= count;
                self.end_frame();
                count
            }
            Frame::Skip => {
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
        self.ends = false;
        self.frame = Frame::Skip;
        if matches!(kind, HEADERS | CONTINUATION) {
            self.ends = flags & END_HEADERS != 0;
            let padded = kind == HEADERS && flags & PADDED != 0;
            let priority = if kind == HEADERS && flags & PRIORITY != 0 { 5 } else { 0 };
            self.frame =
                if padded || priority > 0 { Frame::Before { padded, priority } } else { Frame::Block };
            if kind == HEADERS {
                (self.status, self.is_foreign, self.block) = (None, false, Block::First);
                (self.section, self.ends_stream) = (0, flags & END_STREAM != 0);
            }
            self.section = self.section.saturating_add(self.left);
            if self.section > self.most_section {
                let ends_stream = self.ends_stream;
                self.stream_of(self.stream).too_long = Some(ends_stream);
            }
        }
        self.end_frame();
    }

    /// Goes on to the next frame, or to the padding after a block.
    fn end_frame(&mut self) {
        if let Frame::Block = self.frame
            && self.left == self.padding
        {
            if std::mem::take(&mut self.ends) {
                self.end_block();
            }
            self.frame = Frame::Skip;
        }
        if self.left == 0 && !matches!(self.frame, Frame::Header(_)) {
            self.frame = Frame::Header(0);
        }
    }

    /// Evaluates a complete field section.
    fn end_block(&mut self) {
        if self.block != Block::First {
            self.is_lost = true;
            return;
        }
        let (id, status, is_foreign) = (self.stream, self.status.take(), self.is_foreign);
        let has_head = self.streams.iter().any(|known| known.id == id && known.has_head);
        let is_malformed = is_foreign || has_head && status.is_some();
        let is_final = status == Some(Kind::Final);
        if is_malformed || is_final {
            let stream = self.stream_of(id);
            stream.has_head |= is_final;
            stream.is_malformed |= is_malformed;
        }
    }

    /// Returns the state of a stream. A new one replaces the oldest if there are too many.
    fn stream_of(&mut self, id: u32) -> &mut Stream {
        let at = self.streams.iter().position(|known| known.id == id).unwrap_or_else(|| {
            if self.streams.len() >= STREAMS {
                self.streams.remove(0);
            }
            self.streams.push(Stream { id, has_head: false, is_malformed: false, too_long: None });
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    /// Reads the next bytes of a block.
    fn fields(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() && !self.is_lost {
            let byte = bytes[at];
            match self.block {
                Block::First => {
                    at += 1;
                    // RFC 7541, 6.
                    let (what, prefix) = match byte {
                        0x80.. => (Number::Indexed, 0x7f),
                        0x40.. => (Number::Name, 0x3f),
                        0x20.. => (Number::Resize, 0x1f),
                        _ => (Number::Name, 0x0f),
                    };
                    self.inserts = byte & 0xc0 == 0x40;
                    self.begin_number(what, byte, prefix);
                }
                Block::Number { what, value, shift } => {
                    at += 1;
                    let value = value + (u32::from(byte & 0x7f) << shift);
                    match byte {
                        ..0x80 => self.number(what, value),
                        _ if shift > 14 => self.is_lost = true,
                        _ => self.block = Block::Number { what, value, shift: shift + 7 },
                    }
                }
                Block::NameLength | Block::ValueLength => {
                    at += 1;
                    self.is_huffman = byte & 0x80 != 0;
                    self.decoded = Decoded::default();
                    let is_name = self.block == Block::NameLength;
                    let what = if is_name { Number::NameLength } else { Number::ValueLength };
                    self.begin_number(what, byte, 0x7f);
                }
                Block::Name { left } => {
                    let start = at;
                    at += (left as usize).min(bytes.len() - at);
                    let piece = &bytes[start..at];
                    let (kept, length) = &mut self.name;
                    for byte in piece.iter().take(NAME - (*length).min(NAME)) {
                        kept[*length] = *byte;
                        *length += 1;
                    }
                    self.count(start, at, bytes);
                    match left - (at - start) as u32 {
                        0 => {
                            let in_one_piece = (at - start) as u32 == self.name_bytes;
                            self.end_name(in_one_piece.then(|| &mut bytes[start..at]));
                        }
                        left => self.block = Block::Name { left },
                    }
                }
                Block::Value { left, is_first } => {
                    if is_first && self.kind == Kind::Status {
                        // The code of `1` is 00001.
                        let digit = if self.is_huffman { byte >> 3 == 1 } else { byte == b'1' };
                        self.kind = if digit { Kind::Interim } else { Kind::Final };
                    }
                    let start = at;
                    at += (left as usize).min(bytes.len() - at);
                    self.count(start, at, bytes);
                    match left - (at - start) as u32 {
                        0 => self.end_field(),
                        left => self.block = Block::Value { left, is_first: false },
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

    fn begin_number(&mut self, what: Number, byte: u8, prefix: u8) {
        match byte & prefix {
            value if value == prefix => {
                self.block = Block::Number { what, value: u32::from(prefix), shift: 0 };
            }
            value => self.number(what, u32::from(value)),
        }
    }

    fn number(&mut self, what: Number, value: u32) {
        match what {
            Number::Indexed => {
                self.block = Block::First;
                match self.entry(value) {
                    Some((kind, _)) => self.note(kind),
                    None => self.is_lost = true,
                }
            }
            Number::Name if value == 0 => self.block = Block::NameLength,
            Number::Name => {
                self.block = Block::ValueLength;
                match self.entry(value) {
                    Some((kind, name)) => {
                        let is_status = matches!(kind, Kind::Interim | Kind::Final);
                        self.kind = if is_status { Kind::Status } else { kind };
                        self.name_length = name;
                    }
                    None => self.is_lost = true,
                }
            }
            Number::Resize => {
                self.block = Block::First;
                self.most = value.min(TABLE);
                self.evict(0);
            }
            Number::NameLength => {
                (self.name.1, self.name_bytes) = (0, value);
                self.block = Block::Name { left: value };
                self.is_lost = value == 0;
            }
            Number::ValueLength if value == 0 => {
                // An empty `:status` is not an interim one.
                self.end_field();
            }
            Number::ValueLength => self.block = Block::Value { left: value, is_first: true },
        }
    }

    /// Returns the kind of the table entry with this index, and the length of its name.
    fn entry(&self, index: u32) -> Option<(Kind, u32)> {
        let index = index as usize;
        if let Some(name) = NAMES.get(index) {
            let kind = match index {
                0 => return None,
                1..=7 => Kind::Foreign,
                8..=14 => Kind::Final,
                _ => Kind::Plain,
            };
            return Some((kind, u32::from(*name)));
        }
        self.table.get(index - NAMES.len()).map(|entry| (entry.kind, entry.name))
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
            Kind::Plain
        } else if is(STATUS[form]) {
            Kind::Status
        } else {
            Kind::Foreign
        };
        let is_unknown = self.kind == Kind::Foreign && !FOREIGN.iter().any(|name| is(name[form]));
        if let Some(name) = whole.filter(|_| is_unknown) {
            // The code of `x` has seven bits too.
            name[0] = if self.is_huffman { 0x79 << 1 | name[0] & 1 } else { b'x' };
        }
        self.name_length = self.decoded.length();
        self.block = Block::ValueLength;
    }

    /// Records a complete literal field.
    fn end_field(&mut self) {
        self.block = Block::First;
        let kind = if self.kind == Kind::Status { Kind::Final } else { self.kind };
        self.note(kind);
        if self.inserts {
            let size = self.name_length.saturating_add(self.decoded.length()).saturating_add(OVERHEAD);
            self.evict(size);
            if size <= self.most {
                self.size += size;
                self.table.push_front(Entry { kind, name: self.name_length, size });
            }
        }
    }

    /// Removes old entries until `more` bytes fit into the table (RFC 7541, 4.3 and 4.4).
    fn evict(&mut self, more: u32) {
        while self.size.saturating_add(more) > self.most
            && let Some(oldest) = self.table.pop_back()
        {
            self.size -= oldest.size;
        }
    }

    fn note(&mut self, kind: Kind) {
        match kind {
            Kind::Plain => {}
            Kind::Foreign => self.is_foreign = true,
            Kind::Status | Kind::Interim | Kind::Final => self.status = Some(kind),
        }
    }
}

#[cfg(test)]
mod tests;
