//! Which bytes may stand where: tables, so that a check is one load.

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const VALUE: u8 = 4;
const HOST: u8 = 8;

const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let mut class = 0;
        // RFC 9110, 5.6.2: tchar.
        let punctuation = matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        if b.is_ascii_alphanumeric() || punctuation {
            class |= TOKEN;
        }
        // RFC 9112, 3.2: a target has no space, no control byte and no fragment; bytes past ASCII are left to
        // nobody's guess.
        if b.is_ascii_graphic() && b != b'#' {
            class |= TARGET;
        }
        // RFC 9110, 5.5: field-vchar, space and tab.
        if b == b'\t' || (b >= b' ' && b != 0x7f) {
            class |= VALUE;
        }
        // RFC 3986, 3.2.2, less what no name in use has: escapes and sub-delims.
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            class |= HOST;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

/// Length of the longest prefix that is a token.
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| CLASSES[*byte as usize] & TOKEN == 0).unwrap_or(bytes.len())
}

/// Whether every byte may stand in a request target.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    // No early exit: without one the compiler makes vector code of the loop.
    !bytes.iter().fold(false, |bad, byte| bad | !(0x21..=0x7e).contains(byte) | (*byte == b'#'))
}

/// Length of the longest prefix that may stand in a field value. Every line of a head is such text, so the byte
/// behind it is the line's end or an error: one pass finds either.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += plain_length(&bytes[at..]);
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// The same without tabs, which are rare and would double the work a word.
fn plain_length(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != 0x7f;
    let mut rest = bytes;
    let mut words = 0;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return bytes.len() - rest.len() + (stops.trailing_zeros() / 8) as usize;
        }
        rest = after;
        words += 1;
        // Most values end sooner. Without an early exit within a block the compiler makes vector code of it.
        if words == 3 {
            while let Some((block, after)) = rest.split_first_chunk::<32>() {
                if block.iter().fold(false, |stop, byte| stop | !is_plain(byte)) {
                    break;
                }
                rest = after;
            }
        }
    }
    let tail = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
    bytes.len() - rest.len() + tail
}

/// The top bit of every byte of the word that is a control byte, DEL among them. No sum carries into the next byte.
const fn stops(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let low = word & (0x7f * ONES);
    let at_least_space = low + 0x60 * ONES;
    let is_delete = low + ONES;
    !word & (!at_least_space | is_delete) & (0x80 * ONES)
}

/// Whether every byte may stand in a field value.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    text_length(bytes) == bytes.len()
}

/// Length of the longest prefix that is a host's name or IPv4 address.
pub(crate) fn name_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| CLASSES[*byte as usize] & HOST == 0).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loops_agree_with_the_tables() {
        for byte in 0..=255u8 {
            assert_eq!(is_target(&[byte]), CLASSES[byte as usize] & TARGET != 0, "{byte}");
            assert_eq!(is_value(&[byte]), CLASSES[byte as usize] & VALUE != 0, "{byte}");
        }
    }

    #[test]
    fn a_byte_counts_the_same_wherever_it_stands() {
        for byte in 0..=255u8 {
            for length in [1, 7, 8, 9, 31, 32, 33, 40, 47, 64, 79] {
                for at in 0..length {
                    for filler in [b'a', b'\t', 0xff] {
                        let mut text = vec![filler; length];
                        text[at] = byte;
                        let fine = CLASSES[byte as usize] & VALUE != 0;
                        assert_eq!(
                            text_length(&text),
                            if fine { length } else { at },
                            "{byte} at {at} of {length}"
                        );
                    }
                }
            }
        }
    }
}
