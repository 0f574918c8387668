//! The static and the dynamic table of fields (RFC 7541, 2.3). The encoder and the decoder each have a
//! dynamic [`Table`], which must match the peer's entry by entry.

use std::collections::VecDeque;

/// Bytes that an entry counts in addition to its name and value (RFC 7541, 4.1).
const OVERHEAD: usize = 32;

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
pub(super) struct Entry {
    bytes: Box<[u8]>,
    name: usize,
}

impl Entry {
    pub fn name(&self) -> &[u8] {
        &self.bytes[..self.name]
    }

    pub fn value(&self) -> &[u8] {
        &self.bytes[self.name..]
    }

    fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

/// The dynamic table, newest entry first.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    most: usize,
}

impl Table {
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, most }
    }

    /// Returns the entry at `place`, counted from the newest.
    pub fn get(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// Largest size in bytes.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Sets the largest size in bytes, and evicts what no longer fits.
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(0);
    }

    /// Adds an entry as the newest. An entry larger than the table empties it (RFC 7541, 4.4). Returns
    /// whether the entry was added.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        let mut bytes = Vec::with_capacity(name.len() + value.len());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
        let entry = Entry { bytes: bytes.into_boxed_slice(), name: name.len() };
        self.evict(entry.size());
        let fits = entry.size() <= self.most;
        if fits {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
        fits
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.most
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}
