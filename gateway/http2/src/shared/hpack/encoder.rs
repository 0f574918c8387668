//! Encodes fields into a block of bytes (RFC 7541, 6). `send` uses one [`HpackEncoder`] for all heads of a
//! connection. It decides which fields enter the table.
//!
//! In responses a field enters when it is sent for the second time. In requests it also enters when its name
//! is new, because most fields of a connection's requests repeat from the first one on. A name whose value
//! changed is from then on treated as in responses, and written as a reference to the entry with that name.

use tollgate_http::Name;

use super::table::{HpackTable, STATIC, TABLE_MAX_BYTES, TableEntry};
use super::{huffman, integer};

/// Bytes of the largest field that is added to the table. A larger one would evict most other entries.
const INDEXED_FIELD_MAX_BYTES: usize = TABLE_MAX_BYTES / 4;
/// A field that is sent as never indexed. An attacker that can place own fields next to a secret in a table,
/// and sees the length of the blocks, could guess the secret (RFC 7541, 7.1.3).
const NEVER_INDEXED: &[u8] = b"set-cookie";
/// How many recently sent fields are remembered.
const RECENT_FIELDS: usize = 64;

/// Encodes heads and trailers. In a response, a field that is sent a second time is likely to repeat, so the encoder adds it
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
    /// Names of requests' fields that were sent, with the newest entry of each; empty in a server.
    names: Vec<RecentField>,
}

/// How many names of requests' fields are remembered, the first ones of a connection. Fields with other names
/// are treated as in responses.
const NAMES_MAX: usize = 32;

/// A recently sent field, or a name: its hash, and the number of its table entry; 0 if it has none.
#[derive(Clone, Copy, Debug, Default)]
struct RecentField {
    hash: u32,
    number: u64,
}

impl HpackEncoder {
    /// Creates the encoder of a client.
    pub fn for_requests() -> Self {
        Self { names: Vec::with_capacity(NAMES_MAX / 2), ..Self::for_responses() }
    }

