//! The compressed forms of a stored body.
//!
//! A form is what a content coding makes of exactly the bytes of a body. It belongs to the [stored response](super::stored):
//! it is evicted, purged and replaced with it, and a response that a 304 makes of the same body takes it along. So nothing has
//! to decide whether a form is still valid. Forms are in memory alone: the disk tier has the plain body.

use std::sync::OnceLock;

use bytes::Bytes;

use super::body::allocated;

/// A content coding of which a stored response can have a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    const COUNT: usize = 3;
}

/// The forms of a body, by their coding.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms([OnceLock<Bytes>; Coding::COUNT]);

impl Forms {
    pub fn get(&self, coding: Coding) -> Option<&Bytes> {
        self.0[coding as usize].get()
    }

    /// Sets the form of a coding, unless there is one. Returns whether it did.
    pub fn set(&self, coding: Coding, form: Bytes) -> bool {
        self.0[coding as usize].set(form).is_ok()
    }

    /// Bytes on the heap, with themselves.
    pub fn heap_bytes(&self) -> u64 {
        let forms = self.0.iter().filter_map(OnceLock::get);
        allocated(size_of::<Self>()) as u64 + forms.map(|form| allocated(form.len()) as u64).sum::<u64>()
    }
}
