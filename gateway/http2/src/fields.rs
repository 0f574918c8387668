//! Fields of a head or trailer section, as they came.

use tollgate_http::Name;
use tollgate_http::h2::Pseudo;

use crate::check::{self, Malformed};

/// What a field counts beside its bytes (RFC 9113, 6.5.2).
const OVERHEAD: usize = 32;

/// How many times what it may take a section may name before it is a bomb: references to the table, of two bytes each, can stand for
/// four kilobytes, and all of them are copied.
const BOMB: usize = 4;

/// Fields of a head or trailer section, as they came: pseudo-header fields too.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where names and values end.
    ends: Vec<(u32, u32)>,
    /// Bytes that it may yet take, with what each field counts beside them.
    room: usize,
    /// Bytes that may yet be named, whether there is room for them or not.
    patience: usize,
    is_cut: bool,
    has_secrets: bool,
}

impl Fields {
    /// None yet, and so many bytes at most, each field with 32 more.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { room: most, patience: most.saturating_mul(BOMB), ..Self::default() }
    }

    /// With room for a usual head.
    pub(crate) fn with_room() -> Self {
        Self { bytes: Vec::with_capacity(512), ends: Vec::with_capacity(16), ..Self::default() }
    }

    /// Empties it, for so many bytes at most.
    pub fn clear(&mut self, most: usize) {
        self.bytes.clear();
        self.ends.clear();
        self.room = most;
        self.patience = most.saturating_mul(BOMB);
        self.is_cut = false;
        self.has_secrets = false;
    }

    /// Appends a field, if there is room; if there is none, for no further one either.
    #[inline]
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + OVERHEAD;
        self.patience = self.patience.saturating_sub(size);
        if size > self.room {
            self.room = 0;
            self.is_cut = true;
            return;
        }
        self.room -= size;
        self.bytes.extend_from_slice(name);
        let name = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name, self.bytes.len() as u32));
    }

    /// A field of this name comes that nobody on the way may index. That of credentials is known, whoever sends them.
    pub(crate) fn note_secret(&mut self, name: &[u8]) {
        self.has_secrets |= !Name::of(name).is_credential();
    }

    /// Whether the peer forbade everybody on the way to keep one of the fields in a table (RFC 7541, 6.2.3), credentials aside.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        self.has_secrets
    }

    /// Whether there were more than it may take.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether it was to hold several times what it may.
    pub(crate) fn is_bomb(&self) -> bool {
        self.patience == 0
    }

    /// Bytes that its fields take.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<(u32, u32)>()
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(u32, u32)>()
    }

    /// Keeps no more room than it takes.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Bytes of room that are kept for the next.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes.capacity() <= 4 * 1024
    }

    /// What the pseudo-header fields of a request say, and all others in order, at which nobody has looked: whoever makes a
    /// head of them, as [`decode_request`](tollgate_http::h2::decode_request) does, has to do so anyway.
    ///
    /// # Errors
    /// More fields than a head may have, and pseudo-header fields that make no request.
    pub fn request(&self) -> Result<(Pseudo<'_>, Iter<'_>), Malformed> {
        check::request(self)
    }

    /// Whether what makes no request breaks the protocol (RFC 9113, 8.1.1), and not just a limit of whoever reads it.
    #[must_use]
    pub fn break_the_protocol(&self) -> bool {
        check::breaks_the_protocol(self)
    }

    /// Names and values in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: &self.bytes, ends: &self.ends, at: 0 }
    }
}

/// Names and values in order.
#[derive(Clone, Copy, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    ends: &'a [(u32, u32)],
    /// Where the next name begins.
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
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

impl<'a> IntoIterator for &'a Fields {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
