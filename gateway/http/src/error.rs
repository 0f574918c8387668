//! Errors of heads, and the limits of a head's size. The codecs of all versions report a [`HeadError`], which
//! the proxy maps to a status and a reason. [`HeadLimits`] come from the configuration, and apply to trailer
//! sections too.

/// The reason why a head is refused. In HTTP/1 the connection must then close, because the start of the
/// next message is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request line or status line breaks RFC 9112, section 3 or 4.
    StartLine,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    Version,
    /// A field line breaks RFC 9112, section 5: a bare LF or CR, a folded line, no name, a space before the
    /// colon, or a control byte in the value.
    Field,
    /// The end of the message is ambiguous (RFC 9112, section 6).
    Length,
    /// A transfer coding other than chunked is applied before a final chunked.
    Coding,
    /// `Host` is missing, repeated or malformed, or disagrees with an absolute target.
    Host,
    /// `Expect` is not `100-continue`.
    Expect,
    /// The request line exceeds the limit.
    LineTooLong,
    /// The head exceeds the limit.
    TooLarge,
    /// There are more fields than the limit, or more than 32 members in `Connection`.
    TooMany,
}

/// Limits of a head. All are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of the request line, without its CRLF. Only `head` limits a status line.
    pub line: usize,
    /// Most bytes of the whole head, from the start line to the empty line that ends it. Capped at 1 GiB.
    pub head: usize,
    /// Most field lines.
    pub fields: usize,
}

impl HeadLimits {
    /// Ranges into a head are 32 bits wide.
    const HEAD_MAX_BYTES: usize = 1 << 30;

    fn head(&self) -> usize {
        self.head.min(Self::HEAD_MAX_BYTES)
    }

    /// The part of `bytes` that may belong to the head.
    pub(crate) fn within_head<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..bytes.len().min(self.head())]
    }

    /// Whether a head may have `length` bytes.
    pub(crate) fn allows_head(&self, length: usize) -> bool {
        length <= self.head()
    }

    /// The limits of a trailer section: bytes with line ends, and fields.
    #[inline]
    pub(crate) fn trailer_limits(&self) -> (u32, u32) {
        (self.head() as u32, u32::try_from(self.fields).unwrap_or(u32::MAX))
    }

    /// Whether a trailer section may have `length` bytes, with line ends, in this number of fields.
    pub(crate) fn allow_trailers(&self, length: usize, fields: usize) -> bool {
        length <= self.head() && fields <= self.fields
    }

    /// Whether a head that has not ended within `bytes` is too large.
    pub(crate) fn is_head_full(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.head()
    }

    /// The part of `bytes` that may belong to the request line or its CRLF.
    pub(crate) fn within_line<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let bytes = self.within_head(bytes);
        &bytes[..bytes.len().min(self.line.saturating_add(2))]
    }

    /// Whether a request line that has not ended within `bytes` is too long.
    pub(crate) fn is_line_full(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.line.saturating_add(2)
    }
}
