//! The class of each byte in a path, as a table.

use super::PathError;

/// The meaning of a byte in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Represents itself, and is equal to its escape (RFC 3986, section 2.3).
    Unreserved,
    /// Represents itself; its escape is a different path (RFC 3986, section 2.2).
    Data,
    /// Ends a segment.
    Slash,
    /// Starts an escape.
    Percent,
    /// Not allowed in a path.
    Refused(PathError),
}

/// The class of every byte. [`Class::Data`] includes the printable characters that RFC 3986 does not allow in
/// a path (`"<>[]^{|}` and the backtick): browsers send several of them raw, and no server gives them a
/// meaning.
pub(super) const CLASS: [Class; 256] = {
    let mut class = [Class::Data; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            0 => Class::Refused(PathError::Nul),
            1..=b' ' | 0x7F => Class::Refused(PathError::ControlByte),
            b'\\' => Class::Refused(PathError::Backslash),
            b'?' | b'#' => Class::Refused(PathError::Delimiter),
            0x80.. => Class::Refused(PathError::NonAscii),
            b'/' => Class::Slash,
            b'%' => Class::Percent,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => Class::Unreserved,
            _ => Class::Data,
        };
        byte += 1;
    }
    class
};
