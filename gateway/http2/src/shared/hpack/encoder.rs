//! Encodes fields into a block of bytes (RFC 7541, 6). `send` uses one [`HpackEncoder`] for all responses of
//! a connection. It decides which fields enter the table, and never compresses with Huffman codes.

use tollgate_http::Name;

use super::table::{HpackTable, STATIC};
use super::{TABLE_MAX_BYTES, integer};

/// Bytes of the largest field that is added to the table. A larger one would evict most other entries.
const INDEXED_FIELD_MAX_BYTES: usize = TABLE_MAX_BYTES / 4;
/// A field that is sent as never indexed. An attacker that can place own fields next to a secret in a table,
/// and sees the length of the blocks, could guess the secret (RFC 7541, 7.1.3).
const NEVER_INDEXED: &[u8] = b"set-cookie";
/// How many recently sent fields are remembered.
const RECENT_FIELDS: usize = 64;

/// Encodes heads and trailers. A field that is sent a second time is likely to repeat, so the encoder adds it
/// to the table. Fields that are new in each message (an id, a length) never repeat, so they evict nothing.
/// Literals are not Huffman-coded: a repeated field is written out only until it is in the table.
#[derive(Debug)]
pub(crate) struct HpackEncoder {
    table: HpackTable,
    /// If the table's size changed since the last block: the smallest size since then, and the current one
    /// (4.2).
    resized: Option<(usize, usize)>,
    /// How many entries were ever added.
    added: u64,
    recent: Box<[RecentField; RECENT_FIELDS]>,
}

/// A recently sent field: its hash, and the number of its table entry; 0 if it has none.
#[derive(Clone, Copy, Debug, Default)]
struct RecentField {
    hash: u32,
    number: u64,
}

impl HpackEncoder {
    /// Creates the encoder of a server.
    pub fn for_responses() -> Self {
        Self {
            table: HpackTable::new(TABLE_MAX_BYTES),
            resized: None,
            added: 0,
            recent: Box::new([RecentField::default(); RECENT_FIELDS]),
        }
    }

    /// Applies the size limit of the peer's table.
    pub fn resize(&mut self, max_size: usize) {
        let max_size = max_size.min(TABLE_MAX_BYTES);
        if max_size == self.table.max_size() && self.resized.is_none() {
            return;
        }
        let smallest = self.resized.map_or(max_size, |(smallest, _)| smallest.min(max_size));
        self.resized = Some((smallest, max_size));
        self.table.resize(max_size);
    }

    /// Starts a block, with a size update if one is due.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let Some((smallest, max_size)) = self.resized.take() else { return };
        if smallest < max_size {
            integer::write(out, 0x20, 5, smallest);
        }
        integer::write(out, 0x20, 5, max_size);
    }

    /// Adds `:status`.
    pub fn status(&mut self, status: &[u8], out: &mut Vec<u8>) {
        // Entries 8 to 14 of the static table.
        match STATIC[7..14].iter().position(|(_, value)| value.as_bytes() == status) {
            Some(at) => out.push(0x80 | (8 + at) as u8),
            None => {
                out.push(0x08);
                text(status, out);
            }
        }
    }

    /// Appends a field; its name is written in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if name.len() == NEVER_INDEXED.len() && name.eq_ignore_ascii_case(NEVER_INDEXED) {
            return literal(0x10, 4, name, value, out);
        }
        let hash = hash(name, value);
        let slot = hash as usize % RECENT_FIELDS;
        let recent = self.recent[slot];
        if recent.hash != hash {
            self.recent[slot] = RecentField { hash, number: 0 };
            return literal(0, 4, name, value, out);
        }
        // The entry's index, counted from the newest.
        let behind = self.added.wrapping_sub(recent.number) as usize;
        if recent.number > 0
            && let Some(entry) = self.table.get(behind)
            && entry.value() == value
            && entry.name().eq_ignore_ascii_case(name)
        {
            return integer::write(out, 0x80, 7, STATIC.len() + 1 + behind);
        }
        if name.len() + value.len() > INDEXED_FIELD_MAX_BYTES {
            return literal(0, 4, name, value, out);
        }
        literal(0x40, 6, name, value, out);
        let small = name.to_ascii_lowercase();
        if self.table.add(&small, value) {
            self.added += 1;
            self.recent[slot].number = self.added;
        }
    }
}

