//! Character classes of HTTP's grammar. Sets without gaps are checked sixteen bytes at a time, the others by
//! table.

use wide::u8x16;

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
        // RFC 9112, 3.2: a target has no space, control byte or fragment. Bytes beyond ASCII are refused,
        // because readers interpret them differently.
        if b.is_ascii_graphic() && b != b'#' {
            class |= TARGET;
        }
        // RFC 9110, 5.5: field-vchar, space and tab.
        if b == b'\t' || (b >= b' ' && b != 0x7f) {
            class |= VALUE;
        }
        // RFC 3986, 3.2.2, without escapes and sub-delims, which no name in use contains.
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

/// Whether a token may contain this byte (RFC 9110, 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// Whether `bytes` is a token (RFC 9110, 5.6.2).
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_length(bytes) == bytes.len()
}

/// Whether `bytes` is a token without upper-case letters, as a field name in HTTP/2 must be (RFC 9113,
/// 8.2.1).
pub(crate) fn is_lower_token(bytes: &[u8]) -> bool {
    let usual = |block: u8x16| {
        range(block, b'0', 10) | range(block, b'a', 26) | equal(block, b'-') | equal(block, b'_')
    };
    let is_one = |byte: &u8| CLASSES[*byte as usize] & TOKEN != 0 && !byte.is_ascii_uppercase();
    !bytes.is_empty() && bytes[run_end(bytes, 0, usual)..].iter().all(is_one)
}

/// Offset past the longest run from `start` on of letters, digits, `-` and `_`. Nearly all tokens consist of
/// these.
#[inline]
pub(crate) fn plain_token_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| alphanumeric(block) | equal(block, b'-') | equal(block, b'_'))
}

/// Offset past the longest run from `start` on of bytes that a request target may contain, up to a question
/// mark.
pub(crate) fn path_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| target(block) & !equal(block, b'?'))
}

/// Whether a request target may contain every byte.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    run_end(bytes, 0, target) == bytes.len()
}

/// Offset past the longest run from `start` on of bytes that a field value may contain. Every line of a head
/// consists of such bytes, so the byte after the run ends the line or is an error: one pass finds either.
#[inline]
pub(crate) fn text_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| {
        equal(block, b'\t') | !(block.simd_le(u8x16::splat(0x1f)) | equal(block, 0x7f))
    })
}

/// Whether a field value may contain every byte.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    text_end(bytes, 0) == bytes.len()
}

/// Offset past the longest run from `start` on of bytes that a host name or an IPv4 address may contain.
pub(crate) fn host_name_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| {
        let punctuation = equal(block, b'-') | equal(block, b'.') | equal(block, b'_') | equal(block, b'~');
        alphanumeric(block) | punctuation
    })
}

/// Whether the host name from `start` to `end` has an empty label: it begins with a dot, or has two dots in a
/// row. A dot at its end denotes the root (RFC 1034, section 3.1).
#[inline]
pub(crate) fn has_empty_label(bytes: &[u8], start: usize, end: usize) -> bool {
    // One bit for each byte. `before` is the bit of the byte before the block; the name begins as if after a
    // dot.
    let mut before = 1;
    let mut at = start;
    while at < end {
        let dots = match bytes.get(at..).and_then(<[u8]>::first_chunk::<WIDTH>) {
            Some(block) => equal(u8x16::from(*block), b'.').to_bitmask(),
            None => {
                let rest = bytes.get(at..end).unwrap_or_default();
                rest.iter().rev().fold(0, |dots, byte| dots << 1 | u32::from(*byte == b'.'))
            }
        };
        let dots = dots & (ALL >> WIDTH.saturating_sub(end - at));
        if dots & (dots << 1 | before) != 0 {
            return true;
        }
        before = dots >> (WIDTH - 1);
        at += WIDTH;
    }
    false
}

/// Offset of the first line after `start` for which `is_one` returns true. The first line of `bytes`, in a
/// head the start line, is not examined.
#[inline(always)]
pub(crate) fn find_line(bytes: &[u8], start: usize, is_one: impl Fn(usize) -> bool) -> Option<usize> {
    let mut at = start.max(1) - 1;
    let in_block = |at: usize, mut ends: u32| {
        while ends != 0 {
            let line = at + ends.trailing_zeros() as usize + 1;
            if is_one(line) {
                return Some(line);
            }
            ends &= ends - 1;
        }
        None
    };
    let ends = |block: [u8; WIDTH]| equal(u8x16::from(block), b'\n').to_bitmask();
    for block in bytes.get(at..)?.as_chunks().0 {
        let found = in_block(at, ends(*block));
        if found.is_some() {
            return found;
        }
        at += WIDTH;
    }
    // The remaining bytes are checked in the last whole block; bytes checked before are masked out.
    let (block, from) = match bytes.last_chunk() {
        Some(block) => (*block, bytes.len() - WIDTH),
        None => {
            let mut block = [0; WIDTH];
            block[..bytes.len()].copy_from_slice(bytes);
            (block, 0)
        }
    };
    in_block(from, ends(block) & (ALL << (at - from).min(WIDTH)))
}

/// Bytes in a block, and the mask with one bit for each.
const WIDTH: usize = 16;
const ALL: u32 = 0xffff;

