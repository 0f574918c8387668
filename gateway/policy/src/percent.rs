//! Percent-encoding (RFC 3986, 2.1).

/// Everything but what never means anything in a URI is encoded (RFC 3986, 2.3): a value can begin neither another segment of a
/// path nor another parameter of a query.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}