/// Appends a literal. `first` holds its kind, above a prefix of `bits` bits.
fn literal(first: u8, bits: u32, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let index = index(Name::of(name));
    integer::write(out, first, bits, index);
    if index == 0 {
        integer::write(out, 0, 7, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
    }
    text(value, out);
}

fn text(value: &[u8], out: &mut Vec<u8>) {
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// The index of a static entry with that name; 0 if there is none.
fn index(name: Name) -> usize {
    match name {
        Name::CacheControl => 24,
        Name::ContentEncoding => 26,
        Name::ContentLength => 28,
        Name::ContentType => 31,
        Name::Date => 33,
        Name::Location => 46,
        Name::Server => 54,
        Name::SetCookie => 55,
        _ => 0,
    }
}

/// Hashes the value and, roughly and ignoring case, the name: multiply and rotate, eight bytes at a time. A
/// collision is harmless: the colliding fields are written out in full.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    const MANY: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(MANY).rotate_left(29);
    let ends = [name.first(), name.last()].map(|byte| u64::from(byte.copied().unwrap_or_default() | 0x20));
    let mut hash = mix((name.len() << 16 | value.len()) as u64, ends[0] << 8 | ends[1]);
    let (words, rest) = value.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let hash = mix(hash, last);
    // Never 0: that marks an unused slot.
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::super::HpackDecoder;
    use super::*;
    use crate::shared::fields::FieldSection;

    fn written(encoder: &mut HpackEncoder, status: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        encoder.status(status, &mut out);
        for (name, value) in fields {
            encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
        }
        out
    }

    fn read(decoder: &mut HpackDecoder, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = FieldSection::new(100_000);
        decoder.decode(block, &mut fields).unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn what_repeats_is_a_byte_and_what_does_not_drives_nothing_out() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        let mut last = 0;
        for at in 0..1_000 {
            let (id, length) = (format!("{at:030}"), (at % 7).to_string());
            let fields = [
                ("Content-Type", "application/json"),
                ("X-Request-Id", id.as_str()),
                ("Content-Length", length.as_str()),
                ("server", "Any"),
            ];
            let block = written(&mut encoder, b"200", &fields);
            let wanted: Vec<(String, String)> = std::iter::once((":status", "200"))
                .chain(fields)
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            assert_eq!(read(&mut decoder, &block), wanted);
            last = block.len();
        }
        // The status, the two that repeat, the length at most written out, and the id.
        assert!(last <= 1 + 2 + 4 + 2 + 12 + 31, "{last}");
    }

    #[test]
    fn cookies_are_never_indexed() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        for _ in 0..3 {
            let block = written(&mut encoder, b"200", &[("Set-Cookie", "id=1")]);
            // The status; then a never-indexed literal with the name 55 of the static table.
            assert_eq!(block[..3], [0x88, 0x1f, 55 - 15]);
            assert_eq!(read(&mut decoder, &block)[1], ("set-cookie".to_owned(), "id=1".to_owned()));
        }
    }

    #[test]
    fn every_status_is_told() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        for status in 100..=999 {
            let text = status.to_string();
            let block = written(&mut encoder, text.as_bytes(), &[]);
            assert_eq!(read(&mut decoder, &block), [(":status".to_owned(), text)]);
        }
    }

    #[test]
    fn a_table_that_was_made_smaller_is_told_first() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        let fields = [("a", "1"), ("b", "2"), ("c", "3")];
        let all = |encoder: &mut HpackEncoder, decoder: &mut HpackDecoder| {
            for _ in 0..3 {
                let block = written(encoder, b"204", &fields);
                assert_eq!(read(decoder, &block).len(), 4);
            }
            written(encoder, b"204", &fields)
        };
        assert_eq!(all(&mut encoder, &mut decoder).len(), 4);
        encoder.resize(70);
        encoder.resize(0);
        encoder.resize(100);
        assert_eq!(written(&mut encoder, b"200", &[])[..4], [0x20, 0x3f, 0x45, 0x88]);
        encoder.resize(100);
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        all(&mut encoder, &mut decoder);
        encoder.resize(40);
        let block = all(&mut encoder, &mut decoder);
        assert!(block.len() > 4 && read(&mut decoder, &block).len() == 4);
        encoder.resize(0);
        assert_eq!(read(&mut decoder, &written(&mut encoder, b"204", &fields)).len(), 4);
    }
}
