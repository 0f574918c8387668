//! Integers with a prefix (RFC 7541, 5.1). Reading is bounded by `INTEGER_MAX`, so no integer of a peer
//! overflows a later sum.

use super::malformed::MalformedBlock;

/// Largest accepted integer. No index, length or table size here is larger.
const INTEGER_MAX: u32 = 1 << 24;

/// Reads an integer whose prefix is the lower `bits` of the first byte, and advances `bytes` past it.
///
/// # Errors
/// [`MalformedBlock`], if the integer is cut off or larger than `INTEGER_MAX`.
#[inline]
pub(super) fn read(bytes: &mut &[u8], bits: u32) -> Result<usize, MalformedBlock> {
    let (first, rest) = bytes.split_first().ok_or(MalformedBlock)?;
    *bytes = rest;
    let most = (1 << bits) - 1;
    let prefix = first & most as u8;
    if u32::from(prefix) < most { Ok(prefix.into()) } else { long(bytes, most) }
}

fn long(bytes: &mut &[u8], prefix: u32) -> Result<usize, MalformedBlock> {
    let mut value = prefix;
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = bytes.split_first().ok_or(MalformedBlock)?;
        *bytes = rest;
        value += u32::from(byte & 0x7f) << shift;
        if value > INTEGER_MAX {
            return Err(MalformedBlock);
        }
        if byte & 0x80 == 0 {
            return Ok(value as usize);
        }
    }
    Err(MalformedBlock)
}

/// Appends an integer; `first` holds the bits above the prefix.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let most = (1 << bits) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541, C.1.
        for (bytes, bits, value) in [(&[0x0a][..], 5, 10), (&[0x1f, 0x9a, 0x0a], 5, 1337), (&[0x2a], 8, 42)] {
            assert_eq!(read(&mut { bytes }, bits), Ok(value));
            let mut out = Vec::new();
            write(&mut out, 0, bits, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn written_integers_are_read() {
        for bits in 4..=7 {
            for value in (0..70_000).chain([1 << 20, INTEGER_MAX as usize]) {
                let mut out = Vec::new();
                write(&mut out, 0, bits, value);
                let mut bytes = &out[..];
                assert_eq!((read(&mut bytes, bits), bytes), (Ok(value), &[][..]));
            }
        }
    }

    #[test]
    fn endless_and_oversized_integers_are_malformed() {
        for bytes in [
            &[][..],
            &[0x1f],
            &[0x1f, 0x80],
            &[0x1f, 0xff, 0xff, 0xff, 0xff],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00],
        ] {
            assert_eq!(read(&mut { bytes }, 5), Err(MalformedBlock), "{bytes:?}");
        }
    }

    #[test]
    fn no_integer_overflows() {
        for bits in 4..=7 {
            let most = (1_u32 << bits) - 1;
            let coded = |value: u32| {
                let mut out = Vec::new();
                write(&mut out, 0, bits, value as usize);
                out
            };
            assert_eq!(read(&mut &coded(INTEGER_MAX)[..], bits), Ok(INTEGER_MAX as usize));
            for value in [INTEGER_MAX + 1, u32::MAX >> 4, u32::MAX >> 1, u32::MAX] {
                assert_eq!(read(&mut &coded(value)[..], bits), Err(MalformedBlock), "{value} of {bits} bits");
            }
            for length in [4, 5, 9, 10, 11, 1_000] {
                let mut bytes = vec![most as u8];
                bytes.resize(length, 0xff);
                assert_eq!(read(&mut &bytes[..], bits), Err(MalformedBlock), "{length} bytes that go on");
            }
        }
    }
}
