//! The static and the dynamic table of fields (RFC 7541, 2.3). The encoder and the decoder each have a
//! dynamic [`HpackTable`], which must match the peer's entry by entry.

use std::collections::VecDeque;

/// Largest size of a dynamic table in bytes, in either direction: the default that holds without a setting
/// (RFC 9113, 6.5.2).
pub(super) const TABLE_MAX_BYTES: usize = 4096;
/// Bytes that an entry counts in addition to its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The static table (RFC 7541, Appendix A). Its first index is 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// An entry of the dynamic table.
#[derive(Debug)]
pub(super) struct TableEntry {
    bytes: Box<[u8]>,
    name: usize,
}

impl TableEntry {
    pub fn name(&self) -> &[u8] {
        &self.bytes[..self.name]
    }

    pub fn value(&self) -> &[u8] {
        &self.bytes[self.name..]
    }

    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD_BYTES
    }
}

/// The dynamic table, newest entry first.
#[derive(Debug)]
pub(super) struct HpackTable {
    entries: VecDeque<TableEntry>,
    size: usize,
    max_size: usize,
}

impl HpackTable {
    pub fn new(max_size: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, max_size }
    }

    /// Returns the entry at `index`, counted from the newest.
    pub fn get(&self, index: usize) -> Option<&TableEntry> {
        self.entries.get(index)
    }

    /// Largest size in bytes.
    pub fn max_size(&self) -> usize {
        self.max_size
    }

    /// Sets the largest size in bytes, and evicts what no longer fits.
    pub fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict(0);
    }

    /// Adds an entry as the newest. An entry larger than the table empties it (RFC 7541, 4.4). Returns
    /// whether the entry was added.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        let mut bytes = Vec::with_capacity(name.len() + value.len());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
        let entry = TableEntry { bytes: bytes.into_boxed_slice(), name: name.len() };
        self.evict(entry.size());
        let fits = entry.size() <= self.max_size;
        if fits {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
        fits
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.max_size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}
