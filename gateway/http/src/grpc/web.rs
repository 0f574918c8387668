//! gRPC-Web, the variant of gRPC that browsers can use.
//!
//! A request's body is that of gRPC, or its base64. A response's body has one more part, which contains the
//! trailers as lines, because browsers show scripts no other trailers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The first byte of the part with the trailers: the highest bit of a message's flags.
const TRAILERS_FLAG: u8 = 0x80;

/// Error: a text is not valid base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

/// Decodes base64 in pieces of any size. The text may consist of several segments, each with its own padding.
#[derive(Clone, Debug, Default)]
pub struct Base64Decoder {
    /// Characters of an incomplete group.
    carry: [u8; 4],
    carried: usize,
}

impl Base64Decoder {
    /// Decodes the next characters, as far as groups of four are complete, and appends the result.
    ///
    /// # Errors
    /// If the characters are not valid base64.
    pub fn decode(&mut self, mut text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        if self.carried > 0 {
            let (first, rest) = text.split_at(text.len().min(4 - self.carried));
            self.carry[self.carried..self.carried + first.len()].copy_from_slice(first);
            self.carried += first.len();
            if self.carried < 4 {
                return Ok(());
            }
            self.carried = 0;
            STANDARD.decode_vec(self.carry, out).map_err(|_| NotBase64)?;
            text = rest;
        }
        let (mut whole, part) = text.split_at(text.len() / 4 * 4);
        while !whole.is_empty() {
            // A padded group ends a segment.
            let padded = whole.iter().position(|byte| *byte == b'=');
            let (piece, rest) = whole.split_at(padded.map_or(whole.len(), |at| (at / 4 + 1) * 4));
            STANDARD.decode_vec(piece, out).map_err(|_| NotBase64)?;
            whole = rest;
        }
        self.carry[..part.len()].copy_from_slice(part);
        self.carried = part.len();
        Ok(())
    }

    /// Whether the text may end here, which means that no group is incomplete.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.carried == 0
    }
}

/// Appends `data` as one padded segment of base64. A reader gets all of it without waiting for more.
pub fn encode(data: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let length = base64::encoded_len(data.len(), true).unwrap_or(0);
    out.resize(start + length, 0);
    let written = STANDARD.encode_slice(data, &mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
}

/// Appends the part with the trailers. `lines` are field lines with their CRLF; their names are written in
/// lower case.
pub fn trailers(lines: &[u8], out: &mut Vec<u8>) {
    out.push(TRAILERS_FLAG);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (name, value) in crate::h2::fields(lines) {
        out.extend(name.iter().map(u8::to_ascii_lowercase));
        out.push(b':');
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(pieces: &[&[u8]]) -> Result<Vec<u8>, NotBase64> {
        let (mut decoder, mut out) = (Base64Decoder::default(), Vec::new());
        for piece in pieces {
            decoder.decode(piece, &mut out)?;
        }
        if decoder.is_whole() { Ok(out) } else { Err(NotBase64) }
    }

    #[test]
    fn pieces_with_padding_of_their_own() {
        assert_eq!(decoded(&[b"aGk=aGk=", b"aGlo", b"aA=="]).as_deref(), Ok(&b"hihihihh"[..]));
        assert_eq!(decoded(&[]).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn invalid_base64_is_rejected() {
        for text in ["a", "aGk", "aGk=a", "aG=k", "====", "aG k", "a-_k", "aGl=", "\0\0\0\0"] {
            assert_eq!(decoded(&[text.as_bytes()]), Err(NotBase64), "{text}");
        }
    }

    #[test]
    fn the_trailers_part() {
        let mut out = Vec::new();
        trailers(b"Grpc-Status: 0\r\nX: a:b \r\n", &mut out);
        assert_eq!(out, b"\x80\0\0\0\x16grpc-status:0\r\nx:a:b\r\n");
        out.clear();
        trailers(b"", &mut out);
        assert_eq!(out, b"\x80\0\0\0\0");
    }

    proptest! {
        #[test]
        fn however_it_is_split(
            data in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..5),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let mut text = Vec::new();
            for piece in &data {
                encode(piece, &mut text);
            }
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            ends.extend([0, text.len()]);
            ends.sort_unstable();
            let pieces: Vec<&[u8]> = ends.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decoded(&pieces), Ok(data.concat()));
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(decoded(&bytes), Ok(data.concat()));
        }

        #[test]
        fn the_result_does_not_depend_on_the_split(text in "[A-Da-d0-1+/=]{0,24}", at in any::<proptest::sample::Index>()) {
            let text = text.as_bytes();
            let (first, second) = text.split_at(at.index(text.len() + 1));
            prop_assert_eq!(decoded(&[first, second]), decoded(&[text]));
        }
    }
}
