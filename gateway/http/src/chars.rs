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

/// Length of the longest prefix that may stand in a request target and has no question mark.
pub(crate) fn path_length(bytes: &[u8]) -> usize {
    scan(
        bytes,
        |word| visible_stops(word) | equal_bytes(word, b'?'),
        |byte| !is_in(byte, TARGET) || byte == b'?',
    )
}

/// Whether every byte may stand in a request target.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    scan(bytes, visible_stops, |byte| !is_in(byte, TARGET)) == bytes.len()
}

/// Length of the longest prefix that may stand in a field value. Every line of a head is such text, so the byte
/// behind it is the line's end or an error: one pass finds either.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    // Tabs are rare; to tell them from other control bytes would cost every word more.
    let mut at = plain_length(bytes);
    while bytes.get(at) == Some(&b'\t') {
        at += 1 + plain_length(&bytes[at + 1..]);
    }
    at
}

/// The same without tabs.
fn plain_length(bytes: &[u8]) -> usize {
    let is_stop = |byte| byte < b' ' || byte == 0x7f;
    // Most values end within three words. The compiler makes vector code of a block, for want of an early exit in it.
    let mut at = 0;
    if let Some(block) = bytes.first_chunk::<24>() {
        let within = scan(block, control_stops, is_stop);
        if within < block.len() {
            return within;
        }
        at = block.len();
        while let Some(block) = bytes[at..].first_chunk::<32>() {
            if block.iter().fold(false, |stop, byte| stop | is_stop(*byte)) {
                break;
            }
            at += block.len();
        }
    }
    at + scan(&bytes[at..], control_stops, is_stop)
}

/// Length of the prefix before the first byte that stops, eight at a time: `stops` marks with its top bit at least the
/// first byte of a word for which `is_stop` holds, and none before it.
#[inline(always)]
fn scan(bytes: &[u8], stops: impl Fn(u64) -> u64, is_stop: impl Fn(u8) -> bool) -> usize {
    let mut rest = bytes;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return bytes.len() - rest.len() + (stops.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| is_stop(*byte)).unwrap_or(rest.len())
}

/// One in every byte.
const ONES: u64 = u64::from_le_bytes([1; 8]);
/// The top bit of every byte.
const TOPS: u64 = 0x80 * ONES;

/// The top bit of every byte that is a control byte, DEL among them. No sum carries into the next byte.
const fn control_stops(word: u64) -> u64 {
    let low = word & !TOPS;
    let at_least_space = low + 0x60 * ONES;
    let is_delete = low + ONES;
    !word & (!at_least_space | is_delete) & TOPS
}

/// The top bit of the first byte that is no visible ASCII or `#`, and perhaps of some after it.
const fn visible_stops(word: u64) -> u64 {
    let low = word & !TOPS;
    let above_space = low + 0x5f * ONES;
    let is_delete = low + ONES;
    ((word | !above_space | is_delete) & TOPS) | equal_bytes(word, b'#')
}

/// The top bit of the first byte that equals this one, and perhaps of some after it.
pub(crate) const fn equal_bytes(word: u64, byte: u8) -> u64 {
    let difference = word ^ (byte as u64 * ONES);
    difference.wrapping_sub(ONES) & !difference & TOPS
}

fn is_in(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
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
