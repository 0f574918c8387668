//! The records of a segment, as bytes.
//!
//! A record is a header of [`HEADER_BYTES`], a meta part, and for an object its body. The header has a checksum of
//! itself and of the meta part, and states its own place, so a record at a wrong place is invalid. The meta part of an
//! object has its key, its head, and a checksum of each block of the body, so that a part of a body can be verified
//! without the rest. Numbers are little-endian. A change of this format must change [`MAGIC`]: segments of another
//! format count as damaged, and are removed.

use std::iter;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::rules::freshness::Freshness;
use crate::rules::vary::Vary;
use crate::{Purge, PurgeMode, StoredHead};

/// The length of a header.
pub(super) const HEADER_BYTES: usize = 64;
/// The length of a block, the unit in which a body is verified. The last one of a body may be shorter.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// The first bytes of each header: the format and its version.
const MAGIC: u64 = u64::from_le_bytes(*b"tgcache2");

/// The place of a record, which orders all records by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub segment: u32,
    pub offset: u32,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A response.
    Object,
    /// A purge of records before it.
    Purge,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub meta_bytes: u32,
    pub body_bytes: u64,
    meta_sum: u64,
}

impl Header {
    pub fn new(kind: Kind, meta: &[u8], body_bytes: u64) -> Self {
        // A meta part of 4 GiB would need a body of 32 TiB.
        let meta_bytes = u32::try_from(meta.len()).unwrap_or(u32::MAX);
        Self { kind, meta_bytes, body_bytes, meta_sum: xxh3_64(meta) }
    }

    /// The length of the whole record.
    pub const fn record_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.meta_bytes as u64 + self.body_bytes
    }

    pub fn write(&self, place: Place) -> [u8; HEADER_BYTES] {
        let kind: u32 = match self.kind {
            Kind::Object => 1,
            Kind::Purge => 2,
        };
        let words = [
            MAGIC,
            u64::from(place.segment) << 32 | u64::from(place.offset),
            u64::from(kind) << 32 | u64::from(self.meta_bytes),
            self.body_bytes,
            self.meta_sum,
            0,
            0,
        ];
        let mut bytes = [0; HEADER_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let sum = xxh3_64(&bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header. `None`: these bytes are no header that was written for this place.
    pub fn read(bytes: &[u8], place: Place) -> Option<Self> {
        let mut reader = Reader(bytes.get(..HEADER_BYTES)?);
        let sum = xxh3_64(&bytes[..HEADER_BYTES - 8]);
        let words: [u64; HEADER_BYTES / 8] = std::array::from_fn(|_| reader.u64().unwrap_or_default());
        let [magic, own_place, kind_and_meta, body_bytes, meta_sum, _, _, own_sum] = words;
        let expected = u64::from(place.segment) << 32 | u64::from(place.offset);
        if magic != MAGIC || own_place != expected || own_sum != sum {
            return None;
        }
        let kind = match kind_and_meta >> 32 {
            1 => Kind::Object,
            2 => Kind::Purge,
            _ => return None,
        };
        Some(Self { kind, meta_bytes: kind_and_meta as u32, body_bytes, meta_sum })
    }

    /// Returns whether this meta part matches the header's checksum.
    pub fn has_meta(&self, meta: &[u8]) -> bool {
        meta.len() == self.meta_bytes as usize && xxh3_64(meta) == self.meta_sum
    }
}

/// The number of blocks of a body.
pub(super) const fn blocks(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(BLOCK_BYTES as u64)
}

/// The checksum of a block. It depends on the place of the record and the number of the block, so no other block
/// matches it.
pub(super) fn block_sum(place: Place, number: u64, data: &[u8]) -> u64 {
    let mut sum = Xxh3::with_seed(block_seed(place, number));
    sum.update(data);
    sum.digest()
}

fn block_seed(place: Place, number: u64) -> u64 {
    (u64::from(place.segment) << 32 | u64::from(place.offset)).wrapping_add(number.rotate_left(32))
}

/// The checksums of the blocks of a body that comes in pieces.
pub(super) fn block_sums<'a>(place: Place, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
    let mut sums = Vec::new();
    let (mut sum, mut filled) = (Xxh3::with_seed(block_seed(place, 0)), 0);
    for mut piece in pieces {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(BLOCK_BYTES - filled));
            sum.update(now);
            filled += now.len();
            piece = later;
            if filled == BLOCK_BYTES {
                sums.push(sum.digest());
                (sum, filled) = (Xxh3::with_seed(block_seed(place, sums.len() as u64)), 0);
            }
        }
    }
    if filled > 0 {
        sums.push(sum.digest());
    }
    sums
}

/// The meta part of an object.
#[derive(Debug)]
pub(super) struct Meta {
    pub key: Box<[u8]>,
    pub head: StoredHead,
    /// The checksums of the blocks of the body.
    pub sums: Box<[u64]>,
}

