//! The fast test for the usual path: no escape, and no dot at the start of a segment.

/// Bytes tested together: one vector register on every 64-bit target.
const WIDTH: usize = 16;

/// Returns whether a path that starts with `/` holds only bytes that represent themselves. No segment may
/// start with a dot or, if slashes merge, be empty.
///
/// The comparisons have no branch, so that they compile to vector instructions. A path of 33 bytes takes half
/// the instructions of a loop over a table of classes (147 and 297, `examples/lookup_cost.rs` and its loop
/// included).
pub(super) fn is_plain(path: &[u8], merge_slashes: bool) -> bool {
    let Some((_, after)) = path.split_first() else { return false };
    let before = &path[..after.len()];
    let empty_segment = if merge_slashes { b'/' } else { b'.' };
    let (Some(last_before), Some(last_after)) = (before.last_chunk(), after.last_chunk()) else {
        return before.iter().zip(after).all(|(&before, &byte)| !is_special(before, byte, empty_segment));
    };
    // The last chunk covers the bytes after the whole chunks, and overlaps them: testing bytes twice is
    // cheaper than testing a few one by one.
    let chunks = before.as_chunks::<WIDTH>().0.iter().zip(after.as_chunks::<WIDTH>().0);
    let odd = chunks.fold(0, |odd, (before, after)| odd | special_bytes(before, after, empty_segment));
    odd | special_bytes(last_before, last_after, empty_segment) == 0
}

/// Returns 0 if none of the bytes `after`, each with the byte `before` it, needs a closer look.
fn special_bytes(before: &[u8; WIDTH], after: &[u8; WIDTH], empty_segment: u8) -> u8 {
    let pairs = before.iter().zip(after);
    pairs.fold(0, |odd, (&before, &byte)| odd | u8::from(is_special(before, byte, empty_segment)))
}

#[inline(always)]
fn is_special(before: u8, byte: u8, empty_segment: u8) -> bool {
    let is_printable = byte.wrapping_sub(b'!') <= b'~' - b'!';
    let is_special = (byte == b'%') | (byte == b'#') | (byte == b'?') | (byte == b'\\');
    let is_dot_segment = (before == b'/') & ((byte == b'.') | (byte == empty_segment));
    !is_printable | is_special | is_dot_segment
}

#[cfg(test)]
mod tests {
    use super::super::class::{CLASS, Class};
    use super::*;

    #[test]
    fn agrees_with_the_table_at_every_place() {
        for length in 1..40 {
            for at in 1..=length {
                for byte in 0..=255 {
                    let mut path = b"/".to_vec();
                    path.resize(length + 1, b'a');
                    path[at] = byte;
                    let plain = match CLASS[usize::from(byte)] {
                        Class::Unreserved | Class::Data => at > 1 || byte != b'.',
                        Class::Slash => at > 1,
                        Class::Percent | Class::Refused(_) => false,
                    };
                    assert_eq!(is_plain(&path, true), plain, "{byte} at {at} of {length}");
                    assert_eq!(is_plain(&path, false), plain || byte == b'/', "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn pairs_over_the_edge_of_a_vector() {
        for at in 1..40 {
            for (pair, merged, kept) in [("/.", false, false), ("//", false, true), ("/a", true, true)] {
                let path = format!("/{}{pair}b", "a".repeat(at));
                assert_eq!(is_plain(path.as_bytes(), true), merged, "{path}");
                assert_eq!(is_plain(path.as_bytes(), false), kept, "{path}");
            }
        }
        assert!(is_plain(b"/", true));
    }
}
