//! The compressed forms of a stored body.
//!
//! A form is what a content coding makes of exactly the bytes of a body. It belongs to the [stored response](super::stored):
//! it is evicted, purged and replaced with it, and a response that a 304 makes of the same body takes it along. So nothing has
//! to decide whether a form is still valid. Forms are in memory alone: the disk tier has the plain body.

use std::sync::OnceLock;

use bytes::Bytes;
use tollgate_http::ContentCoding;

use super::body::allocated;

/// The forms of a body, by their coding.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms([OnceLock<Bytes>; ContentCoding::ALL.len()]);

impl Forms {
    pub fn get(&self, coding: ContentCoding) -> Option<&Bytes> {
        self.0[coding as usize].get()
    }

    /// Sets the form of a coding, unless there is one. Returns whether it did.
    pub fn set(&self, coding: ContentCoding, form: Bytes) -> bool {
        self.0[coding as usize].set(form).is_ok()
    }

    /// Bytes on the heap, with themselves.
    pub fn heap_bytes(&self) -> u64 {
        let forms = self.0.iter().filter_map(OnceLock::get);
        allocated(size_of::<Self>()) as u64 + forms.map(|form| allocated(form.len()) as u64).sum::<u64>()
    }
}
