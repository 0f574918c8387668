//! Percent-encoding (RFC 3986, 2.1).

/// Appends the text and encodes all bytes except unreserved characters (RFC 3986, 2.3). A value therefore
/// cannot start another path segment or query parameter.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}