/// Offset of the first byte from `start` on that is not in the class, or the length of `bytes`. `class`
/// returns a block in which all bits are set for each byte in the class.
#[inline(always)]
fn run_end(bytes: &[u8], start: usize, class: impl Fn(u8x16) -> u8x16) -> usize {
    let mut at = start;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WIDTH>) {
        let others = class(u8x16::from(*block)).to_bitmask() ^ ALL;
        if others != 0 {
            return at + others.trailing_zeros() as usize;
        }
        at += WIDTH;
    }
    // The remaining bytes are checked in the last whole block; bytes checked before are masked out.
    let (block, skip) = match bytes.last_chunk::<WIDTH>() {
        Some(block) => (*block, at + WIDTH - bytes.len()),
        None => {
            let mut block = [0; WIDTH];
            block[..bytes.len()].copy_from_slice(bytes);
            (block, at)
        }
    };
    let others = (class(u8x16::from(block)).to_bitmask() ^ ALL) >> skip.min(WIDTH);
    bytes.len().min(at + others.trailing_zeros() as usize)
}

#[inline(always)]
fn equal(block: u8x16, byte: u8) -> u8x16 {
    block.simd_eq(u8x16::splat(byte))
}

/// Selects the `count` byte values from `first` on.
#[inline(always)]
fn range(block: u8x16, first: u8, count: u8) -> u8x16 {
    (block - u8x16::splat(first)).simd_le(u8x16::splat(count - 1))
}

#[inline(always)]
fn alphanumeric(block: u8x16) -> u8x16 {
    range(block, b'0', 10) | range(block | u8x16::splat(0x20), b'a', 26)
}

/// Selects visible ASCII without `#`.
#[inline(always)]
fn target(block: u8x16) -> u8x16 {
    range(block, b'!', 94) & !equal(block, b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_labels_are_found_wherever_they_are() {
        for length in 1..40 {
            for at in 0..length {
                let mut name = vec![b'a'; length];
                name[at] = b'.';
                for behind in [0, 20] {
                    let bytes = [b"..", &name[..], &vec![b'.'; behind]].concat();
                    assert_eq!(has_empty_label(&bytes, 2, 2 + length), at == 0, "{at} of {length}");
                    if at + 1 < length {
                        let mut bytes = bytes;
                        bytes[2 + at + 1] = b'.';
                        assert!(has_empty_label(&bytes, 2, 2 + length), "{at} of {length}");
                    }
                }
            }
        }
    }

    const PLAIN: [fn(u8) -> bool; 5] = [
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        |byte| CLASSES[byte as usize] & TARGET != 0 && byte != b'?',
        |byte| CLASSES[byte as usize] & TARGET != 0,
        |byte| CLASSES[byte as usize] & VALUE != 0,
        |byte| CLASSES[byte as usize] & HOST != 0,
    ];

    #[test]
    fn lines_are_found_wherever_they_begin() {
        for length in 0..70 {
            for other in [b'a', 0x0b, 0x8a, 0xff, 0x00] {
                for ends in 0..64_u32 {
                    let is_end = |at: usize| at % 11 == 4 && ends >> (at / 11) & 1 == 1;
                    let text: Vec<u8> =
                        (0..length).map(|at| if is_end(at) { b'\n' } else { other }).collect();
                    for start in [0, 1, 5, 16, 17, 27, length / 2, length, length + 1] {
                        let mut expected = (start.max(1)..=length).filter(|at| is_end(at - 1));
                        assert_eq!(
                            find_line(&text, start, |_| true),
                            expected.next(),
                            "{text:?} from {start}"
                        );
                        let second = expected.next();
                        let found = find_line(&text, start, |at| second.is_some_and(|second| at >= second));
                        assert_eq!(found, second, "{text:?} from {start}");
                    }
                }
            }
        }
    }

    fn lengths(text: &[u8]) -> [usize; 5] {
        let target = if is_target(text) { text.len() } else { run_end(text, 0, target) };
        [plain_token_end(text, 0), path_end(text, 0), target, text_end(text, 0), host_name_end(text, 0)]
    }

    #[test]
    fn a_byte_counts_the_same_wherever_it_stands() {
        for byte in 0..=255u8 {
            for length in [1, 7, 15, 16, 17, 31, 32, 33, 47, 64, 79] {
                for at in 0..length {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let expected = PLAIN.map(|is_in| if is_in(byte) { length } else { at });
                    assert_eq!(lengths(&text), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn names_of_http_2_have_no_upper_case() {
        assert!(!is_lower_token(b""));
        for byte in 0..=255_u8 {
            let is_one = CLASSES[byte as usize] & TOKEN != 0 && !byte.is_ascii_uppercase();
            for length in [1, 2, 15, 16, 17, 40] {
                for at in [0, length / 2, length - 1] {
                    for others in [b'a', b'~'] {
                        let mut text = vec![others; length];
                        text[at] = byte;
                        assert_eq!(is_lower_token(&text), is_one, "{byte} at {at} of {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_begins_anywhere() {
        for length in 0..50 {
            for stop in 0..=length {
                let mut text = vec![b'a'; length];
                text[stop..].fill(b'\r');
                for start in 0..=length {
                    let end = stop.max(start);
                    assert_eq!((plain_token_end(&text, start), text_end(&text, start)), (end, end));
                }
            }
        }
    }

    #[test]
    fn all_runs_end_at_the_first_stop() {
        for filler in [b'\t', 0xff] {
            for length in 1..40 {
                let mut text = vec![filler; length];
                assert_eq!(text_end(&text, 0), length);
                text[length / 2..].fill(0x7f);
                assert_eq!(text_end(&text, 0), length / 2);
            }
        }
    }
}
