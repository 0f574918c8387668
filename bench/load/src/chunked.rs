//! The chunked transfer coding (RFC 9112, section 7.1), read as it comes. The origins read request bodies with it.

use crate::head::{LONGEST_HEAD, Malformed};

/// Where in the coding the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// In a chunk's size: the value and digits so far.
    Size(u64, u8),
    /// In an extension after the size, its bytes so far.
    Extension(u64, u16),
    /// After the CR of a size line.
    SizeEnd(u64),
    /// In a chunk's data: bytes left.
    Data(u64),
    /// After the data, before CR.
    DataCr,
    /// After the data's CR.
    DataLf,
    /// At the start of a trailer line; bytes of the trailer so far.
    Trailer(usize),
    /// Within a trailer line.
    TrailerLine(usize),
    /// After the CR of a trailer line.
    TrailerLf(usize),
    /// After the CR of the last line.
    LastLf,
}

/// What a call of [`Chunked::step`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes are data.
    Data(usize),
    /// One byte of the coding itself.
    Frame,
    /// One byte, and with it the end.
    End,
}

impl Chunked {
    /// Before the first byte.
    pub const START: Self = Self::Size(0, 0);

    /// Reads on. `input` is not empty.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that are not in this coding.
    pub fn step(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        if let Self::Data(left) = *self {
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
            let left = left - taken as u64;
            *self = if left == 0 { Self::DataCr } else { Self::Data(left) };
            return Ok(Step::Data(taken));
        }
        let byte = input[0];
        *self = match (*self, byte) {
            // 15 digits: below 2^60, so that no sum can overflow.
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
