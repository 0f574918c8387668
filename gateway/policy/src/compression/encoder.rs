//! Compresses a response body, one piece at a time.
//!
//! [`Encoder`] is the [`Transform`] that `compression` installs; it wraps the encoders of libraries. Windows
//! are small, because each response in progress has its own. For a stored body, [`FormEncoder`] takes its place, which also
//! keeps its output for later hits.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;

use tollgate_cache::FormFill;
use tollgate_http::ContentCoding;
use tollgate_observe::Reason;

use crate::Transform;

/// The window size of brotli and zstd in bits: 256 KiB of history per response. The libraries' defaults, 4
/// MiB and more, would cost that memory for each response in progress.
const WINDOW_BITS: u32 = 18;

/// The compression level of each encoding, on the scale of its library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevels {
    /// zstd, 1 to 19.
    pub zstd: i32,
    /// brotli, 0 to 11.
    pub brotli: i32,
    /// gzip, 1 to 9.
    pub gzip: u32,
}

impl Default for CompressionLevels {
    /// Levels at which one core compresses 100 MB/s or more.
    fn default() -> Self {
        Self { zstd: 3, brotli: 4, gzip: 5 }
    }
}

/// A compressor that flushes after every piece, so that a stream is not delayed.
pub(super) enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
    /// The end of the body.
    Done,
}

impl Encoder {
    /// Returns `None` if the library cannot create a compressor.
    pub fn new(encoding: ContentCoding, levels: CompressionLevels) -> Option<Self> {
        Some(match encoding {
            ContentCoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), levels.zstd).ok()?;
                encoder.window_log(WINDOW_BITS).ok()?;
                Self::Zstd(encoder)
            }
            ContentCoding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: levels.brotli,
                    lgwin: WINDOW_BITS as i32,
                    ..BrotliEncoderParams::default()
                };
                Self::Brotli(Box::new(brotli::CompressorWriter::with_params(Vec::new(), 4096, &params)))
            }
            ContentCoding::Gzip => {
                let level = flate2::Compression::new(levels.gzip);
                Self::Gzip(Box::new(flate2::write::GzEncoder::new(Vec::new(), level)))
            }
        })
    }

    fn write(&mut self, data: &[u8], flushes: bool) -> io::Result<()> {
        let encoder: &mut dyn Write = match self {
            Self::Zstd(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
            Self::Gzip(encoder) => encoder,
            Self::Done => return Ok(()),
        };
        encoder.write_all(data)?;
        if flushes { encoder.flush() } else { Ok(()) }
    }

    /// Encodes data, and appends the output that there is. `flushes`: all of it can be decoded at once.
    fn encode(&mut self, data: &[u8], flushes: bool, out: &mut Vec<u8>) {
        if self.write(data, flushes).is_err() {
            *self = Self::Done;
        }
        match self {
            Self::Zstd(encoder) => out.append(encoder.get_mut()),
            Self::Brotli(encoder) => out.append(encoder.get_mut()),
            Self::Gzip(encoder) => out.append(encoder.get_mut()),
            Self::Done => {}
        }
    }

    /// Ends the body. Returns whether the output is complete: no library has failed.
    fn end(&mut self, out: &mut Vec<u8>) -> bool {
        let rest = match std::mem::replace(self, Self::Done) {
            Self::Zstd(encoder) => encoder.finish().ok(),
            Self::Brotli(encoder) => Some(encoder.into_inner()),
            Self::Gzip(encoder) => encoder.finish().ok(),
            Self::Done => None,
        };
        out.extend_from_slice(rest.as_deref().unwrap_or_default());
        rest.is_some()
    }
}

/// Writing to memory does not fail. If a library fails nevertheless, the body ends without its trailer, and
/// no decoder accepts it as complete.
impl Transform for Encoder {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        self.encode(data, true, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        self.end(out);
        Ok(())
    }
}

/// An encoder of a stored body, whose output is kept as a form of it.
///
/// It does not flush: the whole body is there, and the output must not depend on the pieces in which one client takes it. A
/// client that takes a byte at a time would otherwise make a form that is larger than the body, for all clients.
pub(super) struct FormEncoder {
    encoder: Encoder,
    /// `None` at the end.
    fill: Option<FormFill>,
}

impl FormEncoder {
    pub fn new(encoder: Encoder, fill: FormFill) -> Self {
        Self { encoder, fill: Some(fill) }
    }
}

impl Transform for FormEncoder {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        let start = out.len();
        self.encoder.encode(data, false, out);
        if let Some(fill) = &mut self.fill {
            fill.push(&out[start..]);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let start = out.len();
        let is_complete = self.encoder.end(out);
        if let Some(mut fill) = self.fill.take().filter(|_| is_complete) {
            fill.push(&out[start..]);
            fill.finish();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decoded(encoding: ContentCoding, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut limited: Box<dyn Read> = match encoding {
            ContentCoding::Zstd => Box::new(zstd::stream::read::Decoder::new(data).expect("a decoder")),
            ContentCoding::Brotli => Box::new(brotli::Decompressor::new(data, 4096)),
            ContentCoding::Gzip => Box::new(flate2::read::GzDecoder::new(data)),
        };
        let mut byte = [0; 4096];
        // Reads up to the end; a truncated stream has an error there.
        while let Ok(count @ 1..) = limited.read(&mut byte) {
            out.extend_from_slice(&byte[..count]);
        }
        out
    }

    #[test]
    fn every_piece_can_be_decoded_when_it_is_out() {
        for encoding in ContentCoding::ALL {
            let mut encoder = Encoder::new(encoding, CompressionLevels::default()).expect("an encoder");
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
    fn an_empty_body_is_encoded() {
        for encoding in ContentCoding::ALL {
            let mut encoder = Encoder::new(encoding, CompressionLevels::default()).expect("an encoder");
            let mut out = Vec::new();
            encoder.finish(&mut out).expect("memory");
            assert!(!out.is_empty() && decoded(encoding, &out).is_empty(), "{encoding:?}");
        }
    }
}
