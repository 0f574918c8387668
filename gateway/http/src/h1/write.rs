//! Writes decimal numbers and chunk headers. The proxy uses it to write heads and chunked bodies without
//! allocations.

use crate::reason_phrase::reason_phrase;

/// The last chunk, without trailers and the empty line that ends them.
pub const LAST_CHUNK: &[u8] = b"0\r\n";

/// The line before a chunk's data.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHeader {
    /// Creates the header of a chunk of `size` bytes, which must not be 0.
    #[must_use]
    pub fn new(size: usize) -> Self {
        debug_assert!(size != 0, "would read as a line without a size");
        let mut bytes = [0; 18];
        bytes[16..].copy_from_slice(b"\r\n");
        let (mut start, mut left) = (16, size);
        while left != 0 {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[left & 15];
            left >>= 4;
        }
        Self { bytes, start: start as u8 }
    }

    /// The line as bytes: the size in hexadecimal, and CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start as usize..]
    }
}

/// Appends the status line of a response of the gateway, with its CRLF.
#[inline]
pub fn write_status_line(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason_phrase(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal.
pub fn write_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 4096, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
        }
        for size in [1, 15, 16, 65536, usize::MAX] {
            assert_eq!(ChunkHeader::new(size).as_bytes(), format!("{size:x}\r\n").as_bytes());
        }
    }
}
