//! Measures a string in HPACK's Huffman code (RFC 7541, 5.2) without decoding it.
//!
//! The [inspector](super::ResponseInspector) uses it to compute the sizes of dynamic table entries.
//! Invariant: the result is the length of the decoded string, whatever pieces the string arrives in.

/// Length of the longest code in bits.
const CODE_BITS_MAX: usize = 30;

/// How many symbols have a code of each length (RFC 7541, Appendix B). The code is canonical, so these
/// numbers determine where each symbol ends.
#[rustfmt::skip]
const CODES_PER_LENGTH: [u32; CODE_BITS_MAX + 1] = [
    0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4,
];

/// The first code of each length.
const FIRST_CODES: [u32; CODE_BITS_MAX + 1] = {
    let mut first = [0; CODE_BITS_MAX + 1];
    let mut length = 1;
    while length <= CODE_BITS_MAX {
        first[length] = (first[length - 1] + CODES_PER_LENGTH[length - 1]) << 1;
        length += 1;
    }
    first
};

/// Counts the decoded bytes of a string that arrives in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecodedLength {
    length: u32,
    /// The bits of the current symbol so far, and their number.
    code: u32,
    bits: usize,
}

impl DecodedLength {
    /// The number of decoded bytes so far. The bits left at the end are padding.
    pub(super) fn length(self) -> u32 {
        self.length
    }

    /// Counts the next bytes of the string.
    pub(super) fn add(&mut self, bytes: &[u8], is_huffman: bool) {
        if !is_huffman {
            self.length = self.length.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            return;
        }
        for byte in bytes {
            for bit in (0..8).rev() {
                self.code = self.code << 1 | u32::from(byte >> bit & 1);
                self.bits = (self.bits + 1).min(CODE_BITS_MAX);
                if self.code.wrapping_sub(FIRST_CODES[self.bits]) < CODES_PER_LENGTH[self.bits] {
                    self.length = self.length.saturating_add(1);
                    (self.code, self.bits) = (0, 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_the_standard() {
        // RFC 7541, C.4 and C.6.
        for (bytes, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[0xb8, 0x84, 0x8d, 0x36, 0xa3], ":status"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
        ] {
            let mut decoded = DecodedLength::default();
            decoded.add(bytes, true);
            assert_eq!(decoded.length() as usize, text.len(), "{text}");
            let mut parted = DecodedLength::default();
            bytes.chunks(1).for_each(|piece| parted.add(piece, true));
            assert_eq!(parted.length(), decoded.length());
        }
        assert_eq!(CODES_PER_LENGTH.iter().sum::<u32>(), 257);
    }
}
