//! Which bytes may stand where: sixteen of them at a time where the set is plain, else by table.

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

/// Offset past the longest run from `start` on that is a token of letters, digits, `-` and `_`, as nearly all are.
#[inline]
pub(crate) fn plain_token_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| alphanumeric(block) | equal(block, b'-') | equal(block, b'_'))
}

/// Offset past the longest run from `start` on that may stand in a request target and has no question mark.
pub(crate) fn path_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| target(block) & !equal(block, b'?'))
}

/// Whether every byte may stand in a request target.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    run_end(bytes, 0, target) == bytes.len()
}

/// Offset past the longest run from `start` on that may stand in a field value. Every line of a head is such text, so
/// the byte behind it is the line's end or an error: one pass finds either.
#[inline]
pub(crate) fn text_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| {
        equal(block, b'\t') | !(block.simd_le(u8x16::splat(0x1f)) | equal(block, 0x7f))
    })
}

/// Whether every byte may stand in a field value.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    text_end(bytes, 0) == bytes.len()
}

/// Offset past the longest run from `start` on that is a host's name or IPv4 address.
pub(crate) fn host_name_end(bytes: &[u8], start: usize) -> usize {
    run_end(bytes, start, |block| {
        let punctuation = equal(block, b'-') | equal(block, b'.') | equal(block, b'_') | equal(block, b'~');
        alphanumeric(block) | punctuation
    })
}

/// Where the first line from `start` on begins whose first letter this is, in either case. What stands first of all bytes is
/// no such line: in a head that is the start line. (May be a line that begins with another byte that differs in that bit only.)
#[inline]
pub(crate) fn line_with(bytes: &[u8], start: usize, letter: u8) -> Option<usize> {
    let letter = letter | CASE;
    let begins = |ends: [u8; WIDTH], letters: [u8; WIDTH]| {
        let is_letter = equal(u8x16::from(letters) | u8x16::splat(CASE), letter);
        (equal(u8x16::from(ends), b'\n') & is_letter).to_bitmask()
    };
    // A line begins behind the end of another: both are looked for at once.
    let mut at = start.max(1) - 1;
    let (ends, _) = bytes.get(at..)?.as_chunks();
    let (letters, _) = bytes.get(at + 1..)?.as_chunks();
    for (ends, letters) in ends.iter().zip(letters) {
        let found = begins(*ends, *letters);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize + 1);
        }
        at += WIDTH;
    }
    // The rest is seen in the last whole block, without the bytes that were seen before.
    let (last, from) = match bytes.last_chunk::<{ WIDTH + 1 }>() {
        Some(last) => (*last, bytes.len() - WIDTH - 1),
        None => {
            let mut last = [0; WIDTH + 1];
            last[..bytes.len()].copy_from_slice(bytes);
            (last, 0)
        }
    };
    let [ends @ .., _] = last;
    let [_, letters @ ..] = last;
    let found = begins(ends, letters) & (ALL << (at - from).min(WIDTH));
    (found != 0).then(|| from + found.trailing_zeros() as usize + 1)
}

/// What tells a capital letter from a small one.
const CASE: u8 = 0x20;

/// Bytes in a block, and its mask in bits.
const WIDTH: usize = 16;
const ALL: u32 = 0xffff;

/// Offset of the first byte from `start` on that is not in the class, or past the last one. `class` gives a block with
/// every bit of a byte set that is in it.
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
    // The rest is seen in the last whole block, without the bytes that were seen before.
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

/// Bytes from `first` on, `count` of them.
#[inline(always)]
fn range(block: u8x16, first: u8, count: u8) -> u8x16 {
    (block - u8x16::splat(first)).simd_le(u8x16::splat(count - 1))
}

#[inline(always)]
fn alphanumeric(block: u8x16) -> u8x16 {
    range(block, b'0', 10) | range(block | u8x16::splat(0x20), b'a', 26)
}

/// Visible ASCII without `#`.
#[inline(always)]
fn target(block: u8x16) -> u8x16 {
    range(block, b'!', 94) & !equal(block, b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for (letter, other) in [(b'a', b'A'), (b'X', b'x'), (b'-', b'\r'), (b'\n', b'*')] {
                for at in 1..length {
                    for (written, filler) in [(letter, b'a'), (other, b'x'), (letter, b'\n'), (b'7', b'X')] {
                        let mut text = vec![filler; length];
                        (text[at - 1], text[at]) = (b'\n', written);
                        let fits = |at: &usize| text[*at - 1] == b'\n' && text[*at] | CASE == letter | CASE;
                        for start in [0, 1, at - 1, at, at + 1, length / 2, length, length + 1] {
                            let first = (start.max(1)..length).find(fits);
                            assert_eq!(line_with(&text, start, letter), first, "{text:?} from {start}");
                        }
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
