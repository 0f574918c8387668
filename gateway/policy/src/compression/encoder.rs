//! What makes a body smaller, piece by piece.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;

use tollgate_observe::Reason;

use crate::Transform;

/// Bits of the window of brotli and zstd: what one response keeps of what went before, 256 KiB. Their own choice, 4 MiB and
/// more, would be the memory of each response under way.
const WINDOW: u32 = 18;

/// How hard each encoding tries, as its library counts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// 1 to 19.
    pub zstd: i32,
    /// 0 to 11.
    pub brotli: i32,
    /// 1 to 9.
    pub gzip: u32,
}

impl Default for Levels {
    /// Levels at which a core makes 100 MB/s and more.
    fn default() -> Self {
        Self { zstd: 3, brotli: 4, gzip: 5 }
    }
}

/// A way of encoding bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Encoding {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// As HTTP names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The one of this name, in any case (`x-gzip` is an old one of gzip's: RFC 9110, 8.4.1.3).
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|encoding| name.eq_ignore_ascii_case(encoding.as_str().as_bytes()))
    }
}

/// Makes a body smaller. After every piece all of it can be decoded that came so far: a stream must not wait.
pub(super) enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
    /// It has ended.
    Done,
}

impl Encoder {
    /// Nothing if the library gives none.
    pub fn new(encoding: Encoding, levels: Levels) -> Option<Self> {
        Some(match encoding {
            Encoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), levels.zstd).ok()?;
                encoder.window_log(WINDOW).ok()?;
                Self::Zstd(encoder)
            }
            Encoding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: levels.brotli,
                    lgwin: WINDOW as i32,
                    ..BrotliEncoderParams::default()
                };
                Self::Brotli(Box::new(brotli::CompressorWriter::with_params(Vec::new(), 4096, &params)))
            }
            Encoding::Gzip => {
                let level = flate2::Compression::new(levels.gzip);
                Self::Gzip(Box::new(flate2::write::GzEncoder::new(Vec::new(), level)))
            }
        })
    }

    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Zstd(_) => Encoding::Zstd,
            Self::Brotli(_) => Encoding::Brotli,
            Self::Gzip(_) | Self::Done => Encoding::Gzip,
        }
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(data).and_then(|()| encoder.flush()),
            Self::Brotli(encoder) => encoder.write_all(data).and_then(|()| encoder.flush()),
            Self::Gzip(encoder) => encoder.write_all(data).and_then(|()| encoder.flush()),
            Self::Done => Ok(()),
        }
    }
}

/// Writing to memory does not fail; if a library does nevertheless, the body ends without its trailer, and no decoder takes
/// it for whole.
impl Transform for Encoder {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        if self.write(data).is_err() {
            *self = Self::Done;
        }
        match self {
            Self::Zstd(encoder) => out.append(encoder.get_mut()),
            Self::Brotli(encoder) => out.append(encoder.get_mut()),
            Self::Gzip(encoder) => out.append(encoder.get_mut()),
            Self::Done => {}
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let rest = match std::mem::replace(self, Self::Done) {
            Self::Zstd(encoder) => encoder.finish().unwrap_or_default(),
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Gzip(encoder) => encoder.finish().unwrap_or_default(),
            Self::Done => Vec::new(),
        };
        out.extend_from_slice(&rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decoded(encoding: Encoding, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut limited: Box<dyn Read> = match encoding {
            Encoding::Zstd => Box::new(zstd::stream::read::Decoder::new(data).expect("a decoder")),
            Encoding::Brotli => Box::new(brotli::Decompressor::new(data, 4096)),
            Encoding::Gzip => Box::new(flate2::read::GzDecoder::new(data)),
        };
        let mut byte = [0; 4096];
        // Up to where it ends: what was cut has an error there.
        while let Ok(count @ 1..) = limited.read(&mut byte) {
            out.extend_from_slice(&byte[..count]);
        }
        out
    }

    #[test]
    fn every_piece_can_be_decoded_when_it_is_out() {
        for encoding in Encoding::ALL {
            let mut encoder = Encoder::new(encoding, Levels::default()).expect("an encoder");
            let (mut out, mut sent) = (Vec::new(), Vec::new());
            for piece in ["one ", "two ", &"three ".repeat(10_000)] {
                encoder.push(piece.as_bytes(), &mut out).expect("memory");
                sent.extend_from_slice(piece.as_bytes());
                assert!(decoded(encoding, &out) == sent, "{encoding:?} {}", sent.len());
            }
            encoder.finish(&mut out).expect("memory");
            assert!(decoded(encoding, &out) == sent, "{encoding:?}");
            assert!(out.len() < sent.len() / 10, "{encoding:?}: {}", out.len());
            encoder.push(b"more", &mut Vec::new()).expect("it is passed over");
        }
    }

    #[test]
    fn an_empty_body_is_one_too() {
        for encoding in Encoding::ALL {
            let mut encoder = Encoder::new(encoding, Levels::default()).expect("an encoder");
            let mut out = Vec::new();
            encoder.finish(&mut out).expect("memory");
            assert!(!out.is_empty() && decoded(encoding, &out).is_empty(), "{encoding:?}");
        }
    }
}