    /// Creates the encoder of a server.
    pub fn for_responses() -> Self {
        Self {
            table: HpackTable::new(TABLE_MAX_BYTES),
            resized: None,
            added: 0,
            recent: Box::new([RecentField::default(); RECENT_FIELDS]),
            names: Vec::new(),
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

    /// Appends fields of a response; with `secrets`, all as never indexed.
    #[inline]
    pub fn fields<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        secrets: bool,
        out: &mut Vec<u8>,
    ) {
        for (name, value) in fields {
            if secrets {
                literal(0x10, 4, name, value, out);
            } else {
                self.field(name, value, out);
            }
        }
    }

    /// Appends a field; its name is written in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if name.len() == NEVER_INDEXED.len() && name.eq_ignore_ascii_case(NEVER_INDEXED) {
            return literal(0x10, 4, name, value, out);
        }
        let hash = hash(name, value);
        let slot = self::slot(hash);
        let recent = self.recent[slot];
        if recent.hash != hash {
            self.recent[slot] = RecentField { hash, number: 0 };
            return literal(0, 4, name, value, out);
        }
        // The entry's index, counted from the newest.
        let distance = self.added.wrapping_sub(recent.number) as usize;
        if recent.number > 0
            && let Some(entry) = self.table.get(distance)
            && entry.value() == value
            && entry.name().eq_ignore_ascii_case(name)
        {
            return integer::write(out, 0x80, 7, STATIC.len() + 1 + distance);
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

/// The static entries with pseudo-fields of requests.
const AUTHORITY: usize = 1;
const METHOD: usize = 2;
const PATH: usize = 4;
const HTTP: usize = 6;

impl HpackEncoder {
    /// Adds the pseudo-fields of a request. `protocol` is the `:protocol` of an extended CONNECT.
    pub fn request(
        &mut self,
        method: &[u8],
        (is_secure, authority, path): (bool, &[u8], &[u8]),
        protocol: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        match method {
            b"GET" => out.push(0x80 | METHOD as u8),
            b"POST" => out.push(0x80 | (METHOD + 1) as u8),
            _ => self.request_literal(METHOD, b":method", method, false, out),
        }
        out.push(0x80 | (HTTP + usize::from(is_secure)) as u8);
        self.request_literal(AUTHORITY, b":authority", authority, true, out);
        match path {
            b"/" => out.push(0x80 | PATH as u8),
            _ => self.request_literal(PATH, b":path", path, false, out),
        }
        if let Some(protocol) = protocol {
            self.request_literal(0, b":protocol", protocol, false, out);
        }
    }

    /// Appends a field of a request; its name is written in lower case. Credentials, and all fields of a
    /// request with `secrets`, are sent as never indexed.
    pub fn request_field(&mut self, name: &[u8], value: &[u8], secrets: bool, out: &mut Vec<u8>) {
        let known = Name::of(name);
        if secrets || known.is_credential() {
            self.name(0x10, 4, request_index(known), name, out);
            return text(value, out);
        }
        self.request_literal(request_index(known), name, value, true, out);
    }

    /// Appends a field whose name has this static index; 0 if it has none. `is_new_indexed`: the field enters
    /// the table if its name is new.
    fn request_literal(
        &mut self,
        static_index: usize,
        name: &[u8],
        value: &[u8],
        is_new_indexed: bool,
        out: &mut Vec<u8>,
    ) {
        let name_hash = hash(name, b"");
        let known = self.names.iter().position(|known| known.hash == name_hash);
        let mut index = static_index;
        if let Some(known) = known
            && let Some((at, entry)) = self.entry(self.names[known].number)
            && entry.name().eq_ignore_ascii_case(name)
        {
            if entry.value() == value {
                return integer::write(out, 0x80, 7, at);
            }
            if index == 0 {
                index = at;
            }
        }
        let hash = hash(name, value);
        let slot = self::slot(hash);
        let recent = self.recent[slot];
        let repeats = recent.hash == hash;
        if repeats
            && let Some((at, entry)) = self.entry(recent.number)
            && entry.value() == value
            && entry.name().eq_ignore_ascii_case(name)
        {
            return integer::write(out, 0x80, 7, at);
        }
        if !repeats {
            self.recent[slot] = RecentField { hash, number: 0 };
        }
        let is_new = known.is_none() && self.names.len() < NAMES_MAX;
        let enters =
            (repeats || is_new_indexed && is_new) && name.len() + value.len() <= INDEXED_FIELD_MAX_BYTES;
        let (first, bits) = if enters { (0x40, 6) } else { (0, 4) };
        self.name(first, bits, index, name, out);
        text(value, out);
        let known = known.or(is_new.then_some(self.names.len()));
        if is_new {
            self.names.push(RecentField { hash: name_hash, number: 0 });
        }
        if enters && self.table.add(&name.to_ascii_lowercase(), value) {
            self.added += 1;
            self.recent[slot].number = self.added;
            if let Some(known) = known {
                self.names[known].number = self.added;
            }
        }
    }

    /// Returns a dynamic entry by its number, with its index.
    fn entry(&self, number: u64) -> Option<(usize, &TableEntry)> {
        // The position, counted from the newest.
        let distance = self.added.wrapping_sub(number) as usize;
        let entry = self.table.get(distance).filter(|_| number > 0)?;
        Some((STATIC.len() + 1 + distance, entry))
    }

    /// Appends the start of a literal: its kind above a prefix of `bits` bits, and its name as an index or,
    /// if that is 0, in the shorter of both codings.
    fn name(&self, first: u8, bits: u32, index: usize, name: &[u8], out: &mut Vec<u8>) {
        integer::write(out, first, bits, index);
        if index > 0 {
            return;
        }
        let lower = || name.iter().map(u8::to_ascii_lowercase);
        let length = huffman::encoded_length(lower());
        if length < name.len() {
            integer::write(out, 0x80, 7, length);
            huffman::encode(lower(), out);
        } else {
            integer::write(out, 0, 7, name.len());
            out.extend(lower());
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

/// As [`index`], with the names of requests.
fn request_index(name: Name) -> usize {
    match name {
        Name::Accept => 19,
        Name::Authorization => 23,
        Name::Cookie => 32,
        Name::Expect => 35,
        Name::ProxyAuthorization => 49,
        Name::Referer => 51,
        Name::UserAgent => 58,
        Name::Via => 60,
        _ => index(name),
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

/// The slot of a hash, which is odd.
fn slot(hash: u32) -> usize {
    (hash >> 1) as usize % RECENT_FIELDS
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
    fn repeated_fields_take_one_byte_and_others_evict_nothing() {
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
    fn a_request_that_repeats_is_a_byte_a_field() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_requests(), HpackDecoder::new());
        let mut last = Vec::new();
        for at in 0..1_000 {
            let id = format!("{at:030}");
            let fields =
                [("User-Agent", "any/1"), ("X-Request-Id", id.as_str()), ("x-forwarded-for", "10.0.0.1")];
            last.clear();
            encoder.begin(&mut last);
            encoder.request(b"PUT", (true, b"shop.example:8443", b"/a?b"), None, &mut last);
            for (name, value) in fields {
                encoder.request_field(name.as_bytes(), value.as_bytes(), false, &mut last);
            }
            let pseudo = [
                (":method", "PUT"),
                (":scheme", "https"),
                (":authority", "shop.example:8443"),
                (":path", "/a?b"),
            ];
            let wanted: Vec<(String, String)> = pseudo
                .iter()
                .chain(&fields)
                .map(|(name, value)| (name.to_lowercase(), (*value).to_owned()))
                .collect();
            assert_eq!(read(&mut decoder, &last), wanted);
        }
        // Six fields that repeat; the id with a reference to its name of two bytes.
        assert!(last.len() <= 6 + 2 + 31, "{}", last.len());
    }

    #[test]
    fn names_share_no_slot_by_mistake() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_requests(), HpackDecoder::new());
        for round in 0..4 {
            for at in 0..500 {
                let (name, value) = (format!("x-{at}"), format!("{}", at / (round + 1)));
                let mut block = Vec::new();
                encoder.request_field(name.as_bytes(), value.as_bytes(), at % 5 == 0, &mut block);
                assert_eq!(read(&mut decoder, &block), [(name, value)]);
            }
            encoder.resize([4096, 100, 0, 4096][round]);
            let mut block = Vec::new();
            encoder.begin(&mut block);
            assert_eq!(read(&mut decoder, &block), []);
        }
    }

    #[test]
    fn credentials_and_secrets_of_requests_are_never_indexed() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_requests(), HpackDecoder::new());
        for (name, secrets) in
            [("authorization", false), ("cookie", false), ("proxy-authorization", false), ("x", true)]
        {
            for _ in 0..3 {
                let mut block = Vec::new();
                encoder.request_field(name.as_bytes(), b"1", secrets, &mut block);
                assert_eq!(block[0] & 0xf0, 0x10, "{name}");
                assert_eq!(read(&mut decoder, &block), [(name.to_owned(), "1".to_owned())]);
            }
        }
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
    fn every_status_is_encoded() {
        let (mut encoder, mut decoder) = (HpackEncoder::for_responses(), HpackDecoder::new());
        for status in 100..=999 {
            let text = status.to_string();
            let block = written(&mut encoder, text.as_bytes(), &[]);
            assert_eq!(read(&mut decoder, &block), [(":status".to_owned(), text)]);
        }
    }

    #[test]
    fn a_table_size_update_comes_first() {
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
