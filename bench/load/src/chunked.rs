//! A parser of the chunked transfer coding (RFC 9112, section 7.1) that takes input in pieces. The origins
//! use it for request bodies.

use crate::head::{LONGEST_HEAD, Malformed};

/// The state of the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// In a chunk's size: the value and the number of digits so far.
    Size(u64, u8),
    /// In an extension after the size: the size, and the bytes of the extension so far.
    Extension(u64, u16),
    /// After the CR of a size line.
    SizeEnd(u64),
    /// In a chunk's data: the bytes left.
    Data(u64),
    /// After the data, before its CR.
    DataCr,
    /// After the CR that follows the data.
    DataLf,
    /// At the start of a trailer line: the bytes of the trailer so far.
    Trailer(usize),
    /// Within a trailer line.
    TrailerLine(usize),
    /// After the CR of a trailer line.
    TrailerLf(usize),
    /// After the CR of the last line.
    LastLf,
}

/// The result of [`Chunked::step`].
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// This number of bytes is data.
    Data(usize),
    /// One byte of the coding itself was consumed.
    Frame,
    /// The last byte of the coding was consumed.
    End,
}

impl Chunked {
    /// The state before the first byte.
    pub const START: Self = Self::Size(0, 0);

    /// Consumes the next part of `input`, which must not be empty.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that violate the coding.
    pub fn step(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        if let Self::Data(left) = *self {
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
            let left = left - taken as u64;
            *self = if left == 0 { Self::DataCr } else { Self::Data(left) };
            return Ok(Step::Data(taken));
        }
        let byte = input[0];
        *self = match (*self, byte) {
            // At most 15 digits: the size stays below 2^60, so no sum can overflow.
            (Self::Size(size, digits @ 0..15), _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                Self::Size(size * 16 + u64::from(digit), digits + 1)
            }
            (Self::Size(size, 1..), b'\r') => Self::SizeEnd(size),
            (Self::Size(size, 1..), b';' | b' ' | b'\t') => Self::Extension(size, 0),
            (Self::Extension(size, _), b'\r') => Self::SizeEnd(size),
            (Self::Extension(size, length @ 0..4096), _) if byte != b'\n' => {
                Self::Extension(size, length + 1)
            }
            (Self::SizeEnd(0), b'\n') => Self::Trailer(0),
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::START,
            (Self::Trailer(_), b'\r') => Self::LastLf,
            (Self::TrailerLine(length), b'\r') => Self::TrailerLf(length),
            (Self::Trailer(length) | Self::TrailerLine(length), _)
                if byte != b'\n' && length < LONGEST_HEAD =>
            {
                Self::TrailerLine(length + 1)
            }
            (Self::TrailerLf(length), b'\n') => Self::Trailer(length),
            (Self::LastLf, b'\n') => return Ok(Step::End),
            _ => return Err(Malformed("chunked coding")),
        };
        Ok(Step::Frame)
    }
}
