//! Response heads in the form that all versions of HTTP share. The HTTP/1 parser and the HTTP/2 decoder fill
//! a [`ResponseHead`]; the exchange and the policies read it.

use crate::h1::BodyLength;
use crate::{Field, Head, Range, Version};

/// A response head, with everything that the gateway understands of it. It is reused for each response.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The bytes and fields as received.
    pub head: Head,
    /// The version of HTTP that carried the response.
    pub version: Version,
    /// The status code: 100 to 599, or up to 999, as some origins send.
    pub status: u16,
    /// The start line from the status on.
    pub status_line: Range,
    /// The end of the body.
    pub length: BodyLength,
    /// Whether the origin keeps the connection.
    pub keep_alive: bool,
    /// Whether `Connection` nominates fields that must not be forwarded.
    pub nominates: bool,
    /// Whether the endpoint sent a field that intermediaries must never index (RFC 7541, 6.2.3).
    pub has_never_indexed: bool,
}

impl ResponseHead {
    /// Releases memory if an empty head has a capacity of more than `bytes`.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
    }

    /// Empties the head and keeps its buffers.
    pub fn clear(&mut self) {
        let Self { head, version, status, status_line, length, keep_alive, nominates, has_never_indexed } =
            self;
        head.clear();
        (*version, *status, *status_line) = Default::default();
        (*length, *keep_alive, *nominates, *has_never_indexed) = Default::default();
    }

    /// Whether the status line ends with the status, without the blank that must follow it.
    pub(crate) fn lacks_reason_separator(&self) -> bool {
        self.status_line.end == self.status_line.start + 3
    }

    /// Rewrites a head that an endpoint wrote loosely, so that it matches the grammar of RFC 9112.
    #[cold]
    pub(crate) fn normalize(&mut self) {
        if self.lacks_reason_separator() {
            self.head.bytes.insert(self.status_line.end as usize, b' ');
            self.status_line.end += 1;
            self.head.shift_fields(1);
        }
        self.head.normalize();
    }

    /// Whether a final response follows this one (RFC 9110, 15.2). 101 is final.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether `Connection` nominates this field, so that it must not be forwarded.
    #[must_use]
    pub const fn is_nominated(&self, field: &Field) -> bool {
        field.nominated
    }
}
