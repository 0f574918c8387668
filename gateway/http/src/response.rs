//! A response head with what the gateway understands of it.

use crate::h1::Length;
use crate::{Field, Head, Range, Version};

/// A response head with what the gateway understands of it. Kept and filled anew for every response.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The head as received.
    pub head: Head,
    /// The version.
    pub version: Version,
    /// The status, 100 to 599 (to 999 as some origins send).
    pub status: u16,
    /// From the status on to the end of the start line.
    pub status_line: Range,
    /// Where the body ends.
    pub length: Length,
    /// Whether the origin keeps the connection.
    pub keep_alive: bool,
    /// Whether `Connection` names fields of its own that must not go further.
    pub nominates: bool,
}

impl ResponseHead {
    /// Releases memory if an empty head keeps more than so many bytes.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
    }

    /// Makes it empty and keeps its buffers.
    pub fn clear(&mut self) {
        let Self { head, version, status, status_line, length, keep_alive, nominates } = self;
        head.clear();
        (*version, *status, *status_line) = Default::default();
        (*length, *keep_alive, *nominates) = Default::default();
    }

    /// Whether the status line ends with the status, without the blank that must follow it.
    pub(crate) fn has_no_reason(&self) -> bool {
        self.status_line.end == self.status_line.start + 3
    }

    /// Rewrites a head that an endpoint wrote loosely, so that it matches the grammar of RFC 9112.
    #[cold]
    pub(crate) fn tidy(&mut self) {
        if self.has_no_reason() {
            self.head.bytes.insert(self.status_line.end as usize, b' ');
            self.status_line.end += 1;
            self.head.move_fields(1);
        }
        self.head.tidy();
    }

    /// Whether a final response follows this one (RFC 9110, 15.2). 101 is final.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether `Connection` names this field, so that it must not go further.
    #[must_use]
    pub const fn is_nominated(&self, field: &Field) -> bool {
        field.nominated
    }
}
