//! The bytes of a response from which values are taken.

/// The largest part of a body in which values are searched.
const SEARCHED: usize = 1 << 20;

/// A response's bytes, kept while its request wants values from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    /// The whole head.
    pub(crate) head: Vec<u8>,
    /// The first [`SEARCHED`] bytes of the body.
    pub(crate) body: Vec<u8>,
}

impl Kept {
    /// Forgets the previous response.
    pub(crate) fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// Adds bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = SEARCHED - self.body.len().min(SEARCHED);
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
