//! The fields of a head or trailer section, in the order received.
//!
//! The HPACK decoder appends to a [`FieldSection`], which stores all names and values in one buffer. A
//! section that exceeds its limit is cut rather than refused, so that the request can be answered with the
//! reason. If it names several times the limit, it is a compression bomb, and the connection ends.

use tollgate_http::Name;

/// Bytes that each field counts in addition to its name and value (RFC 9113, 6.5.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// The multiple of its limit that a section may name before it counts as a compression bomb. A two-byte
/// reference to the table can expand to four kilobytes, and each is copied.
const BOMB_FACTOR: usize = 4;

/// The fields of a head or trailer section, in the order received, pseudo-header fields included.
#[derive(Debug, Default)]
pub struct FieldSection {
    bytes: Vec<u8>,
    /// The end offsets of each name and its value in `bytes`.
    ends: Vec<(u32, u32)>,
    /// Bytes that may still be added, with the 32 bytes of overhead of each field.
    budget_bytes: usize,
    /// Bytes that may still be named before the section is a bomb, whether they fit or not.
    bomb_budget_bytes: usize,
    is_cut: bool,
    has_never_indexed: bool,
}

impl FieldSection {
    /// Creates an empty section of at most `limit_bytes` bytes; each field counts 32 more.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            budget_bytes: limit_bytes,
            bomb_budget_bytes: limit_bytes.saturating_mul(BOMB_FACTOR),
            ..Self::default()
        }
    }

    /// Allocates capacity for a typical head.
    pub(crate) fn with_typical_capacity() -> Self {
        Self { bytes: Vec::with_capacity(512), ends: Vec::with_capacity(16), ..Self::default() }
    }

    /// Removes all fields and sets a new limit of `limit_bytes` bytes.
    pub fn clear(&mut self, limit_bytes: usize) {
        self.bytes.clear();
        self.ends.clear();
        self.budget_bytes = limit_bytes;
        self.bomb_budget_bytes = limit_bytes.saturating_mul(BOMB_FACTOR);
        self.is_cut = false;
        self.has_never_indexed = false;
    }

    /// Appends a field if it fits. If it does not, the section is cut, and no later field is added either.
    #[inline]
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        self.bomb_budget_bytes = self.bomb_budget_bytes.saturating_sub(size);
        if size > self.budget_bytes {
            self.budget_bytes = 0;
            self.is_cut = true;
            return;
        }
        self.budget_bytes -= size;
        self.bytes.extend_from_slice(name);
        let name = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name, self.bytes.len() as u32));
    }

    /// Records that a field was sent as never indexed. Credentials are exempt, because they are always
    /// treated so.
    pub(crate) fn record_never_indexed(&mut self, name: &[u8]) {
        self.has_never_indexed |= !Name::of(name).is_credential();
    }

    /// Whether the peer sent a field, other than credentials, that intermediaries must never index (RFC 7541,
    /// 6.2.3).
    #[must_use]
    pub fn has_never_indexed(&self) -> bool {
        self.has_never_indexed
    }

    /// Whether fields were dropped because they exceeded the limit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the section named several times as much as its limit.
    pub(crate) fn is_bomb(&self) -> bool {
        self.bomb_budget_bytes == 0
    }

    /// Bytes of memory that the fields use.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<(u32, u32)>()
    }

    /// Bytes of memory allocated.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(u32, u32)>()
    }

    /// Releases unused capacity.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Whether the capacity is small enough (4 KiB) to be kept for reuse.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes.capacity() <= 4 * 1024
    }

    /// Iterates over names and values in order.
    #[must_use]
    pub fn iter(&self) -> FieldIter<'_> {
        FieldIter { bytes: &self.bytes, ends: &self.ends, at: 0 }
    }
}

/// Iterator over the names and values of [`FieldSection`].
#[derive(Clone, Copy, Debug)]
pub struct FieldIter<'a> {
    bytes: &'a [u8],
    ends: &'a [(u32, u32)],
    /// Offset of the next name in `bytes`.
    at: usize,
}

impl<'a> Iterator for FieldIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let ((name, end), rest) = self.ends.split_first()?;
        let (name, end) = (*name as usize, *end as usize);
        let field = (&self.bytes[self.at..name], &self.bytes[name..end]);
        (self.ends, self.at) = (rest, end);
        Some(field)
    }
}

impl<'a> IntoIterator for &'a FieldSection {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = FieldIter<'a>;

    fn into_iter(self) -> FieldIter<'a> {
        self.iter()
    }
}
