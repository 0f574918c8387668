//! The Huffman code of strings (RFC 7541, 5.2 and Appendix B). The tables are computed at compile time from
//! the lengths of the codes. Only names of fields are encoded: see [`HpackEncoder`](super::HpackEncoder).

use super::malformed::MalformedBlock;

/// Number of symbols: 256 bytes, and the end of string (EOS), which must not occur in a string.
const SYMBOLS: usize = 257;
/// The EOS symbol.
const EOS: u16 = 256;
/// Length of the longest code in bits.
const CODE_BITS_MAX: usize = 30;
/// Codes up to this length in bits are decoded by one table look-up. They cover nearly everything that occurs
/// in fields.
const FAST_BITS: usize = 9;

/// Length of each symbol's code in bits (RFC 7541, Appendix B). The lengths determine the codes, because the
/// code is canonical: shorter codes come first, and among equally long ones those of smaller symbols.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8,
    7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7,
    7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23,
    24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22,
    23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24,
    20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
    27, 27, 27, 26, 30,
];

/// Look-up tables for decoding.
struct DecodeTables {
    /// By the next [`FAST_BITS`] bits: the symbol, and the length of its code; 0 if the code is longer than
    /// `FAST_BITS`.
    fast: [(u8, u8); 1 << FAST_BITS],
    /// By length: the upper bound (exclusive) of codes of that length, left-aligned in 32 bits.
    below: [u64; CODE_BITS_MAX + 1],
    /// By length: the first code, and its index in `sorted`.
    first: [(u32, u16); CODE_BITS_MAX + 1],
    /// Symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
}

static CODE: DecodeTables = code();

const fn code() -> DecodeTables {
    let mut made = DecodeTables {
        fast: [(0, 0); 1 << FAST_BITS],
        below: [0; CODE_BITS_MAX + 1],
        first: [(0, 0); CODE_BITS_MAX + 1],
        sorted: [0; SYMBOLS],
    };
    let (mut code, mut place, mut length) = (0_u32, 0, 1);
    while length <= CODE_BITS_MAX {
        code <<= 1;
        made.first[length] = (code, place as u16);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                made.sorted[place] = symbol as u16;
                if length <= FAST_BITS {
                    let spare = FAST_BITS - length;
                    let mut rest = 0;
                    while rest < 1 << spare {
                        made.fast[(code as usize) << spare | rest] = (symbol as u8, length as u8);
                        rest += 1;
                    }
                }
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        made.below[length] = (code as u64) << (32 - length);
        length += 1;
    }
    made
}

/// The code of each byte, and its length in bits.
static CODES: [(u32, u8); 256] = {
    let mut codes = [(0, 0); 256];
    let mut symbol = 0;
    while symbol < codes.len() {
        let length = LENGTHS[symbol] as usize;
        let (first, from) = CODE.first[length];
        let mut place = from as usize;
        while CODE.sorted[place] as usize != symbol {
            place += 1;
        }
        codes[symbol] = (first + (place - from as usize) as u32, length as u8);
        symbol += 1;
    }
    codes
};

/// Returns the length of the encoded string in bytes.
pub(super) fn encoded_length(bytes: impl Iterator<Item = u8>) -> usize {
    bytes.map(|byte| usize::from(CODES[usize::from(byte)].1)).sum::<usize>().div_ceil(8)
}

/// Encodes `bytes` and appends the result to `out`.
pub(super) fn encode(bytes: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0_u64, 0_u32);
    for byte in bytes {
        let (code, length) = CODES[usize::from(byte)];
        bits = bits << length | u64::from(code);
        have += u32::from(length);
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        // The padding is a prefix of EOS: all ones.
        let padding = 8 - have;
        out.push((bits << padding) as u8 | ((1 << padding) - 1) as u8);
    }
}

/// Decodes `bytes` and appends the result to `out`.
///
/// # Errors
/// [`MalformedBlock`], if the string contains EOS, or ends with padding that is no prefix of EOS (RFC 7541,
/// 5.2).
pub(super) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), MalformedBlock> {
    // The next bits are the highest ones.
    let (mut bits, mut have, mut at) = (0_u64, 0_usize, 0);
    loop {
        while have <= 56 && at < bytes.len() {
            bits |= u64::from(bytes[at]) << (56 - have);
            have += 8;
            at += 1;
        }
        let (symbol, length) = CODE.fast[(bits >> (64 - FAST_BITS)) as usize];
        let (symbol, length) =
            if length > 0 { (symbol.into(), length.into()) } else { long((bits >> 32) as u32) };
        if length > have || symbol == EOS {
            break;
        }
        out.push(symbol as u8);
        bits <<= length;
        have -= length;
    }
    // The remainder must be shorter than a byte, and all ones: a prefix of EOS.
    let is_padding = have < 8 && (bits >> 56) as u8 == (0xff00_u16 >> have) as u8;
    if is_padding { Ok(()) } else { Err(MalformedBlock) }
}

/// Decodes a code of more than [`FAST_BITS`] bits.
#[cold]
fn long(bits: u32) -> (u16, usize) {
    let mut length = FAST_BITS + 1;
    while u64::from(bits) >= CODE.below[length] {
        length += 1;
    }
    let (first, place) = CODE.first[length];
    (CODE.sorted[usize::from(place) + ((bits >> (32 - length)) - first) as usize], length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<String, MalformedBlock> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out.iter().map(|byte| char::from(*byte)).collect())
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541, C.4 and C.6.
        let www = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&www).as_deref(), Ok("www.example.com"));
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Ok("no-cache"));
        assert_eq!(decoded(&[0x64, 0x02]).as_deref(), Ok("302"));
        assert_eq!(decoded(&[]).as_deref(), Ok(""));
    }

    #[test]
    fn every_byte_has_its_code() {
        for symbol in 0..=255_u8 {
            let length = usize::from(LENGTHS[usize::from(symbol)]);
            let place = CODE.sorted.iter().position(|other| *other == u16::from(symbol)).unwrap();
            let (first, from) = CODE.first[length];
            let code = u64::from(first) + (place as u64 - u64::from(from));
            // The code three times, padded with ones.
            let mut bits = 0_u128;
            for _ in 0..3 {
                bits = bits << length | u128::from(code);
            }
            let padding = (8 - 3 * length % 8) % 8;
            bits = bits << padding | ((1 << padding) - 1);
            let bytes = &bits.to_be_bytes()[16 - (3 * length).div_ceil(8)..];
            let mut out = Vec::new();
            assert_eq!(decode(bytes, &mut out), Ok(()), "{symbol}");
            assert_eq!(out, [symbol; 3]);
        }
    }

    #[test]
    fn encoded_text_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&b""[..], b"www.example.com", b"no-cache", b"x-key", &all] {
            let (mut encoded, mut out) = (Vec::new(), Vec::new());
            encode(bytes.iter().copied(), &mut encoded);
            assert_eq!(encoded.len(), encoded_length(bytes.iter().copied()));
            assert_eq!(decode(&encoded, &mut out), Ok(()));
            assert_eq!(out, bytes);
        }
        // RFC 7541, C.4.2.
        let mut encoded = Vec::new();
        encode(b"no-cache".iter().copied(), &mut encoded);
        assert_eq!(encoded, [0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
    }

    #[test]
    fn padding_is_the_begin_of_the_end_and_shorter_than_a_byte() {
        // The code of `0` is 00000.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Ok("0"));
        for bad in [&[0b0000_0110][..], &[0b0000_0111, 0xff], &[0xff], &[0xff; 4], &[0b0000_0000]] {
            assert_eq!(decoded(bad), Err(MalformedBlock), "{bad:?}");
        }
    }
}
