//! The reasons to refuse a path.

/// Why a path is refused: some server on the way could interpret it differently from this gateway. The
/// gateway answers 400, and forwards nothing of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathError {
    /// It does not start with `/` (RFC 9112, section 3.2.1).
    NotAbsolute,
    /// NUL, raw or as `%00`: C programs end the path there.
    Nul,
    /// A space, a control byte (0x01-0x1F, 0x7F), or the escape of a control byte.
    ControlByte,
    /// A raw byte of 0x80 or above: its character set is unknown.
    NonAscii,
    /// A raw `\`, which some servers read as `/`.
    Backslash,
    /// A raw `?` or `#`, which ends a path.
    Delimiter,
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// `%2F`, under [`EncodedSlash::Reject`](super::EncodedSlash::Reject).
    EncodedSlash,
    /// `%5C`, under [`EncodedSlash::Reject`](super::EncodedSlash::Reject).
    EncodedBackslash,
    /// A dot segment next to a `%2F` or `%5C` that is kept: `/a/..%2Fb`.
    EncodedSlashDots,
    /// A dot segment with a path parameter: `..;x`, which servlet containers read as `..`.
    PathParameterDots,
    /// More `..` than segments before them.
    AboveRoot,
    /// `.` or `..` in a path that a rewrite or a redirect produced.
    DotSegment,
    /// Two slashes at the start of a redirect's `Location`, which would name a host (RFC 3986, section 4.2).
    NetworkPath,
    /// `;` or `%3B`, under [`Semicolon::Reject`](super::Semicolon::Reject).
    Semicolon,
}

impl PathError {
    /// Every error, in the order of declaration, for tables of reasons.
    pub const ALL: &'static [PathError] = &[
        PathError::NotAbsolute,
        PathError::Nul,
        PathError::ControlByte,
        PathError::NonAscii,
        PathError::Backslash,
        PathError::Delimiter,
        PathError::BadEscape,
        PathError::EncodedSlash,
        PathError::EncodedBackslash,
        PathError::EncodedSlashDots,
        PathError::PathParameterDots,
        PathError::AboveRoot,
        PathError::DotSegment,
        PathError::NetworkPath,
        PathError::Semicolon,
    ];

    /// Returns the description for the log and the answer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PathError::NotAbsolute => "the path does not begin with a slash",
            PathError::Nul => "NUL in the path",
            PathError::ControlByte => "space or control byte in the path",
            PathError::NonAscii => "byte above 127 in the path; it must be percent-encoded",
            PathError::Backslash => "backslash in the path",
            PathError::Delimiter => "'?' or '#' in the path",
            PathError::BadEscape => "'%' without two hexadecimal digits in the path",
            PathError::EncodedSlash => "encoded slash (%2F) in the path",
            PathError::EncodedBackslash => "encoded backslash (%5C) in the path",
            PathError::EncodedSlashDots => "dot segment next to an encoded slash in the path",
            PathError::PathParameterDots => "dot segment with a path parameter ('..;') in the path",
            PathError::AboveRoot => "'..' above the root of the path",
            PathError::DotSegment => "dot segment in the path that a rewrite or redirect made",
            PathError::NetworkPath => "two slashes at the begin of a redirect, which would name a host",
            PathError::Semicolon => "semicolon in the path",
        }
    }
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for PathError {}