/// Appends the meta part of an object.
pub(super) fn write_meta(out: &mut Vec<u8>, key: &[u8], head: &StoredHead, sums: &[u64]) {
    put_text(out, key);
    out.extend_from_slice(&head.status().to_le_bytes());
    out.extend_from_slice(&head.freshness().to_bytes());
    put_text(out, head.lines());
    put_text(out, head.vary().map_or(b"", Vary::as_bytes));
    put_text(out, head.tag_text());
    for sum in sums {
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Reads the meta part of an object. `None`: it is not what [`write_meta`] writes for a body of this length.
pub(super) fn read_meta(bytes: &[u8], body_bytes: u64) -> Option<Meta> {
    let mut reader = Reader(bytes);
    let key = reader.text()?.into();
    let status = u16::from_le_bytes(*reader.array()?);
    let freshness = Freshness::from_bytes(reader.array()?);
    let (lines, vary, tags) = (reader.text()?, reader.text()?, reader.text()?);
    let head = StoredHead::new(status, lines.to_vec(), freshness, Vary::from_bytes(vary), tags.to_vec());
    let sums: Box<[u64]> = iter::from_fn(|| reader.u64()).collect();
    (reader.0.is_empty() && sums.len() as u64 == blocks(body_bytes)).then_some(Meta { key, head, sums })
}

/// The scope of a purge, as stored in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purged {
    Key(Box<[u8]>),
    Prefix(Box<[u8]>),
    Tags(Vec<Box<[u8]>>),
    All,
}

impl From<Purge<'_>> for Purged {
    fn from(purge: Purge<'_>) -> Self {
        match purge {
            Purge::Key(key) => Self::Key(key.into()),
            Purge::Prefix(prefix) => Self::Prefix(prefix.into()),
            Purge::Tags(tags) => Self::Tags(tags.iter().map(|tag| (*tag).into()).collect()),
            Purge::All => Self::All,
        }
    }
}

/// Appends the meta part of a purge.
pub(super) fn write_purge(out: &mut Vec<u8>, purged: &Purged, mode: PurgeMode) {
    let (kind, texts): (u8, &[Box<[u8]>]) = match purged {
        Purged::Key(key) => (0, std::slice::from_ref(key)),
        Purged::Prefix(prefix) => (1, std::slice::from_ref(prefix)),
        Purged::Tags(tags) => (2, tags),
        Purged::All => (3, &[]),
    };
    out.extend_from_slice(&[kind, u8::from(mode == PurgeMode::MarkStale)]);
    texts.iter().for_each(|text| put_text(out, text));
}

/// Reads the meta part of a purge.
pub(super) fn read_purge(bytes: &[u8]) -> Option<(Purged, PurgeMode)> {
    let mut reader = Reader(bytes);
    let [kind, mode] = *reader.array()?;
    let mode = match mode {
        0 => PurgeMode::Remove,
        1 => PurgeMode::MarkStale,
        _ => return None,
    };
    let purged = match kind {
        0 => Purged::Key(reader.text()?.into()),
        1 => Purged::Prefix(reader.text()?.into()),
        2 => Purged::Tags(iter::from_fn(|| reader.text()).map(Into::into).collect()),
        3 => Purged::All,
        _ => return None,
    };
    reader.0.is_empty().then_some((purged, mode))
}

/// Appends a text with its length before it.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    // A key or a head of 4 GiB is longer than the limits of a request and a response.
    out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(text);
}

/// Reads what was written. Each method returns `None` if the bytes end too early.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().copied().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let before = self.0;
        let length = u32::from_le_bytes(*self.array()?);
        let Some((text, rest)) = self.0.split_at_checked(length as usize) else {
            self.0 = before;
            return None;
        };
        self.0 = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::stored::tests::stored;

    const PLACE: Place = Place { segment: 3, offset: 4096 };

    #[test]
    fn a_flipped_bit_makes_no_header() {
        let header = Header::new(Kind::Object, b"meta", 70_000);
        let bytes = header.write(PLACE);
        assert_eq!(Header::read(&bytes, PLACE), Some(header));
        assert_eq!(header.record_bytes(), 64 + 4 + 70_000);
        assert_eq!(Header::read(&bytes, Place { offset: 0, ..PLACE }), None, "another place");
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&flipped, PLACE), None, "bit {bit}");
        }
        assert!(header.has_meta(b"meta") && !header.has_meta(b"mete") && !header.has_meta(b"met"));
    }

    #[test]
    fn a_head_comes_back_whole() {
        let object = stored("max-age=60, stale-while-revalidate=5");
        let body = vec![7; BLOCK_BYTES + 1];
        let sums = block_sums(PLACE, body.chunks(1000));
        let mut bytes = Vec::new();
        write_meta(&mut bytes, b"key", object.head(), &sums);
        let meta = read_meta(&bytes, body.len() as u64).expect("a meta part");
        assert_eq!((&*meta.key, &meta.head, &*meta.sums), (&b"key"[..], object.head(), &*sums));
        assert!(read_meta(&bytes, 1).is_none(), "a body of another length");
        assert!((0..bytes.len()).all(|length| read_meta(&bytes[..length], body.len() as u64).is_none()));
    }

    #[test]
    fn purges_come_back() {
        let text = |text: &str| Box::from(text.as_bytes());
        for purged in [
            Purged::Key(text("k")),
            Purged::Prefix(text("")),
            Purged::Tags(vec![text("a"), text("b")]),
            Purged::All,
        ] {
            for mode in [PurgeMode::Remove, PurgeMode::MarkStale] {
                let mut bytes = Vec::new();
                write_purge(&mut bytes, &purged, mode);
                assert_eq!(read_purge(&bytes), Some((purged.clone(), mode)));
                bytes.push(0);
                assert_eq!(read_purge(&bytes), None);
            }
        }
    }

    proptest! {
        #[test]
        fn sums_do_not_depend_on_the_pieces(length in 0_usize..200_000, piece in 1_usize..100_000) {
            let body: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
            let sums = block_sums(PLACE, body.chunks(piece));
            prop_assert_eq!(sums.len() as u64, blocks(length as u64));
            for (number, block) in body.chunks(BLOCK_BYTES).enumerate() {
                prop_assert_eq!(block_sum(PLACE, number as u64, block), sums[number]);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read_meta(&bytes, 1), read_purge(&bytes), Header::read(&bytes, PLACE));
        }
    }
}
