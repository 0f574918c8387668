//! Why a head is refused.

/// Why a head is refused. In HTTP/1, whoever sees one closes the connection: where the next message would begin is not
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request line or status line breaks RFC 9112, section 3 or 4.
    StartLine,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    Version,
    /// A field line breaks RFC 9112, section 5: bare LF or CR, folded line, no name, a space before the colon, a
    /// control byte in the value.
    Field,
    /// It is not certain where the message ends (RFC 9112, section 6).
    Length,
    /// A transfer coding that is not chunked, below a final chunked.
    Coding,
    /// `Host` is missing, repeated, malformed or disagrees with an absolute target.
    Host,
    /// `Expect` is something other than `100-continue`.
    Expect,
    /// The request line is longer than the limit.
    LineTooLong,
    /// The head is longer than the limit.
    TooLarge,
    /// More fields than the limit, or more than 32 members in `Connection`.
    TooMany,
}

/// Bounds of a head. All are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the request line, without its end. A status line is bounded by `head` alone.
    pub line: usize,
    /// Bytes of the whole head, from the start line to the empty line that ends it. More than 1 GiB count as 1 GiB.
    pub head: usize,
    /// Field lines.
    pub fields: usize,
}

impl HeadLimits {
    /// Ranges into a head are 32 bits wide.
    const MOST: usize = 1 << 30;

    fn head(&self) -> usize {
        self.head.min(Self::MOST)
    }

    /// The bytes that may belong to the head.
    pub(crate) fn within_head<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..bytes.len().min(self.head())]
    }

    /// Whether a head may have so many bytes.
    pub(crate) fn allows_head(&self, length: usize) -> bool {
        length <= self.head()
    }

    /// The most bytes, with the ends of lines, and the most fields of a trailer section.
    #[inline]
    pub(crate) fn of_trailers(&self) -> (u32, u32) {
        (self.head() as u32, u32::try_from(self.fields).unwrap_or(u32::MAX))
    }

    /// Whether a trailer section may have so many bytes, its lines with their ends, in so many fields.
    pub(crate) fn allow_trailers(&self, length: usize, fields: usize) -> bool {
        length <= self.head() && fields <= self.fields
    }

    /// Whether a head that has not ended within these bytes is too large.
    pub(crate) fn is_head_full(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.head()
    }

    /// The bytes that may belong to the request line or its CRLF.
    pub(crate) fn within_line<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let bytes = self.within_head(bytes);
        &bytes[..bytes.len().min(self.line.saturating_add(2))]
    }

    /// Whether a request line that has not ended within these bytes is too long.
    pub(crate) fn is_line_full(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.line.saturating_add(2)
    }
}
